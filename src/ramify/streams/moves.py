"""Classes that move to another parent while a stream goes on, and the trees before and after."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ramify.arrays import Ints
from ramify.taxonomy import Taxonomy


class Move(NamedTuple):
    """From the first arrival of a task on, a class is below another parent, with all that is below it."""

    task: int  # from 1
    level: int  # of the stream, from 2
    child: int  # the class at that level
    parent: int  # its new parent, at the level above


@dataclass(frozen=True, eq=False)
class Eras:
    """The parts of a stream between moves; one, if nothing moves."""

    starts: Ints  # the first task of each
    trees: tuple[Taxonomy, ...]  # of the stream's levels; the classes keep their numbers
    paths: tuple[Ints, ...]  # leaf of the dataset's tree -> its class at each level, -1 below its end

    @classmethod
    def of(cls, taxonomy: Taxonomy, levels: Sequence[int], moves: Sequence[Move] = ()) -> Eras:
        """The eras of a stream over these levels of the dataset's tree."""
        tree, place = taxonomy.restrict(levels).numbered(levels), taxonomy.leaf_in(levels)
        starts = sorted({0, *(move.task for move in moves)})
        trees, paths = [], []
        for start in starts:
            tree = tree.moved([(m.level, m.child, m.parent) for m in moves if m.task == start])
            classes = np.stack([tree.leaf_to(h)[place] for h in range(1, tree.depth + 1)], 1)
            trees.append(tree)
            paths.append(np.where(place[:, None] >= 0, classes, -1))
        return cls(np.array(starts), tuple(trees), tuple(paths))

    def at(self, task: int | Ints) -> Ints:
        """The era of a task, or of each of several."""
        return np.asarray(np.searchsorted(self.starts, task, side="right") - 1)
