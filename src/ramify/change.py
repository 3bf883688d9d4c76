"""What an edit of labels does to what is kept by class or by stored sample, and how parts follow it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from ramify.arrays import Floats, Ints


@dataclass(frozen=True)
class Change:
    """Which class each class has become, and where each stored sample is now.

    A class that becomes another, or none, ends: its number is not given away again, and no other changes. Of
    classes that become one the number that was met first goes on.
    """

    classes: Ints  # class → the class that it is now: itself for most, -1 for none
    shares: Floats  # class → its share of the samples seen by those that became one with it
    slots: Ints  # slot → the slot of its sample now, -1 where that is stored no more
    relabelled: Ints  # slots, as they were, of samples that got other labels than their classes became
    corrected: Mapping[int, Mapping[int, int]]  # number of such a sample → class → that of its level now

    @property
    def ended(self) -> Ints:
        """The classes that are no more."""
        return np.flatnonzero(self.classes != np.arange(len(self.classes)))

    def unions(self, known: int | None = None) -> list[tuple[int, Ints]]:
        """Classes that others became, each with all that it now is; only the first `known` classes count."""
        count = len(self.classes) if known is None else min(known, len(self.classes))
        targets = {int(c) for c in self.classes[self.ended] if 0 <= c < count}
        return [(c, np.flatnonzero(self.classes[:count] == c)) for c in sorted(targets)]

    def weights(self, members: Ints) -> Floats:
        """How much each of the members of a union counts."""
        total = self.shares[members].sum()
        found: Floats = self.shares[members] / total if total else np.full(len(members), 1 / len(members))
        return found


Follow = Callable[[Change, Any], Any]  # from what a part kept to what it keeps now


def class_sums(change: Change, values: Any) -> Any:
    """One value, or row, a class: those of classes that become one are added, those of ended ones 0."""
    values = _copy(values)
    for cls, members in change.unions(len(values)):
        values[cls] = values[members].sum(0)
    values[change.ended[change.ended < len(values)]] = 0
    return values


def class_means(change: Change, values: Any) -> Any:
    """The same, but classes that become one have the mean of their values, weighted by what was seen."""
    values = _copy(values)
    for cls, members in change.unions(len(values)):
        weights: Any = change.weights(members)
        if isinstance(values, torch.Tensor):
            weights = torch.from_numpy(weights).to(values)
        values[cls] = (values[members] * weights.reshape(-1, *[1] * (values.ndim - 1))).sum(0)
    values[change.ended[change.ended < len(values)]] = 0
    return values


def class_pairs(change: Change, values: Any) -> Any:
    """A table of sums with a row and a column for each class."""
    return class_sums(change, class_sums(change, values).T).T


def class_numbers(change: Change, values: Any) -> Any:
    """Values that are numbers of classes, -1 for none."""
    if not len(change.classes):
        return values
    return np.where(values >= 0, change.classes[values], -1).astype(values.dtype)


def slot_rows(change: Change, values: Any) -> Any:
    """A row for each slot: it moves with its sample. The rows of the others are -1, or False."""
    moved = np.full_like(values, False if values.dtype == bool else -1)
    stored = np.flatnonzero(change.slots[: len(values)] >= 0)
    moved[change.slots[stored]] = values[stored]
    return moved


def slot_numbers(change: Change, values: Any) -> Any:
    """Values that are slots; those of samples that are stored no more are left out."""
    now = change.slots[values]
    return now[now >= 0]


def anew(value: Any) -> Follow:
    """What has to be worked out again: back to where it began."""
    return lambda change, kept: value


def _copy(values: Any) -> Any:
    return values.clone() if isinstance(values, torch.Tensor) else values.copy()
