"""Parquet files with encoded images in them, as Hugging Face writes them."""

from __future__ import annotations

import re
import threading
from bisect import bisect_right
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import accumulate
from pathlib import Path
from typing import Any

from ramify.datasets.cache import Contents, Origin
from ramify.datasets.columns import FOUND, ColumnChoice, table_contents
from ramify.datasets.listing import stamps
from ramify.datasets.splits import PARTS
from ramify.errors import RamifyError


class ParquetTable:
    """The rows of some Parquet files, as one list; a few groups of rows are held at a time."""

    def __init__(self, files: Sequence[Path]) -> None:
        self._files = [open_parquet(path) for path in files]
        self.schema = self._files[0].schema_arrow
        self.rows = [file.metadata.num_rows for file in self._files]

    def values(self, column: str) -> list[Any]:
        """A whole column."""
        return [v for file in self._files for v in file.read(columns=[column]).column(0).to_pylist()]

    def images(self, column: str) -> Callable[[int], Any]:
        """What reads the cell of a row."""
        groups = [(file, group) for file in self._files for group in range(file.metadata.num_row_groups)]
        counts = (file.metadata.row_group(group).num_rows for file, group in groups)
        starts = list(accumulate(counts, initial=0))
        lock = threading.Lock()

        @lru_cache(maxsize=4)
        def read(number: int) -> Any:
            file, group = groups[number]
            return file.read_row_group(group, columns=[column]).column(0)

        def cell(row: int) -> Any:
            with lock:
                number = bisect_right(starts, row) - 1
                return read(number)[row - starts[number]].as_py()

        return cell


def parquet_files(path: Path) -> list[Path]:
    """The Parquet file, or those in a folder and the folders in it, as the hub lays them out."""
    return sorted(path.rglob("*.parquet")) if path.is_dir() else [path]


def parquet_origin(path: Path, name: str, pad: bool = False, choice: ColumnChoice = FOUND) -> Origin:
    """A Parquet file, or those in a folder; the splits are `train-*.parquet` or `train/*.parquet`, …"""
    files = parquet_files(path)
    key: dict[str, Any] = {"files": stamps(path.parent, map(str, files)), **({"pad": True} if pad else {})}
    if choice != FOUND:
        key["choice"] = [choice.levels, choice.image]
    return Origin(name, key, lambda: _contents(files, path, pad, choice))


def _contents(files: Sequence[Path], path: Path, pad: bool, choice: ColumnChoice) -> Contents:
    table = ParquetTable(files)
    return table_contents(table, parts_of(files, path, table), choice, str(path), pad)


def parts_of(files: Sequence[Path], path: Path, table: ParquetTable) -> list[str]:
    """The split that each row belongs to by the name of its file."""
    parts = [_part(file, path) for file in files]
    return [part for part, count in zip(parts, table.rows, strict=True) for _ in range(count)]


def _part(file: Path, folder: Path) -> str:
    """The split that a file's name begins with, or the nearest folder above it is called by."""
    names = [file.name, *(p.name for p in file.parents if folder in (p, *p.parents) and p != folder)]
    words = [re.split(r"[-_.]", name)[0].lower() for name in names]
    return next((word for word in words if word in PARTS), words[0])


def open_parquet(path: Path) -> Any:
    """A Parquet file, through the extra that reads it."""
    try:
        from pyarrow import parquet
    except ImportError as error:
        raise RamifyError(f"{path} needs pyarrow: pip install 'ramify[parquet]'") from error
    try:
        return parquet.ParquetFile(path)
    except Exception as error:
        raise RamifyError(f"{path} is not a Parquet file ({error})") from error
