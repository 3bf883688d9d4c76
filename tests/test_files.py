"""Files are written whole or not at all, and nothing that is read can run code or exhaust the machine."""

from __future__ import annotations

import ast
import io
import os
import pickle
import signal
import struct
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import ramify
from ramify.datasets import load_dataset
from ramify.datasets.archives import extract
from ramify.datasets.cache import open_cache
from ramify.datasets.decode import BrokenImage, decode_image
from ramify.datasets.pickles import read_pickle
from ramify.errors import RamifyError
from ramify.files import beside, write_atomic
from ramify.learner import Learner
from ramify.reports.data import load_run
from ramify.runs.checkpoint import Checkpoints, _checksum_line
from ramify.runs.folder import RunFolder
from ramify.runs.run import Run
from ramify.statefiles import load_state
from ramify.streams import Stream
from test_bad_input import bomb
from tiny_runs import tiny

# ---- written whole or not at all


def test_a_file_is_replaced_whole(tmp_path: Path) -> None:
    path = tmp_path / "below" / "a"
    write_atomic(path, "old")
    write_atomic(path, b"new")
    assert path.read_bytes() == b"new"
    assert os.listdir(path.parent) == ["a"]  # noqa: PTH208


@pytest.mark.skipif(sys.platform == "win32", reason="Windows keeps the entries of folders by itself")
def test_a_file_is_on_the_disk_before_it_has_its_name_and_then_its_name_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []

    def sync(descriptor: int) -> None:
        there = {path.name: path.stat().st_ino for path in tmp_path.iterdir()}
        seen.append((os.fstat(descriptor), there))

    monkeypatch.setattr(os, "fsync", sync)
    write_atomic(tmp_path / "a", "new")
    (file, before), (folder, after) = seen
    assert file.st_size == 3
    assert "a" not in before
    assert after == {"a": file.st_ino}
    assert folder.st_ino == tmp_path.stat().st_ino


def test_a_failure_leaves_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "a"
    write_atomic(path, "old")
    with pytest.raises(ZeroDivisionError), beside(path) as temporary:
        temporary.write_bytes(bytes(1 // 0))
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["a"]  # noqa: PTH208


def test_what_the_system_says_becomes_one_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(RamifyError, match="cannot be written: File exists; what was there before is still"):
        write_atomic(tmp_path / "file" / "a", "text")


def test_a_writer_that_is_killed_leaves_a_whole_file(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from ramify.files import write_atomic\n"
        "for n in range(10**9): write_atomic(Path(sys.argv[1]), bytes([n % 256]) * 300_000)"
    )
    path = tmp_path / "a"
    for wait in (0.0, 0.01, 0.023):
        process = subprocess.Popen([sys.executable, "-c", code, str(path)])
        while not path.exists():
            time.sleep(0.001)
        time.sleep(wait)
        process.send_signal(signal.SIGKILL)
        process.wait()
        content = path.read_bytes()
        assert content == content[:1] * 300_000
        path.unlink()


# ---- hostile files


class Canary:
    """Pickled, it makes a file when it is loaded."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Callable[..., object], tuple[str]]:
        return os.mkdir, (str(self.path),)


def tar(folder: Path, *members: tuple[str, bytes, str]) -> Path:
    """An archive of (name, content, target of the link or nothing)."""
    path = folder / "archive.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        for name, content, link in members:
            info = tarfile.TarInfo(name)
            info.size = len(content)
            if link:
                info.type, info.linkname, info.size = tarfile.SYMTYPE, link, 0
            archive.addfile(info, io.BytesIO(content))
    return path


def absurd_header(path: Path) -> None:
    """A safetensors file that says its header has 2⁶⁰ bytes."""
    path.write_bytes(struct.pack("<Q", 2**60) + b'{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}')


def absurd_shape(path: Path) -> None:
    """One that says its tensor has 2⁶⁰ values."""
    header = b'{"a":{"dtype":"U8","shape":[1152921504606846976],"data_offsets":[0,1152921504606846976]}}'
    path.write_bytes(struct.pack("<Q", len(header)) + header)


def pickled(path: Path) -> None:
    path.write_bytes(pickle.dumps(Canary(path.parent / "canary")))


def read_checkpoint(path: Path) -> None:
    """As a run does, its checksum being right."""
    good = path.rename(path.with_name("checkpoint-000001.safetensors"))
    good.with_suffix(".sha256").write_text(_checksum_line(good))
    run = Run(tiny(limit=8), load_dataset("garden", image_size=8), "cpu")
    Checkpoints(RunFolder(path.parent)).restore(run)


def read_learner(path: Path) -> None:
    Learner.load(path.rename(path.with_name("learner.safetensors")).parent)


def read_cache(path: Path) -> None:
    folder = path.parent
    for name in ("train", "test", "train-leaves", "test-leaves"):
        (folder / f"{name}.npy").write_bytes(path.read_bytes())
    (folder / "cache.json").write_text('{"format": 1}')
    (folder / "taxonomy.csv").write_text("level1\na\n")
    if open_cache(folder) is None:
        raise RamifyError("taken for no cache, and built anew")


READERS = {
    "CIFAR file": read_pickle,
    "state": load_state,
    "stream": Stream.load,
    "checkpoint": read_checkpoint,
    "learner": read_learner,
    "cache": read_cache,
}


@pytest.mark.parametrize("plant", [pickled, absurd_header, absurd_shape])
@pytest.mark.parametrize("reader", READERS)
def test_hostile_files_are_refused(reader: str, plant: Callable[[Path], None], tmp_path: Path) -> None:
    plant(tmp_path / "file")
    with pytest.raises(RamifyError):
        READERS[reader](tmp_path / "file")
    assert not (tmp_path / "canary").exists()


def test_an_array_of_pickled_objects_is_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "file.npy", np.array([Canary(tmp_path / "canary")], dtype=object), allow_pickle=True)
    with pytest.raises(RamifyError):
        read_cache((tmp_path / "file.npy").rename(tmp_path / "file"))
    assert not (tmp_path / "canary").exists()


@pytest.mark.parametrize(
    "members",
    [
        [("../outside", b"x", "")],
        [("/tmp/ramify-outside", b"x", "")],
        [("data/../../outside", b"x", "")],
        [("data", b"", ".."), ("data/outside", b"x", "")],
        [("data/link", b"", "/etc/passwd")],
        [("data/zeros", bytes(2**22), "")],
    ],
    ids=["above", "absolute", "through a folder", "through a link", "a link", "a bomb"],
)
def test_hostile_archives_are_refused(members: list[tuple[str, bytes, str]], tmp_path: Path) -> None:
    inside = tmp_path / "inside"
    inside.mkdir()
    archive = tar(tmp_path, *members)
    with pytest.raises(RamifyError, match="is refused"):
        extract(archive, inside, "data")
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["archive.tar.gz", "inside"]


def test_an_image_bomb_is_refused() -> None:
    with pytest.raises(BrokenImage, match="pixels"):
        decode_image(bomb(), 8)


def test_a_report_refuses_a_hostile_file(tmp_path: Path) -> None:
    from ramify.runs import run_config

    run_config(tiny(limit=8), tmp_path, threads=1)
    absurd_header(tmp_path / "predictions.safetensors")
    with pytest.raises(RamifyError, match=r"predictions\.safetensors"):
        _ = load_run(tmp_path).answers


# ---- no way to run code at all

UNSAFE = {
    ("pickle", "load"),
    ("pickle", "loads"),
    ("pickle", "Unpickler"),
    ("torch", "load"),
    ("marshal", "loads"),
    ("yaml", "load"),
    ("joblib", "load"),
    ("shelve", "open"),
}


def test_no_source_file_unpickles_or_evaluates() -> None:
    found = []
    for path in Path(ramify.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if not isinstance(node, ast.Call):
                continue
            called = node.func
            if isinstance(called, ast.Name) and called.id in ("eval", "exec", "compile", "__import__"):
                found.append(f"{path.name}:{node.lineno} {called.id}")
            if isinstance(called, ast.Attribute) and isinstance(called.value, ast.Name):
                only = [k.value for k in node.keywords if k.arg == "weights_only"]
                harmless = bool(only) and isinstance(only[0], ast.Constant) and only[0].value is True
                if (called.value.id, called.attr) in UNSAFE and not harmless:
                    found.append(f"{path.name}:{node.lineno} {called.value.id}.{called.attr}")
                if (called.value.id, called.attr) == ("np", "load"):
                    safe = [k.value for k in node.keywords if k.arg == "allow_pickle"]
                    if not safe or not isinstance(safe[0], ast.Constant) or safe[0].value is not False:
                        found.append(f"{path.name}:{node.lineno} np.load")
    assert found == []
