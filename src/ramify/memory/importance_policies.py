"""Policies that keep what lowers the loss most: CLIB's, and PL's (algorithm 1)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal

import numpy as np
import torch
from torch import Tensor

from ramify.arrays import AnyInts
from ramify.change import Follow, slot_rows
from ramify.memory.batch import Sample
from ramify.memory.importance import Importance
from ramify.memory.policies import StoreFirst
from ramify.memory.votes import Votes
from ramify.memory.workbench import Forward, Workbench


class LeastImportant(StoreFirst):
    """CLIB: among the samples of ȳ the one with the least H makes room; of equal ones the lowest slot."""

    _state: ClassVar[tuple[str, ...]] = ("importance",)

    def __init__(self, importance: Importance) -> None:
        self.importance = importance
        self.columns = importance.columns  # type: ignore[misc]

    def candidates(self, bench: Workbench, modal: int, newcomer: int) -> AnyInts:
        """I_ȳ: the slots among which the victim is chosen."""
        return bench.memory.members(modal)

    def victim(self, bench: Workbench, newcomer: int) -> int:
        """ĵ = argmin H over the candidates (eq. 3)."""
        candidates = self.candidates(bench, bench.memory.most_frequent(newcomer), newcomer)
        importance = bench.memory["importance"][candidates]
        return int(candidates[importance == importance.min()].min())

    def offer(self, bench: Workbench, sample: Sample) -> int | None:
        """Store the newcomer and give it its first importance."""
        slot = super().offer(bench, sample)
        if slot is not None:
            self.importance.admit(bench, slot)
        return slot

    def learned(self, bench: Workbench, forward: Forward) -> None:
        """Let the importance follow the training."""
        self.importance.learned(bench, forward)


class PseudoLabel(LeastImportant):
    """PL (section 4.1, algorithm 1): the victim may also come from the classes related to ȳ at other levels.

    Candidates are the samples of ȳ and, for every level but one, the samples labelled with the class that the
    model predicts most often for the samples of ȳ. That one is ȳ's own (section 4.1), or the newcomer's
    (algorithm 1 as printed). With `exact` these are predictions of the model as it
    is, as printed: at an insertion the samples of ȳ are predicted that have not been since the last update.
    Otherwise the latest prediction known of each counts, taken as samples pass through training and through
    the importance's own passes. At levels where a sample carries its true class besides, it votes with that.
    """

    _state: ClassVar[tuple[str, ...]] = ("importance", "votes", "current", "met")
    _follows: ClassVar[Mapping[str, Follow]] = {"current": slot_rows}

    def __init__(
        self, importance: Importance, exact: bool, but: Literal["victim", "newcomer"] = "victim"
    ) -> None:
        super().__init__(importance)
        self.exact, self.but = exact, but
        self.votes = Votes()
        self._passed: list[tuple[AnyInts, Tensor]] = []  # slots and logits of updates whose votes wait
        self.current = np.zeros(0, bool)  # slot -> predicted since the last update,
        self.met = 0  # among so many classes

    def candidates(self, bench: Workbench, modal: int, newcomer: int) -> AnyInts:
        """I_ȳ of eq. 2."""
        if self.exact:
            self._predict(bench, bench.memory.members(modal))
        but = int(bench.classes.level_of[modal if self.but == "victim" else newcomer])
        related = dict.fromkeys([modal, *self.votes.related(bench.memory, modal, bench.classes, but)])
        return np.concatenate([bench.memory.members(c) for c in related])

    def _predict(self, bench: Workbench, slots: AnyInts) -> None:
        """Bring the votes of these samples up to date with the model."""
        if self.met != len(bench.classes) or len(self.current) != bench.memory.capacity:
            self.current, self.met = np.zeros(bench.memory.capacity, bool), len(bench.classes)
        known = (bench.memory["labels"][slots] >= 0).sum(1) == len(bench.classes.levels)
        stale = slots[~(self.current[slots] | known)]
        if len(stale):
            self._see(bench, stale, bench.examine(stale).predictions)

    def _see(self, bench: Workbench, slots: AnyInts, predictions: AnyInts) -> None:
        """Count these predictions, but the true classes at the levels where samples carry several labels."""
        predictions = predictions.copy()
        labels = bench.memory["labels"][slots]
        if labels.shape[1] > 1:
            rows, columns = np.nonzero((labels >= 0) & ((labels >= 0).sum(1) > 1)[:, None])
            classes = labels[rows, columns]
            predictions[rows, bench.classes.level_of[classes] - 1] = classes
        self.votes.see(bench.memory, slots, predictions)
        if len(self.current):
            self.current[slots] = True

    def offer(self, bench: Workbench, sample: Sample) -> int | None:
        """Store the newcomer; the votes of the one before it go, and its true classes are its first votes."""
        if self._passed:
            bench.readings.fetch()
        slot = super().offer(bench, sample)
        if slot is not None:
            self.votes.forget(slot)
            if len(sample.labels) > 1:
                self._see(bench, np.array([slot]), np.full((1, max(bench.classes.levels)), -1))
            if len(self.current):
                self.current[slot] = False  # at its other levels the model has not been asked
        return slot

    def learned(self, bench: Workbench, forward: Forward) -> None:
        """Let importance and votes follow the training."""
        self.current[:] = False
        if not self.exact:
            if not self._passed:
                bench.readings.ask(lambda: self._best(bench), lambda best: self._count(bench, best))
            self._passed.append((forward.batch.slots, forward.logits))
        super().learned(bench, forward)
        if self.importance.refreshed and self.importance.examination is not None:
            seen = self.importance.examination
            self._see(bench, seen.slots, seen.predictions)

    def _best(self, bench: Workbench) -> Tensor:
        """The predictions of the updates whose votes wait, the latest first; -1 where one broke."""
        logits = torch.cat([logits for _, logits in reversed(self._passed)])
        return bench.levels.best(logits).where(logits.isfinite().all(1, keepdim=True), -1)

    def _count(self, bench: Workbench, best: AnyInts) -> None:
        """Let them count: of a sample that was trained on several times the latest, for it comes first."""
        slots = np.concatenate([slots for slots, _ in reversed(self._passed)])
        self._passed.clear()
        stored = slots >= 0
        self._see(bench, slots[stored], best[stored])
