"""Files: written whole or not at all; read, or refused in one line."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

from safetensors import SafetensorError

from ramify.errors import RamifyError

UNFIT = (  # what goes wrong with the values of a damaged file
    OSError,
    ArithmeticError,
    AttributeError,
    LookupError,
    RuntimeError,  # what torch says, and Python of what is nested too deeply
    SafetensorError,
    TypeError,
    ValueError,
)


@contextmanager
def beside(path: Path, make_folder: bool = True) -> Iterator[Path]:
    """Yield a temporary path in the folder of `path`; on success fsync it and rename it to `path`.

    A reader sees the old file or the new one, never a part of either, also after a crash. No space, no
    permission and the like become a `RamifyError`. A folder that someone removed while it was in use is not
    made again: that is `make_folder=False`.
    """
    temporary: Path | None = None
    try:
        with writing(path):
            if make_folder:
                path.parent.mkdir(parents=True, exist_ok=True)
            handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
            os.close(handle)
            temporary = Path(name)
            yield temporary
            temporary.chmod(0o644)
            sync(temporary)
            temporary.replace(path)
            sync(path.parent)
    finally:
        if temporary is not None:
            with suppress(OSError):  # what went wrong before says more
                temporary.unlink(missing_ok=True)


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn what the system says against writing (no space, no permission, …) into a `RamifyError`."""
    try:
        yield
    except (OSError, SafetensorError) as error:
        reason = getattr(error, "strerror", None) or error
        raise RamifyError(
            f"{path} cannot be written: {reason}; what was there before is still as it was"
        ) from None


@contextmanager
def fitting(path: Traversable) -> Iterator[None]:
    """Turn what goes wrong with values read from `path` into a `RamifyError`: they do not belong together."""
    try:
        yield
    except UNFIT as e:
        words = f"{type(e).__name__}: {e}".partition("\n")[0]
        raise RamifyError(f"{path} does not fit together ({words}); it is damaged, or another's") from e


def read_json(path: Traversable, hint: str = "") -> dict[str, Any]:
    """The table of values that a JSON file holds; `hint` ends the error where there is no such file."""
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise RamifyError(f"{path} cannot be read: {error.strerror}{hint}") from None
    except (ValueError, RecursionError) as error:
        raise RamifyError(f"{path} is damaged: {error}") from None
    if not isinstance(values, dict):
        raise RamifyError(f"{path} is damaged: it holds {type(values).__name__}, not a table")
    return values


def json_text(values: Any) -> str:
    """Values as the JSON files that ramify writes have them."""
    return json.dumps(values, indent=1) + "\n"


def check_format(found: object, path: Traversable, reads: int, older: str = "") -> None:
    """Refuse a file whose format, as it says itself, is not the one that is read here.

    `older` says what to do with one that was written before.
    """
    if type(found) is not int or found != reads:
        before = type(found) is int and 0 < found < reads
        way = older if older and before else "use the version that wrote it"
        raise RamifyError(f"{path} has format {found!r:.20}; this ramify reads {reads}: {way}")


def sync(path: Path) -> None:
    """Force a file, or the entries of a folder, to the disk; Windows keeps those of folders by itself."""
    windows = os.name == "nt"
    if windows and path.is_dir():
        return
    # Windows flushes only what may be written to.
    descriptor = os.open(path, os.O_RDWR if windows else os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_atomic(path: Path, data: bytes | str, make_folder: bool = True) -> None:
    """Write `data` to `path`, whole or not at all (text as UTF-8)."""
    with beside(path, make_folder) as temporary:
        temporary.write_bytes(data.encode() if isinstance(data, str) else data)


def digest(path: Path, algorithm: str = "sha256", skip: int = 0) -> str:
    """The checksum of a file after its first `skip` bytes, read in pieces."""
    checksum = hashlib.new(algorithm)
    with path.open("rb") as file:
        file.seek(skip)
        while piece := file.read(2**20):
            checksum.update(piece)
    return checksum.hexdigest()
