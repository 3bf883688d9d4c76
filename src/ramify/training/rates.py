"""How fast to learn."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from ramify.memory import Forward, Importance, Workbench
from ramify.state import Stateful


class Rate(Stateful):
    """A learning rate that may follow the training. As it stands: constant."""

    def __init__(self, base: float) -> None:
        self.base = base

    def value(self, bench: Workbench) -> float:
        """The rate of the next update."""
        return self.base

    def learned(self, bench: Workbench, forward: Forward) -> None:
        """An update has been made."""


class ExponentialReset(Rate):
    """Times `decay` at each update, to no less than `least`; back to the base rate at each new class."""

    _state: ClassVar[tuple[str, ...]] = ("current", "met")

    def __init__(self, base: float, decay: float, least: float = 0.0) -> None:
        super().__init__(base)
        self.current, self.decay, self.least = base, decay, least
        self.met = 0  # classes at the latest update

    def value(self, bench: Workbench) -> float:
        """The base rate again where classes have come since the latest update."""
        return self.current if len(bench.classes) == self.met else self.base

    def learned(self, bench: Workbench, forward: Forward) -> None:
        """Decay."""
        self.current = max(self.value(bench) * self.decay, self.least)
        self.met = len(bench.classes)


class Adaptive(Rate):
    """CLIB's adaptive rate (Koh et al. 2022): two rates take turns, a test says which is better.

    A count is a training call (the updates due for one stream batch) that contains an importance refresh.
    Every 10 counts the rate changes between `high` and `low` = 0.95 · high; from 20 counts on, the mean loss
    decrease over the interval is recorded under the rate that was in force. With the last 10 of each, a
    one-sided Welch t-test (low better than high): p < 0.05 lowers both rates by one step, p > 0.95 raises
    them; then the records are cleared. New classes never reset it.
    """

    _state: ClassVar[tuple[str, ...]] = (
        "current",
        "high",
        "low",
        "is_high",
        "counts",
        "high_decreases",
        "low_decreases",
        "refreshed",
    )
    STEP, TURN, KEEP, SIGNIFICANCE = 0.95, 10, 10, 0.05

    def __init__(self, base: float, importance: Importance) -> None:
        super().__init__(base)
        self.importance = importance
        self.current = self.high = base
        self.low = base * self.STEP
        self.is_high = True
        self.counts = 0
        self.refreshed = False  # within this training call
        self.high_decreases: list[float] = []
        self.low_decreases: list[float] = []

    def value(self, bench: Workbench) -> float:
        """The one that is in force."""
        return self.current

    def learned(self, bench: Workbench, forward: Forward) -> None:
        """Count, and change over at the end of an interval."""
        self.refreshed = self.refreshed or self.importance.refreshed
        if bench.due or not self.refreshed:
            return
        self.refreshed = False
        self.counts += 1
        if self.counts % self.TURN:
            return
        decrease = self.importance.decrease(bench) if self.counts >= 2 * self.TURN else None
        if decrease is not None:
            records = self.high_decreases if self.is_high else self.low_decreases
            records.append(decrease)
            del records[: -self.KEEP]
        self.importance.mark(bench)
        self.is_high = not self.is_high
        if len(self.high_decreases) == len(self.low_decreases) == self.KEEP:
            self._compare()
        self.current = self.high if self.is_high else self.low

    def _compare(self) -> None:
        from scipy.stats import ttest_ind_from_stats

        # from statistics, for ttest_ind warns where nothing varies (one class: the loss is 0); p is nan
        records = (self.low_decreases, self.high_decreases)
        low, high = ((np.mean(x), np.std(x, ddof=1), self.KEEP) for x in records)
        p = ttest_ind_from_stats(*low, *high, equal_var=False, alternative="greater").pvalue
        if p < self.SIGNIFICANCE:
            self.high, self.low = self.low, self.low * self.STEP
        elif p > 1 - self.SIGNIFICANCE:
            self.high, self.low = self.high / self.STEP, self.high
        else:
            return
        self.high_decreases.clear()
        self.low_decreases.clear()
