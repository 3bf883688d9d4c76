"""The text files of publishers: one row a line, its cells parted by blanks or tabs."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

from ramify.errors import RamifyError
from ramify.taxonomy.read import read_text


def read_rows(path: Path, cells: int, separator: str | None = None) -> list[tuple[str, ...]]:
    """The first cells of each line; the last one has the rest of the line, blanks and all."""
    rows = []
    for number, line in enumerate(read_text(path).splitlines(), 1):
        row = line.strip().split(separator, cells - 1)
        if len(row) == cells:
            rows.append(tuple(cell.strip() for cell in row))
        elif line.strip():
            raise RamifyError(f"{path} line {number}: {len(row)} cells, expected {cells}: get the file again")
    return rows


def read_map(path: Path) -> dict[str, str]:
    """A file of two cells a line as a mapping of the first to the second."""
    return {row[0]: row[1] for row in read_rows(path, 2)}


def look_up(table: dict[str, str], key: str, path: Path) -> str:
    """What a file says of a key; refused where it says nothing."""
    if key not in table:
        raise RamifyError(f"{path} has no row for {key!r}: get the files again, all of one release")
    return table[key]


def inside(path: str, folder: Path) -> str:
    """A path out of a list, refused where it leads out of the folder."""
    if PurePosixPath(path).is_absolute() or ".." in PurePosixPath(path).parts:
        raise RamifyError(f"{folder}: the file name {path!r} leaves the folder")
    return path
