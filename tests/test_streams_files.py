"""Streams on disk, checked against their dataset, from a user's CSV, and on the command line."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from safetensors.numpy import load, save

from own_streams import write_csv
from ramify.cli import main
from ramify.errors import RamifyError
from ramify.streams import Stream, build_stream
from ramify.streams.files import FORMAT
from ramify.taxonomy import Taxonomy, read_taxonomy
from strategies import labelled

TREE = read_taxonomy("cifar100")
LEAVES = np.repeat(np.arange(100), 20)


def dataset(tree: Taxonomy = TREE, leaves: np.ndarray = LEAVES, name: str = "small") -> Any:
    return SimpleNamespace(name=name, taxonomy=tree, train=SimpleNamespace(leaves=leaves))


@pytest.fixture(scope="module")
def stream() -> Stream:
    return build_stream("single-depth", LEAVES, TREE, 5)


@settings(max_examples=30)
@given(case=labelled(4, min_depth=2), setup=st.sampled_from(["multiple-depth", "i-blurry"]))
def test_saved_streams_come_back(
    tmp_path_factory: pytest.TempPathFactory, case: tuple[Taxonomy, np.ndarray], setup: str
) -> None:
    tree, leaves = case
    stream = build_stream(setup, leaves, tree, 1, tasks=1 if setup == "i-blurry" else None)
    folder = tmp_path_factory.mktemp("streams")
    stream.save(folder / "a")
    again = Stream.load(folder / "a")
    assert again == stream
    again.check(dataset(tree, leaves))
    again.save(folder / "b")
    assert (folder / "a").read_bytes() == (folder / "b").read_bytes()
    write_csv(stream, folder / "c.csv", tree)
    own = Stream.from_csv(folder / "c.csv", dataset(tree, leaves))
    assert own.fingerprint == stream.fingerprint
    own.check(dataset(tree, leaves))


def test_check_names_the_difference(stream: Stream) -> None:
    stream.check(dataset())
    for other, message in [
        (dataset(TREE.restrict([4, 5])), r"another tree than that of 'small': .*\[20, 100\]"),
        (dataset(leaves=LEAVES[:-1]), "over 2000 images, 'small' has 1999"),
        (dataset(leaves=np.roll(LEAVES, 1)), r"labels of the stream are not those of 'small': image \d+"),
    ]:
        with pytest.raises(RamifyError, match=message):
            stream.check(other)


def damaged(stream: Stream, path: Path, arrays: dict[str, Any], facts: dict[str, Any]) -> bytes:
    """The file of a stream with some arrays and facts exchanged."""
    stream.save(path)
    raw = path.read_bytes()
    header = json.loads(raw[8 : 8 + int.from_bytes(raw[:8], "little")])
    old = json.loads(header["__metadata__"][FORMAT])
    changed = {key: value for key, value in {**load(raw), **arrays}.items() if value is not None}
    return save(changed, {FORMAT: json.dumps({**old, **facts})})


@pytest.mark.parametrize(
    ("arrays", "facts", "message"),
    [
        ({}, {"version": 2}, "format 2; this ramify reads 1"),
        ({}, {"version": None}, "format None"),
        ({}, {"levels": "45"}, "levels"),
        ({}, {"levels": [5, 4]}, "levels"),
        ({}, {"levels": [4, True]}, "damaged"),
        ({}, {"classes": [20, 99]}, "label 99"),
        ({}, {"images": 1999}, "image 1999"),
        ({}, {"images": -1}, "image"),
        ({}, {"seed": "5"}, "seed"),
        ({}, {"surplus": 1}, "damaged"),
        ({"image": None}, {}, "expected"),
        ({"surplus": np.zeros(3, np.int32)}, {}, "expected"),
        ({"image": np.zeros(2000, np.int64)}, {}, "image is int64"),
        ({"image": np.zeros(2000, np.float32)}, {}, "image is float32"),
        ({"image": np.zeros((2000, 1), np.int32)}, {}, "2 dimensions"),
        ({"image": np.zeros(1999, np.int32)}, {}, "one length|starts"),
        ({"level": np.zeros(2000, np.uint8)}, {}, "level 0"),
        ({"level": np.full(2000, 3, np.uint8)}, {}, "level 3"),
        ({"label": np.full(2000, -1, np.int32)}, {}, "label -1"),
        ({"task_starts": np.array([0, 5, 5], np.int32)}, {}, "starts"),
        ({"task_starts": np.array([1, 5], np.int32)}, {}, "starts"),
        ({"task_starts": np.array([0, 2000], np.int32)}, {}, "starts"),
        ({"task_starts": np.array([], np.int32)}, {}, "starts"),
    ],
)
def test_damaged_files_are_refused(
    stream: Stream, tmp_path: Path, arrays: dict[str, Any], facts: dict[str, Any], message: str
) -> None:
    path = tmp_path / "stream"
    path.write_bytes(damaged(stream, path, arrays, facts))
    with pytest.raises(RamifyError, match=message):
        Stream.load(path)


def test_files_that_are_no_stream_are_refused(stream: Stream, tmp_path: Path) -> None:
    path = tmp_path / "stream"
    stream.save(path)
    raw = path.read_bytes()
    size = int.from_bytes(raw[:8], "little")
    broken = {
        "empty": b"",
        "cut": raw[:-1],
        "longer": raw + b"0",
        "header cut": raw[:100],
        "huge header": (2**62).to_bytes(8, "little") + raw[8:],
        "no metadata": save({"image": np.zeros(3, np.int32)}),
        "other metadata": save({"image": np.zeros(3, np.int32)}, {FORMAT: "[" * 5000}),
        "zeros": bytes(8 + size),
    }
    for content in broken.values():
        path.write_bytes(content)
        with pytest.raises(RamifyError, match="stream"):
            Stream.load(path)
    for missing in (tmp_path, tmp_path / "absent"):
        with pytest.raises(RamifyError, match="cannot read a stream"):
            Stream.load(missing)


@settings(max_examples=150)
@given(st.data())
def test_no_damage_escapes(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    """A file with bytes changed is refused, or is still a stream in which every index is in range."""
    path = tmp_path_factory.mktemp("damage") / "stream"
    build_stream("multiple-depth", LEAVES, TREE, 0).save(path)
    raw = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 3))):
        raw[data.draw(st.integers(0, 1500))] = data.draw(st.integers(0, 255))
    path.write_bytes(raw)
    try:
        stream = Stream.load(path)
    except RamifyError:
        return
    assert 0 <= stream.image.min() <= stream.image.max() < stream.images
    assert (stream.label < np.asarray(stream.classes)[stream.level - 1]).all()


def test_a_users_own_stream(tmp_path: Path) -> None:
    tree = Taxonomy.from_rows([("plant", "tree", "7"), ("plant", "tree", "oak"), ("animal", "cat", "lynx")])
    small = dataset(tree, np.array([0, 1, 2, 2]))
    path = tmp_path / "own.csv"
    path.write_text("label,image,level\nplant,0,1\n1,3,1\n7,0,3\n2,2,3\n")
    own = Stream.from_csv(path, small)
    assert (own.levels, own.classes, own.tasks, own.setup) == ((1, 3), (2, 3), 1, "csv")
    assert own.label.tolist() == [0, 1, 0, 2]  # a name wins over an index
    assert own.level.tolist() == [1, 1, 2, 2]
    own.check(small)
    for text, message in [
        ("image,label\n0,0\n", "line 1: columns 'image,label', expected image,level,label"),
        ("image,level,label,extra\n", "line 1: columns"),
        ("image,level,label\n", "no rows"),
        ("image,level,label\n4,1,0\n", "line 2: image '4': expected a number from 0 to 3"),
        ("image,level,label\n0,1,0\n-1,1,0\n", "line 3: image '-1'"),
        ("image,level,label\n0,4,0\n", "line 2: level '4': expected a number from 1 to 3"),
        ("image,level,label\n0,1,plants\n", "line 2: label at level 1 'plants'"),
        ("image,level,label\n0,1,2\n", "line 2: label at level 1 '2': expected a number from 0 to 1"),
        ("image,level,label\n0,1," + "9" * 5000 + "\n", "label at level 1"),
        ("image,level,label,task\n0,1,0,1\n0,1,0,1\n", "line 2: number the tasks 0, 1, 2"),
        ("image,level,label,task\n0,1,0,0\n0,1,0,2\n0,1,0,2\n", "line 3: number the tasks"),
        ("image,level,label,task\n0,1,0,0\n0,1,0,1\n0,1,0,0\n", "line 4: number the tasks"),
    ]:
        path.write_text(text)
        with pytest.raises(RamifyError, match=message):
            Stream.from_csv(path, small)


def test_a_stream_cannot_be_changed(stream: Stream) -> None:
    with pytest.raises(ValueError, match="read-only"):
        stream.label[0] = 1


def test_first_seen_and_starts(stream: Stream) -> None:
    seen: set[tuple[int, int]] = set()
    first = []
    for position, key in enumerate(zip(stream.level.tolist(), stream.label.tolist(), strict=True)):
        if key not in seen:
            seen.add(key)
            first.append(position)
    assert stream.first_seen.tolist() == first
    assert stream.task_starts.tolist() == [stream.task.tolist().index(t) for t in range(stream.tasks)]


@pytest.fixture
def small_data(monkeypatch: pytest.MonkeyPatch) -> None:
    """`load_dataset` without images, so that the command can be tried in a moment."""
    monkeypatch.setattr("ramify.datasets.load_dataset", lambda name, **_: dataset(name=name), raising=False)


@pytest.mark.usefixtures("small_data")
def test_the_command_prints_and_draws(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    command = ["stream", "show", "--dataset", "small", "--setup", "single-depth", "--seed", "5"]
    assert main(command) == 0
    printed = capsys.readouterr()
    assert "2 (tree level 5)" in printed.out
    assert "stream-small-single-depth-seed5.svg" in printed.err
    drawn = Path("stream-small-single-depth-seed5.svg").read_text("utf-8")
    ElementTree.fromstring(drawn)
    for text in (
        "small, single-depth, seed 5",
        "level 1",
        "level 2 (tree level 5): ",
        "task 1",
        "samples seen",
    ):
        assert text in drawn
    assert main([*command, "--json", "--labels", "dual", "--levels", "1,3", "--tasks", "3"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert (data["dataset"], data["setup"], data["seed"], data["tree_levels"]) == (
        "small",
        "single-depth",
        5,
        [1, 3],
    )
    assert data["tasks"][0] == {"samples": 2000, "levels": [1], "new_classes": 2}
    assert [task["levels"] for task in data["tasks"]] == [[1], [2], [2]]
    assert sum(task["new_classes"] for task in data["tasks"]) == 10
    assert list(tmp_path.glob("stream-*")) == [tmp_path / "stream-small-single-depth-seed5.svg"]
    even = Path("stream-small-single-depth-seed5.svg").read_bytes()
    for more in (["--imbalance", "2"], ["--labels", "dual"], ["--levels", "1", "3"]):
        before = {*tmp_path.glob("stream-*")}
        assert main([*command, *more]) == 0
        assert len({*tmp_path.glob("stream-*")} - before) == 1, more
    assert Path("stream-small-single-depth-seed5.svg").read_bytes() == even
    assert main([*command, "--json", "--out", "a/b.png"]) == 0
    with Image.open("a/b.png") as picture:
        picture.load()
        assert picture.size[0] > 1000
        assert len(picture.getcolors(1 << 20)) > 20
    assert main([*command, "--json", "--out", "a/b.jpg"]) == 2
    assert "neither .svg nor .png" in capsys.readouterr().err


@pytest.mark.usefixtures("small_data")
def test_the_command_refuses_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    for setup, extra in (
        ("single-depth", ["--tasks", "7"]),
        ("single", []),
        ("blurry", ["--m", "3"]),
        ("blurry", ["--out", "/dev/null/no.png"]),
    ):
        assert main(["stream", "show", "--dataset", "small", "--setup", setup, *extra]) == 2
        error = capsys.readouterr().err
        assert error.startswith("ramify: error: ")
        assert error.count("\n") == 1


def test_trees_and_streams_do_not_need_torch() -> None:
    code = "import sys, ramify.streams.files; sys.exit(bool({'torch', 'scipy', 'PIL'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
