"""Which classes of other levels the model's predictions tie to a class: eq. 1 of the paper."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import numpy.typing as npt

from ramify.classes import Classes
from ramify.memory.store import Ints, Memory
from ramify.state import Stateful


class Votes(Stateful):
    """The latest known prediction of every stored sample at every level, counted by the sample's class.

    `counts[c, d]`: how many stored samples labelled c are predicted as d (d of any level). Kept up to date as
    predictions arrive and samples leave, so reading the vote of a class costs nothing that grows with memory.
    """

    _state: ClassVar[tuple[str, ...]] = ("predictions", "counts")

    def __init__(self, memory: Memory, classes: Classes) -> None:
        self.memory, self.classes = memory, classes
        self.predictions = np.full((memory.capacity, 1), -1, np.int32)  # slot, level - 1 -> class or -1
        self.counts = np.zeros((16, 16), np.int32)

    def see(self, slots: Ints, predictions: Ints) -> None:
        """Take new predictions [n, levels] of stored samples; a slot that occurs twice counts once."""
        slots, first = np.unique(slots, return_index=True)
        predictions = predictions[first]
        self._make_room(predictions.shape[1])
        labels = self.memory.classes[slots]
        self._count(labels, self.predictions[slots], -1)
        self.predictions[slots, : predictions.shape[1]] = predictions
        self._count(labels, self.predictions[slots], +1)

    def forget(self, slot: int) -> None:
        """The sample at `slot` leaves; its successor has no prediction yet."""
        self._count(self.memory.classes[[slot]], self.predictions[[slot]], -1)
        self.predictions[slot] = -1

    def _count(self, labels: Ints, predictions: npt.NDArray[np.int32], sign: int) -> None:
        rows, columns = np.nonzero(predictions >= 0)
        np.add.at(self.counts, (labels[rows], predictions[rows, columns]), sign)

    def _make_room(self, levels: int) -> None:
        more = levels - self.predictions.shape[1]
        if more > 0:
            self.predictions = np.pad(self.predictions, ((0, 0), (0, more)), constant_values=-1)
        if len(self.classes) > len(self.counts):
            grow = max(16, len(self.classes) - len(self.counts))  # not doubled: the table is a square
            self.counts = np.pad(self.counts, (0, grow))

    def related(self, cls: int) -> list[int]:
        """ŷ^k of eq. 1 for every level k but the class's own: the class most often predicted for its samples.

        Of equally many votes the class that was met first wins; a level without a vote names none.
        """
        if cls >= len(self.counts):
            return []
        row = self.counts[cls]
        winners = []
        for level in self.classes.levels:
            if level != self.classes.level_of[cls]:
                rivals = self.classes.of_level(level)
                rivals = rivals[rivals < len(row)]
                if len(rivals):
                    best = rivals[row[rivals].argmax()]
                    if row[best] > 0:
                        winners.append(int(best))
        return winners
