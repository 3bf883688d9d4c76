"""Two methods of your own: one that keeps other samples, and one that needs more kept with each.

`level_er` is ER whose memory is shared out evenly between the levels: balanced over classes, a memory leaves
the few coarse classes hardly any places. `der` is DER++ (Buzzega et al. 2020), with two settings of its own:
the answers that the model gave when a sample came are kept, and held against those that it gives later. Try
them where this file is:

    ramify run --method own_method:level_er --dataset garden --preset quick --out runs/level-er
    ramify run --method own_method:der --derpp.alpha 0.3 --dataset garden --preset quick --out runs/der
    python own_method.py        # the checks that every method of ramify passes
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from ramify.memory import Column, Forward, Policy, Workbench
from ramify.methods import METHODS, Recipe, Settings, method
from ramify.networks import cross_entropy
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
        stored = bench.memory.counts[: len(level_of)].astype(float)  # by class
        by_level = np.bincount(level_of[: len(stored)], stored)
        stored[level_of[: len(stored)] != by_level.argmax()] = -1
        return int(self.rng.choice(bench.memory.members(int(stored.argmax()))))


def level_er(settings: Settings, rng: Generators) -> Recipe:
    """Four choices: what to keep, what to rehearse, what to minimise, how fast to learn."""
    return Recipe(
        keep=LevelBalanced(rng["keep"]),
        rehearse=HalfAndHalf(rng["rehearse"]),
        minimise=CrossEntropy(),
        rate=ExponentialReset(settings.lr, settings.lr_decay),
    )


# ---- DER++


@dataclass(frozen=True)
class DerSettings:
    """DER++."""

    alpha: float = 0.1
    """Weight of the distance to the answers that were kept."""
    beta: float = 0.5
    """Weight of the labels of stored samples."""


class DarkExperience(CrossEntropy):
    """CE of the arrivals, α · the distance of one half of the stored samples, β · CE of their other half.

    Each is a mean: over labels, and over the answers that were kept.
    """

    columns = {"logits": Column(torch.float16, (0,), float("nan"))}  # noqa: RUF012

    def __init__(self, own: DerSettings) -> None:
        super().__init__()
        self.own = own

    def loss(self, bench: Workbench, forward: Forward) -> Tensor:
        """What to minimise; classes that came after a sample was stored do not count for it."""
        batch, logits, targets = forward.batch, forward.logits, forward.targets
        new, old = np.flatnonzero(batch.arrived), np.flatnonzero(~batch.arrived)
        dark, again = old[: len(old) // 2], old[len(old) // 2 :]
        rows = np.arange(len(batch)) if targets.rows is None else targets.rows
        losses = cross_entropy(logits, targets, bench.levels)
        weight = mean_over(np.isin(rows, new)) + self.own.beta * mean_over(np.isin(rows, again))
        loss = (losses * torch.tensor(weight, dtype=losses.dtype, device=losses.device)).sum()
        bench.note(batch, new, "logits", logits.detach().half())
        if len(dark):
            then = bench.stored(batch, dark, "logits").float()[:, : logits.shape[1]]
            now = logits[torch.from_numpy(dark).to(logits.device), : then.shape[1]]
            kept = ~then.isnan()
            apart = torch.where(kept, now - then.nan_to_num(), 0.0)
            loss = loss + self.own.alpha * apart.square().sum() / kept.sum().clamp(min=1)
        return loss


def mean_over(chosen: np.ndarray) -> np.ndarray:
    """Weights with which a sum becomes the mean of those chosen."""
    return chosen / max(1, chosen.sum())


@method("der++", settings=DerSettings)
def der(settings: Settings, rng: Generators) -> Recipe:
    """DER++: ER that keeps its answers."""
    return replace(METHODS["er"](settings, rng), minimise=DarkExperience(settings[DerSettings]), mix=unmixed)


if __name__ == "__main__":
    from ramify import check_method

    for mine in (level_er, der):
        check_method(mine)
        print(f"{mine.name if mine is der else mine.__name__} passes all checks")
