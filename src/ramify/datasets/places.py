"""Where datasets and their decoded images lie."""

from __future__ import annotations

import os
from pathlib import Path


def user_cache() -> Path:
    """The user's cache folder for ramify."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "ramify"


def data_root(data_dir: str | Path | None = None) -> Path:
    """Where datasets live: `data_dir`, else RAMIFY_DATA, else the user's cache folder."""
    return Path(data_dir or os.environ.get("RAMIFY_DATA") or user_cache()).expanduser()


def kept(root: Path, what: str) -> Path:
    """A folder for what is made: below the data folder, or the user's cache where that is read-only."""
    nearest = next(p for p in (root, *root.absolute().parents) if p.exists())
    return (root if os.access(nearest, os.W_OK) else user_cache()) / what
