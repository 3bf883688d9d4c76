"""The samples of one training step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from ramify.memory import Memory


@dataclass(frozen=True)
class Batch:
    """Images with their classes; `slots` says where in memory each is, -1 for those that are not stored."""

    images: Tensor  # uint8 [n, 3, h, w]
    classes: npt.NDArray[np.int64]
    slots: npt.NDArray[np.int64]
    paths: npt.NDArray[np.int32] | None = None  # [n, levels], where a method is told the class at every level

    def __len__(self) -> int:
        return len(self.classes)

    def take(self, rows: npt.NDArray[np.int64]) -> Batch:
        """Some of the samples, in the order of `rows`."""
        chosen = torch.from_numpy(rows).to(self.images.device)
        paths = None if self.paths is None else self.paths[rows]
        return Batch(self.images[chosen], self.classes[rows], self.slots[rows], paths)

    def join(self, other: Batch) -> Batch:
        """Both, one after the other."""
        if not len(self):
            return other
        if not len(other):
            return self
        paths = None
        if self.paths is not None and other.paths is not None:
            paths = np.concatenate([self.paths, other.paths])
        return Batch(
            torch.cat([self.images, other.images]),
            np.concatenate([self.classes, other.classes]),
            np.concatenate([self.slots, other.slots]),
            paths,
        )


class Arrival(NamedTuple):
    """A sample that waits for its update; `slot` says where it was stored on arrival, -1 if it was not."""

    image: Tensor
    cls: int
    path: npt.NDArray[np.int32] | None
    slot: int


def arrived(arrivals: Sequence[Arrival]) -> Batch:
    """Arrivals as a batch. One whose slot went to a later one is stored no more."""
    images, classes, paths, given = zip(*arrivals, strict=True)
    holder = {slot: row for row, slot in enumerate(given)}
    slots = [slot if holder[slot] == row else -1 for row, slot in enumerate(given)]
    told = np.stack(paths) if paths[0] is not None else None
    return Batch(torch.stack(images), np.array(classes), np.array(slots), told)


def stored(memory: Memory, slots: npt.NDArray[np.int64]) -> Batch:
    """Samples of memory as a batch."""
    images = memory.images[torch.from_numpy(slots).to(memory.images.device)]
    paths = None if memory.paths is None else memory.paths[slots]
    return Batch(images, memory.classes[slots].astype(np.int64), slots, paths)
