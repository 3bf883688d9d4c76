"""The memory: one tensor of images, and for each what is known of it."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from ramify.errors import RamifyError
from ramify.state import State, Stateful
from ramify.typed import whole

Ints = npt.NDArray[np.integer]
NONE: Ints = np.empty(0, np.int64)


class Memory(Stateful):
    """Up to `capacity` labelled images. Adding, replacing and the list of a class's samples cost O(1).

    A sample is known by its slot. Everything is allocated at once; slots fill from 0 upwards.
    """

    _state: ClassVar[tuple[str, ...]] = ("size", "classes", "importance", "paths", "counts")

    def __init__(
        self, capacity: int, image_shape: tuple[int, ...], device: torch.device | str = "cpu"
    ) -> None:
        self.capacity = capacity = whole("memory size", capacity, 1)
        try:
            self.images = torch.empty((capacity, *image_shape), dtype=torch.uint8, device=device)
        except RuntimeError:
            size = capacity * math.prod(image_shape) / 1e9
            raise RamifyError(
                f"{capacity:,} images in memory need {size:,.1f} GB, which {device} does not have; "
                "choose a smaller memory_size"
            ) from None
        self.size = 0
        self.classes = np.full(capacity, -1, np.int32)
        self.importance = np.zeros(capacity)
        self.paths: npt.NDArray[np.int32] | None = None  # slot -> class at each level, where a method is told
        self.counts = np.zeros(16, np.int64)  # class -> samples; longer than the number of classes
        self._members: list[npt.NDArray[np.int32]] = []  # class -> its slots, and spare room
        self._position = np.empty(capacity, np.int32)  # slot -> place in its class's list

    @property
    def full(self) -> bool:
        """Whether a newcomer needs a victim."""
        return self.size == self.capacity

    def members(self, cls: int) -> npt.NDArray[np.int32]:
        """The slots of a class's samples (a view, in no particular order)."""
        if cls >= len(self._members):
            return np.empty(0, np.int32)
        return self._members[cls][: self.counts[cls]]

    def add(self, image: Tensor, cls: int, path: Ints | None = None) -> int:
        """Store an image in the next free slot and return the slot."""
        slot = self.size
        if slot == self.capacity:
            raise RamifyError(f"the memory is full with {slot} images; replace one of them")
        self._check(image, cls, path)
        self._fill(slot, image, cls, path)
        self.size += 1
        return slot

    def replace(self, slot: int, image: Tensor, cls: int, path: Ints | None = None) -> int:
        """Store an image in the place of the one at `slot`."""
        if not 0 <= slot < self.size:
            raise RamifyError(f"slot {slot} holds no image to replace; the memory has {self.size}")
        self._check(image, cls, path)
        self._leave_class(slot)
        self._fill(slot, image, cls, path)
        return slot

    def _check(self, image: Tensor, cls: int, path: Ints | None) -> None:
        wanted = self.images.shape[1:]
        if image.dtype != torch.uint8 or image.shape != wanted:
            raise RamifyError(
                f"the image is {image.dtype} of shape {tuple(image.shape)}; it must be uint8 of shape "
                f"{tuple(wanted)}"
            )
        if cls < 0:
            raise RamifyError(f"class {cls} was given; classes count from 0")
        if path is not None and self.paths is not None and len(path) != self.paths.shape[1]:
            raise RamifyError(f"the path has {len(path)} classes; others have {self.paths.shape[1]}")

    def _fill(self, slot: int, image: Tensor, cls: int, path: Ints | None) -> None:
        self.images[slot] = image
        self.importance[slot] = 0.0
        if path is not None:
            if self.paths is None:
                self.paths = np.full((self.capacity, len(path)), -1, np.int32)
            self.paths[slot] = path
        self._join_class(slot, cls)

    def _join_class(self, slot: int, cls: int) -> None:
        while cls >= len(self._members):
            self._members.append(np.empty(4, np.int32))
        if cls >= len(self.counts):
            self.counts = np.pad(self.counts, (0, max(len(self.counts), cls + 1 - len(self.counts))))
        count = self.counts[cls]
        if count == len(self._members[cls]):
            self._members[cls] = np.concatenate([self._members[cls], np.empty(count // 2 + 1, np.int32)])
        self._members[cls][count] = slot
        self._position[slot] = count
        self.classes[slot] = cls
        self.counts[cls] += 1

    def _leave_class(self, slot: int) -> None:
        cls = self.classes[slot]
        self.counts[cls] -= 1
        slots, place, last = self._members[cls], self._position[slot], self.counts[cls]
        moved = slots[last]
        slots[place] = moved
        self._position[moved] = place

    def sample(self, count: int, rng: np.random.Generator, but: Ints = NONE) -> npt.NDArray[np.int64]:
        """Slots drawn uniformly without repetition, `but` these; all where there are fewer than `count`."""
        drawn = rng.choice(self.size, min(count + len(but), self.size), replace=False)
        return drawn[~np.isin(drawn, but)][:count] if len(but) else drawn

    def most_frequent(self, newcomer: int) -> int:
        """ȳ: the class with most samples, counting the newcomer; of equal ones the class that was met first.

        A class none of whose samples are stored cannot lose one, so a newcomer counts only beside its like.
        """
        counted = self.counts
        if newcomer < len(counted) and counted[newcomer]:
            counted = counted.copy()
            counted[newcomer] += 1
        return int(counted.argmax())

    def nbytes(self) -> int:
        """Bytes held by the store, images and all that belongs to them."""
        arrays: list[npt.NDArray[Any]] = [
            self.classes,
            self.importance,
            self.counts,
            self._position,
            *self._members,
        ]
        if self.paths is not None:
            arrays.append(self.paths)
        return self.images.nbytes + sum(a.nbytes for a in arrays)

    def state(self) -> State:
        """Everything, with the lists of the classes in their order."""
        members = [self.members(c) for c in range(len(self._members))]
        lists = np.concatenate(members) if members else np.empty(0, np.int32)
        return super().state() | {"images": self.images[: self.size].clone(), "members": lists}

    def restore(self, state: State) -> None:
        """Continue from `state`."""
        super().restore(state)
        self.images[: self.size] = state["images"].to(self.images.device)
        used = np.flatnonzero(self.counts)
        known = int(used[-1]) + 1 if len(used) else 0
        bounds = np.cumsum(self.counts[:known])
        self._members = np.split(state["members"].copy(), bounds[:-1]) if known else []
        for slots in self._members:
            self._position[slots] = np.arange(len(slots), dtype=np.int32)
