"""Canopy: rehearsal for labels that branch, for no more passes through the network than ER makes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from ramify.arrays import Floats
from ramify.change import Follow, class_sums
from ramify.hierarchy import Ties
from ramify.hierarchy.means import MeanAnswers, ties_of
from ramify.memory import Batch, Forward, Policy, Workbench
from ramify.methods.er import er
from ramify.methods.recipe import Answer, Recipe, method
from ramify.methods.settings import Settings
from ramify.methods.trainer import Trainer
from ramify.randomness import Generators
from ramify.rehearsal import Spread
from ramify.training.objectives import Shifted
from ramify.training.rates import ExponentialReset
from ramify.typed import NotNegative, Share, Typed, Whole


@dataclass(frozen=True)
class CanopySettings(Typed):
    """Canopy."""

    prior: float = 1.0
    """How much of the difference between batches and stream is taken out of the logits."""
    recent: Share = 0.99
    """Share of the past in the running class frequencies of training batches."""
    window: Whole = 64
    """The latest samples, from which half of a batch is drawn; at most a sixteenth of the memory's places."""
    ripe: NotNegative = 50.0
    """Rehearsals after which an image gets AutoAugment and CutMix half of the time; new ones get neither.
    Fewer in a long stream, when the network knows more: a fifth of them after 50,000 updates."""


class LevelShares(Policy):
    """Places of a level in proportion to the root of its number of classes, balanced within the level."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng

    def victim(self, bench: Workbench, newcomer: int) -> int:
        """Any sample of the largest class of the level that has most beyond its share."""
        memory, level_of = bench.memory, bench.classes.level_of
        stored = memory.counted(len(level_of))
        held = stored > 0
        stored[newcomer] += 1
        places = np.bincount(level_of, stored) / np.sqrt(np.maximum(np.bincount(level_of), 1))
        for level in np.argsort(-places, kind="stable"):
            inside = np.flatnonzero((level_of == level) & held)
            if len(inside):
                largest = inside[stored[inside].argmax()]
                return int(self.rng.choice(memory.members(int(largest))))
        raise AssertionError("a full memory holds something")


class LifetimePrior(Shifted):
    """log(frequency of the class in recent batches ÷ in the whole stream so far), within its level.

    So the answers have the stream's own prior: neither the newest classes, of which batches are full, nor the
    rarest, of which a balanced memory is.
    """

    _state: ClassVar[tuple[str, ...]] = ("recent",)
    _follows: ClassVar[Mapping[str, Follow]] = {"recent": class_sums}

    def __init__(self, strength: float, memory: float) -> None:
        super().__init__()
        self.strength, self.memory = strength, memory
        self.recent: Floats = np.zeros(0)  # class -> running count in training batches

    def shift(self, bench: Workbench, batch: Batch) -> Floats:
        """By class."""
        level_of, seen = bench.classes.level_of, bench.classes.seen
        self.recent = np.pad(self.recent, (0, len(level_of) - len(self.recent)))
        labels = batch.labels[batch.labels >= 0]
        self.recent *= self.memory
        self.recent += np.bincount(labels, minlength=len(level_of)) * (1 - self.memory)
        recent, lifetime = self.recent + 1e-3, seen + 1e-3
        by_level = np.bincount(level_of, recent) / np.maximum(np.bincount(level_of, lifetime), 1e-9)
        found: Floats = self.strength * np.log(recent / lifetime / by_level[level_of])
        return found


class FoundTree(Answer):
    """Answers that are read through the tree in the mean answers of training."""

    _state: ClassVar[tuple[str, ...]] = ("answers",)

    def __init__(self) -> None:
        self.answers = MeanAnswers()

    def learned(self, bench: Workbench, forward: Forward) -> None:
        """Follow the answers."""
        self.answers.learned(bench, forward)

    def ties(self, trainer: Trainer) -> Ties:
        """The tree in the mean answers."""
        return ties_of(trainer.classes, self.answers.means())


@method("canopy", settings={"canopy": CanopySettings}, decode="joint", average=0.996)
def canopy(settings: Settings, rng: Generators) -> Recipe:
    """Canopy: ER that spreads its updates, shares memory between levels and reads answers through a tree.

    The latest samples are trained on among each other, new ones as they are and stored ones the more changed
    the more often they were rehearsed. Logits are freed of what the batches happen to hold, averaged weights
    answer, and the heads of all levels together. The window counts as memory. The rate falls to four fifths
    at most: averages do the rest, and it has to go on learning where no class comes.
    """
    own = settings[CanopySettings]
    window = min(own.window, settings.memory_size // 16)
    return replace(
        er(settings, rng),
        keep=LevelShares(rng["keep"]),
        rehearse=Spread(rng["rehearse"], window),
        minimise=LifetimePrior(own.prior, own.recent),
        rate=ExponentialReset(settings.lr, settings.lr_decay, 0.8 * settings.lr),
        answer=FoundTree(),
        ripe=own.ripe,
        memory_size=settings.memory_size - window,
    )
