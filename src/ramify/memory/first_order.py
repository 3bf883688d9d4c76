"""Importance from the training pass itself, without any other."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from ramify.arrays import Floats, Ints
from ramify.memory.importance import RATE, Importance
from ramify.memory.workbench import Forward, Workbench


class FirstOrder(Importance):
    """H_n ≈ η ⟨∇l_n, ∇L⟩ on the heads, whose gradients the training pass already contains.

    With residual r = softmax - target and feature f of each row of the batch, the heads' gradient of row n is
    r_n ⊗ (f_n, 1), so its product with that of the other rows is the mean over m ≠ n of
    (r_n · r_m)(f_n · f_m + 1). Rows of different levels share no class, so the products of a level grow with
    its share of the batch: they are standardised within each level (running mean and deviation) before they
    enter the running average H, otherwise whole coarse classes are evicted.

    The loss that the adaptive rate reads is the mean training loss of the interval against the one before.
    Both are read at each update, for which a device must be waited for.
    """

    _state: ClassVar[tuple[str, ...]] = ("updates", "weight", "mean", "square", "losses", "before")
    MEMORY = 0.99

    def __init__(self, period: int) -> None:
        super().__init__(period)
        self.weight = np.zeros(0)  # level - 1 -> sum of the weights in the running means so far, towards 1
        self.mean = np.zeros(0)  # of the products
        self.square = np.zeros(0)
        self.losses: list[float] = []  # of the updates since `mark`
        self.before: float | None = None  # mean loss of the interval before

    def learned(self, bench: Workbench, forward: Forward) -> None:
        """Credit the batch's samples with their products."""
        loss = float(forward.loss) if forward.loss is not None else np.nan
        if not np.isfinite(loss):  # no update was made
            return
        residuals, features = forward.residuals, forward.features.float()
        products = (residuals @ residuals.T) * (features @ features.T + 1)
        others = products.sum(1) - products.diagonal()
        batch = forward.batch
        raw = others.cpu().numpy().astype(np.float64) / max(1, len(others) - 1)
        labelled = np.flatnonzero(batch.classes >= 0)
        standard = self._standardise(raw[labelled], bench.classes.level_of[batch.classes[labelled]])
        stored = batch.slots[labelled] >= 0
        values, slots = bench.memory["importance"], batch.slots[labelled][stored]
        values[slots] += RATE * (standard[stored] - values[slots])
        self.losses.append(loss)
        super().learned(bench, forward)

    def _standardise(self, raw: Floats, levels: Ints) -> Floats:
        row = levels - 1
        more = row.max() + 1 - len(self.mean)
        if more > 0:
            self.weight, self.mean, self.square = (
                np.pad(x, (0, more)) for x in (self.weight, self.mean, self.square)
            )
        counts = np.bincount(row, minlength=len(self.mean))
        present = counts > 0
        keep = np.where(present, self.MEMORY, 1.0)
        self.weight = keep * self.weight + 1 - keep
        share = (1 - keep) / np.maximum(counts, 1)
        self.mean = keep * self.mean + share * np.bincount(row, raw, len(self.mean))
        self.square = keep * self.square + share * np.bincount(row, raw**2, len(self.mean))
        mean, square = self.mean[row] / self.weight[row], self.square[row] / self.weight[row]
        return (raw - mean) / np.sqrt(np.maximum(square - mean**2, 1e-12))

    def mark(self, bench: Workbench) -> None:
        """Begin an interval."""
        self.before = float(np.mean(self.losses)) if self.losses else None
        self.losses.clear()

    def decrease(self, bench: Workbench) -> float | None:
        """Mean training loss of the interval before minus that of this one."""
        if self.before is None or not self.losses:
            return None
        return self.before - float(np.mean(self.losses))
