"""Locks keep others out, say whose they are, and end with their holder."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from ramify import Learner
from ramify.errors import RamifyError
from ramify.locks import HOLDER, FolderInUse, hold, hold_folder

HOLDS = """
import sys, time
from pathlib import Path
from ramify.locks import hold_folder
with hold_folder(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(600)
"""


def test_another_process_is_told_who_holds_a_folder_until_that_is_killed(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "folder"
    process = subprocess.Popen([sys.executable, "-c", HOLDS, str(folder)], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        for _ in range(2):  # asking changes nothing
            with pytest.raises(FolderInUse, match=f"in use by process {process.pid};"), hold_folder(folder):
                pass
        process.send_signal(signal.SIGKILL)
        process.wait()
        with hold_folder(folder):
            assert (folder / HOLDER).read_text() == f"{os.getpid()}\n"
    finally:
        process.kill()
        process.communicate()


def test_a_learner_is_not_saved_over_another_process_at_work(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    learner = Learner(image_size=8, memory_size=4, network={"name": "resnet18", "width": 0.02})
    learner.save(folder)
    before = (folder / "learner.safetensors").read_bytes()
    process = subprocess.Popen([sys.executable, "-c", HOLDS, str(folder)], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        learner.notes["mine"] = 1
        with pytest.raises(FolderInUse, match=f"in use by process {process.pid}; wait .* another folder"):
            learner.save(folder)
        assert (folder / "learner.safetensors").read_bytes() == before
        assert Learner.load(folder).notes == {}  # reading is free
    finally:
        process.kill()
        process.communicate()
    learner.save(folder)
    assert Learner.load(folder).notes == {"mine": 1}


def test_who_holds_a_folder_can_save_in_it(tmp_path: Path) -> None:
    learner = Learner(image_size=8, memory_size=4, network={"name": "resnet18", "width": 0.02})
    with hold_folder(tmp_path / "model"):
        learner.save(tmp_path / "model")
        learner.save(tmp_path / "other" / ".." / "model")
        with pytest.raises(FolderInUse), hold_folder(tmp_path / "model"):
            pass  # it is held still
    learner.save(tmp_path / "model")
    with ThreadPoolExecutor(4) as pool:  # threads wait for each other
        list(pool.map(lambda _: learner.save(tmp_path / "model"), range(8)))


def test_one_process_cannot_hold_a_folder_twice(tmp_path: Path) -> None:
    with hold_folder(tmp_path), pytest.raises(FolderInUse), hold_folder(tmp_path):
        pass
    with hold_folder(tmp_path):
        pass


def test_a_folder_that_is_moved_or_replaced_is_noticed(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    with hold_folder(folder) as held:
        assert held.in_place()
        folder.rename(tmp_path / "elsewhere")
        assert not held.in_place()
        with hold_folder(folder) as other:
            assert other.in_place()
            assert not held.in_place()
        shutil.rmtree(folder)
        (tmp_path / "elsewhere").rename(folder)
        assert held.in_place()
        shutil.rmtree(folder)
        assert not held.in_place()


def test_a_folder_that_cannot_be_made_is_refused_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with (
        pytest.raises(RamifyError, match=r"cannot be written: .*; choose another folder"),
        hold_folder(tmp_path / "file" / "folder"),
    ):
        pass


def test_who_waits_comes_after_the_holder(tmp_path: Path) -> None:
    code = f"""
import time
from pathlib import Path
from ramify.locks import hold
print("waits", flush=True)
with hold(Path({str(tmp_path / "lock")!r})):
    print(time.time(), flush=True)
"""
    with hold(tmp_path / "lock"):
        process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(0.3)
        freed = time.time()
    assert float(process.communicate()[0]) >= freed
