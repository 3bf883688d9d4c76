"""From one row of names a leaf to integer arrays, refusing whatever is not a tree of one depth."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from ramify.errors import RamifyError

IntArray = npt.NDArray[np.int64]
Where = Callable[[int], str]


def index_rows(
    rows: Sequence[Sequence[str]], pad: bool, where: Where
) -> tuple[tuple[tuple[str, ...], ...], IntArray]:
    """Number the classes of each level by first appearance.

    Returns the names of each level and the classes `[depth, leaves]` of each leaf. `where(i)` names the
    place of row i in messages.
    """
    paths = _even_paths([[name.strip() for name in row] for row in rows], pad, where)
    depth = len(paths[0])
    known: list[dict[str, int]] = [{} for _ in range(depth)]
    parents: list[list[int]] = [[] for _ in range(depth)]
    first: list[list[int]] = [[] for _ in range(depth)]
    classes = np.empty((depth, len(paths)), np.int64)
    for i, path in enumerate(paths):
        parent, new = -1, False
        for h, name in enumerate(path):
            index = known[h].setdefault(name, len(known[h]))
            new = index == len(parents[h])
            if new:
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
        if not new:
            raise RamifyError(
                f"{where(i)}: the leaf {path[-1]!r} is already in {where(first[-1][parent])}; "
                "each leaf has one row: remove one of them"
            )
    return tuple(tuple(level) for level in known), classes


def _even_paths(rows: Sequence[Sequence[str]], pad: bool, where: Where) -> list[list[str]]:
    """Drop empty cells at the end of each row, check the names, and bring all rows to one depth."""
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
    depth = max(map(len, paths))
    for i, path in enumerate(paths):
        if len(path) < depth and not pad:
            raise RamifyError(
                f"{where(i)}: {' > '.join(path)!r} has depth {len(path)}, others have {depth}: fill in the "
                "missing levels, or pass pad=True (--pad) to repeat the leaf downwards"
            )
        path.extend(path[-1:] * (depth - len(path)))
    return paths
