"""How the classes of different levels belong together: as a given tree says, or as the model's answers do."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from ramify.arrays import AnyInts, Floats, Ints, Mask
from ramify.classes import Classes
from ramify.memory import Workbench
from ramify.taxonomy import Taxonomy

UNKNOWN = "(unknown)"


def ancestors_in(tree: Taxonomy, classes: Classes, by_index: bool = False) -> Ints:
    """[class, level met] → the class's ancestor there (itself at its own level), -1 where none was met.

    Columns are the levels met so far, coarsest first. Labels are names of the tree, or indices `by_index`.
    """
    levels = classes.levels
    found = np.full((len(classes), len(levels)), -1, np.int64)
    met = {level: np.full(len(tree.names(level)), -1, np.int64) for level in levels}
    for cls, level, label in classes:
        met[level][label if by_index else tree.index(level, str(label))] = cls
    for level in levels:
        place, own = np.nonzero(met[level] >= 0)[0], met[level][met[level] >= 0]
        for column, above in enumerate(levels[: levels.index(level) + 1]):
            found[own, column] = met[above][tree.up(level, above)[place]]
    return found


@dataclass(frozen=True)
class Ties:
    """The parent of each class, at the next coarser level met, and its share of the votes; -1: none."""

    classes: Classes
    parents: Ints
    support: Floats

    @classmethod
    def by_votes(cls, classes: Classes, votes: AnyInts) -> Ties:
        """`votes[c, d]`: how many samples labelled c the model takes for d (eq. 1, read upwards)."""
        parents, support = np.full(len(classes), -1, np.int64), np.zeros(len(classes))
        levels = classes.levels
        for above, level in pairwise(levels):
            children, rivals = classes.of_level(level), classes.of_level(above)
            table = votes[np.ix_(children, rivals)]
            total = table.sum(1)
            parents[children] = np.where(total > 0, rivals[table.argmax(1)], -1)
            support[children] = table.max(1) / np.maximum(total, 1)
        return cls(classes, parents, support)

    def ancestors(self) -> Ints:
        """[class, level met] → the class's ancestor there, -1 where it is not known or the level is finer."""
        levels = self.classes.levels
        found = np.full((len(self.classes), len(levels)), -1, np.int64)
        for column, level in enumerate(levels):
            own = self.classes.of_level(level)
            found[own, column] = own
            if column:
                known = own[self.parents[own] >= 0]
                found[known, :column] = found[self.parents[known], :column]
        return found

    def taxonomy(self) -> Taxonomy:
        """The tree that the ties make; its levels are those met, renumbered from 1.

        Its leaves are the classes without children, of whatever level. Leaf attribute `support2` …
        `supportH`: the support of the tie of the leaf's ancestor at that level, empty below its end. A class
        without votes has unknown parents.
        """
        ancestors, columns = self.ancestors(), range(len(self.classes.levels))
        rows, support = [], []
        for cls in np.flatnonzero(is_last(ancestors)):
            path = ancestors[cls]
            own = int(np.flatnonzero(path == cls)[0])
            rows.append([UNKNOWN if c < 0 else str(self.classes.labels[c]) for c in path[: own + 1]])
            support.append([f"{self.support[c]:.3f}" if c >= 0 else "" for c in path])
        return Taxonomy.from_rows(
            rows, {f"support{k + 1}": [line[k] for line in support] for k in columns[1:]}
        )


def found_tree(bench: Workbench) -> Ties:
    """The tree in the model's own answers: it is asked about all of its stored samples.

    A sample speaks for each of its labels: those above the finest have parents, too.
    """
    memory, classes = bench.memory, bench.classes
    votes = np.zeros((len(classes),) * 2, np.int32)
    if memory.size:
        answers = bench.examine(np.arange(memory.size)).predictions
        for own in memory["labels"][: memory.size].T:
            rows, columns = np.nonzero((own >= 0)[:, None] & (answers >= 0))
            np.add.at(votes, (own[rows], answers[rows, columns]), 1)
    return Ties.by_votes(classes, votes)


def own_column(ancestors: Ints) -> Ints:
    """The column of each class's own level: the last that is known; -1 for a class that has ended."""
    known = ancestors >= 0
    return np.where(known.any(1), ancestors.shape[1] - 1 - known[:, ::-1].argmax(1), -1)


def level_sizes(ancestors: Ints) -> Ints:
    """How many classes each level met has."""
    own = own_column(ancestors)
    return np.bincount(own[own >= 0], minlength=ancestors.shape[1])


def is_last(ancestors: Ints) -> Mask:
    """Whether a class is the end of its path: no class of a finer level lies below it.

    A class that has ended, without a level of its own, is none.
    """
    above = ancestors.copy()
    above[np.arange(len(above)), own_column(ancestors)] = -1
    last: Mask = np.any(ancestors >= 0, axis=1)
    last[above[above >= 0]] = False
    return last
