"""Locks between processes: each ends with its holder, however that ends."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from ramify.errors import RamifyError
from ramify.files import writing

LOCK, HOLDER = ".lock", ".lock.pid"  # apart, for some systems let nobody read a file that is locked


class FolderInUse(RamifyError):
    """Another process is at work in the folder."""


class Held:
    """A lock that this process holds. Its file stays open, so no other can take its place unnoticed."""

    def __init__(self, path: Path) -> None:
        self._path, self._status = path.absolute(), path.stat()

    def in_place(self) -> bool:
        """Whether the file of the lock is still where it was: its folder was neither moved nor replaced."""
        try:
            return os.path.samestat(self._status, self._path.stat())
        except OSError:
            return False


@contextmanager
def hold(path: Path, wait: bool = True) -> Iterator[Held]:
    """Hold the lock of a file, which is made if need be; without `wait`, `Timeout` where another has it."""
    lock = FileLock(path, -1 if wait else 0, fallback_to_soft=False)  # a soft one would outlive its holder
    with lock:
        yield Held(path)


@contextmanager
def hold_folder(folder: Path) -> Iterator[Held]:
    """Keep other processes out of `folder`, which is made if need be."""
    with ExitStack() as stack:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            held = stack.enter_context(hold(folder / LOCK, wait=False))
        except Timeout:
            told = f"{folder} is in use by process {_holder(folder)}"
            raise FolderInUse(f"{told}; wait for it to end, or choose another --out") from None
        except OSError as error:
            raise RamifyError(f"{folder} cannot be written: {error.strerror}; choose another --out") from None
        with writing(folder):
            (folder / HOLDER).write_text(f"{os.getpid()}\n", encoding="ascii")
        yield held


def _holder(folder: Path) -> str:
    try:
        return (folder / HOLDER).read_text(encoding="ascii").strip() or "unknown"
    except (OSError, ValueError):
        return "unknown"
