"""Training on the whole of memory for many epochs: RM, GDumb and Oracle."""

from __future__ import annotations

import math
from typing import ClassVar

from ramify.methods.engine import Engine, Passes
from ramify.methods.recipe import Answer
from ramify.rehearsal import stored

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


def train_on_memory(engine: Engine) -> None:
    """`epochs.count` passes over the memory in random order, from where `engine.passes` stands."""
    settings, memory, at = engine.settings, engine.memory, engine.passes
    try:
        while at.epoch < settings.epochs.count:
            if at.place == 0:
                at.order = engine.rng["epochs"].permutation(memory.size)
            while at.place < memory.size:
                batch = stored(memory, at.order[at.place : at.place + settings.batch_size])
                engine.update(batch, settings.lr * warm_restarts(at.epoch))
                at.place += settings.batch_size
                engine.pause()
            at.epoch, at.place = at.epoch + 1, 0
    finally:
        engine.passes = Passes()


class FreshModel(Answer):
    """Before it is asked, a fresh model is trained on the memory as it is.

    Its draws depend on the seed and the number of samples alone, so an answer does not depend on how often
    the learner was asked before.
    """

    _state: ClassVar[tuple[str, ...]] = ("trained_at",)

    def __init__(self) -> None:
        self.trained_at = -1

    def prepare(self, engine: Engine) -> None:
        """Train anew, unless no sample has arrived since the last time."""
        if self.trained_at != engine.samples:
            if not engine.passes.begun:
                engine.flush()
                engine.rng.restart(TRAINING, engine.samples)
                engine.renew()
            train_on_memory(engine)
            self.trained_at = engine.samples
