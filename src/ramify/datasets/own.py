"""Your own images: class folders, a CSV manifest, or Parquet."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import chain
from pathlib import Path

from ramify.datasets.cache import Origin
from ramify.datasets.folders import folder_origin
from ramify.datasets.glance import recall
from ramify.datasets.manifest import manifest_origin
from ramify.datasets.parquet import parquet_origin
from ramify.datasets.registry import Source
from ramify.errors import RamifyError

Read = Callable[[Path, str, bool], Origin]
READERS: dict[str, Read] = {".csv": manifest_origin, ".parquet": parquet_origin}


def own_source(path: Path, pad: bool = False) -> Source:
    """The images at `path`, under its name; a `taxonomy.csv` in a folder is laid over its classes."""
    path = path.absolute()
    name = re.sub(r"[^\w.-]+", "_", path.stem) or "root"
    tree = path / "taxonomy.csv"
    return Source(
        name,
        f"your own, {path}",
        lambda root: _origin(path, name, pad, root),
        taxonomy=tree if tree.is_file() else None,
    )


def _origin(path: Path, name: str, pad: bool, root: Path) -> Origin:
    if path.is_dir():
        known = recall(path, root) is not None  # class folders are remembered, tables are not
        if not known and any(chain(path.glob("*.parquet"), path.glob("*/*.parquet"))):
            return parquet_origin(path, name, pad)
        return folder_origin(path, name, pad, root)
    if path.suffix.lower() not in READERS:
        raise RamifyError(
            f"{path}: expected a folder of class folders, a .csv manifest, a .parquet file, or features "
            "(.npz, .safetensors)"
        )
    return READERS[path.suffix.lower()](path, name, pad)
