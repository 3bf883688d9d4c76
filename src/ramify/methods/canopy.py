"""Canopy: rehearsal for labels that branch, for no more passes through the network than ER makes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from ramify.hierarchy import Ties
from ramify.hierarchy.means import MeanAnswers, ties_of
from ramify.memory import Forward, Policy, Workbench
from ramify.methods.er import er
from ramify.methods.recipe import Answer, Recipe, method
from ramify.methods.settings import Settings
from ramify.methods.trainer import Trainer
from ramify.randomness import Generators
from ramify.rehearsal import Spread
from ramify.training.priors import LifetimePrior
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
    """Rehearsals after which an image gets AutoAugment and CutMix half of the time; new ones get neither."""


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
    answer, and the heads of all levels together. The window counts as memory.
    """
    own = settings[CanopySettings]
    window = min(own.window, settings.memory_size // 16)
    return replace(
        er(settings, rng),
        keep=LevelShares(rng["keep"]),
        rehearse=Spread(rng["rehearse"], window),
        minimise=LifetimePrior(own.prior, own.recent),
        answer=FoundTree(),
        ripe=own.ripe,
        memory_size=settings.memory_size - window,
    )
