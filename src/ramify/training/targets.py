"""What each row of a batch is compared with, and the cross-entropy of every row at its own level."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from ramify.classes import Classes


class LevelMask:
    """0 for the classes of a level and -inf for all others, one row a level: [highest level, classes]."""

    def __init__(self, classes: Classes, device: torch.device) -> None:
        self.classes, self.device = classes, device
        self._mask = torch.empty(0, 0)
        self._made_for: npt.NDArray[np.int64] | None = None

    def __call__(self) -> Tensor:
        """The mask for the classes met so far."""
        level_of = self.classes.level_of  # another array after every new class and every restoration
        if self._made_for is not level_of:
            levels = np.arange(1, level_of.max() + 1)
            mask = np.where(level_of[None] == levels[:, None], 0.0, -np.inf)
            self._mask = torch.from_numpy(mask.astype(np.float32)).to(self.device)
            self._made_for = level_of
        return self._mask

    def predict(self, logits: Tensor) -> npt.NDArray[np.int64]:
        """The best class of every level, [n, levels], -1 where a level has no class yet; one pass for all."""
        best = (logits[:, None, :] + self()).argmax(2).cpu().numpy()
        empty = [h - 1 for h in range(1, best.shape[1] + 1) if not len(self.classes.of_level(h))]
        best[:, empty] = -1
        return best


@dataclass(frozen=True)
class Targets:
    """Pairs (row, class) to learn; `partner` is the class mixed into the row by CutMix with weight 1 - λ.

    A sample with one label gives one pair; a sample that carries its class at every level gives one a level.
    """

    rows: npt.NDArray[np.int64] | None  # None: one pair a row, in order
    classes: npt.NDArray[np.int64]
    partner: npt.NDArray[np.int64] | None = None
    lam: npt.NDArray[np.float32] | None = None

    @classmethod
    def of(
        cls,
        labels: npt.NDArray[np.int64],
        paths: npt.NDArray[np.int32] | None,
        partner: npt.NDArray[np.int64] | None = None,
        lam: npt.NDArray[np.float32] | None = None,
    ) -> Targets:
        """Targets of a batch with these labels (or paths), its rows mixed with those of `partner`."""
        if paths is None:
            return cls(None, labels, None if partner is None else labels[partner], lam)
        rows, columns = np.nonzero(paths >= 0)
        classes = paths[rows, columns].astype(np.int64)
        if partner is None or lam is None:
            return cls(rows, classes)
        return cls(rows, classes, paths[partner[rows], columns].astype(np.int64), lam[rows])


def cross_entropy(logits: Tensor, targets: Targets, mask: Tensor, level_of: npt.NDArray[np.int64]) -> Tensor:
    """Cross-entropy of each pair on the head of its level, among the classes seen: [pairs]."""
    log_probabilities = _log_probabilities(logits, targets, mask, level_of)
    losses = -log_probabilities.gather(1, _like(logits, targets.classes)[:, None])[:, 0]
    if targets.partner is None or targets.lam is None:
        return losses
    mixed = -log_probabilities.gather(1, _like(logits, targets.partner)[:, None])[:, 0]
    lam = _like(logits, targets.lam)
    return lam * losses + (1 - lam) * mixed


def residuals(logits: Tensor, targets: Targets, mask: Tensor, level_of: npt.NDArray[np.int64]) -> Tensor:
    """Softmax minus target of each row, [n, classes]: the gradient of its cross-entropy by its logits.

    A row with several pairs gets their mean.
    """
    values = _log_probabilities(logits, targets, mask, level_of).exp()
    own = torch.ones(len(values), device=logits.device) if targets.lam is None else _like(logits, targets.lam)
    values.scatter_add_(1, _like(logits, targets.classes)[:, None], -own[:, None])
    if targets.partner is not None:
        values.scatter_add_(1, _like(logits, targets.partner)[:, None], own[:, None] - 1)
    if targets.rows is None:
        return values
    counts = np.bincount(targets.rows, minlength=len(logits))
    total = torch.zeros(len(logits), values.shape[1], device=logits.device)
    total.index_add_(0, _like(logits, targets.rows), values)
    return total / _like(logits, counts)[:, None]


def _log_probabilities(
    logits: Tensor, targets: Targets, mask: Tensor, level_of: npt.NDArray[np.int64]
) -> Tensor:
    """Log-softmax over the classes of each pair's level: [pairs, classes]."""
    if targets.rows is not None:
        logits = logits[_like(logits, targets.rows)]
    return torch.log_softmax(logits.float() + mask[_like(logits, level_of[targets.classes] - 1)], 1)


def _like(tensor: Tensor, values: npt.NDArray[np.generic]) -> Tensor:
    return torch.from_numpy(values).to(tensor.device, non_blocking=True)
