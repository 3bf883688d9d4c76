"""Canopy: rehearsal for labels that branch, for no more passes through the network than ER makes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import numpy.typing as npt
import torch

from ramify.change import Follow, anew
from ramify.hierarchy import Ties
from ramify.hierarchy.means import MeanAnswers, ties_of
from ramify.memory import Forward, Policy, Workbench
from ramify.memory.workbench import LOOK, Weights
from ramify.methods.er import er
from ramify.methods.recipe import Answer, Recipe, method
from ramify.methods.settings import Settings
from ramify.methods.trainer import Trainer
from ramify.networks.closed_form import Moments, discriminant
from ramify.randomness import Generators
from ramify.training.priors import LifetimePrior
from ramify.typed import Count, Share, Typed


@dataclass(frozen=True)
class CanopySettings(Typed):
    """Canopy."""

    prior: float = 1.0
    """How much of the difference between batches and stream is taken out of the logits."""
    recent: Share = 0.99
    """Share of the past in the running class frequencies of training batches."""
    closed_form: float = 0.0
    """Weight of the head in closed form, from the memory's features, beside the trained one; 0: none."""
    shrinkage: Share = 0.1
    """How far its covariance is drawn towards a multiple of the identity."""
    every: Count = 1000
    """Updates until it is made anew."""


class LevelShares(Policy):
    """Places of a level in proportion to the root of its number of classes, balanced within the level."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng

    def victim(self, bench: Workbench, newcomer: int) -> int:
        """Any sample of the largest class of the level that has most beyond its share."""
        memory, level_of = bench.memory, bench.classes.level_of
        stored = memory.counts[: len(level_of)].astype(float)
        stored = np.pad(stored, (0, len(level_of) - len(stored)))
        stored[newcomer] += 1
        places = np.bincount(level_of, stored) / np.sqrt(np.maximum(np.bincount(level_of), 1))
        held = memory.counts[: len(level_of)] > 0
        held = np.pad(held, (0, len(level_of) - len(held)))
        for level in np.argsort(-places, kind="stable"):
            inside = np.flatnonzero((level_of == level) & held)
            if len(inside):
                largest = inside[stored[inside].argmax()]
                return int(self.rng.choice(memory.members(int(largest))))
        raise AssertionError("a full memory holds something")


class FoundTree(Answer):
    """Answers that are read through the tree in the mean answers of training."""

    _state: ClassVar[tuple[str, ...]] = ("answers", "head", "made_at")
    _follows: ClassVar[Mapping[str, Follow]] = {"made_at": anew(-1)}

    def __init__(self, own: CanopySettings) -> None:
        self.own = own
        self.answers = MeanAnswers()
        self.head: Weights = {}  # rows and biases in closed form
        self.made_at = -1  # updates then

    def learned(self, bench: Workbench, forward: Forward) -> None:
        """Follow the answers."""
        self.answers.learned(bench, forward)

    def weights(self, trainer: Trainer) -> Weights:
        """The average, and in its heads what is known in closed form."""
        found = super().weights(trainer)
        if not self.own.closed_form or not trainer.memory.size:
            return found
        if self.made_at < 0 or trainer.updates - self.made_at >= self.own.every:
            self._make_head(trainer, found)
        head = trainer.model.heads.blocks(self.head["weights"], self.head["biases"])
        trained = {n: found.get(n, trainer.model.get_parameter(n).detach()) for n in head}
        return found | {n: trained[n] + self.own.closed_form * value for n, value in head.items()}

    def _make_head(self, trainer: Trainer, weights: Weights) -> None:
        """From the features of all that is stored."""
        memory, slots = trainer.memory, np.arange(trainer.memory.size)
        parts = [trainer.embed(memory.batch(part).inputs, weights)[0] for part in _pieces(slots)]
        trainer.cost.images_memory += len(slots)
        labels = memory.classes[slots].astype(np.int64)
        moments = Moments.of(torch.cat(parts), labels, len(trainer.classes))
        rows, biases = discriminant(moments.means, moments.covariance(self.own.shrinkage))
        known = moments.counts > 0  # a class without features is neither favoured nor ruled out
        rows[~known], biases[~known] = rows[known].mean(0), biases[known].mean()
        level_of, seen = trainer.classes.level_of, np.maximum(trainer.classes.seen, 1)
        prior = np.log(seen / np.bincount(level_of, seen)[level_of]).astype(np.float32)
        self.head = {
            "weights": rows.float().to(trainer.device),
            "biases": (biases.float() + torch.from_numpy(prior)).to(trainer.device),
        }
        self.made_at = trainer.updates

    def ties(self, trainer: Trainer) -> Ties:
        """The tree in the mean answers."""
        return ties_of(trainer.classes, self.answers.means())


def _pieces(slots: npt.NDArray[np.int64]) -> list[npt.NDArray[np.int64]]:
    return [slots[start : start + LOOK] for start in range(0, len(slots), LOOK)]


@method("canopy", settings={"canopy": CanopySettings}, decode="joint", average=0.998)
def canopy(settings: Settings, rng: Generators) -> Recipe:
    """Canopy: ER with a memory shared between levels, a corrected prior and answers by averaged weights."""
    own = settings[CanopySettings]
    return replace(
        er(settings, rng),
        keep=LevelShares(rng["keep"]),
        minimise=LifetimePrior(own.prior, own.recent),
        answer=FoundTree(own),
    )
