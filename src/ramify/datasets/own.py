"""Your own images: class folders, a CSV manifest, or Parquet."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import chain
from pathlib import Path

from ramify.datasets.cache import Contents, Origin
from ramify.datasets.folders import folder_origin
from ramify.datasets.glance import recall
from ramify.datasets.listing import FileImages, stamps
from ramify.datasets.parquet import parquet_origin
from ramify.datasets.registry import Source
from ramify.datasets.splits import assemble
from ramify.errors import RamifyError
from ramify.taxonomy.read import level_columns, read_table, read_text


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
    read = READERS.get(path.suffix.lower())
    if read is None:
        raise RamifyError(
            f"{path}: expected a folder of class folders, a .csv manifest, a .parquet file, or features "
            "(.npz, .safetensors)"
        )
    return read(path, name, pad)


def manifest_origin(path: Path, name: str, pad: bool = False) -> Origin:
    """A CSV manifest, one row an image.

    Columns: `path` (absolute or from the manifest), `level1`…`levelH` or `label`, optionally `split`.
    """
    header, rows, lines = read_table(read_text(path), path.name)
    columns = [*level_columns(header).values()] or [column for column in header if column == "label"]
    if "path" not in header or not columns:
        raise RamifyError(
            f"{path} line 1: the columns are {', '.join(header)}: "
            "expected path, level1, level2, … (or path, label) and optionally split"
        )
    where = header.index("path")
    numbers = [header.index(column) for column in columns]
    paths = [row[where] for row in rows]

    def contents() -> Contents:
        for row, line in zip(rows, lines, strict=True):
            names = [row[i] for i in numbers]  # an image may have no class at the finer levels
            gaps = [c for k, c in enumerate(columns) if not names[k] and (k == 0 or any(names[k:]))]
            if gaps or not row[where]:
                raise RamifyError(f"{path} line {line}: {(*gaps, 'path')[0]} is empty: fill it in")
        split = header.index("split") if "split" in header else None
        return assemble(
            [tuple(row[i] for i in numbers) for row in rows],
            None if split is None else [row[split] for row in rows],
            FileImages.chosen(path.parent, paths),
            str(path),
            pad,
        )

    key = {"manifest": stamps(path.parent, [path.name]), "files": stamps(path.parent, paths)}
    return Origin(name, key | ({"pad": "yes"} if pad else {}), contents)


READERS: dict[str, Callable[[Path, str, bool], Origin]] = {
    ".csv": manifest_origin,
    ".parquet": parquet_origin,
}
