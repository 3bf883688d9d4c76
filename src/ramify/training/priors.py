"""Cross-entropy that does not take what the batches happen to hold for what the world holds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np
from torch import Tensor

from ramify.arrays import Floats
from ramify.change import Change, Follow, class_sums
from ramify.memory import Batch, Forward, Workbench
from ramify.networks.levels import like
from ramify.training.objectives import CrossEntropy


class Shifted(CrossEntropy):
    """Cross-entropy of logits that are shifted class by class (logit adjustment, Menon et al. 2021)."""

    def shift(self, bench: Workbench, batch: Batch) -> Floats:
        """By class; only differences within a level matter."""
        raise TypeError(f"{type(self).__name__} does not say by how much logits are shifted")

    def compared(self, bench: Workbench, forward: Forward) -> Tensor:
        """The logits, shifted."""
        return forward.logits + like(forward.logits, self.shift(bench, forward.batch).astype(np.float32))


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
