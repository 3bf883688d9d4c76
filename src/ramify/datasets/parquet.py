"""Parquet files with encoded images in them, as Hugging Face writes them."""

from __future__ import annotations

import json
import re
import threading
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ramify.datasets.cache import Contents, Origin
from ramify.datasets.decode import BrokenImage, decode
from ramify.datasets.listing import stamps
from ramify.datasets.splits import PARTS, Labels, assemble
from ramify.errors import RamifyError

LABEL = re.compile(r"(.+_)?label|level\d+|class", re.IGNORECASE)


class ParquetTable:
    """The rows of some Parquet files, as one list; a few groups of rows are held at a time."""

    def __init__(self, files: Sequence[Path], column: str) -> None:
        self.column = column
        self._files = [_open(path) for path in files]
        groups = [
            (file, group, file.metadata.row_group(group).num_rows)
            for file in self._files
            for group in range(file.metadata.num_row_groups)
        ]
        self._groups = [(file, group) for file, group, _ in groups]
        self._starts = list(accumulate((rows for *_, rows in groups), initial=0))
        self._lock = threading.Lock()
        self._read = lru_cache(maxsize=4)(self._read_group)

    def _read_group(self, number: int) -> Any:
        file, group = self._groups[number]
        return file.read_row_group(group, columns=[self.column]).column(0)

    def image(self, row: int) -> bytes:
        """The encoded image of a row."""
        with self._lock:
            number = bisect_right(self._starts, row) - 1
            value = self._read(number)[row - self._starts[number]].as_py()
        if isinstance(value, dict):
            value = value.get("bytes")
        if not isinstance(value, bytes):
            raise BrokenImage("the row holds no image bytes")
        return value


@dataclass(frozen=True)
class ParquetImages:
    """A split held as rows of Parquet files."""

    table: ParquetTable
    rows: NDArray[np.int64]
    leaves: NDArray[np.int64] = field(repr=False)

    def name(self, index: int) -> str:
        """The image's row."""
        return f"row {self.rows[index]}"

    def read(self, index: int, size: int) -> NDArray[np.uint8]:
        """The decoded image."""
        return decode(self.table.image(int(self.rows[index])), size)


def parquet_origin(path: Path, name: str, pad: bool = False) -> Origin:
    """A Parquet file, or those in a folder; `train-*.parquet` and `test-*.parquet` are the splits."""
    files = sorted([*path.glob("*.parquet"), *path.glob("*/*.parquet")]) if path.is_dir() else [path]
    key = {"files": stamps(path.parent, map(str, files)), **({"pad": True} if pad else {})}
    return Origin(name, key, lambda: _contents(files, path, pad))


def _contents(files: Sequence[Path], path: Path, pad: bool) -> Contents:
    opened = [_open(file) for file in files]
    schema = opened[0].schema_arrow
    image = _image_column(schema, path)
    classes = _class_names(schema)
    columns = [c for c in schema.names if c in classes] or [c for c in schema.names if LABEL.fullmatch(c)]
    if not columns:
        raise RamifyError(
            f"{path}: no label among its columns {', '.join(schema.names)}: expected one called label"
        )
    try:
        values = {
            c: [v for file in opened for v in file.read(columns=[c]).column(0).to_pylist()] for c in columns
        }
    except Exception as error:
        raise RamifyError(f"{path}: the labels cannot be read ({error})") from error
    texts = {column: _texts(values[column], classes.get(column), f"{path}: {column}") for column in columns}
    columns.sort(key=lambda column: len({*texts[column]} - {""}))  # coarse levels have fewer classes
    if "" in texts[columns[0]]:
        raise RamifyError(f"{path}: {columns[0]} is None in a row: expected a class of it in every row")
    labels: list[Labels] = list(zip(*(texts[column] for column in columns), strict=True))
    parts = [re.split(r"[-_.]", file.name)[0].lower() for file in files]
    rows = [part for part, file in zip(parts, opened, strict=True) for _ in range(file.metadata.num_rows)]
    table = ParquetTable(files, image)
    return assemble(
        labels,
        rows if any(PARTS.get(part) == "train" for part in parts) else None,
        lambda picked, leaves: ParquetImages(table, picked, leaves),
        str(path),
        pad,
    )


def _open(path: Path) -> Any:
    try:
        from pyarrow import parquet
    except ImportError as error:
        raise RamifyError(f"{path} needs pyarrow: pip install 'ramify[parquet]'") from error
    try:
        return parquet.ParquetFile(path)
    except Exception as error:
        raise RamifyError(f"{path} is not a Parquet file ({error})") from error


def _image_column(schema: Any, path: Path) -> str:
    import pyarrow

    for column in schema:
        kind = column.type
        if pyarrow.types.is_struct(kind) and kind.get_field_index("bytes") >= 0:
            return str(column.name)
        if pyarrow.types.is_binary(kind) or pyarrow.types.is_large_binary(kind):
            return str(column.name)
    raise RamifyError(f"{path}: no column of image bytes among {', '.join(schema.names)}")


def _class_names(schema: Any) -> dict[str, list[str]]:
    """The class names that Hugging Face keeps beside integer labels."""
    try:
        features = json.loads((schema.metadata or {})[b"huggingface"])["info"]["features"]
        return {
            key: list(map(str, f["names"])) for key, f in features.items() if f.get("_type") == "ClassLabel"
        }
    except (KeyError, ValueError, TypeError, AttributeError):
        return {}


def _texts(values: Sequence[Any], names: list[str] | None, where: str) -> list[str]:
    """Labels as text, empty where a row has none: a null, or Hugging Face's -1."""
    none = (None,) if names is None else (None, -1)
    bad = [v for v in values if v not in none and names is not None and not 0 <= int(v) < len(names)]
    if bad:
        raise RamifyError(f"{where}: found the label {bad[0]!r}: expected one of its classes, or null")
    return ["" if v in none else str(v) if names is None else names[int(v)] for v in values]
