"""DER++."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from ramify.memory import Column, Forward, Workbench
from ramify.memory.store import Columns
from ramify.methods.er import er
from ramify.methods.recipe import Recipe, method
from ramify.methods.settings import Settings
from ramify.networks import cross_entropy
from ramify.networks.levels import like
from ramify.randomness import Generators
from ramify.training.cutmix import unmixed
from ramify.training.objectives import CrossEntropy
from ramify.typed import NotNegative, Typed


@dataclass(frozen=True)
class DerSettings(Typed):
    """DER++."""

    alpha: NotNegative = 0.1
    """Weight of the distance to the answers that were kept."""
    beta: NotNegative = 0.5
    """Weight of the labels of stored samples."""


class DarkExperience(CrossEntropy):
    """CE of the arrivals, α · the distance of one half of the stored samples, β · CE of their other half.

    Each is a mean: over labels, and over the answers that were kept.
    """

    columns: ClassVar[Columns] = {"logits": Column(torch.float16, (0,), float("nan"))}

    def __init__(self, own: DerSettings) -> None:
        super().__init__()
        self.own = own

    def loss(self, bench: Workbench, forward: Forward) -> Tensor:
        """What to minimise; classes that came after a sample was stored do not count for it."""
        batch, logits, targets = forward.batch, forward.logits, forward.targets
        new, old = np.flatnonzero(batch.slots < 0), np.flatnonzero(batch.slots >= 0)
        dark, again = old[: len(old) // 2], old[len(old) // 2 :]
        rows = np.arange(len(batch)) if targets.rows is None else targets.rows
        losses = cross_entropy(logits, targets, bench.levels)
        first, second = (np.isin(rows, part) for part in (new, again))
        weight = first / max(1, first.sum()) + self.own.beta * (second / max(1, second.sum()))
        loss = (losses * like(losses, weight.astype(np.float32))).sum()
        bench.note(batch, new, "logits", logits.detach().half())
        if len(dark):
            then = bench.stored(batch, dark, "logits").float()[:, : logits.shape[1]]
            now = logits[like(logits, dark), : then.shape[1]]
            going_on = like(logits, bench.classes.level_of > 0)[: then.shape[1]]  # not ended by an edit
            kept = ~then.isnan() & going_on
            apart = torch.where(kept, now - then.nan_to_num(), 0.0)
            loss = loss + self.own.alpha * apart.square().sum() / kept.sum().clamp(min=1)
        return loss


@method("der++", settings=DerSettings)
def der(settings: Settings, rng: Generators) -> Recipe:
    """DER++ (Buzzega et al. 2020): ER that keeps its answers to what arrives and holds later ones to them.

    For no more passes than ER makes, one half of the stored samples of a batch is compared with the answers
    kept, the other with the labels. CutMix is off: the answers kept are those to the sample alone.
    """
    return replace(er(settings, rng), minimise=DarkExperience(settings[DerSettings]), mix=unmixed)
