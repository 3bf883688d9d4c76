"""Methods that differ from one of the paper's in one thing, to find what decides its comparison.

The studies are `causes.toml` and `er.toml`, what they say is in docs/reproduction.md.
"""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

import numpy as np
from torch import Tensor

from ramify.arrays import Ints
from ramify.memory import (
    Balanced,
    Batch,
    Forward,
    Importance,
    Probe,
    PseudoLabel,
    Reservoir,
    Sample,
    StoreFirst,
    Workbench,
)
from ramify.methods import METHODS, Recipe, Settings, Trainer
from ramify.methods.clib import ImportanceSettings, PseudoLabelSettings
from ramify.methods.mir import interference
from ramify.networks import Targets
from ramify.networks.levels import like
from ramify.randomness import Generators
from ramify.rehearsal import MemoryOnly
from ramify.training.cutmix import CutMix
from ramify.training.objectives import CrossEntropy
from ramify.training.rates import Adaptive, ExponentialReset


def er_balanced(settings: Settings, rng: Generators) -> Recipe:
    """ER whose memory is balanced over the classes, as CLIB's is."""
    return replace(METHODS["er"](settings, rng), keep=Balanced(rng["keep"]))


class ReservoirFirst(StoreFirst, Reservoir):
    """A reservoir that takes a sample before it is trained on."""


def er_memory_only(settings: Settings, rng: Generators) -> Recipe:
    """ER that trains on its reservoir alone, as CLIB trains on memory alone."""
    keep, rehearse = ReservoirFirst(rng["keep"]), MemoryOnly(rng["rehearse"])
    return replace(METHODS["er"](settings, rng), keep=keep, rehearse=rehearse)


class MixedAcross(CutMix):
    """CutMix among all samples of a batch, whatever their levels; each has one label.

    A mixed image is compared with both labels, each on the head of its own level. The weights are doubled,
    for the loss is a mean over twice as many pairs.
    """

    def __call__(
        self, bench: Workbench, batch: Batch, images: Tensor, targets: Targets
    ) -> tuple[Tensor, Targets]:
        """Mix images and what they are compared with."""
        own = batch.classes
        mixture = self.choose(np.zeros_like(own), images.shape[2], images.shape[3], bench.rng["cutmix"])
        partner, _, lam = mixture
        if partner is None or lam is None:
            return images, targets
        images = self.paste(images, replace(batch, mixture=mixture))
        rows = np.tile(np.arange(len(own)), 2)
        classes = np.concatenate([own, self.pasted(bench, own, own[partner])])
        return images, Targets(rows, classes[:, None], 2 * np.concatenate([lam, 1 - lam])[:, None])

    def pasted(self, bench: Workbench, own: Ints, other: Ints) -> Ints:
        """The classes that the pasted images count for."""
        return other


class MixedUp(MixedAcross):
    """The pasted image's class is read on the head of the other image: the n-th class of another level."""

    def pasted(self, bench: Workbench, own: Ints, other: Ints) -> Ints:
        """The class of the own level at the place that the pasted one has in its level."""
        classes = bench.classes
        heads = [classes.of_level(level) for level in classes.level_of[own]]
        places = [list(classes.of_level(classes.level_of[cls])).index(cls) for cls in other]
        return np.array([head[place % len(head)] for head, place in zip(heads, places, strict=True)])


def er_mixed_across(settings: Settings, rng: Generators) -> Recipe:
    """ER with CutMix across levels."""
    return replace(METHODS["er"](settings, rng), mix=MixedAcross())


def er_mixed_up(settings: Settings, rng: Generators) -> Recipe:
    """ER with CutMix across levels, and the pasted label on the wrong head."""
    return replace(METHODS["er"](settings, rng), mix=MixedUp())


def canopy_reservoir(settings: Settings, rng: Generators) -> Recipe:
    """Canopy whose memory is ER's reservoir, not shared between levels."""
    return replace(METHODS["canopy"](settings, rng), keep=Reservoir(rng["keep"]))


class AtNewClasses(Reservoir):
    """A reservoir that does something to the learner whenever a class has come."""

    _state: ClassVar[tuple[str, ...]] = (*Reservoir._state, "met")

    def __init__(self, rng: np.random.Generator) -> None:
        super().__init__(rng)
        self.met = 0

    def arrive(self, bench: Workbench, sample: Sample) -> bool:
        """Before the sample is trained on."""
        if len(bench.classes) > self.met:
            assert isinstance(bench, Trainer)
            self.renew(bench, {int(level) for level in bench.classes.level_of[self.met :]})
            self.met = len(bench.classes)
        return super().arrive(bench, sample)

    def renew(self, trainer: Trainer, levels: set[int]) -> None:
        """Classes have come at these levels."""
        raise NotImplementedError


class FreshMoments(AtNewClasses):
    """Adam begins anew."""

    def renew(self, trainer: Trainer, levels: set[int]) -> None:
        """Forget all moments and their age."""
        trainer.optimizer.restore({"moments": {}})


class FreshHeads(AtNewClasses):
    """The whole head of a level is drawn anew when it grows."""

    def renew(self, trainer: Trainer, levels: set[int]) -> None:
        """Draw all rows of the levels."""
        for cls in np.flatnonzero(np.isin(trainer.classes.level_of, list(levels))).tolist():
            trainer.model.heads.draw(cls)


class OneHead(CrossEntropy):
    """Cross-entropy over the classes of all levels: a label of one level speaks against those of others."""

    def loss(self, bench: Workbench, forward: Forward) -> Tensor:
        """The mean over the batch."""
        targets, logits = forward.targets, forward.logits
        if targets.rows is not None:
            logits = logits[like(logits, targets.rows)]
        losses = -logits.log_softmax(1).gather(1, like(logits, targets.classes))
        if targets.weights is not None:
            losses = losses * like(logits, targets.weights)
        return losses.sum(1).mean()


def er_fresh_moments(settings: Settings, rng: Generators) -> Recipe:
    """ER whose Adam begins anew at each new class."""
    return replace(METHODS["er"](settings, rng), keep=FreshMoments(rng["keep"]))


def er_fresh_heads(settings: Settings, rng: Generators) -> Recipe:
    """ER that draws a level's head anew at each new class of it."""
    return replace(METHODS["er"](settings, rng), keep=FreshHeads(rng["keep"]))


def er_one_head(settings: Settings, rng: Generators) -> Recipe:
    """ER with one head for the classes of all levels."""
    return replace(METHODS["er"](settings, rng), minimise=OneHead())


def clib_with_rate_of_er(settings: Settings, rng: Generators) -> Recipe:
    """CLIB with a rate that decays, and starts again at each new class."""
    return replace(METHODS["clib"](settings, rng), rate=ExponentialReset(settings.lr, settings.lr_decay))


def pl_fms_with_rate_of_er(settings: Settings, rng: Generators) -> Recipe:
    """PL-FMS with a rate that decays, and starts again at each new class."""
    return replace(METHODS["pl-fms"](settings, rng), rate=ExponentialReset(settings.lr, settings.lr_decay))


class FromZero(Probe):
    """A newcomer starts at H = 0 instead of the mean of its class."""

    def admit(self, bench: Workbench, slot: int) -> None:
        """Give the newcomer its first H."""
        bench.memory["importance"][slot] = 0.0


class RandomVictim(PseudoLabel):
    """PL's candidates, but any of them may make room: H plays no part."""

    def __init__(self, importance: Importance, exact: bool, rng: Generators) -> None:
        super().__init__(importance, exact)
        self.rng = rng["keep"]

    def victim(self, bench: Workbench, newcomer: int) -> int:
        """Uniform among the candidates."""
        return int(self.rng.choice(self.candidates(bench, bench.memory.most_frequent(newcomer), newcomer)))


class Printed(RandomVictim):
    """PL with H as the paper prints it, L(θ) - L(θ - ∇l_n), taken when a sample has to make room.

    To first order in the step that is how much a step on memory's loss lowers l_n. It is taken for 64 of the
    candidates, with a step on 32 samples of memory.
    """

    lr = 3e-4

    def victim(self, bench: Workbench, newcomer: int) -> int:
        """The candidate with the least H."""
        memory = bench.memory
        candidates = self.candidates(bench, memory.most_frequent(newcomer), newcomer)
        candidates = self.rng.permutation(candidates)[:64]
        step = memory.batch(memory.sample(32, self.rng))
        return int(candidates[interference(bench, step, memory.batch(candidates), self.lr).argmax()])


def pl_fms_from_zero(settings: Settings, rng: Generators) -> Recipe:
    """PL-FMS whose newcomers start at H = 0."""
    recipe, chosen = METHODS["pl-fms"](settings, rng), settings[ImportanceSettings]
    period = chosen.build(settings, rng).period
    importance = FromZero(period, chosen.probe, rng["probe"])
    keep = PseudoLabel(importance, settings[PseudoLabelSettings].exact)
    return replace(recipe, keep=keep, rate=Adaptive(settings.lr, importance))


def pl_fms_random(settings: Settings, rng: Generators) -> Recipe:
    """PL-FMS whose victim is any of PL's candidates."""
    return _with(RandomVictim, settings, rng)


def pl_fms_printed(settings: Settings, rng: Generators) -> Recipe:
    """PL-FMS with H as printed."""
    return _with(Printed, settings, rng)


def _with(kind: type[RandomVictim], settings: Settings, rng: Generators) -> Recipe:
    recipe = METHODS["pl-fms"](settings, rng)
    assert isinstance(recipe.keep, PseudoLabel)
    return replace(recipe, keep=kind(recipe.keep.importance, settings[PseudoLabelSettings].exact, rng))
