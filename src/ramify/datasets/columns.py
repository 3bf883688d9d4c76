"""Tables with a column of encoded images and a column a level, as Hugging Face writes them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from ramify.arrays import Ints, Pixels
from ramify.datasets.cache import Contents
from ramify.datasets.decode import BrokenImage, decode_image
from ramify.datasets.splits import PARTS, ClassPath, assemble
from ramify.errors import RamifyError
from ramify.taxonomy.read import level_columns

LABEL = re.compile(r"(.+_)?label|class", re.IGNORECASE)


@dataclass(frozen=True)
class ColumnChoice:
    """Which columns to read; empty: found by their names and types."""

    levels: tuple[str, ...] = ()
    image: str = ""


FOUND = ColumnChoice()


class ImageTable(Protocol):
    """Rows with an encoded image each."""

    @property
    def schema(self) -> Any:
        """The Arrow schema: names and types of the columns."""

    def values(self, column: str) -> list[Any]:
        """A whole column."""

    def images(self, column: str) -> Callable[[int], Any]:
        """What reads the cell of a row, from several threads."""


@dataclass(frozen=True)
class TableImages:
    """A split held as rows of a table."""

    cell: Callable[[int], Any]
    rows: Ints
    leaves: Ints = field(repr=False)

    def name(self, index: int) -> str:
        """The image's row."""
        return f"row {self.rows[index]}"

    def read(self, index: int, size: int) -> Pixels:
        """The decoded image."""
        value = self.cell(int(self.rows[index]))
        if isinstance(value, dict):
            value = value.get("bytes")
        if not isinstance(value, bytes):
            raise BrokenImage("the row holds no image bytes")
        return decode_image(value, size)


def table_contents(
    table: ImageTable, parts: Sequence[str], choice: ColumnChoice, where: str, pad: bool = False
) -> Contents:
    """The images of a table in the tree of its level columns; `parts` names the split of each row."""
    names = list(table.schema.names)
    strange = next((c for c in (*choice.levels, choice.image) if c and c not in names), None)
    if strange is not None:
        raise RamifyError(f"{where}: no column {strange!r} among {', '.join(names)}")
    cell = table.images(choice.image or _image_column(table.schema, where))
    return assemble(
        table_labels(table, choice, where),
        named_parts(parts),
        lambda picked, leaves: TableImages(cell, picked, leaves),
        where,
        pad,
    )


def named_parts(parts: Sequence[str]) -> Sequence[str] | None:
    """The split of each row, None where they name no training rows."""
    return parts if any(PARTS.get(part) == "train" for part in set(parts)) else None


def table_labels(table: ImageTable, choice: ColumnChoice, where: str) -> list[ClassPath]:
    """The labels of each row, coarse to fine, from the columns that are levels."""
    classes = _class_names(table.schema)
    columns = list(choice.levels) or _level_columns(table.schema, classes, where)
    try:
        values = {column: table.values(column) for column in columns}
    except Exception as error:
        raise RamifyError(f"{where}: the labels cannot be read ({error})") from error
    texts = {c: label_texts(values[c], classes.get(c), f"{where}: {c}") for c in columns}
    if not choice.levels and not level_columns(columns):
        columns.sort(key=lambda column: len({*texts[column]} - {""}))  # coarse levels have fewer classes
    if "" in texts[columns[0]]:
        raise RamifyError(f"{where}: {columns[0]} is None in a row: expected a class of it in every row")
    return list(zip(*(texts[column] for column in columns), strict=True))


def _level_columns(schema: Any, classes: dict[str, list[str]], where: str) -> list[str]:
    """`level1`, `level2`, … in that order; else the columns of classes; else those called label."""
    found = (
        [*level_columns(schema.names).values()]
        or [name for name in schema.names if name in classes]
        or [name for name in schema.names if LABEL.fullmatch(name)]
    )
    if not found:
        raise RamifyError(
            f"{where}: no label among its columns {', '.join(schema.names)}: expected level1, level2, … or "
            "label; name others, coarse to fine, as hf:PATH?levels=order,family,species"
        )
    return found


def _image_column(schema: Any, where: str) -> str:
    import pyarrow

    for column in schema:
        kind = column.type
        if pyarrow.types.is_struct(kind) and kind.get_field_index("bytes") >= 0:
            return str(column.name)
        if pyarrow.types.is_binary(kind) or pyarrow.types.is_large_binary(kind):
            return str(column.name)
    raise RamifyError(f"{where}: no column of image bytes among {', '.join(schema.names)}")


def _class_names(schema: Any) -> dict[str, list[str]]:
    """The class names that Hugging Face keeps beside integer labels."""
    try:
        features = json.loads((schema.metadata or {})[b"huggingface"])["info"]["features"]
        return {
            key: list(map(str, f["names"])) for key, f in features.items() if f.get("_type") == "ClassLabel"
        }
    except (KeyError, ValueError, TypeError, AttributeError):
        return {}


def label_texts(values: Sequence[Any], names: list[str] | None, where: str) -> list[str]:
    """Labels as text, empty where a row has none: a null, or Hugging Face's -1."""
    none = (None,) if names is None else (None, -1)
    bad = [v for v in values if v not in none and names is not None and not 0 <= int(v) < len(names)]
    if bad:
        raise RamifyError(f"{where}: found the label {bad[0]!r}: expected one of its classes, or null")
    return ["" if v in none else str(v) if names is None else names[int(v)] for v in values]
