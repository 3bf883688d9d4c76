"""Image files on disk."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ramify.datasets.decode import SUFFIXES, decode
from ramify.errors import RamifyError


@dataclass(frozen=True)
class FileImages:
    """A split held as image files; paths are relative to `root` or absolute."""

    root: Path
    paths: Sequence[str]
    leaves: NDArray[np.int64]

    def name(self, index: int) -> str:
        """The image's path."""
        return self.paths[index]

    def read(self, index: int, size: int) -> NDArray[np.uint8]:
        """The decoded file."""
        return decode(self.root / self.paths[index], size)


def stamps(root: Path, paths: Iterable[str]) -> str:
    """A digest of the names, sizes and times of files: it changes when a file does, and costs no reading.

    A file that is missing counts as such; decoding reports it.
    """
    checksum, folder = hashlib.sha256(str(root.absolute()).encode("utf-8", "surrogateescape")), str(root)
    for path in paths:
        try:
            status = os.stat(os.path.join(folder, path))  # noqa: PTH116, PTH118 (far faster on 200,000 files)
            stamp = f"{path}\0{status.st_size}\0{status.st_mtime_ns}\n"
        except (OSError, ValueError):
            stamp = f"{path}\0missing\n"
        checksum.update(stamp.encode("utf-8", "surrogateescape"))
    return checksum.hexdigest()


def image_files(folder: Path) -> Iterator[tuple[str, ...]]:
    """The path below `folder`, in parts, of every image file, in order of name, without hidden ones."""
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError as error:
        raise RamifyError(f"cannot read {folder}: {error.strerror}") from error
    for entry in entries:
        if entry.name.startswith((".", "__")):
            continue
        if entry.is_dir():
            yield from ((entry.name, *rest) for rest in image_files(Path(entry.path)))
        elif os.path.splitext(entry.name)[1].lower() in SUFFIXES:  # noqa: PTH122
            yield (entry.name,)
