"""A journal of what was accepted: on the disk, whole, before anyone is told so."""

from __future__ import annotations

import json
import os
import struct
import threading
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from ramify.errors import RamifyError
from ramify.files import sync, writing

MARK = b"RMJ1"
HEADER = struct.Struct("<4sQIII")  # mark, number, bytes of JSON, bytes of data, checksum of all but itself
SUFFIX = ".journal"


@dataclass(frozen=True)
class JournalEntry:
    """What is kept of one command: JSON values, and bytes that are too many for JSON."""

    about: dict[str, Any]
    data: bytes = b""

    def packed(self, number: int) -> bytes:
        """As it stands in the file."""
        about = json.dumps(self.about, separators=(",", ":")).encode()
        sizes = (number, len(about), len(self.data))
        return HEADER.pack(MARK, *sizes, _checksum(*sizes, about, self.data)) + about + self.data


class Journal:
    """Numbered entries in files of a folder; each file is named by the number of its first entry.

    An entry counts when it is whole: what a kill left of one at the end of the last file is cut off when the
    journal is opened. `trim` forgets entries that are no longer needed, a whole file at a time, so a new file
    is begun then. One process at a time (the caller holds the folder's lock), any
    of its threads.
    """

    def __init__(self, folder: Path, last: int = 0) -> None:
        """Open the journal of a model that has what came before, `last` and all."""
        self.folder = folder
        self._file: BinaryIO | None = None
        self._lock = threading.RLock()
        with writing(folder):
            folder.mkdir(parents=True, exist_ok=True)
            self._cut()
        first = next(self.read(0), None)
        if first is not None and first[0] > last + 1:
            raise RamifyError(
                f"{folder} begins with entry {first[0]}, and the model has what came up to {last}: the model "
                "is older than its journal, or another's; put back the right one, or move the journal away"
            )
        self.last = max([last, *(number for number, _ in self.read(0))])

    def append(self, entries: Sequence[JournalEntry]) -> list[int]:
        """Write entries and force them to the disk; their numbers."""
        numbers = list(range(self.last + 1, self.last + 1 + len(entries)))
        packed = b"".join(entry.packed(n) for n, entry in zip(numbers, entries, strict=True))
        with self._lock, writing(self.folder):
            if self._file is None:
                path = self.folder / f"{numbers[0]:020d}{SUFFIX}"
                self._file = path.open("ab", buffering=0)
                sync(self.folder)
            before = os.fstat(self._file.fileno()).st_size
            try:
                _write(self._file, packed)
                os.fsync(self._file.fileno())
            except OSError:  # no space: nothing may stand after half an entry
                os.ftruncate(self._file.fileno(), before)
                raise
            self.last = numbers[-1]
        return numbers

    def read(self, after: int) -> Iterator[tuple[int, JournalEntry]]:
        """The entries with a number above `after`, in order."""
        for path in self._paths():
            data, start = path.read_bytes(), 0
            while start < len(data):
                found = _unpacked(data, start)
                if found is None:
                    raise RamifyError(
                        f"{path} is damaged at byte {start}; what came before it can be read: move the file "
                        "away to go on without it"
                    )
                number, entry, start = found
                if number > after:
                    yield number, entry

    def trim(self, upto: int) -> None:
        """Forget the entries up to a number, where all of a file's are."""
        with self._lock:
            self.close()
            paths = self._paths()
            ends = [int(path.stem) - 1 for path in paths[1:]] + [self.last]
            for path, end in zip(paths, ends, strict=True):
                if end <= upto:
                    path.unlink()

    def close(self) -> None:
        """Write no more to the current file."""
        with self._lock:
            if self._file is not None:
                self._file.close()
                self._file = None

    def _paths(self) -> list[Path]:
        return sorted(self.folder.glob(f"*{SUFFIX}"))

    def _cut(self) -> None:
        """Cut off what is not whole at the end of the last file; before a whole entry nothing is cut."""
        for path in self._paths()[-1:]:
            data, start = path.read_bytes(), 0
            while (found := _unpacked(data, start)) is not None:
                start = found[2]
            if any(_unpacked(data, place) for place in _marks(data, start + 1)):
                return  # damage, not the end: `read` tells
            if start < len(data):
                with path.open("r+b") as file:
                    file.truncate(start)
                sync(path)
            if not start:
                path.unlink()


def _write(file: BinaryIO, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[file.write(view) :]


def _marks(data: bytes, start: int) -> Iterator[int]:
    while (start := data.find(MARK, start)) >= 0:
        yield start
        start += 1


def _unpacked(data: bytes, start: int) -> tuple[int, JournalEntry, int] | None:
    """The entry that begins at a byte, and where the next does; None where none is whole."""
    if len(data) - start < HEADER.size:
        return None
    mark, number, length, size, checksum = HEADER.unpack_from(data, start)
    middle, end = start + HEADER.size + length, start + HEADER.size + length + size
    if mark != MARK or end > len(data):
        return None
    about, rest = data[start + HEADER.size : middle], data[middle:end]
    if _checksum(number, length, size, about, rest) != checksum:
        return None
    return number, JournalEntry(json.loads(about), rest), end


def _checksum(number: int, length: int, size: int, about: bytes, data: bytes) -> int:
    return zlib.crc32(data, zlib.crc32(about, zlib.crc32(struct.pack("<QII", number, length, size))))
