"""Heads in closed form, from sums over features: linear discriminant analysis and ridge regression."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from ramify.arrays import Array, Ints
from ramify.change import Change, Follow, class_numbers, class_sums
from ramify.state import Stateful

BLOCK = 256  # rows that are summed at a time
PENALTIES = 10.0 ** np.arange(-4, 4.5, 0.5)  # of ridge regression, in means of the feature's squares
Head = tuple[Tensor, Tensor]  # rows [classes, f] and biases [classes]


@dataclass(frozen=True)
class Moments:
    """Of features with their classes, in double precision, on the host; one with two labels counts twice."""

    counts: Tensor  # [classes]
    sums: Tensor  # [classes, f]
    products: Tensor  # [f, f] Σ x xᵀ, or one number: its trace

    @classmethod
    def of(cls, features: Tensor, classes: Ints, count: int, full: bool = True) -> Moments:
        """Of rows [n, f], each with one class of `count`; the products in full, or their trace alone."""
        rows, own = features.detach().cpu().double(), torch.from_numpy(classes)
        zeros = torch.zeros(count, rows.shape[1], dtype=torch.double)
        return cls(
            torch.bincount(own, minlength=count).double(),
            zeros.index_add_(0, own, rows),
            rows.T @ rows if full else (rows * rows).sum(),
        )

    def __add__(self, other: Moments) -> Moments:
        """Of both; the later one knows at least as many classes."""
        more = len(other.counts) - len(self.counts)
        pad = torch.nn.functional.pad
        return Moments(
            pad(self.counts, (0, more)) + other.counts,
            pad(self.sums, (0, 0, 0, more)) + other.sums,
            self.products + other.products,
        )

    @property
    def means(self) -> Tensor:
        """[classes, f], 0 for a class without features."""
        return self.sums / self.counts.clamp(min=1)[:, None]

    @cached_property
    def spectrum(self) -> tuple[Tensor, Tensor]:
        """Eigenvalues [f] and eigenvectors [f, f] of the products."""
        values, vectors = torch.linalg.eigh(self.products)
        return values.clamp(min=0), vectors

    def covariance(self, shrinkage: float | None) -> Tensor:
        """Of the features around their class's mean, [f, f], drawn towards a multiple of the identity.

        Without `shrinkage` as if 4 f features of that multiple had been seen: the fewer, the more. Where only
        the trace is known: that multiple, the mean variance of a feature.
        """
        means, size = self.means, self.sums.shape[1]
        free = (self.counts.sum() - (self.counts > 0).sum()).clamp(min=1)
        if not self.products.ndim:
            return _positive((self.products - (self.sums * means).sum()) / free / size)
        found = (self.products - self.sums.T @ means) / free
        if shrinkage is None:
            shrinkage = 4 * size / (float(self.counts.sum()) + 4 * size)
        target = _positive(found.diagonal().mean())
        return (1 - shrinkage) * found + shrinkage * target * torch.eye(size, dtype=torch.double)


def _positive(variance: Tensor) -> Tensor:
    """One, where nothing has varied so far."""
    return variance if variance > 1e-12 else torch.ones_like(variance)


class Gathered(Stateful):
    """Moments of a stream, block by block: how it is cut into calls changes no bit of them."""

    _state: ClassVar[tuple[str, ...]] = ("counts", "sums", "products", "rows", "owners")
    _follows: ClassVar[Mapping[str, Follow]] = {
        "counts": class_sums,
        "sums": class_sums,
        "owners": class_numbers,
    }

    def __init__(self, full: bool = True) -> None:
        self.full = full
        self.counts: Array = np.zeros(0)  # arrays: they stay on the host
        self.sums: Array = np.zeros((0, 0))
        self.products: Array = np.zeros(())
        self.rows: Array = np.zeros((0, 0), np.float32)  # of the block that is not full yet
        self.owners: Ints = np.zeros(0, np.int64)

    def __len__(self) -> int:
        """Rows taken in so far."""
        return int(self.counts.sum()) + len(self.owners)

    def add(self, features: Tensor, labels: Ints) -> None:
        """Take rows [n, f] in with their labels [n, most labels], -1 where a row has fewer."""
        rows, owners = pairs(features, labels)
        self.rows = np.concatenate([self.rows, rows]) if len(self.rows) else rows
        self.owners = np.concatenate([self.owners, owners])
        while len(self.owners) >= BLOCK:
            block = self.rows[:BLOCK], self.owners[:BLOCK]
            self.rows, self.owners = self.rows[BLOCK:].copy(), self.owners[BLOCK:].copy()
            total = self._sum(*block, max(len(self.counts), int(block[1].max()) + 1))
            self.counts, self.sums, self.products = (
                value.numpy() for value in (total.counts, total.sums, total.products)
            )

    def moments(self, count: int, features: Tensor | None = None, labels: Ints | None = None) -> Moments:
        """Of all taken in so far, for `count` classes, and of some more rows."""
        rows, owners = self.rows, self.owners
        if features is not None and labels is not None:
            more, whose = pairs(features, labels)
            rows, owners = (np.concatenate([rows, more]) if len(rows) else more), np.append(owners, whose)
        return self._sum(rows, owners, count)

    def follow(self, change: Change) -> None:
        """The sums of classes that become one are added; of a forgotten one no trace of its mean stays."""
        gone = np.flatnonzero(change.classes[: len(self.counts)] < 0)
        sums = torch.from_numpy(self.sums[gone])
        apart = sums / torch.from_numpy(np.sqrt(np.maximum(self.counts[gone], 1)))[:, None]
        lost = apart.T @ apart if self.full else (apart * apart).sum()
        if len(gone):
            self.products = (torch.from_numpy(self.products) - lost).numpy()
        super().follow(change)

    def _sum(self, rows: Array, owners: Ints, count: int) -> Moments:
        size = rows.shape[1] or self.sums.shape[1]
        kept = owners >= 0  # a class may have been forgotten since
        new = Moments.of(torch.from_numpy(rows.reshape(-1, size)[kept]), owners[kept], count, self.full)
        if not len(self.counts):
            return new
        return Moments(*(torch.from_numpy(v) for v in (self.counts, self.sums, self.products))) + new


def pairs(features: Tensor, labels: Ints) -> tuple[Array, Ints]:
    """A row for each label of each feature, and the labels."""
    rows, columns = np.nonzero(labels >= 0)
    return features.detach().float().cpu().numpy()[rows], labels[rows, columns]


def discriminant(means: Tensor, covariance: Tensor) -> Head:
    """Linear discriminant analysis: logits are the classes' log-likelihoods up to a common term."""
    rows = torch.linalg.solve(covariance, means.T).T if covariance.ndim else means / covariance
    return rows, -0.5 * (rows * means).sum(1)


def ridge(moments: Moments, counts: Tensor, sums: Tensor, levels: Sequence[Ints]) -> Head:
    """Ridge regression of every class's indicator, without an intercept, on the features of `moments`.

    Each level has the penalty of least generalised cross-validation error (Golub, Heath & Wahba 1979), which
    the moments alone give. The scores are those of a row that has a label at the level, divided by the
    variance that they leave: the logits of a regression with normal errors.
    """
    (values, vectors), total = moments.spectrum, moments.counts.sum()
    along = vectors.T @ sums.T  # [f, classes]
    penalties = torch.from_numpy(PENALTIES) * values.mean().clamp(min=1e-12)
    shrunk = values / (values + penalties[:, None])  # [penalties, f]
    freedom = (1 - shrunk.sum(1) / total).clamp(min=1e-6) ** 2
    rows = torch.zeros_like(sums)
    for level in levels:
        own = torch.from_numpy(level)
        labelled = counts[own].sum()
        energy = (along[:, own] ** 2).sum(1) / values.clamp(min=1e-12)
        explained = (energy * (2 * shrunk - shrunk**2)).sum(1)
        best = int(((labelled - explained) / freedom).argmin())
        share = total / labelled
        left = (labelled - share * explained[best]) / labelled / freedom[best] / len(level)
        solved = vectors @ (along[:, own] / (values + penalties[best])[:, None])
        rows[own] = solved.T * share / left.clamp(min=1e-2 / len(level))
    return rows, torch.zeros(len(rows), dtype=torch.double)
