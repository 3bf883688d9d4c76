"""How much each stored sample lowers the loss: H of CLIB (Koh et al. 2022), section 4.1 of the paper."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from ramify.arrays import AnyInts
from ramify.change import Follow, slot_numbers
from ramify.memory.store import Column, Columns
from ramify.memory.workbench import Examination, Forward, Workbench
from ramify.state import Stateful

RATE = 0.1
REAL = Column(np.float64)
OF_LOSS, FLAG = Column(np.float64, of_label=True), Column(np.bool_, of_label=True)


class Importance(Stateful):
    """What the ways of following H share: a newcomer's first value, and the count of updates to a refresh.

    `decrease` is also what CLIB's adaptive rate reads: the mean decrease of the loss since `mark`.
    """

    columns: ClassVar[Columns] = {"importance": REAL}
    _state: ClassVar[tuple[str, ...]] = ("updates",)

    def __init__(self, period: int) -> None:
        self.period = period
        self.updates = 0
        self.refreshed = False  # whether the latest update ended a period
        self.examination: Examination | None = None  # of the latest refresh, if it asked the model

    def admit(self, bench: Workbench, slot: int) -> None:
        """A newcomer starts at the mean H of its class; the first of a class at the mean of memory, or 0."""
        memory = bench.memory
        values, size = memory["importance"], memory.size
        class_mates = memory.members(int(memory.classes[slot]))
        values[slot] = 0.0
        if len(class_mates) > 1:
            values[slot] = values[class_mates].sum() / (len(class_mates) - 1)
        elif size > 1:
            values[slot] = values[:size].sum() / (size - 1)

    def learned(self, bench: Workbench, forward: Forward) -> None:
        """Take note of an update."""
        self.updates += 1
        self.refreshed = self.updates % self.period == 0

    def mark(self, bench: Workbench) -> None:
        """Begin an interval over which `decrease` is asked."""
        raise TypeError(f"{type(self).__name__} does not follow the loss")

    def decrease(self, bench: Workbench) -> float | None:
        """Mean decrease of the loss since `mark`; None if it is not known."""
        raise TypeError(f"{type(self).__name__} does not follow the loss")


class Sweep(Importance):
    """The published way: the loss of ALL of memory, every `period` updates.

    H is tracked, not recomputed. With Δ the mean change of the loss since the last refresh, over the samples
    not replaced since, every sample that was trained on in between gets, once,

        H -= 0.1 · (Δ - mean(H of them) / their number)

    A sample's `loss` is `known` if it was taken since the sample came; `marked` and `survived` are both as
    they were at `mark`.
    """

    columns: ClassVar[Columns] = {
        **Importance.columns,
        "loss": OF_LOSS,
        "known": FLAG,
        "trained": FLAG,
        "marked": OF_LOSS,
        "survived": FLAG,
    }

    def watched(self, bench: Workbench) -> AnyInts:
        """The slots whose loss is taken at a refresh."""
        return np.arange(bench.memory.size)

    def learned(self, bench: Workbench, forward: Forward) -> None:
        """Note which samples were trained on; refresh at the end of a period."""
        slots = forward.batch.slots
        bench.memory["trained"][slots[slots >= 0]] = True
        super().learned(bench, forward)
        if self.refreshed:
            self.refresh(bench)

    def refresh(self, bench: Workbench) -> None:
        """Take new losses, and credit the samples trained on with the change."""
        memory, slots = bench.memory, self.watched(bench)
        self.examination = bench.examine(slots)
        losses = self.examination.losses
        known, trained = memory["known"][slots], np.flatnonzero(memory["trained"])
        if known.any():
            change = float((losses - memory["loss"][slots])[known].mean())
            self.changed(change)
            if len(trained):
                values = memory["importance"]
                values[trained] -= RATE * (change - values[trained].mean() / len(trained))
        memory["loss"][slots] = losses
        memory["known"][slots] = True
        memory["trained"][:] = False

    def changed(self, change: float) -> None:
        """The mean loss has changed by this much since the last refresh."""

    def mark(self, bench: Workbench) -> None:
        """Begin an interval."""
        bench.memory["marked"][:] = bench.memory["loss"]
        bench.memory["survived"][:] = bench.memory["known"]

    def decrease(self, bench: Workbench) -> float | None:
        """Mean decrease since `mark` over the samples that survived the interval."""
        survived = bench.memory["survived"]
        if not survived.any():
            return None
        return float((bench.memory["marked"] - bench.memory["loss"])[survived].mean())


class Probe(Sweep):
    """The same, but Δ is estimated on a random probe of fixed size: the same samples before and after.

    An eighth of the probe is drawn anew at each refresh, so it follows the memory; a sample counts from its
    second loss on. What a refresh costs does not depend on the size of the memory.
    """

    _state: ClassVar[tuple[str, ...]] = ("updates", "probe", "oldest", "total")
    _follows: ClassVar[Mapping[str, Follow]] = {"probe": slot_numbers}
    TURN = 8

    def __init__(self, period: int, size: int, rng: np.random.Generator) -> None:
        super().__init__(period)
        self.size, self.rng = size, rng
        self.probe: AnyInts = np.empty(0, np.int64)
        self.oldest = 0  # place of the probe's oldest eighth
        self.total = 0.0  # all changes since `mark`

    def watched(self, bench: Workbench) -> AnyInts:
        """The probe, with its oldest eighth drawn anew."""
        memory = bench.memory
        if memory.size <= self.size:
            return super().watched(bench)
        if len(self.probe) < self.size:
            self.probe = memory.sample(self.size, self.rng)
        count = -(-self.size // self.TURN)
        places = np.arange(self.oldest, self.oldest + count) % self.size
        self.oldest = (self.oldest + count) % self.size
        memory["known"][self.probe[places]] = False
        self.probe[places] = self.rng.integers(memory.size, size=count)
        memory["known"][self.probe[places]] = False
        return np.unique(self.probe)

    def changed(self, change: float) -> None:
        """Add up."""
        self.total += change

    def mark(self, bench: Workbench) -> None:
        """Begin an interval."""
        self.total = 0.0

    def decrease(self, bench: Workbench) -> float | None:
        """The sum of the changes since `mark`, each measured on the same samples before and after."""
        return -self.total
