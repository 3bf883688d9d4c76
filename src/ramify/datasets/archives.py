"""Unpacking archives that may be hostile."""

from __future__ import annotations

import shutil
import tarfile
import tempfile
import zlib
from pathlib import Path, PurePosixPath

from ramify.errors import RamifyError

MAX_RATIO = 50
"""Images hardly compress: an archive that grows more than this is a decompression bomb."""
MAX_MEMBERS = 2_000_000


def extract(archive: Path, folder: Path, name: str) -> None:
    """Unpack the top file or folder `name` of a .tar.gz to `folder/name`, which appears whole or not at all.

    Refused: a member that leaves the folder, a link, a device, and more bytes than images can be packed to.
    """
    scratch = Path(tempfile.mkdtemp(prefix=f".{name}.", dir=folder))
    try:
        with tarfile.open(archive, "r:gz") as tar:
            _unpack(tar, scratch, archive)
        if not (scratch / name).exists():
            raise RamifyError(f"{archive} has no {name!r} at its top: it is not the archive it should be")
        if (folder / name).is_dir():
            shutil.rmtree(folder / name)
        (scratch / name).rename(folder / name)
    except (tarfile.TarError, EOFError, zlib.error) as error:
        raise RamifyError(f"{archive} is damaged ({error}): remove it and get it again") from error
    except OSError as error:
        raise RamifyError(f"cannot unpack {archive}: {error.strerror or error}") from error
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _unpack(tar: tarfile.TarFile, folder: Path, archive: Path) -> None:
    left = MAX_RATIO * archive.stat().st_size
    for count, member in enumerate(tar):
        path = PurePosixPath(member.name)
        if path.is_absolute() or ".." in path.parts or "\\" in member.name:
            raise RamifyError(f"{archive} is refused: its member {member.name!r} leaves the folder")
        if not (member.isreg() or member.isdir()):
            raise RamifyError(f"{archive} is refused: its member {member.name!r} is a link or a device")
        left -= member.size
        if left < 0 or count >= MAX_MEMBERS:
            raise RamifyError(
                f"{archive} is refused: it unpacks to {MAX_RATIO} times its size or {MAX_MEMBERS:,} files"
            )
        target = folder / path
        if member.isdir():
            target.mkdir(parents=True, exist_ok=True)
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        content = tar.extractfile(member)
        assert content is not None  # a regular file has content
        with content, target.open("xb") as file:
            shutil.copyfileobj(content, file)
