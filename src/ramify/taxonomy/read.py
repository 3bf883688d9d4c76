"""Reading label trees: a CSV of leaves, an edge list, nested JSON, nested class folders, or by name."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterable
from importlib import resources
from os import PathLike
from pathlib import Path

from ramify.errors import RamifyError
from ramify.taxonomy.edges import parse_edges
from ramify.taxonomy.nested import parse_json, read_folders
from ramify.taxonomy.tree import Taxonomy
from ramify.typed import shown

# Name → (shipped file, levels of it; None = all).
_BUILTIN: dict[str, tuple[str, tuple[int, ...] | None]] = {
    "cifar100": ("cifar100.csv", None),
    "cifar100-2": ("cifar100.csv", (4, 5)),
    "stanford-cars": ("stanford-cars.csv", None),
    "imagenet-hier100": ("imagenet-hier100.csv", None),
    "cub200": ("cub200.csv", None),
    "tiny-imagenet": ("tiny-imagenet.csv", None),
}


def builtin_trees() -> tuple[str, ...]:
    """The names of the trees that ramify ships."""
    return tuple(_BUILTIN)


def read_taxonomy(source: str | PathLike[str] | Taxonomy, pad: bool = False) -> Taxonomy:
    """Read a tree by its built-in name, from a CSV or JSON file, or from nested class folders.

    A built-in name wins over a file of that name (`./cifar100` is the file). A tree is returned as it is.
    """
    if isinstance(source, Taxonomy):
        return source
    if not isinstance(source, str | PathLike):
        raise RamifyError(
            f"taxonomy is {shown(source)}; give a Taxonomy, the path of a file or folder, or one of "
            f"{', '.join(_BUILTIN)}"
        )
    if str(source) in _BUILTIN:
        file, levels = _BUILTIN[str(source)]
        text = resources.files("ramify.taxonomy").joinpath("trees", file).read_text("utf-8")
        tree = parse_csv(text, file, pad)
        return tree if levels is None else tree.restrict(levels)
    path = Path(source)
    if path.is_dir():
        return read_folders(path, pad)
    parse = _PARSERS.get(path.suffix.lower())
    if not path.exists() or parse is None:
        found = f"{path} is not a .csv or .json file" if path.exists() else f"no tree {str(source)!r}"
        raise RamifyError(
            f"{found}: expected a CSV of leaves, an edge list, nested JSON, a folder of class folders, "
            f"or one of {', '.join(_BUILTIN)}"
        )
    return parse(read_text(path), path.name, pad)


def read_text(path: Path) -> str:
    """The text of a UTF-8 file, with or without a byte order mark."""
    try:
        data = path.read_bytes()
        return data.decode("utf-8-sig")
    except OSError as error:
        raise RamifyError(f"cannot read {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise RamifyError(
            f"{path.name} line {line}: byte 0x{data[error.start]:02x} is not UTF-8: save the file as UTF-8"
        ) from error


def parse_csv(text: str, name: str, pad: bool = False) -> Taxonomy:
    """A tree from CSV text: `level1,…,levelH` and one row a leaf, or an edge list `parent,child[,level]`.

    Further columns of a CSV of leaves become leaf attributes.
    """
    header, rows, lines = read_table(text, name)
    if {"parent", "child"} <= set(header):
        return parse_edges(header, rows, lines, name, pad)
    named = level_columns(header)
    if not named:
        raise RamifyError(
            f"{name} line 1: no column level1 or parent in {','.join(header)!r}: expected the header "
            "level1,level2,… (one row a leaf) or parent,child (an edge list)"
        )
    depth = len(named)
    missing = next((level for level in range(1, depth + 1) if level not in named), None)
    if missing is not None:
        raise RamifyError(f"{name} line 1: no column level{missing}: number the levels 1 to {depth}")
    columns = [header.index(column) for column in named.values()]
    paths = [[row[column] for column in columns] for row in rows]
    for level in range(1, depth + 1):
        if paths and not any(path[level - 1] for path in paths):
            raise RamifyError(f"{name}: level {level} is empty in every row: fill it in or drop the column")
    extra = {
        column: [row[place] for row in rows] for place, column in enumerate(header) if place not in columns
    }
    if not paths:
        raise RamifyError(f"{name} has no rows below its header: the tree is empty, expected one row a leaf")
    return Taxonomy.from_rows(paths, extra, pad=pad, where=lambda i: f"{name} line {lines[i]}")


def level_columns(names: Iterable[str]) -> dict[int, str]:
    """Those of some columns that are called `level1`, `level2`, …, by their number, in its order."""
    matches = ((name, re.fullmatch(r"level(\d{1,9})", name, re.IGNORECASE)) for name in names)
    return dict(sorted((int(match[1]), name) for name, match in matches if match))


def read_table(text: str, name: str) -> tuple[list[str], list[list[str]], list[int]]:
    """Header (lower case), rows filled up to its width, and the line on which each row ends."""
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    rows, lines = [], []
    try:
        header = [cell.strip().lower() for cell in next(reader, [])]
        if len(header) == 1 and ";" in header[0]:
            raise RamifyError(f"{name} line 1: the columns are parted by semicolons; save it with commas")
        for row in reader:
            if not row:
                continue
            if len(row) > len(header):
                raise RamifyError(
                    f"{name} line {reader.line_num}: {len(row)} cells below {len(header)} columns: "
                    "put names that contain a comma in quotes"
                )
            rows.append([cell.strip() for cell in row] + [""] * (len(header) - len(row)))
            lines.append(reader.line_num)
    except csv.Error as error:
        raise RamifyError(
            f"{name} line {reader.line_num}: not valid CSV ({error}): check its quotes"
        ) from error
    if not header:
        raise RamifyError(f"{name} is empty: expected a header and one row a leaf")
    twice = [column for i, column in enumerate(header) if column in header[:i]]
    if twice:
        raise RamifyError(f"{name} line 1: column {twice[0]!r} stands twice: rename one of them")
    return header, rows, lines


_PARSERS: dict[str, Callable[[str, str, bool], Taxonomy]] = {".csv": parse_csv, ".json": parse_json}
