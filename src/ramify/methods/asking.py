"""What a learner can be asked, whoever asks: a run that evaluates, or the door for users' own streams."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from torch import Tensor

from ramify.arrays import Floats, Ints
from ramify.change import Change
from ramify.hierarchy import Ties, ancestors_in
from ramify.hierarchy.decode import Said, decode, probability_of, ranking_of
from ramify.memory.workbench import LOOK, Weights, Workbench
from ramify.networks.inputs import Values, as_tensor
from ramify.state import State
from ramify.taxonomy import Taxonomy
from ramify.typed import whole


class Askable(Workbench, ABC):
    """A workbench whose model answers at every level met so far."""

    def __init__(self, *bench: Any) -> None:
        super().__init__(*bench)
        self.answering: Weights = {}  # in the place of the trained ones; `prepare` sets them
        self._ties: tuple[tuple[int, int], Ties] | None = None

    @abstractmethod
    def prepare(self) -> None:
        """Make the model ready to be asked; called by `predict`."""

    @abstractmethod
    def find_ties(self) -> Ties:
        """The tree in the model's own answers, as the method finds it."""

    def logits(self, inputs: Tensor) -> Tensor:
        """Logits [n, classes] of every class met so far, as the method answers. Call `prepare` before."""
        self.cost.images_evaluation += len(inputs)
        return self.look(inputs, self.answering)

    def weights(self) -> Weights:
        """The network as it answers: all weights and running statistics. Call `prepare` before."""
        return self.model.state_dict() | self.answering

    def predict(self, inputs: Values, batch_size: int = LOOK) -> Ints:
        """The best class of every level, [n, levels], from one pass; -1 where a level has no class yet."""
        return np.concatenate([self.levels.predict(part) for part in self._ask(inputs, batch_size)])

    def log_probabilities(self, inputs: Values, batch_size: int = LOOK) -> Floats:
        """Of every class met so far on its level's head, [n, classes]."""
        return np.concatenate([self.levels.log_probabilities(part) for part in self._ask(inputs, batch_size)])

    def consider(self, inputs: Values, batch_size: int = LOOK) -> tuple[Floats, Floats]:
        """The log-probabilities [n, classes], and how unfamiliar inputs are at each level met [n, levels]."""
        parts = [
            (self.levels.log_probabilities(part), self.levels.energies(part))
            for part in self._ask(inputs, batch_size)
        ]
        log, energies = zip(*parts, strict=True)
        return np.concatenate(log), np.concatenate(energies)

    def _ask(self, inputs: Values, batch_size: int) -> Iterator[Tensor]:
        self.inputs.check(inputs)
        whole("batch_size", batch_size, 1)
        self.prepare()
        for start in range(0, max(1, len(inputs)), batch_size):
            yield self.logits(as_tensor(inputs[start : start + batch_size]))

    def ties(self) -> Ties:
        """The tree that the model's own answers about its memory make; kept until more is learned."""
        self.prepare()
        known = self.known_ties()
        if known is None:
            known = self.find_ties()
            self.know_ties(known)
        return known

    def known_ties(self) -> Ties | None:
        """That tree, where it has been found since the latest sample."""
        now = (self.updates, self.samples)
        return None if self._ties is None or self._ties[0] != now else self._ties[1]

    def know_ties(self, ties: Ties | None) -> None:
        """Let this be the tree until more is learned; None: it has to be found."""
        self._ties = None if ties is None else ((self.updates, self.samples), ties)

    def follow(self, change: Change) -> None:
        """An edit of the labels changes the tree."""
        super().follow(change)
        self._ties = None

    def restore(self, state: State) -> None:
        """Become the learner that gave `state`."""
        super().restore(state)
        self._ties = None

    def ancestors(self, way: str, tree: Taxonomy | None, by_index: bool = False) -> Ints:
        """Those of each class, where this way to read answers needs them: in a tree, or in the one found."""
        if way == "heads":
            return np.empty((0, 0), np.int64)
        return self.ties().ancestors() if tree is None else ancestors_in(tree, self.classes, by_index)

    def answer(self, inputs: Values, ways: Mapping[str, tuple[str, Taxonomy | None]]) -> dict[str, Said]:
        """Several ways to read the same answers: for each the classes at the levels met, and how probable.

        A way is a decoding and the tree that it reads through; None: the one that the learner has found.
        """
        log = self.log_probabilities(inputs)
        ranking = ranking_of(self.classes, log)
        found = {}
        for name, (way, tree) in ways.items():
            chosen = decode(way, self.classes, log, self.ancestors(way, tree, by_index=True))
            found[name] = Said(chosen, probability_of(chosen, log), ranking)
        return found
