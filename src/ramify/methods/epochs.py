"""Training on the whole of memory for many epochs: RM, GDumb and Oracle."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ramify.change import Follow, anew
from ramify.memory.workbench import Weights
from ramify.methods.recipe import Answer
from ramify.methods.trainer import Trainer
from ramify.typed import Count, Typed

WARM_UP, LEAST = 0.1, 0.01
TRAINING = ("network", "heads", "epochs", "augment", "cutmix")  # generators that training draws from


def warm_restarts(epoch: int) -> float:
    """Factor on the rate: one epoch at 0.1, then cosine with restarts after 1, 2, 4, … epochs, at least 0.01.

    >>> [round(warm_restarts(e), 3) for e in range(5)]
    [0.1, 1.0, 1.0, 0.505, 1.0]
    """
    if epoch == 0:
        return WARM_UP
    cycle = int(math.log2(epoch))  # cycles start at epochs 1, 2, 4, 8, …
    position = (epoch - 2**cycle) / 2**cycle
    return LEAST + (1 - LEAST) * (1 + math.cos(math.pi * position)) / 2


@dataclass(frozen=True)
class EpochSettings(Typed):
    """RM, GDumb and Oracle: training on the whole of memory."""

    count: Count = 100
    """Epochs."""


SETTINGS = {"epochs": EpochSettings}


class MemoryEpochs(Answer):
    """`count` passes over the memory in random order; a checkpoint can be taken on the way."""

    _state: ClassVar[tuple[str, ...]] = ("epoch", "place", "order")

    def __init__(self, count: int) -> None:
        self.count = count
        self._begin()

    def _begin(self) -> None:
        self.epoch = self.place = 0
        self.order = np.empty(0, np.int64)

    @property
    def begun(self) -> bool:
        """Whether there is something to continue."""
        return self.epoch > 0 or self.place > 0

    def train(self, trainer: Trainer) -> None:
        """All passes, from where they stand."""
        memory, batch_size, lr = trainer.memory, trainer.settings.batch_size, trainer.settings.lr
        try:
            while self.epoch < self.count:
                if self.place == 0:
                    self.order = trainer.rng["epochs"].permutation(memory.size)
                while self.place < memory.size:
                    batch = memory.batch(self.order[self.place : self.place + batch_size])
                    trainer.update(batch, lr * warm_restarts(self.epoch))
                    self.place += batch_size
                    trainer.pause()
                self.epoch, self.place = self.epoch + 1, 0
        finally:
            self._begin()


class FreshModel(MemoryEpochs):
    """Before it is asked, a fresh model is trained on the memory as it is.

    Its draws depend on the seed and the number of samples alone, so an answer does not depend on how often
    the learner was asked before.
    """

    _state: ClassVar[tuple[str, ...]] = (*MemoryEpochs._state, "trained_at")
    _follows: ClassVar[Mapping[str, Follow]] = {"trained_at": anew(-1)}

    def __init__(self, count: int) -> None:
        super().__init__(count)
        self.trained_at = -1

    def weights(self, trainer: Trainer) -> Weights:
        """Train anew, unless no sample has arrived since the last time."""
        if self.trained_at != trainer.samples:
            if not self.begun:
                trainer.flush()
                trainer.rng.restart(TRAINING, trainer.samples)
                trainer.renew()
            self.train(trainer)
            self.trained_at = trainer.samples
        return super().weights(trainer)
