"""Unpacking archives that may be hostile."""

from __future__ import annotations

import shutil
import stat
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path, PurePosixPath
from typing import IO, NamedTuple

from ramify.errors import RamifyError

MAX_RATIO = 50
"""Images hardly compress: an archive that grows more than this is a decompression bomb."""
MAX_MEMBERS = 2_000_000


class Member(NamedTuple):
    """A file or folder of an archive; `open` is None where it is neither."""

    name: str
    size: int
    folder: bool
    open: Callable[[], IO[bytes] | None] | None


def extract(archive: Path, folder: Path, name: str) -> None:
    """Unpack the top file or folder `name` of a .tar, .tar.gz or .zip to `folder/name`, whole or not at all.

    Refused: a member that leaves the folder, a link, a device, and more bytes than images can be packed to.
    """
    scratch = Path(tempfile.mkdtemp(prefix=f".{name}.", dir=folder))
    try:
        _unpack(_zipped(archive) if zipfile.is_zipfile(archive) else _tarred(archive), scratch, archive)
        if not (scratch / name).exists():
            raise RamifyError(f"{archive} has no {name!r} at its top: it is not the archive it should be")
        if (folder / name).is_dir():
            shutil.rmtree(folder / name)
        (scratch / name).rename(folder / name)
    except (tarfile.TarError, zipfile.BadZipFile, EOFError, zlib.error, NotImplementedError) as error:
        raise RamifyError(f"{archive} is damaged ({error}): remove it and get it again") from error
    except OSError as error:
        raise RamifyError(f"cannot unpack {archive}: {error.strerror or error}") from error
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _tarred(archive: Path) -> Iterator[Member]:
    with tarfile.open(archive) as tar:
        for info in tar:
            read = partial(tar.extractfile, info) if info.isreg() or info.isdir() else None
            yield Member(info.name, info.size, info.isdir(), read)


def _zipped(archive: Path) -> Iterator[Member]:
    with zipfile.ZipFile(archive) as packed:
        for info in packed.infolist():
            kind = stat.S_IFMT(info.external_attr >> 16)
            plain = kind in (0, stat.S_IFREG, stat.S_IFDIR) and not info.flag_bits & 1  # 1: encrypted
            read = partial(packed.open, info) if plain else None
            yield Member(info.filename, info.file_size, info.is_dir(), read)


def _unpack(members: Iterator[Member], folder: Path, archive: Path) -> None:
    left = MAX_RATIO * archive.stat().st_size
    for count, member in enumerate(members):
        path = PurePosixPath(member.name)
        if path.is_absolute() or ".." in path.parts or "\\" in member.name:
            raise RamifyError(f"{archive} is refused: its member {member.name!r} leaves the folder")
        if member.open is None:
            raise RamifyError(
                f"{archive} is refused: its member {member.name!r} is a link or a device, or locked"
            )
        left -= member.size
        if left < 0 or count >= MAX_MEMBERS:
            raise RamifyError(
                f"{archive} is refused: it unpacks to {MAX_RATIO} times its size or {MAX_MEMBERS:,} files"
            )
        target = folder / path
        if member.folder:
            target.mkdir(parents=True, exist_ok=True)
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        content = member.open()
        assert content is not None  # a regular file has content
        with content, target.open("xb") as file:
            shutil.copyfileobj(content, file)
