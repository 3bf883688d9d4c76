"""Which classes of other levels the model's predictions tie to a class: eq. 1 of the paper."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import numpy.typing as npt

from ramify.change import Change, class_numbers, slot_rows
from ramify.classes import Classes
from ramify.memory.batch import Ints
from ramify.memory.store import Memory
from ramify.state import Stateful


class Votes(Stateful):
    """The latest known prediction of every stored sample at every level, counted by the sample's class.

    `counts[c, d]`: how many stored samples labelled c are predicted as d (d of any level). Kept up to date as
    predictions arrive and samples leave, so reading the vote of a class costs nothing that grows with memory.
    """

    _state: ClassVar[tuple[str, ...]] = ("predictions", "labels", "counts")

    def __init__(self) -> None:
        self.predictions: npt.NDArray[np.int32] = np.full((0, 1), -1, np.int32)  # slot, level - 1 -> class
        self.labels: npt.NDArray[np.int32] = np.full(0, -1, np.int32)  # slot -> class that it votes for
        self.counts = np.zeros((16, 16), np.int32)

    def see(self, memory: Memory, classes: Classes, slots: Ints, predictions: Ints) -> None:
        """Take new predictions [n, levels] of stored samples; a slot that occurs twice counts once."""
        slots, first = np.unique(slots, return_index=True)
        predictions = predictions[first]
        self._make_room(len(memory.classes), predictions.shape[1], len(classes))
        self._count(slots, -1)
        self.labels[slots] = memory.classes[slots]
        self.predictions[slots, : predictions.shape[1]] = predictions
        self._count(slots, +1)

    def forget(self, slot: int) -> None:
        """The sample that was at `slot` has left; its successor has no prediction yet."""
        if slot < len(self.labels):
            self._count(np.array([slot]), -1)
            self.predictions[slot] = -1

    def follow(self, change: Change) -> None:
        """Votes go where their samples and classes went; a sample with other labels has none for now."""
        known = change.relabelled[change.relabelled < len(self.labels)]
        self.predictions[known] = -1
        self.predictions, self.labels = (
            class_numbers(change, slot_rows(change, values)) for values in (self.predictions, self.labels)
        )
        self.predictions[self.labels < 0] = -1
        self.counts[:] = 0
        self._count(np.arange(len(self.labels)), +1)

    def _count(self, slots: Ints, sign: int) -> None:
        predictions = self.predictions[slots]
        rows, columns = np.nonzero(predictions >= 0)
        np.add.at(self.counts, (self.labels[slots][rows], predictions[rows, columns]), sign)

    def _make_room(self, capacity: int, levels: int, classes: int) -> None:
        slots, known = capacity - len(self.labels), self.predictions.shape[1]
        if slots > 0 or levels > known:
            more = ((0, max(0, slots)), (0, max(0, levels - known)))
            self.predictions = np.pad(self.predictions, more, constant_values=-1)
            self.labels = np.pad(self.labels, more[0], constant_values=-1)
        if classes > len(self.counts):
            grow = max(16, classes - len(self.counts))  # not doubled: the table is a square
            self.counts = np.pad(self.counts, (0, grow))

    def related(self, cls: int, classes: Classes, but: int) -> list[int]:
        """ŷ^k of eq. 1 for every level k `but` one: the class most often predicted for the samples of `cls`.

        Of equally many votes the class that was met first wins; a level without a vote names none.
        """
        if cls >= len(self.counts):
            return []
        row = self.counts[cls]
        winners = []
        for level in classes.levels:
            if level != but:
                rivals = classes.of_level(level)
                rivals = rivals[rivals < len(row)]
                if len(rivals):
                    best = rivals[row[rivals].argmax()]
                    if row[best] > 0:
                        winners.append(int(best))
        return winners
