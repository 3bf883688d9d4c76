"""A small workbench of real parts whose network says what it is told, sample by sample."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ramify.classes import Classes
from ramify.memory import Batch, Column, Forward, Policy, Sample, Workbench
from ramify.networks import FeatureInputs, Heads, Model, Targets, cross_entropy
from ramify.randomness import Generators

MOST = 64  # classes
NEVER = -1e4  # the logit of a class that is out of the question
NUMBER = Column(torch.float32, (1,))  # of inputs that are only a number


class Told(nn.Module):
    """Answers a sample, which is a number, with what was written down for it: logits of all classes."""

    def __init__(self, samples: int) -> None:
        super().__init__()
        self.feature_size = MOST
        self.table = torch.zeros(samples, MOST)

    def forward(self, numbers: Tensor) -> Tensor:
        return self.table[numbers[:, 0].long()]


class Bench(Workbench):
    """A workbench for numbered samples; classes are labelled by their own number."""

    def __init__(
        self,
        capacity: int = 8,
        policy: Policy | None = None,
        levels: Iterable[int] = (),
        samples: int = 512,
        columns: Mapping[str, Column] | None = None,
    ) -> None:
        rng = Generators(0)
        self.told = Told(samples)
        model = Model(self.told, Heads(MOST, rng["heads"]))
        declared = {"inputs": NUMBER, **(columns or {}), **(policy.columns if policy else {})}
        super().__init__(model, Classes(), FeatureInputs(1), capacity, declared, rng, torch.device("cpu"))
        for level in levels:
            self.meet(level)

    @torch.no_grad()
    def meet(self, level: int, when: int = 0) -> int:
        """Another class; its logit is what the table says."""
        cls = self.classes.meet(level, len(self.classes), when)
        self.model.heads.grow()
        row = self.model.heads.weights[0][cls]
        row.zero_()
        row[cls] = 1.0
        self.model.heads.biases[0][cls] = 0.0
        return cls

    def tell_losses(self, losses: Mapping[int, float]) -> None:
        """Let stored samples (by slot) of a single label have these losses; their level needs two classes."""
        for slot, loss in losses.items():
            cls = int(self.memory.classes[slot])
            rivals = self.classes.of_level(int(self.classes.level_of[cls]))
            row = self.told.table[self.number(slot)]
            row[rivals] = NEVER
            row[next(int(c) for c in rivals if c != cls)] = 0.0
            row[cls] = -(loss + math.log1p(-math.exp(-loss))) if loss else -NEVER  # -log softmax is `loss`

    def tell_answer(self, number: int, classes: Iterable[int]) -> None:
        """Let a sample be predicted as these classes, one a level."""
        self.told.table[number] = 0.0
        self.told.table[number, [c for c in classes if c >= 0]] = 1.0

    def number(self, slot: int) -> int:
        """Which sample is at `slot`."""
        return int(self.memory["inputs"][slot, 0])

    @property
    def numbers(self) -> list[int]:
        """All that are stored, by slot."""
        return self.memory["inputs"][: self.memory.size, 0].int().tolist()

    def passed(self, slots: Sequence[int] | np.ndarray) -> Forward:
        """A training pass over stored samples; -1 stands for one of class 0 that is not stored."""
        slots = np.array(slots, np.int64)
        batch = self.memory.batch(np.where(slots >= 0, slots, 0))
        labels, classes = batch.labels.copy(), batch.classes.copy()
        labels[slots < 0], labels[slots < 0, :1], classes[slots < 0] = -1, 0, 0
        return self.forward(Batch(batch.inputs, labels, classes, slots, np.where(slots < 0, 0, -1)))

    def forward(self, batch: Batch) -> Forward:
        """A training pass over a batch, not augmented."""
        ready = self.inputs.ready(batch.inputs)
        with torch.no_grad():
            features, logits = self.model(ready)
            targets = Targets.of(batch.labels)
            losses = cross_entropy(logits, targets, self.levels)
        loss = float(losses.mean()) if len(losses) else 0.0
        return Forward(batch, ready, features, logits, targets, self.levels, loss)


def sample(number: int, *labels: int, cls: int | None = None, **values: Any) -> Sample:
    """A sample with classes, coarsest first, that counts for `cls` or the first, and brings other values."""
    counts_for = cls if cls is not None else labels[0] if labels else -1
    return Sample(torch.tensor([float(number)]), labels, counts_for, values=values)
