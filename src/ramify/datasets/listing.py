"""Image files on disk."""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import numpy as np

from ramify.arrays import Ints, Pixels
from ramify.datasets.cache import MakeSplit
from ramify.datasets.decode import decode_image
from ramify.errors import RamifyError
from ramify.pixels import SUFFIXES

MAX_DEPTH = 32


@dataclass(frozen=True)
class FileImages:
    """A split held as image files; paths are relative to `root` or absolute.

    `banner` rows at the bottom of each image are cut off.
    """

    root: Path
    paths: Sequence[str]
    leaves: Ints
    banner: int = 0

    @classmethod
    def chosen(cls, root: Path, paths: Sequence[str], banner: int = 0) -> MakeSplit:
        """What makes a split of some of these paths."""
        return lambda rows, leaves: cls(root, [paths[i] for i in rows], leaves, banner)

    @classmethod
    def labelled(cls, root: Path, pairs: Sequence[tuple[str, int]]) -> FileImages:
        """A split of paths with the leaf class of each."""
        return cls(root, [path for path, _ in pairs], np.array([leaf for _, leaf in pairs], dtype=np.int64))

    def name(self, index: int) -> str:
        """The image's path."""
        return self.paths[index]

    def read(self, index: int, size: int) -> Pixels:
        """The decoded file."""
        return decode_image(self.root / self.paths[index], size, self.banner)


def stamps(root: Path, paths: Iterable[str]) -> str:
    """A digest of the names, sizes and times of files: it changes when a file does, and costs no reading.

    A file that is missing counts as such; decoding reports it. Plain `os` calls, for there may be 200,000.
    """
    folder, names = str(root.absolute()), list(paths)
    stats = (_stamp(name if name.startswith("/") else f"{folder}/{name}") for name in names)
    checksum = hashlib.sha256("\0".join((folder, *names)).encode("utf-8", "surrogateescape"))
    checksum.update(np.fromiter(chain.from_iterable(stats), dtype="<i8").tobytes())
    return checksum.hexdigest()


def _stamp(path: str) -> tuple[int, int]:
    try:
        status = os.stat(path)  # noqa: PTH116
    except (OSError, ValueError):
        return -1, -1
    return status.st_size, status.st_mtime_ns


def image_files(
    folder: Path,
    depth: int = 0,
    unread: Counter[str] | None = None,
    times: dict[str, int] | None = None,
) -> Iterator[tuple[str, ...]]:
    """The path below `folder`, in parts, of every image file, in order of name, without hidden ones.

    `unread` counts the others by the ending of their names, `times` keeps the time of each folder.
    """
    if depth > MAX_DEPTH:
        raise RamifyError(f"{folder} lies more than {MAX_DEPTH} folders deep: is a link among them a circle?")
    try:
        if times is not None:
            times[str(folder.absolute())] = folder.stat().st_mtime_ns
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError as error:
        raise RamifyError(f"cannot read {folder}: {error.strerror}") from error
    for entry in entries:
        if entry.name.startswith((".", "__")):
            continue
        if not entry.name.isprintable():  # also bytes that are not UTF-8
            raise RamifyError(f"{str(folder)!r} holds the name {entry.name!r}: rename it in plain UTF-8")
        if entry.is_dir():
            yield from (
                (entry.name, *rest) for rest in image_files(Path(entry.path), depth + 1, unread, times)
            )
            continue
        suffix = os.path.splitext(entry.name)[1].lower()  # noqa: PTH122
        if suffix in SUFFIXES:
            yield (entry.name,)
        elif unread is not None:
            unread[suffix] += 1


def told_unread(unread: Counter[str]) -> str:
    """`3 files are not read: 2 .xcf, 1 .txt`; empty where there are none."""
    if not unread:
        return ""
    kinds = ", ".join(f"{count:,} {suffix or 'without ending'}" for suffix, count in unread.most_common())
    one = unread.total() == 1
    return f"{unread.total():,} {'file is' if one else 'files are'} not read: {kinds}"
