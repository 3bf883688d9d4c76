"""Files that are written whole or not at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from safetensors import SafetensorError

from ramify.errors import RamifyError


@contextmanager
def beside(path: Path) -> Iterator[Path]:
    """Yield a temporary path in the folder of `path`; on success fsync it and rename it to `path`.

    A reader sees the old file or the new one, never a part of either, also after a crash. No space, no
    permission and the like become a `RamifyError`.
    """
    temporary: Path | None = None
    try:
        with writing(path):
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
def fitting(path: Path) -> Iterator[None]:
    """Turn what goes wrong with values read from `path` into a `RamifyError`: they do not belong together."""
    try:
        yield
    except (OSError, LookupError, TypeError, ValueError, AttributeError, RuntimeError) as error:
        raise RamifyError(
            f"{path} does not fit together ({type(error).__name__}: {error}); it is damaged, or another's"
        ) from error


def sync(path: Path) -> None:
    """Force a file, or the entries of a folder, to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_atomic(path: Path, data: bytes | str) -> None:
    """Write `data` to `path`, whole or not at all (text as UTF-8)."""
    with beside(path) as temporary:
        temporary.write_bytes(data.encode() if isinstance(data, str) else data)
