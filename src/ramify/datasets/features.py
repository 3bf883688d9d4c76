"""Features from elsewhere in the place of images: .npz, .safetensors and .parquet files."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open

from ramify.arrays import Array, Ints
from ramify.datasets.columns import FOUND, label_texts, named_parts, table_labels
from ramify.datasets.listing import stamps
from ramify.datasets.parquet import ParquetTable, open_parquet, parquet_files, parts_of
from ramify.datasets.splits import ClassPath, divide
from ramify.datasets.table import Chunk, SplitRows
from ramify.errors import RamifyError
from ramify.taxonomy.read import level_columns

COLUMNS = ("features", "embeddings", "feature", "embedding")
STEP = 4096  # rows copied together
PARTS = ("train", "test")  # a split that is given by numbers


@dataclass(frozen=True)
class Given:
    """What a file holds: the labels of each row, coarse to fine, its part, and how to read its features."""

    labels: list[ClassPath]
    parts: list[str] | None
    shape: tuple[int, ...]
    dtype: str
    read: Callable[[], Array]


class FeatureFile:
    """Features with labels at all levels, in one file."""

    def __init__(self, path: Path, pad: bool) -> None:
        self.path = path
        self.name = re.sub(r"[^\w.-]+", "_", path.stem) or "features"
        self.key = {"files": stamps(path.parent, _files(path))} | ({"pad": True} if pad else {})
        self.given = READERS.get(path.suffix.lower(), _parquet)(path)
        if len(self.given.shape) != 2 or 0 in self.given.shape:
            raise RamifyError(f"{path}: features are of shape {self.given.shape}: expected [n, size]")
        if len(self.given.labels) != self.given.shape[0]:
            raise RamifyError(
                f"{path}: {self.given.shape[0]} features, {len(self.given.labels)} labels: expected one each"
            )
        found = divide(self.given.labels, self.given.parts, str(path), pad)
        self.taxonomy, self.notes = found.taxonomy, found.notes
        self.leaves, self._rows = found.leaves, found.rows

    @cached_property
    def _values(self) -> Array:
        values = self.given.read()
        return values if values.dtype == self.dtype else values.astype(self.dtype)

    @property
    def dtype(self) -> np.dtype[Any]:
        """In which they are kept: half precision stays, all else becomes single."""
        return np.dtype(np.float16 if self.given.dtype == "float16" else np.float32)

    def tables(self) -> dict[str, SplitRows]:
        """The rows of each split."""
        return {
            name: SplitRows(len(rows), self.given.shape[1:], self.dtype, self._maker(rows), STEP)
            for name, rows in self._rows.items()
        }

    def _maker(self, rows: Ints) -> Callable[[int, int], Chunk]:
        def make(start: int, stop: int) -> Chunk:
            chosen = rows[start:stop]
            values: Array = self._values[chosen]
            bad = np.flatnonzero(~np.isfinite(values).all(1))
            if len(bad):
                raise RamifyError(
                    f"{self.path}: the features of row {chosen[bad[0]]} are not all finite; take it out"
                )
            return values, []

        return make


def _files(path: Path) -> list[str]:
    return [str(file) for file in parquet_files(path)] if path.is_dir() else [path.name]


def feature_file(path: Path) -> bool:
    """Whether a path holds features; Parquet files, one or a folder of them, may hold images instead."""
    if path.is_file() and path.suffix.lower() in (".npz", ".safetensors"):
        return True
    if path.is_file() and path.suffix.lower() != ".parquet":
        return False
    first = next(path.glob("*.parquet"), None) if path.is_dir() else path
    if first is None or not first.is_file():
        return False
    return _feature_column(open_parquet(first).schema_arrow) is not None


def _npz(path: Path) -> Given:
    try:
        with np.load(path, allow_pickle=False) as file:
            shapes = {name: _npy_header(file, name) for name in file.files}
            labels = {name: file[name] for name in _label_columns(shapes)}
            split = file["split"] if "split" in shapes else None
    except Exception as error:
        words = f"{type(error).__name__}: {error}".partition("\n")[0]
        raise RamifyError(
            f"{path} cannot be read ({words}); write it with numpy.savez, without objects"
        ) from None
    column = _column(path, shapes)
    texts = {name: [str(value) for value in values.tolist()] for name, values in labels.items()}
    shape, dtype = shapes[column]
    return Given(_rows(path, texts, shapes), _parts(split), shape, dtype, lambda: _loaded(path, column))


def _npy_header(file: Any, name: str) -> tuple[tuple[int, ...], str]:
    """Shape and type of an array in an .npz, without reading it."""
    with file.zip.open(f"{name}.npy") as member:
        version = np.lib.format.read_magic(member)
        read = (
            np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        )
        shape, _, dtype = read(member)
    return shape, str(dtype)


def _loaded(path: Path, column: str) -> Array:
    with np.load(path, allow_pickle=False) as file:
        found: Array = file[column]
    return found


def _safetensors(path: Path) -> Given:
    """Labels are numbers; the metadata may name them: `level1`: a JSON list of names."""
    try:
        with safe_open(path, framework="pt") as file:
            names = {n: (tuple(file.get_slice(n).get_shape()), "") for n in file.keys()}  # noqa: SIM118
            labels = {n: file.get_tensor(n) for n in _label_columns(names)}
            split = file.get_tensor("split").numpy() if "split" in names else None
            about = file.metadata() or {}
            column = _column(path, names)
            dtype = {"F16": "float16"}.get(file.get_slice(column).get_dtype(), "float32")
    except (OSError, SafetensorError) as error:
        raise RamifyError(f"{path} cannot be read ({error}); it must be a safetensors file") from None
    texts = {}
    for name, values in labels.items():
        try:
            called = json.loads(about[name]) if name in about else None
            texts[name] = label_texts(values.tolist(), called, f"{path}: {name}")
        except (ValueError, TypeError):
            raise RamifyError(
                f"{path}: the metadata {name!r} must be a JSON list with the name of each label"
            ) from None

    def read() -> Array:
        with safe_open(path, framework="pt") as file:
            tensor = file.get_tensor(column)
        found: Array = (tensor if dtype == "float16" else tensor.float()).numpy()
        return found

    return Given(_rows(path, texts, names), _parts(split), names[column][0], dtype, read)


def _parquet(path: Path) -> Given:
    files = parquet_files(path)
    table, column = ParquetTable(files), _feature_column(open_parquet(files[0]).schema_arrow)
    assert column is not None  # `feature_file` has looked
    if "split" in table.schema.names:
        parts: list[str] | None = [str(value) for value in table.values("split")]
    else:
        named = named_parts(parts_of(files, path, table))
        parts = None if named is None else list(named)
    width = _width(files, column)

    def read() -> Array:
        chunks = [c for f in files for c in open_parquet(f).read(columns=[column]).column(0).chunks]
        return np.concatenate([c.flatten().to_numpy(zero_copy_only=False) for c in chunks]).reshape(-1, width)

    half = str(table.schema.field(column).type.value_type) == "halffloat"
    labels = table_labels(table, FOUND, str(path))
    return Given(labels, parts, (sum(table.rows), width), "float16" if half else "float32", read)


def _width(files: Sequence[Path], column: str) -> int:
    """How many values each row's list has."""
    from pyarrow import compute

    found: set[Any] = set()
    for file in files:
        lengths = compute.list_value_length(open_parquet(file).read(columns=[column]).column(0))
        found |= set(compute.unique(lengths).to_pylist())
    if len(found) > 1:
        told = ", ".join(sorted(map(str, found)))
        raise RamifyError(f"{files[0]}: lists of {column} have {told} values: expected one length")
    return int(found.pop() or 0) if found else 0


def _feature_column(schema: Any) -> str | None:
    """The column of lists of numbers; one with a usual name first."""
    import pyarrow

    def of_numbers(kind: Any) -> bool:
        lists = (pyarrow.types.is_list, pyarrow.types.is_large_list, pyarrow.types.is_fixed_size_list)
        return any(test(kind) for test in lists) and pyarrow.types.is_floating(kind.value_type)

    found = [str(column.name) for column in schema if of_numbers(column.type)]
    return next((name for name in COLUMNS if name in found), found[0] if found else None)


def _column(path: Path, names: Any) -> str:
    found = next((name for name in COLUMNS if name in names), None)
    if found is None:
        raise RamifyError(
            f"{path} holds {', '.join(names) or 'nothing'}: expected features [n, size] and labels"
        )
    return found


def _label_columns(names: Collection[str]) -> list[str]:
    """Those that hold labels, coarse to fine."""
    return [*level_columns(names).values()] or [name for name in names if name == "label"]


def _rows(path: Path, texts: dict[str, list[str]], names: Any) -> list[ClassPath]:
    """The labels of each row, coarse to fine."""
    if not texts:
        raise RamifyError(
            f"{path} holds {', '.join(names)}: expected labels, too: level1, level2, … (or label)"
        )
    if len({len(values) for values in texts.values()}) > 1:
        raise RamifyError(f"{path}: {', '.join(texts)} are of unlike lengths: expected one label a row each")
    return list(zip(*texts.values(), strict=True))


def _parts(split: Array | None) -> list[str] | None:
    """`train` and `test`, which may be given as 0 and 1."""
    if split is None:
        return None
    if split.dtype.kind in "iub":
        return [PARTS[value] if value in (0, 1) else str(value) for value in split.astype(int).tolist()]
    return [str(value) for value in split.tolist()]


READERS: dict[str, Callable[[Path], Given]] = {".npz": _npz, ".safetensors": _safetensors}
