"""From one row of names a leaf to integer arrays, refusing whatever is not a tree."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Sequence

import numpy as np

from ramify.arrays import Ints
from ramify.errors import RamifyError

Where = Callable[[int], str]


def index_rows(
    rows: Sequence[Sequence[str]], pad: bool, where: Where
) -> tuple[tuple[tuple[str, ...], ...], Ints]:
    """Number the classes of each level by first appearance.

    Returns the names of each level and the classes `[depth, leaves]` of each leaf, -1 below its end.
    `where(i)` names the place of row i in messages.
    """
    paths = _paths([[name.strip() for name in row] for row in rows], where)
    depth = max(map(len, paths))
    if pad:
        paths = [path + path[-1:] * (depth - len(path)) for path in paths]
    known: list[dict[str, int]] = [{} for _ in range(depth)]
    parents: list[list[int]] = [[] for _ in range(depth)]
    first: list[list[int]] = [[] for _ in range(depth)]
    ends: dict[tuple[int, int], int] = {}  # (level, class) -> the row that ends there
    classes = np.full((depth, len(paths)), -1, np.int64)
    for i, path in enumerate(paths):
        parent = -1
        for h, name in enumerate(path):
            index = known[h].setdefault(name, len(known[h]))
            if index == len(parents[h]):
                parents[h].append(parent)
                first[h].append(i)
            elif parents[h][index] != parent:
                other = paths[first[h][index]][h - 1]
                raise RamifyError(
                    f"{where(i)}: {name!r} at level {h + 1} has two parents, {other!r} "
                    f"({where(first[h][index])}) and {path[h - 1]!r}; a name stands once within a level: "
                    "move or rename one of them"
                )
            classes[h, i] = parent = index
        other_row = ends.setdefault((len(path), parent), i)
        if other_row != i:
            raise RamifyError(
                f"{where(i)}: the leaf {path[-1]!r} is already in {where(other_row)}; "
                "each leaf has one row: remove one of them"
            )
    return tuple(tuple(level) for level in known), classes


def _paths(rows: Sequence[Sequence[str]], where: Where) -> list[list[str]]:
    """Drop empty cells at the end of each row, and check the names."""
    if not rows:
        raise RamifyError("the tree is empty: expected at least one leaf")
    paths = []
    for i, row in enumerate(rows):
        path = list(row)
        while path and not path[-1]:
            path.pop()
        if not path or "" in path:
            level = path.index("") + 1 if path else 1
            raise RamifyError(f"{where(i)}: level {level} is empty: give every level above a leaf a name")
        for name in path:
            if any(unicodedata.category(letter) in ("Cc", "Cs") for letter in name):
                raise RamifyError(f"{where(i)}: {name!r} has a control character: remove it from the name")
        paths.append(path)
    return paths
