import json
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from ramify.datasets import build, load_dataset, places
from ramify.datasets.arrays import ArrayImages
from ramify.datasets.cache import Contents, Origin, open_cache, open_or_build
from ramify.datasets.decode import BrokenImage
from ramify.errors import RamifyError
from ramify.taxonomy import Taxonomy

TREE = Taxonomy.from_rows([("a", "x"), ("a", "y"), ("b", "z")])


class Flaky(ArrayImages):
    """Pixels of which some cannot be read; counts what was read."""

    bad: frozenset[int] = frozenset()
    fail_at: int | None = None

    def read(self, index, size):
        if index == self.fail_at:
            raise KeyboardInterrupt
        if index in self.bad:
            raise BrokenImage("it is broken")
        seen.append(index)
        return super().read(index, size)


seen: list[int] = []


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    seen.clear()
    monkeypatch.setattr(build, "CHUNK_BYTES", 3 * 4 * 4 * 5)  # five images


def origin(n=200, **attributes):
    rng = np.random.default_rng(1)
    train = Flaky(rng.integers(0, 256, (n, 3, 4, 4), dtype=np.uint8), rng.integers(0, 3, n))
    test = ArrayImages(train.pixels[:9], np.arange(9) % 3)
    for key, value in attributes.items():
        object.__setattr__(train, key, value)
    return Origin("made", {"seed": 1}, lambda: Contents(TREE, train, test)), train


def make(root, skip_broken=False, **attributes):
    made, train = origin(**attributes)
    return open_or_build(made, 4, root, progress=False, skip_broken=skip_broken), train


def test_built_once_then_mapped(tmp_path):
    cache, train = make(tmp_path)
    np.testing.assert_array_equal(cache.images["train"], train.pixels)
    np.testing.assert_array_equal(cache.leaves["train"], train.leaves)
    count = len(seen)
    again, _ = make(tmp_path)
    assert len(seen) == count == 200
    assert isinstance(again.images["train"], np.memmap)


def test_an_interrupted_build_is_never_used_and_is_resumed(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        make(tmp_path, fail_at=150)
    assert not [p for p in tmp_path.iterdir() if not p.name.startswith(".")]
    before = set(seen)
    seen.clear()
    cache, train = make(tmp_path)
    np.testing.assert_array_equal(cache.images["train"], train.pixels)
    assert 0 < len(seen) < 200
    assert before | set(seen) == set(range(200))


def test_bytes_written_after_the_last_save_are_cut_off(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        make(tmp_path, fail_at=150)
    [partial] = tmp_path.glob(".*.partial")
    with (partial / "train.npy").open("ab") as file:
        file.write(b"half an image")
    cache, train = make(tmp_path)
    np.testing.assert_array_equal(cache.images["train"], train.pixels)


def test_a_killed_build_is_resumed(tmp_path):
    """A process of its own, killed while it decodes."""
    script = (
        "import sys, time, pathlib, numpy as np\n"
        "from ramify.datasets import build, table\n"
        "from ramify.datasets.arrays import ArrayImages\n"
        "from ramify.datasets.cache import *\n"
        "from ramify.taxonomy import Taxonomy\n"
        "build.CHUNK_BYTES, table.SECONDS_BETWEEN_SAVES = 240, 0.0\n"
        "class Slow(ArrayImages):\n"
        "    def read(self, i, size):\n"
        "        time.sleep(0.002); return super().read(i, size)\n"
        "rng = np.random.default_rng(1)\n"
        "train = Slow(rng.integers(0, 256, (200, 3, 4, 4), dtype=np.uint8), rng.integers(0, 3, 200))\n"
        "test = ArrayImages(train.pixels[:9], np.arange(9) % 3)\n"
        "tree = Taxonomy.from_rows([('a', 'x'), ('a', 'y'), ('b', 'z')])\n"
        "made = Origin('made', {'seed': 1}, lambda: Contents(tree, train, test))\n"
        "open_or_build(made, 4, pathlib.Path(sys.argv[1]), False, False)\n"
    )
    process = subprocess.Popen([sys.executable, "-c", script, str(tmp_path)])
    while not list(tmp_path.glob(".*.partial/state.json")):
        assert process.poll() is None
        time.sleep(0.005)
    process.kill()
    process.wait()
    cache, train = make(tmp_path)
    np.testing.assert_array_equal(cache.images["train"], train.pixels)
    assert len(seen) < 200


def test_a_partial_build_whose_pixels_are_gone_starts_over(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        make(tmp_path, fail_at=150)
    [partial] = tmp_path.glob(".*.partial")
    (partial / "train.npy").write_bytes(b"")
    cache, train = make(tmp_path)
    np.testing.assert_array_equal(cache.images["train"], train.pixels)


def test_of_two_builders_one_waits(tmp_path):
    with ThreadPoolExecutor(2) as pool:
        caches = [future.result()[0] for future in [pool.submit(make, tmp_path) for _ in range(2)]]
    assert len(seen) == 200
    np.testing.assert_array_equal(caches[0].images["train"], caches[1].images["train"])


def test_a_damaged_cache_is_rebuilt(tmp_path):
    cache, train = make(tmp_path)
    with (cache.folder / "train.npy").open("r+b") as file:
        file.truncate(1000)
    assert open_cache(cache.folder) is None
    again, _ = make(tmp_path)
    np.testing.assert_array_equal(again.images["train"], train.pixels)


GOOD = {"format": 1, "sha256": {"train": "a", "test": "b"}, "broken": [], "notes": [], "warnings": []}
DAMAGE = {
    "nothing but a format": {"cache.json": {"format": 1}},
    "another format": {"cache.json": GOOD | {"format": 2}},
    "a format that is no number": {"cache.json": GOOD | {"format": True}},
    "a checksum that is a number": {"cache.json": GOOD | {"sha256": 5}},
    "one checksum": {"cache.json": GOOD | {"sha256": {"train": "a"}}},
    "warnings that are a number": {"cache.json": GOOD | {"warnings": 5}},
    "a broken image without a reason": {"cache.json": GOOD | {"broken": [[3, "image 3"]]}},
    "a list": {"cache.json": []},
    "endless JSON": {"cache.json": "[" * 100_000},
    "leaves beyond the tree": {"train-leaves.npy": np.full(200, 3)},
    "negative leaves": {"test-leaves.npy": np.full(9, -1)},
    "leaves that are fractions": {"train-leaves.npy": np.zeros(200)},
    "leaves in two dimensions": {"train-leaves.npy": np.zeros((200, 1), np.int64)},
    "a single leaf": {"train-leaves.npy": np.int64(0)},
    "too few leaves": {"test-leaves.npy": np.zeros(8, np.int64)},
    "empty leaves": {"train-leaves.npy": b""},
    "leaves that are a pickle": {"train-leaves.npy": b"\x80\x04N."},
    "leaves that are a zip": {"train-leaves.npy": b"PK\x03\x04"},
    "a header without end": {"train-leaves.npy": b"\x93NUMPY\x01\x00\x10\x00{'descr': (((((\n"},
    "images of two sizes": {"test.npy": np.zeros((9, 3, 5, 5), np.uint8)},
    "images in grey": {"train.npy": np.zeros((200, 1, 4, 4), np.uint8)},
    "images of floats": {"train.npy": np.zeros((200, 3, 4, 4))},
    "a smaller tree": {"taxonomy.csv": "level1\nx\n"},
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_whatever_is_damaged_is_rebuilt(tmp_path, damage):
    cache, train = make(tmp_path)
    meta = json.loads((cache.folder / "cache.json").read_text())
    assert meta.keys() == GOOD.keys()
    for name, content in damage.items():
        if isinstance(content, np.ndarray | np.generic):
            np.save(cache.folder / name, content)
        elif isinstance(content, bytes):
            (cache.folder / name).write_bytes(content)
        else:
            (cache.folder / name).write_text(content if isinstance(content, str) else json.dumps(content))
    assert open_cache(cache.folder) is None
    again, _ = make(tmp_path)
    np.testing.assert_array_equal(again.images["train"], train.pixels)
    np.testing.assert_array_equal(again.leaves["train"], train.leaves)
    assert json.loads((again.folder / "cache.json").read_text()) == meta


@pytest.mark.parametrize(
    "state",
    [
        "[" * 100_000,
        "[]",
        '{"train": 5}',
        '{"train": {"read": 150, "broken": 5}}',
        '{"train": {"read": 150, "broken": [5]}}',
        '{"train": {"read": 150, "broken": [[170, "x", "y"]]}}',
        '{"train": {"read": 150, "broken": [[1, "x", "y"], [1, "x", "y"]]}}',
        '{"train": {"read": -1}}',
        '{"train": {"read": 9999999}}',
        '{"test": {"read": 5}}',
    ],
)
def test_a_partial_build_that_says_nonsense_starts_over(tmp_path, state):
    with pytest.raises(KeyboardInterrupt):
        make(tmp_path, fail_at=150)
    [partial] = tmp_path.glob(".*.partial")
    (partial / "state.json").write_text(state)
    cache, train = make(tmp_path)
    np.testing.assert_array_equal(cache.images["train"], train.pixels)
    np.testing.assert_array_equal(cache.leaves["train"], train.leaves)


def test_broken_images_are_listed_together_and_skipped_only_when_told(tmp_path):
    bad = frozenset({3, 77, 199})
    with pytest.raises(RamifyError, match=r"3 images.*image 3 .*image 77 .*image 199 .*--skip-broken"):
        make(tmp_path, bad=bad)
    seen.clear()
    cache, train = make(tmp_path, skip_broken=True, bad=bad)
    assert not seen, "what was decoded before the error is not decoded again"
    kept = np.setdiff1d(np.arange(200), list(bad))
    np.testing.assert_array_equal(cache.images["train"], train.pixels[kept])
    np.testing.assert_array_equal(cache.leaves["train"], train.leaves[kept])
    assert len((cache.folder / "broken.txt").read_text().splitlines()) == 3
    with pytest.raises(RamifyError, match="3 images"):
        make(tmp_path, bad=bad)


def test_many_broken_images_stay_one_short_line(tmp_path):
    with pytest.raises(RamifyError) as error:
        make(tmp_path, bad=frozenset(range(100)))
    assert "and 90 more" in str(error.value)
    assert "\n" not in str(error.value)


def test_a_full_disk_is_said_beforehand(tmp_path, monkeypatch):
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=10))
    with pytest.raises(RamifyError, match=r"has 10 bytes free, the decoded images need 10\.0 kB"):
        make(tmp_path)


def test_an_unwritable_place_is_an_error_of_one_line(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(RamifyError, match="cannot write"):
        make(tmp_path / "file" / "below")


def test_a_read_only_data_folder_keeps_its_cache_at_the_users(paint, tmp_path, monkeypatch):
    for name in ("train/a", "test/a"):
        paint(tmp_path / "data" / "set" / name / "1.png")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(places.os, "access", lambda *_: False)
    dataset = load_dataset(tmp_path / "data" / "set", tmp_path / "data", image_size=8, progress=False)
    assert str(tmp_path / "cache" / "ramify" / "decoded") in str(dataset.train.images.filename)


def test_data_root_follows_the_environment(tmp_path, monkeypatch):
    monkeypatch.setenv("RAMIFY_DATA", str(tmp_path / "r"))
    assert places.data_root() == tmp_path / "r"
    assert places.data_root(tmp_path / "d") == tmp_path / "d"
    monkeypatch.delenv("RAMIFY_DATA")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "x"))
    assert places.data_root() == tmp_path / "x" / "ramify"


def test_verify_finds_a_flipped_bit(paint, tmp_path):
    for name in ("train/a", "train/b", "test/a", "test/b"):
        paint(tmp_path / "set" / name / "1.png")
    dataset = load_dataset(tmp_path / "set", tmp_path, image_size=8, progress=False)
    dataset.verify()
    with Path(dataset.train.images.filename).open("r+b") as file:
        file.seek(200)
        byte = file.read(1)
        file.seek(200)
        file.write(bytes([byte[0] ^ 1]))
    with pytest.raises(RamifyError, match="not those that were decoded"):
        load_dataset(tmp_path / "set", tmp_path, image_size=8, progress=False).verify()


def test_meta_is_json_and_holds_no_pickle(tmp_path):
    cache, _ = make(tmp_path)
    meta = json.loads((cache.folder / "cache.json").read_text())
    assert meta["format"] == 1
    for path in cache.folder.glob("*.npy"):
        np.load(path, allow_pickle=False)
