"""How much each stored sample lowers the loss: H of CLIB (Koh et al. 2022), section 4.1 of the paper."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import numpy.typing as npt

from ramify.memory.policies import Examine, Update
from ramify.memory.store import Memory
from ramify.state import Stateful

RATE = 0.1


class Importance(Stateful):
    """What the ways of following H share: a newcomer's first value, and the count of updates to a refresh.

    `decrease` is also what CLIB's adaptive rate reads: the mean decrease of the loss since `mark`.
    """

    _state: ClassVar[tuple[str, ...]] = ("updates",)

    def __init__(self, period: int) -> None:
        self.period = period
        self.updates = 0

    def bind(self, memory: Memory, examine: Examine) -> None:
        """Track the samples of this memory."""
        self.memory, self.examine = memory, examine

    def admitted(self, slot: int) -> None:
        """A newcomer starts at the mean H of its class; the first of a class at the mean of memory, or 0."""
        values, size = self.memory.importance, self.memory.size
        class_mates = self.memory.members(int(self.memory.classes[slot]))
        values[slot] = 0.0
        if len(class_mates) > 1:
            values[slot] = values[class_mates].sum() / (len(class_mates) - 1)
        elif size > 1:
            values[slot] = values[:size].sum() / (size - 1)

    def trained(self, update: Update) -> bool:
        """Take note of an update; True when it ends a period, and so is a refresh."""
        self.updates += 1
        return self.updates % self.period == 0

    def mark(self) -> None:
        """Begin an interval over which `decrease` is asked."""
        raise TypeError(f"{type(self).__name__} does not follow the loss")

    def decrease(self) -> float | None:
        """Mean decrease of the loss since `mark`; None if it is not known."""
        raise TypeError(f"{type(self).__name__} does not follow the loss")


class Sweep(Importance):
    """The published way: the loss of ALL of memory, every `period` updates.

    H is tracked, not recomputed. With Δ the mean change of the loss since the last refresh, over the samples
    not replaced since, every sample that was trained on in between gets, once,

        H -= 0.1 · (Δ - mean(H of them) / their number)
    """

    _state: ClassVar[tuple[str, ...]] = ("updates", "losses", "known", "was_trained", "marked", "survived")

    def bind(self, memory: Memory, examine: Examine) -> None:
        """Track the samples of this memory."""
        super().bind(memory, examine)
        self.losses = np.zeros(memory.capacity)
        self.known = np.zeros(memory.capacity, bool)  # has a loss, and was not replaced since it was taken
        self.was_trained = np.zeros(memory.capacity, bool)
        self.marked = np.zeros(memory.capacity)
        self.survived = np.zeros(memory.capacity, bool)

    def admitted(self, slot: int) -> None:
        """Give the newcomer its first H; what was known of its predecessor is void."""
        super().admitted(slot)
        self.known[slot] = self.was_trained[slot] = self.survived[slot] = False

    def watched(self) -> npt.NDArray[np.int64]:
        """The slots whose loss is taken at a refresh."""
        return np.arange(self.memory.size)

    def trained(self, update: Update) -> bool:
        """Note which samples were trained on; refresh at the end of a period."""
        self.was_trained[update.slots[update.slots >= 0]] = True
        due = super().trained(update)
        if due:
            self.refresh()
        return due

    def refresh(self) -> None:
        """Take new losses, and credit the samples trained on with the change."""
        slots = self.watched()
        losses = self.examine(slots).losses
        known, trained = self.known[slots], np.flatnonzero(self.was_trained)
        if known.any():
            change = float((losses - self.losses[slots])[known].mean())
            self.changed(change)
            if len(trained):
                values = self.memory.importance
                values[trained] -= RATE * (change - values[trained].mean() / len(trained))
        self.losses[slots] = losses
        self.known[slots] = True
        self.was_trained[:] = False

    def changed(self, change: float) -> None:
        """The mean loss has changed by this much since the last refresh."""

    def mark(self) -> None:
        """Begin an interval."""
        self.marked = self.losses.copy()
        self.survived = self.known.copy()

    def decrease(self) -> float | None:
        """Mean decrease since `mark` over the samples that survived the interval."""
        if not self.survived.any():
            return None
        return float((self.marked - self.losses)[self.survived].mean())


class Probe(Sweep):
    """The same, but Δ is estimated on a random probe of fixed size: the same samples before and after.

    An eighth of the probe is drawn anew at each refresh, so it follows the memory; a sample counts from its
    second loss on. What a refresh costs does not depend on the size of the memory.
    """

    _state: ClassVar[tuple[str, ...]] = (*Sweep._state, "probe", "oldest", "total")
    TURN = 8

    def __init__(self, period: int, size: int, rng: np.random.Generator) -> None:
        super().__init__(period)
        self.size, self.rng = size, rng
        self.probe = np.empty(0, np.int64)
        self.oldest = 0  # place of the probe's oldest eighth
        self.total = 0.0  # all changes since `mark`

    def watched(self) -> npt.NDArray[np.int64]:
        """The probe, with its oldest eighth drawn anew."""
        if self.memory.size <= self.size:
            return super().watched()
        if len(self.probe) < self.size:
            self.probe = self.memory.sample(self.size, self.rng)
        count = -(-self.size // self.TURN)
        places = np.arange(self.oldest, self.oldest + count) % self.size
        self.oldest = (self.oldest + count) % self.size
        self.known[self.probe[places]] = False
        self.probe[places] = self.rng.integers(self.memory.size, size=count)
        self.known[self.probe[places]] = False
        return np.unique(self.probe)

    def changed(self, change: float) -> None:
        """Add up."""
        self.total += change

    def mark(self) -> None:
        """Begin an interval."""
        self.total = 0.0

    def decrease(self) -> float | None:
        """The sum of the changes since `mark`, each measured on the same samples before and after."""
        return -self.total
