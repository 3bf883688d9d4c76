"""Your own images: class folders, a CSV manifest, or Parquet."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import chain
from pathlib import Path

from ramify.datasets.cache import Origin
from ramify.datasets.folders import folder_origin
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
        lambda _: _origin(path, name, pad),
        taxonomy=tree if tree.is_file() else None,
    )


def _origin(path: Path, name: str, pad: bool) -> Origin:
    if path.is_dir():
        tables = chain(path.glob("*.parquet"), path.glob("*/*.parquet"))
        read: Read = parquet_origin if any(tables) else folder_origin
    elif path.suffix.lower() in READERS:
        read = READERS[path.suffix.lower()]
    else:
        raise RamifyError(
            f"{path}: expected a folder of class folders, a .csv manifest, a .parquet file, or features "
            "(.npz, .safetensors)"
        )
    return read(path, name, pad)
