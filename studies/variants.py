"""Methods that differ from one of the paper's in one thing, to find what decides its comparison.

The study is `causes.toml`, what it says is in docs/reproduction.md.
"""

from __future__ import annotations

from dataclasses import replace

from ramify.memory import Balanced, Importance, Probe, PseudoLabel, Reservoir
from ramify.methods import METHODS, Recipe
from ramify.methods.settings import Settings
from ramify.randomness import Generators
from ramify.rehearsal import MemoryOnly
from ramify.training.schedules import Adaptive, ExponentialReset


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


def pl_fms_from_zero(settings: Settings, rng: Generators) -> Recipe:
    """PL-FMS whose newcomers start at H = 0."""
    period = settings.importance_period(max(1, settings.batch_size // 2))
    importance = FromZero(period, settings.importance.probe, rng["probe"])
    keep = PseudoLabel(importance, settings.pl.exact)
    return replace(METHODS["pl-fms"](settings, rng), keep=keep, rate=Adaptive(settings.lr, importance))


def pl_fms_random(settings: Settings, rng: Generators) -> Recipe:
    """PL-FMS whose victim is any of PL's candidates."""
    recipe = METHODS["pl-fms"](settings, rng)
    assert isinstance(recipe.keep, PseudoLabel)
    return replace(recipe, keep=RandomVictim(recipe.keep.importance, settings.pl.exact, rng))
