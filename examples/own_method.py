"""Two methods of your own: one that keeps other samples, and one that needs more kept with each.

`level_er` is ER whose memory is shared out evenly between the levels: balanced over classes, a memory leaves
the few coarse classes hardly any places. `hold` has a setting and a column of its own: the feature that a
sample had when it came is kept with it, and held against the one that it has later. Try them where this file
is:

    ramify run --method own_method:level_er --dataset garden --preset quick --out runs/level-er
    ramify run --method own_method:hold --hold.strength 0.3 --dataset garden --preset quick --out runs/hold
    python own_method.py        # the checks that every method of ramify passes
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from ramify.memory import Column, Forward, Policy, Workbench
from ramify.methods import METHODS, Recipe, Settings, method
from ramify.randomness import Generators
from ramify.rehearsal import HalfAndHalf
from ramify.training.cutmix import unmixed
from ramify.training.objectives import CrossEntropy
from ramify.training.rates import ExponentialReset


class LevelBalanced(Policy):
    """What to keep: the level with the most stored samples gives up one of its largest class."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng

    def victim(self, bench: Workbench, newcomer: int) -> int:
        """The slot that a newcomer of this class takes."""
        level_of = bench.classes.level_of
        stored = bench.memory.counted(len(level_of))  # by class
        by_level = np.bincount(level_of, stored)
        stored[level_of != by_level.argmax()] = -1
        return int(self.rng.choice(bench.memory.members(int(stored.argmax()))))


def level_er(settings: Settings, rng: Generators) -> Recipe:
    """Four choices: what to keep, what to rehearse, what to minimise, how fast to learn."""
    return Recipe(
        keep=LevelBalanced(rng["keep"]),
        rehearse=HalfAndHalf(rng["rehearse"]),
        minimise=CrossEntropy(),
        rate=ExponentialReset(settings.lr, settings.lr_decay),
    )


# ---- features that are held


@dataclass(frozen=True)
class HoldSettings:
    """ER that holds its features."""

    strength: float = 1.0
    """Weight of the distance to the features that were kept."""


class HeldFeatures(CrossEntropy):
    """Cross-entropy, and how far stored samples' features are from those that they had when they came."""

    columns = {"feature": Column(torch.float16, (0,), float("nan"))}  # noqa: RUF012

    def __init__(self, own: HoldSettings) -> None:
        super().__init__()
        self.own = own

    def loss(self, bench: Workbench, forward: Forward) -> Tensor:
        """What to minimise."""
        batch, features = forward.batch, forward.features
        new, old = np.flatnonzero(batch.arrived), np.flatnonzero(~batch.arrived)
        bench.note(batch, new, "feature", features.detach().half())  # it goes into memory with the sample
        loss = super().loss(bench, forward)
        if not len(old):
            return loss
        then = bench.stored(batch, old, "feature").float()
        now = features[torch.from_numpy(old).to(features.device)]
        return loss + self.own.strength * (now - then).square().mean()


@method("hold", settings=HoldSettings)
def hold(settings: Settings, rng: Generators) -> Recipe:
    """ER that holds its features."""
    return replace(METHODS["er"](settings, rng), minimise=HeldFeatures(settings[HoldSettings]), mix=unmixed)


if __name__ == "__main__":
    from ramify import check_method

    for mine in (level_er, hold):
        check_method(mine)
        print(f"{mine.name if mine is hold else mine.__name__} passes all checks")
