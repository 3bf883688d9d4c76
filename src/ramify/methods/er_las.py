"""ER-LAS."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from ramify.arrays import Floats
from ramify.change import Change, Follow
from ramify.memory import Batch, Workbench
from ramify.methods.er import er
from ramify.methods.recipe import Recipe, method
from ramify.methods.settings import Settings
from ramify.randomness import Generators
from ramify.training.objectives import Shifted
from ramify.typed import Count, NotNegative, Typed


@dataclass(frozen=True)
class ErLasSettings(Typed):
    """ER-LAS."""

    tau: NotNegative = 1.0
    """How much of the batches' prior is taken out of the logits."""
    window: Count = 1
    """Batches that the prior is counted in."""


def _labels_now(change: Change, batches: list[list[int]]) -> list[list[int]]:
    """What the labels of some batches have become, without those that are no more."""
    return [[int(change.classes[c]) for c in labels if change.classes[c] >= 0] for labels in batches]


class WindowPrior(Shifted):
    """LAS (Huang et al. 2024): τ · log(share of the class among its level's labels in the latest batches).

    A class without a sample in the window takes no part: its share is 0.
    """

    _state: ClassVar[tuple[str, ...]] = ("latest",)
    _follows: ClassVar[Mapping[str, Follow]] = {"latest": _labels_now}

    def __init__(self, strength: float, window: int) -> None:
        super().__init__()
        self.strength, self.window = strength, window
        self.latest: list[list[int]] = []  # labels of the batches in the window

    def shift(self, bench: Workbench, batch: Batch) -> Floats:
        """By class."""
        level_of = bench.classes.level_of
        self.latest = [*self.latest, batch.labels[batch.labels >= 0].tolist()][-self.window :]
        counts = np.bincount(np.concatenate(self.latest).astype(np.int64), minlength=len(level_of))
        with np.errstate(divide="ignore", invalid="ignore"):
            share: Floats = counts / np.bincount(level_of, counts)[level_of]
            return self.strength * np.log(np.nan_to_num(share))


@method("er-las", settings=ErLasSettings)
def er_las(settings: Settings, rng: Generators) -> Recipe:
    """ER-LAS (Huang et al. 2024): ER whose softmax is adjusted by the class priors of the latest batches."""
    own = settings[ErLasSettings]
    return replace(er(settings, rng), minimise=WindowPrior(own.tau, own.window))
