"""How much each stored sample lowers the loss: H of CLIB (Koh et al. 2022), section 4.1 of the paper."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import numpy.typing as npt

from ramify.memory.policies import Examination, Examine, Update
from ramify.memory.store import Memory
from ramify.state import Stateful

RATE = 0.1


class Importance(Stateful):
    """The published way: the loss of ALL of memory, every `period` updates.

    H is tracked, not recomputed. With Δ the mean change of the loss since the last refresh, over the samples
    not replaced since, every sample that was trained on in between gets, once,

        H -= 0.1 · (Δ - mean(H of them) / their number)
    """

    _state: ClassVar[tuple[str, ...]] = ("updates", "losses", "known", "was_trained", "marked", "survived")

    def __init__(self, period: int) -> None:
        self.period = period
        self.updates = 0

    def bind(self, memory: Memory, examine: Examine) -> None:
        """Track the samples of this memory."""
        self.memory, self.examine = memory, examine
        self.losses = np.zeros(memory.capacity)
        self.known = np.zeros(memory.capacity, bool)  # has a loss, and was not replaced since it was taken
        self.was_trained = np.zeros(memory.capacity, bool)
        self.marked = np.zeros(memory.capacity)
        self.survived = np.zeros(memory.capacity, bool)

    def admitted(self, slot: int) -> None:
        """A newcomer starts at the mean H of its class; the first of a class at the mean of memory, or 0."""
        values, size = self.memory.importance, self.memory.size
        class_mates = self.memory.members(int(self.memory.classes[slot]))
        values[slot] = 0.0
        if len(class_mates) > 1:
            values[slot] = values[class_mates].sum() / (len(class_mates) - 1)
        elif size > 1:
            values[slot] = values[:size].sum() / (size - 1)
        self.known[slot] = self.was_trained[slot] = self.survived[slot] = False

    def trained(self, update: Update) -> Examination | None:
        """Count an update; at the end of a period refresh, and return what the model said of the memory."""
        self.was_trained[update.slots[update.slots >= 0]] = True
        self.updates += 1
        if self.updates % self.period:
            return None
        examined = self.examine(np.arange(self.memory.size))
        self.refresh(examined.losses)
        return examined

    def refresh(self, losses: npt.NDArray[np.float64]) -> None:
        """Take new losses of all stored samples."""
        size = self.memory.size
        known, trained = self.known[:size], np.flatnonzero(self.was_trained)
        if known.any() and len(trained):
            change = (losses - self.losses[:size])[known].mean()
            values = self.memory.importance
            values[trained] -= RATE * (change - values[trained].mean() / len(trained))
        self.losses[:size] = losses
        known[:] = True
        self.was_trained[:] = False

    def mark(self) -> None:
        """Begin an interval over which `decrease` is asked."""
        self.marked = self.losses.copy()
        self.survived = self.known.copy()

    def decrease(self) -> float | None:
        """Mean decrease of the loss since `mark`, over the samples that survived; None if there are none."""
        if not self.survived.any():
            return None
        return float((self.marked - self.losses)[self.survived].mean())
