"""What samples themselves say of the tree: which labels they carry together."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations

import numpy as np

from ramify.change import Change
from ramify.classes import Classes
from ramify.hierarchy import Ties
from ramify.state import State, Stateful


class Stated(Stateful):
    """How many samples carry each two labels together: where some do, a tie need not be found."""

    def __init__(self) -> None:
        self.counts: defaultdict[int, Counter[int]] = defaultdict(Counter)  # class → coarser class → samples

    def note(self, labels: Sequence[int]) -> None:
        """A sample has come with these classes, coarsest level first."""
        for pair in combinations(labels, 2):
            self._count(*pair, 1)

    def parents(self, classes: Classes, cls: int) -> Counter[int]:
        """The classes that it came with at the finest of the coarser levels, with the samples of each."""
        level_of = classes.level_of
        counts = self.counts.get(cls, Counter())
        nearest = max((h for h in level_of[list(counts)].tolist() if h < level_of[cls]), default=0)
        return Counter({above: count for above, count in counts.items() if level_of[above] == nearest})

    def over(self, ties: Ties) -> Ties:
        """Ties in which every class that came with coarser ones is tied as most of its samples say."""
        parents, support = ties.parents.copy(), ties.support.copy()
        for cls in self.counts:
            stated = self.parents(ties.classes, cls)
            if stated:
                ((parents[cls], most),) = stated.most_common(1)
                support[cls] = most / stated.total()
        return replace(ties, parents=parents, support=support)

    def follow(self, change: Change) -> None:
        """Labels are what they have become, and samples say what they should have said."""
        for now in change.corrected.values():
            for above, below in combinations(now, 2):
                if self.counts[below][above]:
                    self.counts[below][above] -= 1
                    self._count(now[above], now[below], 1)
        before = self._rows()
        self.counts.clear()
        for above, below, count in before:
            self._count(int(change.classes[above]), int(change.classes[below]), count)

    def _count(self, above: int, below: int, samples: int) -> None:
        if above >= 0 and below >= 0 and samples:
            self.counts[below][above] += samples

    def state(self) -> State:
        """A row for each two labels: the coarser, the finer, the samples."""
        return {"counts": np.array(self._rows(), np.int64).reshape(-1, 3)}

    def restore(self, state: State) -> None:
        """Continue from `state`."""
        self.counts.clear()
        for above, below, count in state["counts"].tolist():
            self.counts[below][above] = count

    def _rows(self) -> list[tuple[int, int, int]]:
        return [(above, below, n) for below, counts in self.counts.items() for above, n in counts.items()]
