"""Policies that keep what lowers the loss most: CLIB's, and PL's (algorithm 1)."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from ramify.classes import Classes
from ramify.memory.importance import Importance
from ramify.memory.policies import Examination, Examine, Policy, Update
from ramify.memory.store import Ints, Memory
from ramify.memory.votes import Votes


class LeastImportant(Policy):
    """CLIB: among the samples of ȳ the one with the least H makes room; of equal ones the lowest slot."""

    _state: ClassVar[tuple[str, ...]] = ("importance",)
    before_training = True

    def __init__(self, importance: Importance) -> None:
        self.importance = importance

    def bind(self, memory: Memory, classes: Classes, examine: Examine) -> None:
        """Track the importance of this memory's samples."""
        super().bind(memory, classes, examine)
        self.importance.bind(memory, examine)

    def candidates(self, modal: int) -> Ints:
        """I_ȳ: the slots among which the victim is chosen."""
        return self.memory.members(modal)

    def victim(self, newcomer: int) -> int:
        """ĵ = argmin H over the candidates (eq. 3)."""
        candidates = self.candidates(self.memory.most_frequent(newcomer))
        importance = self.memory.importance[candidates]
        return int(candidates[importance == importance.min()].min())

    def admitted(self, slot: int) -> None:
        """Give the newcomer its first importance."""
        self.importance.admitted(slot)

    def trained(self, update: Update) -> bool:
        """Let the importance follow the training."""
        return self.importance.trained(update)


class PseudoLabel(LeastImportant):
    """PL (section 4.1, algorithm 1): the victim may also come from the classes related to ȳ at other levels.

    Candidates are the samples of ȳ and, for every level but ȳ's own, the samples labelled with the class that
    the model predicts most often for the samples of ȳ. With `exact` these are predictions of the model as it
    is, as printed: at an insertion the samples of ȳ are predicted that have not been since the last update.
    Otherwise the latest prediction known of each counts, taken as samples pass through training and through
    the importance's own passes. Samples that carry their true class at every level (PL-FMS-T) vote with it.
    """

    _state: ClassVar[tuple[str, ...]] = ("importance", "votes", "current", "met")

    def __init__(self, importance: Importance, exact: bool) -> None:
        super().__init__(importance)
        self.exact = exact

    def bind(self, memory: Memory, classes: Classes, examine: Examine) -> None:
        """Count votes for this memory's samples."""
        self.votes = Votes(memory, classes)
        self.current = np.zeros(memory.capacity, bool)  # predicted since the last update,
        self.met = 0  # among so many classes

        def examine_and_vote(slots: Ints) -> Examination:
            examined = examine(slots)
            if memory.paths is None:
                self.votes.see(slots, examined.predictions)
                self.current[slots] = True
            return examined

        super().bind(memory, classes, examine_and_vote)

    def candidates(self, modal: int) -> Ints:
        """I_ȳ of eq. 2."""
        if self.exact and self.memory.paths is None:
            self._predict(self.memory.members(modal))
        related = [modal, *self.votes.related(modal)]
        return np.concatenate([self.memory.members(c) for c in related])

    def _predict(self, slots: Ints) -> None:
        """Bring the votes of these samples up to date with the model."""
        if self.met != len(self.classes):
            self.current[:], self.met = False, len(self.classes)
        stale = slots[~self.current[slots]]
        if len(stale):
            self.examine(stale)

    def forget(self, slot: int) -> None:
        """Withdraw the victim's votes."""
        self.votes.forget(slot)
        self.current[slot] = False

    def admitted(self, slot: int) -> None:
        """Give the newcomer its first importance, and its votes where it carries its true path."""
        super().admitted(slot)
        if self.memory.paths is not None:
            self.votes.see(np.array([slot]), self.memory.paths[[slot]])

    def trained(self, update: Update) -> bool:
        """Let importance and votes follow the training."""
        self.current[:] = False
        if self.memory.paths is None and not self.exact:
            stored = update.slots >= 0
            self.votes.see(update.slots[stored], update.predictions()[stored])
        return super().trained(update)
