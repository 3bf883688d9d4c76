"""Methods that differ from one of the paper's in one thing, to find what decides its comparison.

The study is `causes.toml`, what it says is in docs/reproduction.md.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from ramify.classes import Classes
from ramify.memory import Balanced, Importance, Memory, Probe, PseudoLabel, Reservoir
from ramify.memory.policies import Examine
from ramify.methods import METHODS, Engine, Recipe
from ramify.methods.settings import Settings
from ramify.randomness import Generators
from ramify.rehearsal import MemoryOnly, stored
from ramify.training.cutmix import CutMix, IntArray
from ramify.training.objectives import CrossEntropy, Forward
from ramify.training.schedules import Adaptive, ExponentialReset
from ramify.training.targets import Targets, cross_entropy


def er_balanced(settings: Settings, rng: Generators) -> Recipe:
    """ER whose memory is balanced over the classes, as CLIB's is."""
    return replace(METHODS["er"](settings, rng), keep=Balanced(rng["keep"]))


class ReservoirFirst(Reservoir):
    """A reservoir that takes a sample before it is trained on."""

    before_training = True


def er_memory_only(settings: Settings, rng: Generators) -> Recipe:
    """ER that trains on its reservoir alone, as CLIB trains on memory alone."""
    keep, rehearse = ReservoirFirst(rng["keep"]), MemoryOnly(rng["rehearse"])
    return replace(METHODS["er"](settings, rng), keep=keep, rehearse=rehearse)


class MixedAcross(CrossEntropy):
    """CutMix among all samples of a batch, whatever their levels; for runs with `augment.cutmix` 0.

    A mixed image is compared with both labels, each on the head of its own level. It goes through the network
    here, a second time, for the engine mixes within a level alone.
    """

    extra_passes = 1

    def __init__(self, rng: np.random.Generator) -> None:
        super().__init__()
        self.rng, self.mix = rng, CutMix()

    def loss(self, forward: Forward) -> Tensor:
        """λ · CE(own class) + (1 - λ) · CE(partner's class)."""
        classes = forward.targets.classes
        images, partner, lam = self.mix(forward.images, np.zeros_like(classes), self.rng)
        _, logits = self.model(images)
        own, other = (
            cross_entropy(logits, Targets.of(which, None), self.mask(), self.classes.level_of)
            for which in (classes, self.pasted(classes, classes[partner]))
        )
        share = torch.from_numpy(lam).to(own.device)
        return (share * own + (1 - share) * other).mean()

    def pasted(self, own: IntArray, other: IntArray) -> IntArray:
        """The classes that the pasted images count for."""
        return other


class MixedUp(MixedAcross):
    """The pasted image's class is read on the head of the other image: the n-th class of another level."""

    def pasted(self, own: IntArray, other: IntArray) -> IntArray:
        """The class of the own level at the place that the pasted one has in its level."""
        heads = [self.classes.of_level(level) for level in self.classes.level_of[own]]
        places = [list(self.classes.of_level(self.classes.level_of[cls])).index(cls) for cls in other]
        return np.array([head[place % len(head)] for head, place in zip(heads, places, strict=True)])


def er_mixed_across(settings: Settings, rng: Generators) -> Recipe:
    """ER with CutMix across levels."""
    return replace(METHODS["er"](settings, rng), minimise=MixedAcross(rng["cutmix"]))


def er_mixed_up(settings: Settings, rng: Generators) -> Recipe:
    """ER with CutMix across levels, and the pasted label on the wrong head."""
    return replace(METHODS["er"](settings, rng), minimise=MixedUp(rng["cutmix"]))


def clib_with_rate_of_er(settings: Settings, rng: Generators) -> Recipe:
    """CLIB with a rate that decays, and starts again at each new class."""
    return replace(METHODS["clib"](settings, rng), rate=ExponentialReset(settings.lr, settings.lr_decay))


def pl_fms_with_rate_of_er(settings: Settings, rng: Generators) -> Recipe:
    """PL-FMS with a rate that decays, and starts again at each new class."""
    return replace(METHODS["pl-fms"](settings, rng), rate=ExponentialReset(settings.lr, settings.lr_decay))


class FromZero(Probe):
    """A newcomer starts at H = 0 instead of the mean of its class."""

    def admitted(self, slot: int) -> None:
        """Give the newcomer its first H."""
        super().admitted(slot)
        self.memory.importance[slot] = 0.0


class RandomVictim(PseudoLabel):
    """PL's candidates, but any of them may make room: H plays no part."""

    def __init__(self, importance: Importance, exact: bool, rng: Generators) -> None:
        super().__init__(importance, exact)
        self.rng = rng["keep"]

    def victim(self, newcomer: int) -> int:
        """Uniform among the candidates."""
        return int(self.rng.choice(self.candidates(self.memory.most_frequent(newcomer))))


class Printed(PseudoLabel):
    """PL with H as the paper prints it, L(θ) - L(θ - ∇l_n), taken when a sample has to make room.

    To first order in the step that is how much a step on memory's loss lowers l_n. It is taken for 64 of the
    candidates, with a step on 32 samples of memory.
    """

    def __init__(self, importance: Importance, exact: bool, rng: Generators) -> None:
        super().__init__(importance, exact)
        self.rng = rng["keep"]

    def bind(self, memory: Memory, classes: Classes, examine: Examine) -> None:
        """Get hold of the engine, for a step that policies do not make otherwise."""
        super().bind(memory, classes, examine)
        self.engine: Engine = examine.__self__  # type: ignore[attr-defined]

    def victim(self, newcomer: int) -> int:
        """The candidate with the least H."""
        candidates = self.rng.permutation(self.candidates(self.memory.most_frequent(newcomer)))[:64]
        step = self.memory.sample(32, self.rng)
        rises = self.engine.interference(stored(self.memory, step), stored(self.memory, candidates))
        return int(candidates[rises.argmax()])


def pl_fms_from_zero(settings: Settings, rng: Generators) -> Recipe:
    """PL-FMS whose newcomers start at H = 0."""
    period = settings.importance_period(max(1, settings.batch_size // 2))
    importance = FromZero(period, settings.importance.probe, rng["probe"])
    keep = PseudoLabel(importance, settings.pl.exact)
    return replace(METHODS["pl-fms"](settings, rng), keep=keep, rate=Adaptive(settings.lr, importance))


def pl_fms_random(settings: Settings, rng: Generators) -> Recipe:
    """PL-FMS whose victim is any of PL's candidates."""
    return _with(RandomVictim, settings, rng)


def pl_fms_printed(settings: Settings, rng: Generators) -> Recipe:
    """PL-FMS with H as printed."""
    return _with(Printed, settings, rng)


def _with(kind: type[RandomVictim | Printed], settings: Settings, rng: Generators) -> Recipe:
    recipe = METHODS["pl-fms"](settings, rng)
    assert isinstance(recipe.keep, PseudoLabel)
    return replace(recipe, keep=kind(recipe.keep.importance, settings.pl.exact, rng))
