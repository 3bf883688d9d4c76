"""How the logits of all classes are read level by level, and what each row of a batch is compared with."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor

from ramify.arrays import Floats, Ints, Singles
from ramify.classes import Classes


class LevelMask:
    """0 for the classes of a level and -inf for all others, one row a level: [highest level, classes]."""

    def __init__(self, classes: Classes, device: torch.device) -> None:
        self.classes, self.device = classes, device
        self._mask = torch.empty(0, 0)
        self._rows = torch.empty(0, dtype=torch.int64)  # class -> its level's row of the mask
        self._columns: list[Tensor] = []  # the classes of each level from the first to the highest
        self._made_for: Ints | None = None

    def __call__(self) -> Tensor:
        """The mask for the classes met so far."""
        self._make()
        return self._mask

    def _make(self) -> None:
        level_of = self.classes.level_of  # another array after every new class and every restoration
        if self._made_for is not level_of:
            levels = np.arange(1, level_of.max() + 1)
            mask = np.where(level_of[None] == levels[:, None], 0.0, -np.inf)
            self._mask = torch.from_numpy(mask.astype(np.float32)).to(self.device)
            self._rows = torch.from_numpy(level_of - 1).to(self.device)
            columns = (self.classes.of_level(level) for level in levels.tolist())
            self._columns = [torch.from_numpy(classes).to(self.device) for classes in columns]
            self._made_for = level_of

    def of(self, classes: Tensor) -> Tensor:
        """The mask of the level of each of some classes, [n, classes]."""
        self._make()
        return self._mask.index_select(0, self._rows.index_select(0, classes))

    def best(self, logits: Tensor) -> Tensor:
        """The best class of every level, [n, levels], -1 where a level has no class yet; on the device."""
        self._make()
        none = logits.new_full((len(logits),), -1, dtype=torch.int64)
        found = [
            classes[logits.index_select(1, classes).argmax(1)] if len(classes) else none
            for classes in self._columns
        ]
        return torch.stack(found, 1)

    def predict(self, logits: Tensor) -> Ints:
        """The same as an array."""
        found: Ints = self.best(logits).cpu().numpy()
        return found

    def log_probabilities(self, logits: Tensor) -> Floats:
        """Log-softmax within each level, [n, classes]; in double precision, so that no order is lost."""
        values = logits.float().cpu().double()
        for level in self.classes.levels:
            rows = torch.from_numpy(self.classes.of_level(level))
            values[:, rows] = values[:, rows].log_softmax(1)
        values[:, torch.from_numpy(np.flatnonzero(self.classes.level_of == 0))] = -torch.inf  # ended
        found: Floats = values.numpy()
        return found

    def energies(self, logits: Tensor) -> Floats:
        """Free energy −log Σ exp of the logits of each level met, [n, levels]: high where none speaks up."""
        values, levels = logits.float().cpu().double(), self.classes.levels
        parts = [-values[:, torch.from_numpy(self.classes.of_level(h))].logsumexp(1) for h in levels]
        found: Floats = torch.stack(parts, 1).numpy()
        return found


@dataclass(frozen=True)
class Targets:
    """Label pairs (row, class, weight), the pairs of one row at one level together in a group.

    A sample gives a group for each of its labels; after mixing, a group has a second class, the partner's.
    """

    rows: Ints | None  # [groups]; None: one group a row, in order
    classes: Ints  # [groups, 1 or 2], all of one level
    weights: Singles | None = None  # of the same shape; None: one class of weight 1

    @classmethod
    def of(cls, labels: Ints) -> Targets:
        """Targets of a batch with these labels, [n, most labels], -1 where a row has fewer."""
        if labels.shape[1] == 1 and np.minimum.reduce(labels, None, initial=0) == 0:
            return cls(None, labels)
        rows, columns = np.nonzero(labels >= 0)
        return cls(rows, labels[rows, columns][:, None])

    def mixed(self, partner: Ints, lam: Singles) -> Targets:
        """Each row mixed with the row `partner`, which has labels at the same levels; λ is its own share."""
        other, share = partner, lam
        if self.rows is not None:
            counts = np.bincount(self.rows, minlength=len(partner))
            start = np.cumsum(counts) - counts
            other = start[partner[self.rows]] + np.arange(len(self.rows)) - start[self.rows]
            share = lam[self.rows]
        pairs = np.concatenate([self.classes, self.classes[other]], 1)
        return Targets(self.rows, pairs, np.stack([share, 1 - share], 1))

    def __len__(self) -> int:
        return len(self.classes)

    @property
    def single(self) -> bool:
        """Whether each row is compared with just one class."""
        return self.rows is None and self.weights is None


def cross_entropy(logits: Tensor, targets: Targets, levels: LevelMask) -> Tensor:
    """Cross-entropy of each group on the head of its level, among the classes seen: [groups]."""
    classes = like(logits, targets.classes)
    values = _of_level(logits, targets, classes, levels)
    if targets.weights is None:
        return F.cross_entropy(values, classes[:, 0], reduction="none")
    losses = -torch.log_softmax(values, 1).gather(1, classes)
    return (losses * like(logits, targets.weights)).sum(1)


def with_gradient(logits: Tensor, targets: Targets, levels: LevelMask) -> tuple[Tensor, Tensor]:
    """The mean cross-entropy of `single` targets, and its gradient by the logits.

    Both are to the bit what autograd has, in a third of the time.
    """
    classes = like(logits, targets.classes)
    log = torch.log_softmax(_of_level(logits, targets, classes, levels), 1)
    wanted = torch.zeros_like(log).scatter_(1, classes, -1 / len(log))
    return -log.gather(1, classes).mean(), torch._log_softmax_backward_data(wanted, log, 1, log.dtype)


def residuals(logits: Tensor, targets: Targets, levels: LevelMask) -> Tensor:
    """Softmax minus target of each row, [n, classes]: the gradient of its cross-entropy by its logits.

    A row with several groups gets their mean, one without any 0.
    """
    classes = like(logits, targets.classes)
    values = torch.log_softmax(_of_level(logits, targets, classes, levels), 1).exp()
    weights = torch.ones_like(classes, dtype=values.dtype)
    if targets.weights is not None:
        weights = like(logits, targets.weights)
    values.scatter_add_(1, classes, -weights)
    if targets.rows is None:
        return values
    counts = np.bincount(targets.rows, minlength=len(logits)).astype(np.float32)
    total = values.new_zeros(len(logits), values.shape[1])
    total.index_add_(0, like(logits, targets.rows), values)
    return total / like(logits, np.maximum(counts, 1))[:, None]


def level_sets(labels: Ints, level_of: Ints) -> Ints:
    """Which rows have labels at the same levels: their level where each has one label, else any number."""
    levels = np.where(labels >= 0, level_of[labels], 0)
    if ((levels > 0).sum(1) == 1).all():
        found: Ints = levels.max(1)
        return found
    return np.unique(levels, axis=0, return_inverse=True)[1].reshape(-1)


def _of_level(logits: Tensor, targets: Targets, classes: Tensor, levels: LevelMask) -> Tensor:
    """The logits of each group, -inf for the classes of other levels: [groups, classes]."""
    if targets.rows is not None:
        logits = logits[like(logits, targets.rows)]
    return logits.float() + levels.of(classes[:, 0])


def like(tensor: Tensor, values: npt.NDArray[np.generic]) -> Tensor:
    """An array as a tensor beside another one."""
    return torch.from_numpy(values).to(tensor.device, non_blocking=True)
