"""Locks between processes: each ends with its holder, however that ends."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from ramify.errors import RamifyError
from ramify.files import writing

LOCK, HOLDER = ".lock", ".lock.pid"  # apart, for some systems let nobody read a file that is locked


_OURS: dict[Path, HeldLock] = {}  # the folders that this process holds
_SAVING = threading.Lock()


class FolderInUse(RamifyError):
    """Another process is at work in the folder."""


class HeldLock:
    """A lock that this process holds. Its file stays open, so no other can take its place unnoticed."""

    def __init__(self, path: Path) -> None:
        self._path, self._status, self._process = path.absolute(), path.stat(), os.getpid()

    def in_place(self) -> bool:
        """Whether the file of the lock is still where it was: its folder was neither moved nor replaced."""
        try:
            return os.path.samestat(self._status, self._path.stat())
        except OSError:
            return False

    def here(self) -> bool:
        """Whether it is this process, not the one that it was forked from, that holds the lock in place."""
        return self._process == os.getpid() and self.in_place()


@contextmanager
def hold(path: Path, wait: bool = True) -> Iterator[HeldLock]:
    """Hold the lock of a file, which is made if need be; without `wait`, `Timeout` where another has it."""
    lock = FileLock(path, -1 if wait else 0, fallback_to_soft=False)  # a soft one would outlive its holder
    with lock:
        yield HeldLock(path)


@contextmanager
def hold_folder(folder: Path) -> Iterator[HeldLock]:
    """Keep other processes out of `folder`, which is made if need be."""
    with ExitStack() as stack:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            held = stack.enter_context(hold(folder / LOCK, wait=False))
        except Timeout:
            told = f"{folder} is in use by process {_holder(folder)}"
            raise FolderInUse(f"{told}; wait for it to end, or choose another folder") from None
        except OSError as error:
            raise RamifyError(
                f"{folder} cannot be written: {error.strerror}; choose another folder"
            ) from None
        with writing(folder):
            (folder / HOLDER).write_text(f"{os.getpid()}\n", encoding="ascii")
        ours = folder.resolve()
        _OURS[ours] = held
        try:
            yield held
        finally:
            _OURS.pop(ours, None)


@contextmanager
def hold_to_write(folder: Path) -> Iterator[None]:
    """Keep other processes out of `folder` for one write; nothing to do where this process holds it."""
    with _SAVING:  # threads wait for each other, processes are refused
        held = _OURS.get(folder.resolve())
        if held is not None and held.here():
            yield
            return
        with hold_folder(folder):
            yield


def _holder(folder: Path) -> str:
    try:
        return (folder / HOLDER).read_text(encoding="ascii").strip() or "unknown"
    except (OSError, ValueError):
        return "unknown"
