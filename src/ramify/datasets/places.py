"""Where datasets lie, and the folders of what is made of them: once, and whole or not at all."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from ramify.errors import RamifyError
from ramify.locks import hold
from ramify.typed import amount

T = TypeVar("T")


def user_cache() -> Path:
    """The user's cache folder for ramify."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "ramify"


def data_root(data_dir: str | Path | None = None) -> Path:
    """Where datasets live: `data_dir`, else RAMIFY_DATA, else the user's cache folder."""
    return Path(data_dir or os.environ.get("RAMIFY_DATA") or user_cache()).expanduser()


def first_there(root: Path, names: Sequence[str]) -> Path:
    """The first of these folders that is below `root`; where none is, where the first would be."""
    return next((root / name for name in names if (root / name).is_dir()), root / names[0])


def kept(root: Path, what: str) -> Path:
    """A folder for what is made: below the data folder, or the user's cache where that is read-only."""
    nearest = next(p for p in (root, *root.absolute().parents) if p.exists())
    return (root if os.access(nearest, os.W_OK) else user_cache()) / what


def open_or_make(folder: Path, opened: Callable[[], T | None], make: Callable[[], None], what: str) -> T:
    """What a folder holds, made first where it is not there; of two processes one makes, the other waits."""
    found = opened()
    if found is None:
        try:
            folder.parent.mkdir(parents=True, exist_ok=True)
            with hold(folder.with_name(f".{folder.name}.lock")):
                found = opened()
                if found is None:
                    make()
                    found = opened()
        except OSError as error:
            raise RamifyError(
                f"cannot write {what} to {folder.parent}: {error.strerror or error}; choose another place "
                "with RAMIFY_DATA or --data-dir"
            ) from error
    if found is None:
        raise RamifyError(f"{what} in {folder} cannot be read back: check the disk")
    return found


def check_space(folder: Path, needed: int, what: str) -> None:
    """Refuse to begin what the disk has no room for."""
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise RamifyError(
            f"{folder.parent} has {amount(free)} free, {what} need {amount(needed)}: "
            "choose another place with RAMIFY_DATA or --data-dir, or a smaller image size"
        )
