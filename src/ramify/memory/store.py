"""The memory: a store of declared columns, and for each class the list of its samples."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from ramify.arrays import AnyInts, Ints
from ramify.errors import RamifyError
from ramify.memory.batch import Batch, Sample
from ramify.state import State, Stateful, copied
from ramify.typed import whole

NONE: AnyInts = np.empty(0, np.int64)


@dataclass(frozen=True)
class Column:
    """What is kept with each sample under one name: on the device for a torch dtype, else on the host.

    A newcomer has `fill` unless it brings a value. The last axis may grow (`Memory.widen`). What is
    `of_label` is the fill again when the sample's labels are changed.
    """

    dtype: Any
    shape: tuple[int, ...] = ()
    fill: float = 0
    of_label: bool = False

    def allocate(self, rows: int, device: torch.device | str) -> Any:
        """Room for so many samples."""
        if isinstance(self.dtype, torch.dtype):
            return torch.full((rows, *self.shape), self.fill, dtype=self.dtype, device=device)
        return np.full((rows, *self.shape), self.fill, self.dtype)


LABELS = Column(np.int32, (1,), -1)
SAMPLE = Column(np.int64, (), -1)  # the sample's number in its stream
Columns = Mapping[str, Column]


class Memory(Stateful):
    """Up to `capacity` samples. Adding, replacing and the list of a class's samples cost O(1).

    A sample is known by its slot; `memory[name]` is a column, one row a slot. Each column is one allocation;
    slots fill from 0 upwards. A sample is listed under the one class that it counts for.
    """

    _state: ClassVar[tuple[str, ...]] = ("size", "classes", "counts")

    def __init__(
        self,
        capacity: int,
        columns: Columns,
        device: torch.device | str = "cpu",
        fetch: Callable[[Tensor], Tensor] = lambda kept: kept,
        home: torch.device | None = None,
    ) -> None:
        self.capacity = capacity = whole("memory size", capacity, 0)
        self.device = torch.device(device)
        self.home = home or self.device  # of the inputs, by far the most of it
        self._fetch = fetch  # from what is kept of samples to the samples
        self.columns = {"labels": LABELS, **columns}
        try:
            self._values = {
                name: column.allocate(capacity, self.home if name == "inputs" else self.device)
                for name, column in self.columns.items()
            }
        except (RuntimeError, MemoryError):
            size = capacity * math.prod(self.columns["inputs"].shape) / 1e9
            raise RamifyError(
                f"{capacity:,} samples in memory need {size:,.1f} GB, which {self.home} does not have; "
                f"choose a smaller memory_size{'' if self.home.type == 'cpu' else ' or memory_device=host'}"
            ) from None
        self.size = 0
        self.classes = np.full(capacity, -1, np.int32)
        self.counts = np.zeros(16, np.int64)  # class -> samples; longer than the number of classes
        self._members: list[npt.NDArray[np.int32]] = []  # class -> its slots, and spare room
        self._position = np.empty(capacity, np.int32)  # slot -> place in its class's list

    def __getitem__(self, name: str) -> Any:
        """A whole column."""
        return self._values[name]

    @property
    def full(self) -> bool:
        """Whether a newcomer needs a victim."""
        return self.size == self.capacity

    def members(self, cls: int) -> npt.NDArray[np.int32]:
        """The slots of a class's samples (a view, in no particular order)."""
        if cls >= len(self._members):
            return np.empty(0, np.int32)
        return self._members[cls][: self.counts[cls]]

    def counted(self, classes: int) -> Ints:
        """How many samples each of the first so many classes has."""
        found = np.zeros(classes, np.int64)
        found[: len(self.counts)] = self.counts[:classes]
        return found

    def batch(self, slots: AnyInts) -> Batch:
        """Stored samples as a batch."""
        return Batch(
            self._fetch(self["inputs"].index_select(0, torch.from_numpy(slots).to(self.home))),
            self["labels"][slots].astype(np.int64),
            self.classes[slots].astype(np.int64),
            slots,
            np.full(len(slots), -1),
        )

    def add(self, sample: Sample) -> int:
        """Store a sample in the next free slot and return the slot."""
        slot = self.size
        if slot == self.capacity:
            raise RamifyError(f"the memory is full with {slot} samples; replace one of them")
        self._check(sample)
        self._fill(slot, sample)
        self.size += 1
        return slot

    def replace(self, slot: int, sample: Sample) -> int:
        """Store a sample in the place of the one at `slot`."""
        if not 0 <= slot < self.size:
            raise RamifyError(f"slot {slot} holds no sample to replace; the memory has {self.size}")
        self._check(sample)
        self._leave_class(slot)
        self._fill(slot, sample)
        return slot

    def relabel(self, slot: int, labels: tuple[int, ...], cls: int) -> None:
        """Give a stored sample other labels; it counts for `cls`, one of them."""
        self._leave_class(slot)
        for name, column in self.columns.items():
            if column.of_label or name == "labels":
                self._values[name][slot] = column.fill
        self.write("labels", slot, labels)
        self._join_class(slot, cls)

    def remove(self, slots: AnyInts) -> Ints:
        """Take samples out, and their inputs with them; the last ones move to their places.

        For each slot the slot of its sample now, -1 where there is none.
        """
        gone, before = np.unique(slots), self.size
        self.size = before - len(gone)
        to = gone[gone < self.size]
        moving = np.setdiff1d(np.arange(self.size, before), gone)
        for slot in gone:
            self._leave_class(slot)
        for old, new in zip(moving, to, strict=True):
            cls, place = self.classes[old], self._position[old]
            self._members[cls][place] = new
            self.classes[new], self._position[new] = cls, place
        for name, column in self.columns.items():
            values = self._values[name]
            values[to] = values[moving]
            values[self.size : before] = column.fill
        self.classes[self.size :] = -1
        now = np.full(self.capacity, -1, np.int64)
        now[: self.size] = np.arange(self.size)
        now[moving], now[gone] = to, -1
        return now

    def widen(self, name: str, width: int) -> None:
        """Let the last axis of a column have at least this length; what is new of it holds its fill."""
        values, column = self._values[name], self.columns[name]
        more = width - values.shape[-1]
        if more > 0:
            more = max(more, values.shape[-1] // 2)  # not one by one: it is copied
            spare = replace(column, shape=(*values.shape[1:-1], more))
            join = torch.cat if isinstance(values, Tensor) else np.concatenate
            self._values[name] = join([values, spare.allocate(self.capacity, self.device)], -1)

    def _check(self, sample: Sample) -> None:
        stored, given = self["inputs"], sample.inputs
        if given.dtype != stored.dtype or given.shape != stored.shape[1:]:
            raise RamifyError(
                f"the sample is {given.dtype} of shape {tuple(given.shape)}; it must be {stored.dtype} of "
                f"shape {tuple(stored.shape[1:])}"
            )
        if sample.cls < 0:
            raise RamifyError(
                f"class {sample.cls} was given; a stored sample has a label, and classes count from 0"
            )

    def _fill(self, slot: int, sample: Sample) -> None:
        for name, column in self.columns.items():
            if name != "inputs":
                self._values[name][slot] = column.fill
        self["inputs"][slot] = sample.inputs
        self.write("labels", slot, sample.labels)
        for name, value in sample.values.items():
            self.write(name, slot, value)
        self._join_class(slot, sample.cls)

    def write(self, name: str, slot: int, value: Any) -> None:
        """Set the value of one sample; one shorter than the column leaves the rest of its row."""
        if isinstance(self._values[name], Tensor):
            value = torch.as_tensor(value)
        shape = np.shape(value)
        if shape:
            self.widen(name, shape[-1])
        column = self._values[name]
        if shape == column.shape[1:]:  # four times as fast as a part of it
            column[slot] = value
        else:
            column[slot, ..., : shape[-1]] = value

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

    def sample(self, count: int, rng: np.random.Generator, but: AnyInts = NONE) -> AnyInts:
        """Slots drawn uniformly without repetition, `but` these; all where there are fewer than `count`."""
        drawn = rng.choice(self.size, min(count + len(but), self.size), replace=False)
        return drawn[(drawn[:, None] != but).all(1)][:count] if len(but) else drawn

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
        """Bytes held by the store, inputs and all that belongs to them."""
        own = (self.classes, self.counts, self._position, *self._members)
        return sum(int(values.nbytes) for values in (*self._values.values(), *own))

    def state(self) -> State:
        """Everything, with the lists of the classes in their order; columns by name."""
        members = [self.members(c) for c in range(len(self._members))]
        lists = np.concatenate(members) if members else np.empty(0, np.int32)
        columns = {name: copied(values[: self.size]) for name, values in self._values.items()}
        return super().state() | {"columns": columns, "members": lists}

    def restore(self, state: State) -> None:
        """Continue from `state`."""
        super().restore(state)
        for name, values in state["columns"].items():
            column, declared = self._values[name], self.columns[name]
            if values.ndim > 1 and values.shape[-1] != column.shape[-1]:  # one of them has grown since
                width = (*column.shape[1:-1], values.shape[-1])
                column = replace(declared, shape=width).allocate(self.capacity, self.device)
                self._values[name] = column
            column[: self.size] = values
            column[self.size :] = declared.fill
        for name in self.columns.keys() - state["columns"].keys():  # declared since
            self._values[name][:] = self.columns[name].fill
        used = np.flatnonzero(self.counts)
        known = int(used[-1]) + 1 if len(used) else 0
        bounds = np.cumsum(self.counts[:known])
        self._members = np.split(state["members"].copy(), bounds[:-1]) if known else []
        for slots in self._members:
            self._position[slots] = np.arange(len(slots), dtype=np.int32)
