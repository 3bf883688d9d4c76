"""One sample, and the samples of one training step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from ramify.arrays import AnyInts, Floats, Ints, Mask, Singles
from ramify.state import State


class Choice(NamedTuple):
    """What a batch is made of."""

    rows: AnyInts  # of the arrivals
    slots: AnyInts  # of the stored samples
    rehearsed: Floats | None = None  # how often each has been trained on, times `Workbench.reach`, if told


class Mixture(NamedTuple):
    """With whom each sample of a batch is mixed, where, and what share stays its own; None: it is not."""

    partner: Ints | None = None
    box: Mask | None = None  # [n, 1, height, width]
    lam: Singles | None = None


@dataclass
class Sample:
    """A sample that has arrived. `values` are those of other columns that it brings into memory."""

    inputs: Tensor  # uint8 [3, h, w], or a feature
    labels: tuple[int, ...]  # its classes, coarsest level first; several, one or none
    cls: int = -1  # the class that it counts for in memory; -1 without a label
    slot: int = -1  # where it is stored, -1 if it is not
    values: dict[str, Any] = field(default_factory=dict)
    new: bool = True  # not trained on yet

    def state(self) -> State:
        """All but whether it is new: of those that wait, the latest are."""
        copied = {"inputs": self.inputs.clone(), "labels": list(self.labels), "values": dict(self.values)}
        return {name: value for name, value in vars(self).items() if name != "new"} | copied


@dataclass(frozen=True)
class Batch:
    """Samples that are trained on together: some have just arrived, the others come from memory."""

    inputs: Tensor  # uint8 [n, 3, h, w], or features [n, size]
    labels: Ints  # [n, most labels of a row], -1 where a row has fewer
    classes: Ints  # [n] the class that each counts for, -1 without a label
    slots: AnyInts  # [n] where in memory each is, -1 for those that are not stored
    arrivals: AnyInts  # [n] place among the samples that wait, -1 for those that have been before
    ready: Tensor | None = None  # what the network takes, where that was made ahead
    mixture: Mixture | None = None  # known where the batch was mixed ahead, or left unmixed
    rehearsed: Floats | None = None  # [n] as `Choice` has it

    def __len__(self) -> int:
        return len(self.classes)

    @property
    def arrived(self) -> Mask:
        """Which rows have just arrived."""
        return self.arrivals >= 0

    def take(self, rows: AnyInts) -> Batch:
        """Some of the samples, in the order of `rows`."""
        chosen = torch.from_numpy(rows).to(self.inputs.device)
        others = (self.labels[rows], self.classes[rows], self.slots[rows], self.arrivals[rows])
        return Batch(self.inputs.index_select(0, chosen), *others)

    def split(self, sizes: Sequence[int]) -> list[Batch]:
        """So many of the samples after each other; no value is copied."""
        ends = list(accumulate(sizes))
        parts = [slice(end - size, end) for end, size in zip(ends, sizes, strict=True)]
        return [
            Batch(
                *(self.inputs[part], self.labels[part], self.classes[part], self.slots[part]),
                self.arrivals[part],
                rehearsed=None if self.rehearsed is None else self.rehearsed[part],
            )
            for part in parts
        ]

    def join(self, other: Batch) -> Batch:
        """Both, one after the other."""
        return joined([self, other])


def joined(parts: Sequence[Batch]) -> Batch:
    """All of them, one after the other."""
    parts = [part for part in parts if len(part)] or parts[:1]
    if len(parts) == 1:
        return parts[0]
    return Batch(
        torch.cat([part.inputs for part in parts]),
        stacked([part.labels for part in parts]),
        np.concatenate([part.classes for part in parts]),
        np.concatenate([part.slots for part in parts]),
        np.concatenate([part.arrivals for part in parts]),
    )


def arrived(samples: Sequence[Sample]) -> Batch:
    """Samples that wait, as a batch. One whose slot went to a later one is stored no more."""
    holder = {sample.slot: row for row, sample in enumerate(samples)}
    slots = [sample.slot if holder[sample.slot] == row else -1 for row, sample in enumerate(samples)]
    width = max(1, *(len(sample.labels) for sample in samples))
    return Batch(
        torch.stack([sample.inputs for sample in samples]),
        np.array([sample.labels + (-1,) * (width - len(sample.labels)) for sample in samples]),
        np.array([sample.cls for sample in samples]),
        np.array(slots),
        np.arange(len(samples)),
    )


def stacked(labels: Sequence[Ints]) -> Ints:
    """Tables of labels one above the other, as wide as the widest."""
    width = max(table.shape[1] for table in labels)
    padded = [
        table
        if table.shape[1] == width
        else np.pad(table, ((0, 0), (0, width - table.shape[1])), constant_values=-1)
        for table in labels
    ]
    return np.concatenate(padded)
