"""Answers by averaged weights: training goes on with the raw ones."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor

from ramify.change import Change
from ramify.memory import Forward, Workbench
from ramify.memory.workbench import Weights
from ramify.methods.recipe import Answer
from ramify.methods.trainer import Trainer
from ramify.networks.heads import ROWS, join_rows
from ramify.state import State


class Averaged(Answer):
    """An exponential average of all weights and running statistics, `decay` an update, warmed up.

    It is brought up to date every few updates, by as much as these would have. The rows of classes that have
    come since are taken as they are.
    """

    _state: ClassVar[tuple[str, ...]] = ("average", "updates", "met")
    EVERY = 4

    def __init__(self, decay: float) -> None:
        self.decay = decay
        self.average: Weights = {}
        self.updates = 0
        self.met = 0  # classes whose rows the average has
        self._live: list[Tensor] = []  # the network's own, in the order of the average

    def learned(self, bench: Workbench, forward: Forward) -> None:
        """Follow the network."""
        self.updates += 1
        if self.updates % self.EVERY == 0:
            self._follow(bench)
            warm = min(self.decay, self.updates / (self.updates + 10))
            torch._foreach_lerp_(list(self.average.values()), self._live, 1 - warm**self.EVERY)

    @torch.no_grad()
    def _follow(self, bench: Workbench) -> None:
        """Take in parameters and rows that have come."""
        model, classes = bench.model, len(bench.classes)
        if not self._live or classes > self.met:
            changing = model.changing(model.state_dict().items())
            values = {n: v for n, v in changing.items() if v.is_floating_point()}
            self._live = list(values.values())
            self.average = {n: self.average[n] if n in self.average else v.clone() for n, v in values.items()}
        for block in range(self.met // ROWS, -(-classes // ROWS)):
            new = slice(max(0, self.met - block * ROWS), ROWS)
            for name in (f"heads.weights.{block}", f"heads.biases.{block}"):
                self.average[name][new] = model.get_parameter(name).detach()[new]
        self.met = classes

    def weights(self, trainer: Trainer) -> Weights:
        """The average."""
        self._follow(trainer)
        return dict(self.average)

    def own_weights(self, trainer: Trainer) -> Weights:
        """The average itself, not a copy."""
        self._follow(trainer)
        return self.average

    def follow(self, change: Change) -> None:
        """The rows of the average follow as the network's own."""
        super().follow(change)
        join_rows(change, self.average, self.met)

    def restore(self, state: State) -> None:
        """Continue from `state`."""
        super().restore(state)
        self._live = []
