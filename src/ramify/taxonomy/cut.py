"""Some levels of a tree as a tree of their own."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ramify.arrays import Ints
from ramify.errors import RamifyError

LevelNames = tuple[tuple[str, ...], ...]


def cut(names: LevelNames, classes: Ints, levels: Sequence[int]) -> tuple[LevelNames, Ints, Ints]:
    """Names, classes [levels, leaves] and the place of each old leaf among the new ones, -1 for none.

    Leaves that are alike in these levels become one, at the place of the first.
    """
    chosen, kept = _last(names, classes, levels) if levels[0] < 0 else _of_all(names, classes, levels)
    columns, first, inverse = _different(kept)
    some = columns[0] >= 0
    if not some.any():
        raise RamifyError(f"no leaf of the tree has one of the levels {list(levels)}: choose others")
    order = np.argsort(np.where(some, first, kept.shape[1]))[: int(some.sum())]
    place = np.full(len(first), -1, np.int64)
    place[order] = np.arange(len(order))
    return chosen, np.ascontiguousarray(columns[:, order]), place[inverse]


def _different(columns: Ints) -> tuple[Ints, Ints, Ints]:
    """As `np.unique(…, axis=1)`, which is slower and turns Ctrl-C into a TypeError."""
    order = np.lexsort(columns[::-1])
    new = np.ones(len(order), bool)
    new[1:] = (columns[:, order[1:]] != columns[:, order[:-1]]).any(0)
    inverse = np.empty(len(order), np.int64)
    inverse[order] = np.cumsum(new) - 1
    return columns[:, order[new]], order[new], inverse


def _of_all(names: LevelNames, classes: Ints, levels: Sequence[int]) -> tuple[LevelNames, Ints]:
    rows = [level - 1 for level in levels]
    return tuple(names[row] for row in rows), classes[rows]


def _last(names: LevelNames, classes: Ints, levels: Sequence[int]) -> tuple[LevelNames, Ints]:
    """Levels counted from the end of each leaf; a name that stands at two of them says where it is from."""
    sizes = [len(level) for level in names]
    offsets = np.concatenate(([0], np.cumsum(sizes)))
    depths = (classes >= 0).sum(0)
    row = depths + np.array(levels)[:, None]
    row = row - np.minimum(row[0], 0)  # a leaf with fewer levels has its first ones
    row = np.where((row < depths) & (row >= 0), row, -1)
    every = np.where(row >= 0, offsets[row] + np.take_along_axis(classes, np.maximum(row, 0), 0), -1)
    chosen, kept = [], np.full_like(every, -1)
    for level, nodes in enumerate(every):
        here = nodes >= 0
        found, first, inverse = np.unique(nodes[here], return_index=True, return_inverse=True)
        rank = np.empty(len(found), np.int64)
        rank[np.argsort(first)] = np.arange(len(found))
        kept[level, here] = rank[inverse]
        chosen.append(_told_apart(names, offsets, found[np.argsort(first)]))
    return tuple(chosen), kept


def _told_apart(names: LevelNames, offsets: Ints, nodes: Ints) -> tuple[str, ...]:
    rows = np.searchsorted(offsets, nodes, side="right") - 1
    plain = [names[row][node - offsets[row]] for row, node in zip(rows.tolist(), nodes.tolist(), strict=True)]
    twice = {name for name in plain if plain.count(name) > 1} if len(set(plain)) < len(plain) else set[str]()
    return tuple(
        f"{name} (level {row + 1})" if name in twice else name
        for name, row in zip(plain, rows.tolist(), strict=True)
    )
