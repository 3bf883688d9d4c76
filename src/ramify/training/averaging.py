"""Averaged weights: the model answers with them, training goes on with the raw ones."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from copy import copy
from typing import ClassVar

import torch
from torch import Tensor

from ramify.change import Change
from ramify.memory import Workbench
from ramify.memory.workbench import Weights
from ramify.networks.heads import ROWS, join_rows
from ramify.state import State, Stateful


class Average(Stateful):
    """An exponential average of all weights and running statistics, `decay` an update, warmed up; 0: none.

    It is brought up to date every few updates, by as much as these would have, and reaches further back in a
    long stream (`bench.reach`). The rows of classes that have come since are taken as they are.
    """

    _state: ClassVar[tuple[str, ...]] = ("values", "updates", "met")
    EVERY = 4

    def __init__(self, decay: float) -> None:
        self.decay = decay
        self.values: Weights = {}
        self.updates = 0
        self.met = 0  # classes whose rows the average has
        self._live: list[Tensor] = []  # the network's own, in the order of the average

    def learned(self, bench: Workbench) -> None:
        """An update has been made: follow the network."""
        if not self.decay:
            return
        self.updates += 1
        if self.updates % self.EVERY == 0:
            self._follow(bench)
            warm = min(self.decay ** (1 / bench.reach), self.updates / (self.updates + 10))
            torch._foreach_lerp_(list(self.values.values()), self._live, 1 - warm**self.EVERY)

    @torch.no_grad()
    def _follow(self, bench: Workbench) -> None:
        """Take in parameters and rows that have come."""
        model, classes = bench.model, len(bench.classes)
        if not self._live or classes > self.met:
            changing = model.changing(model.state_dict().items())
            values = {n: v for n, v in changing.items() if v.is_floating_point()}
            self._live = list(values.values())
            self.values = {n: self.values[n] if n in self.values else v.clone() for n, v in values.items()}
        for block in range(self.met // ROWS, -(-classes // ROWS)):
            new = slice(max(0, self.met - block * ROWS), ROWS)
            for name in (f"heads.weights.{block}", f"heads.biases.{block}"):
                self.values[name][new] = model.get_parameter(name).detach()[new]
        self.met = classes

    @contextmanager
    def beside(self, bench: Workbench) -> Iterator[None]:
        """The averaged weights move as far as the network's own do meanwhile, at once and not by and by."""
        if not self.values:  # the network answers by itself, or as soon as it is asked
            yield
            return
        self._follow(bench)
        own = [(self.values[name], p) for name, p in bench.model.named_parameters() if name in self.values]
        averaged, live = ([pair[at] for pair in own] for at in (0, 1))
        before = [p.detach().clone() for p in live]
        yield
        with torch.no_grad():
            torch._foreach_add_(averaged, torch._foreach_sub(live, before))

    def weights(self, bench: Workbench) -> Weights:
        """The average by the names of the weights; nothing where none is kept. Asking changes nothing."""
        if not self.decay or (self.values and self.met == len(bench.classes)):
            return dict(self.values)
        asked = copy(self)
        asked.values, asked._live = {name: value.clone() for name, value in self.values.items()}, []
        asked._follow(bench)
        return asked.values

    def follow(self, change: Change) -> None:
        """The rows of the average follow as the network's own."""
        super().follow(change)
        join_rows(change, self.values, self.met)

    def restore(self, state: State) -> None:
        """Continue from `state`."""
        super().restore(state)
        self._live = []
