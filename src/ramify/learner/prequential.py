"""The prequential log: what was answered about samples before they were learned."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from torch import Tensor

from ramify.arrays import Floats, Ints, Mask
from ramify.change import Change, Follow, class_numbers
from ramify.classes import Classes
from ramify.errors import RamifyError
from ramify.evaluation.calibration import Calibration, fit_calibration
from ramify.state import State, Stateful
from ramify.typed import shown, whole

if TYPE_CHECKING:
    from ramify.classes import Pair
    from ramify.methods import Trainer

LEAST = 50  # answers at a level from which its calibration is fitted
ALARMS = 0.05  # of the samples of known classes, that are taken for new ones
RECENT = 200  # answers that say where that is: logits grow as the network learns


@dataclass(frozen=True, eq=False)
class Entries:
    """The answers at one level about samples of classes that were known, and the scores of new ones."""

    probability: Floats
    """What the level's head gave its answer."""
    right: Mask
    score: Floats
    """How unfamiliar each sample was."""
    new: Floats
    """The scores of samples whose class had not been met."""


@dataclass(frozen=True)
class Guess:
    """One label of a sample, and what was answered at its level before it was learned."""

    level: int
    label: Any
    new: bool
    sample: int
    said: int = -1
    probability: float = float("nan")
    score: float = float("nan")


class PrequentialLog(Stateful):
    """The latest `size` answers of each level, each given before the sample was learned.

    A `share` of the samples is asked, drawn at random. Classes are kept by their numbers; their level is the
    one that they have now. Only the answers of heads by themselves are kept, for they need no tree.
    """

    _state: ClassVar[tuple[str, ...]] = ("truth", "said", "probability", "score", "new", "sample")
    _follows: ClassVar[Mapping[str, Follow]] = {"truth": class_numbers, "said": class_numbers}

    def __init__(self, size: int = 1000, share: float = 1.0) -> None:
        self.size = whole("log_size", size, 1)
        if isinstance(share, bool) or not isinstance(share, int | float) or not 0 <= share <= 1:
            raise RamifyError(f"ask is {shown(share)}; it is the share of samples that are asked, 0 to 1")
        self.share = float(share)
        self.truth = np.empty(0, np.int64)  # the class that the sample was taught as
        self.said = np.empty(0, np.int64)  # the answer at its level; -1: the level had not been met
        self.probability = np.empty(0)
        self.score = np.empty(0)
        self.new = np.empty(0, bool)  # its class was met with this sample
        self.sample = np.empty(0, np.int64)  # its number in the stream
        self._fitted: tuple[Ints, Ints, dict[int, Calibration], dict[int, float]] | None = None

    def __len__(self) -> int:
        return len(self.truth)

    def ask(self, trainer: Trainer, inputs: Tensor, labels: Sequence[Sequence[Pair]]) -> list[Guess]:
        """Ask about samples that are about to be learned; `note` takes what is returned when they are.

        Not of methods that train to be asked, nor before anything has been learned.
        """
        drawn = trainer.rng["ask"].random(len(labels)) < self.share
        chosen = [row for row in np.flatnonzero(drawn).tolist() if labels[row]]
        if not chosen or trainer.method.trains_when_asked or not trainer.classes.levels:
            return []
        log, score = trainer.consider(inputs[chosen])
        return [
            _asked(trainer.classes, level, label, log[place], score[place], trainer.samples + row)
            for place, row in enumerate(chosen)
            for level, label in labels[row]
        ]

    def note(self, classes: Classes, asked: Sequence[Guess]) -> None:
        """Keep the answers about samples that have been learned since; the oldest of a level go."""
        if not asked:
            return
        numbers = [classes.find(one.level, one.label) for one in asked]
        rows = [(number, one) for number, one in zip(numbers, asked, strict=True) if number is not None]
        for name, values in {
            "truth": [number for number, _ in rows],
            "said": [one.said for _, one in rows],
            "probability": [one.probability for _, one in rows],
            "score": [one.score for _, one in rows],
            "new": [one.new for _, one in rows],
            "sample": [one.sample for _, one in rows],
        }.items():
            column = getattr(self, name)
            setattr(self, name, np.append(column, np.array(values, column.dtype)))
        self._trim(classes)

    def _trim(self, classes: Classes) -> None:
        kept = self.truth >= 0  # a class may have been forgotten
        levels = classes.level_of[self.truth]
        for level in classes.levels:
            rows = np.flatnonzero(kept & (levels == level))
            kept[rows[: max(0, len(rows) - self.size)]] = False
        if not kept.all():
            for name in self._state:
                setattr(self, name, getattr(self, name)[kept])

    def entries(self, classes: Classes, level: int, since: int = 0) -> Entries:
        """What the log has of one level, from the sample `since` on."""
        own = (self.truth >= 0) & (classes.level_of[self.truth] == level) & (self.sample >= since)
        told = own & ~self.new & (self.said >= 0)
        fresh = own & self.new & (self.said >= 0)
        right = self.said[told] == self.truth[told]
        return Entries(self.probability[told], right, self.score[told], self.score[fresh])

    def fitted(self, classes: Classes) -> tuple[dict[int, Calibration], dict[int, float]]:
        """For each level of which enough is known: what its probabilities are worth, and what is unfamiliar.

        The first leads from a head's probability to the share of such answers that is right; the second is
        the score that a share `ALARMS` of the latest samples of known classes exceeded.
        """
        known = self._fitted
        if known is not None and known[0] is self.truth and known[1] is classes.level_of:
            return known[2:]
        found = {level: self.entries(classes, level) for level in classes.levels}
        enough = {level: entries for level, entries in found.items() if len(entries.right) >= LEAST}
        worth = {h: fit_calibration(entries.probability, entries.right) for h, entries in enough.items()}
        least = {h: float(np.quantile(e.score[-RECENT:], 1 - ALARMS)) for h, e in enough.items()}
        self._fitted = self.truth, classes.level_of, worth, least
        return worth, least

    def follow(self, change: Change) -> None:
        """Classes are what they have become; what a sample was taught as is what it should have been."""
        for number, now in change.corrected.items():
            for row in np.flatnonzero(self.sample == number):
                self.truth[row] = now.get(int(self.truth[row]), self.truth[row])
        super().follow(change)
        self._fitted = None

    def restore(self, state: State) -> None:
        """Continue from `state`."""
        super().restore(state)
        self.new = self.new.astype(bool)


def _asked(classes: Classes, level: int, label: Any, log: Floats, score: Floats, sample: int) -> Guess:
    new = classes.find(level, label) is None
    if level not in classes.levels:
        return Guess(level, label, new, sample)
    rows = classes.of_level(level)
    best = int(rows[log[rows].argmax()])
    unfamiliar = float(score[classes.levels.index(level)])
    return Guess(level, label, new, sample, best, float(np.exp(log[best])), unfamiliar)
