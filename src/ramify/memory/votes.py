"""Which classes of other levels the model's predictions tie to a class: eq. 1 of the paper."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import numpy.typing as npt

from ramify.arrays import AnyInts
from ramify.change import Change, class_numbers, slot_rows
from ramify.classes import Classes
from ramify.memory.store import Memory
from ramify.state import Stateful


class Votes(Stateful):
    """The latest known prediction of every stored sample at every level.

    A sample votes for its class with what it is predicted as at each level. Votes are counted when they are
    asked for: a class's samples are few, and a table of all classes by all would be large.
    """

    _state: ClassVar[tuple[str, ...]] = ("predictions",)

    def __init__(self) -> None:
        self.predictions: npt.NDArray[np.int32] = np.full((0, 1), -1, np.int32)  # slot, level - 1 -> class

    def see(self, memory: Memory, slots: AnyInts, predictions: AnyInts) -> None:
        """Take new predictions [n, levels] of stored samples; a slot that occurs twice counts once."""
        slots, first = np.unique(slots, return_index=True)
        levels, known = predictions.shape[1], self.predictions.shape[1]
        more = memory.capacity - len(self.predictions), max(0, levels - known)
        if any(more):
            self.predictions = np.pad(self.predictions, [(0, n) for n in more], constant_values=-1)
        self.predictions[slots, :levels] = predictions[first]

    def forget(self, slot: int) -> None:
        """The sample that was at `slot` has left; its successor has no prediction yet."""
        if slot < len(self.predictions):
            self.predictions[slot] = -1

    def follow(self, change: Change) -> None:
        """Votes go where their samples and classes went; a sample with other labels has none for now."""
        self.predictions[change.relabelled[change.relabelled < len(self.predictions)]] = -1
        self.predictions = class_numbers(change, slot_rows(change, self.predictions))

    def related(self, memory: Memory, cls: int, classes: Classes, but: int) -> list[int]:
        """ŷ^k of eq. 1 for every level k `but` one: the class most often predicted for the samples of `cls`.

        Of equally many votes the class that was met first wins; a level without a vote names none.
        """
        if not len(self.predictions):
            return []
        votes = self.predictions[memory.members(cls)]
        winners = []
        for level in classes.levels:
            if level != but and level <= votes.shape[1]:
                cast = votes[:, level - 1]
                cast = cast[cast >= 0]
                if len(cast):
                    winners.append(int(np.bincount(cast).argmax()))
        return winners
