"""A folder of images that was opened before: one look at each of its folders tells whether it changed."""

import os
import shutil
import time

import pytest

from ramify.cli import main
from ramify.datasets import glance as room
from ramify.datasets import load_dataset
from ramify.datasets.glance import forget_listings, glance, recall
from ramify.datasets.places import kept

NAMES = ("train/a/1.png", "train/a/2.png", "train/b/1.png", "test/a/1.png", "test/b/1.png", "notes.txt")


def rest(folder, seconds=3600):
    """Let all folders have been left alone for an hour."""
    for path in (folder, *(path for path in folder.rglob("*") if path.is_dir())):
        then = time.time() - seconds
        os.utime(path, (then, then))


@pytest.fixture
def own(paint, tmp_path):
    folder = tmp_path / "own"
    for name in NAMES[:-1]:
        paint(folder / name)
    (folder / "notes.txt").write_text("unread")
    rest(folder)
    return folder


def opened(own, **given):
    return load_dataset(own, own.parent, image_size=8, progress=False, **given)


def test_a_second_start_lists_nothing(own, monkeypatch):
    first = opened(own)
    monkeypatch.setattr(room, "image_files", None)
    monkeypatch.setattr("ramify.datasets.own.chain", None)  # nor looks for tables in each folder
    second = opened(own)
    assert second.fingerprint == first.fingerprint
    assert second.notes == first.notes  # with the number of files that are not read
    assert second.train.names == first.train.names


@pytest.mark.parametrize(
    "change",
    [
        lambda own, paint: paint(own / "train/a/3.png"),
        lambda own, paint: (own / "train/a/2.png").unlink(),
        lambda own, paint: (own / "train/a/2.png").rename(own / "train/a/0.png"),
        lambda own, paint: (own / "train/a/2.png").rename(own / "train/b/2.png"),
        lambda own, paint: paint(own / "new.png", (9, 9, 9)).replace(own / "train/a/2.png"),
        lambda own, paint: paint(own / "train/c/1.png"),
        lambda own, paint: shutil.rmtree(own / "test/b"),
        lambda own, paint: (own / "more.txt").write_text("unread, too"),
    ],
)
def test_whatever_is_added_removed_renamed_or_replaced_is_noticed(own, paint, change):
    before = glance(own, own.parent)
    assert not before.known
    assert glance(own, own.parent).known
    change(own, paint)
    after = glance(own, own.parent)
    assert not after.known
    assert (after.key, after.unread) != (before.key, before.unread)
    assert after.key == glance(own, None).key


def test_what_is_written_over_in_place_is_noticed_by_a_thorough_look(own, paint, capsys):
    first = opened(own)
    paint(own / "train/a/1.png", (1, 2, 3))
    assert opened(own).fingerprint == first.fingerprint
    assert opened(own, thorough=True).fingerprint != first.fingerprint
    rest(own)
    opened(own)
    paint(own / "train/a/1.png", (3, 2, 1))
    assert main(["data", "check", str(own), "--data-dir", str(own.parent), "--size", "8"]) == 0
    told = capsys.readouterr().out
    assert told.split("fingerprint ")[1].strip() == opened(own).fingerprint[:16]
    assert opened(own).train.images[0, :, 0, 0].tolist() == [3, 2, 1]


def test_another_size_is_decoded_from_what_is_remembered(own):
    opened(own)
    assert glance(own, own.parent).known
    assert load_dataset(own, own.parent, image_size=4, progress=False).image_size == 4


def test_a_folder_that_has_not_rested_is_not_remembered(own, paint):
    paint(own / "train/a/3.png")
    glance(own, own.parent)
    assert recall(own, own.parent) is None  # a further file could come within the same tick of the clock


def test_a_damaged_memo_and_one_of_another_folder_are_ignored(own, tmp_path):
    seen = glance(own, tmp_path)
    (memo,) = (kept(tmp_path, room.LISTINGS)).iterdir()
    text = memo.read_text()
    for broken in (
        "",
        "{",
        "[]",
        text.replace('"format": 1', '"format": 99'),
        text.replace("/own", "/other"),
    ):
        memo.write_text(broken)
        assert recall(own, tmp_path) is None
        assert glance(own, tmp_path).key == seen.key
    assert recall(own, tmp_path) is not None
    forget_listings(tmp_path)
    assert recall(own, tmp_path) is None


def test_nothing_is_remembered_where_nothing_can_be_written(own, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setattr(room, "kept", lambda root, what: tmp_path / "file" / what)
    assert glance(own, tmp_path).key == glance(own, None).key
    assert recall(own, tmp_path) is None
