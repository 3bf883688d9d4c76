"""What to keep: which stored sample makes room for a newcomer, or whether the newcomer is let in at all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from ramify.errors import RamifyError
from ramify.memory.batch import Sample
from ramify.memory.store import Columns, Memory
from ramify.memory.workbench import Forward, Workbench
from ramify.state import Stateful


class Policy(Stateful):
    """Decides who stays. `columns` are what it needs kept with each sample.

    As it stands, a sample is offered to the memory when it has been trained on. One without any label has
    nothing to rehearse and is not stored.
    """

    columns: ClassVar[Columns] = {}

    def stores(self) -> tuple[Memory, ...]:
        """What it keeps beside the memory."""
        return ()

    def arrive(self, bench: Workbench, sample: Sample) -> bool:
        """A sample has arrived; whether it is to be trained on."""
        return True

    def settle(self, bench: Workbench, samples: Sequence[Sample]) -> None:
        """Samples have been trained on."""
        for sample in samples:
            self.offer(bench, sample)

    def offer(self, bench: Workbench, sample: Sample) -> int | None:
        """Store a newcomer, in the place of the policy's victim once memory is full; its slot or None."""
        if not sample.labels:
            return None
        if not bench.memory.full:
            return bench.memory.add(sample)
        victim = self.victim(bench, sample.cls)
        return None if victim is None else bench.memory.replace(victim, sample)

    def victim(self, bench: Workbench, newcomer: int) -> int | None:
        """The slot that a newcomer of this class takes in a full memory, or None to turn it away."""
        raise TypeError(f"{type(self).__name__} does not say which sample makes room")

    def learned(self, bench: Workbench, forward: Forward) -> None:
        """An update has been made."""


class StoreFirst(Policy):
    """A policy that stores a sample before it is trained on."""

    def arrive(self, bench: Workbench, sample: Sample) -> bool:
        """Offer the sample to the memory."""
        slot = self.offer(bench, sample)
        sample.slot = -1 if slot is None else slot
        return True

    def settle(self, bench: Workbench, samples: Sequence[Sample]) -> None:
        """They are stored already, or were turned away."""


class Reservoir(Policy):
    """Every labelled sample of the stream is in memory with equal probability (Vitter 1985)."""

    _state: ClassVar[tuple[str, ...]] = ("seen",)

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng
        self.seen = 0

    def offer(self, bench: Workbench, sample: Sample) -> int | None:
        """Count the sample, then store it or not; one without a label is none of those drawn from."""
        self.seen += bool(sample.labels)
        return super().offer(bench, sample)

    def victim(self, bench: Workbench, newcomer: int) -> int | None:
        """A uniform draw among all samples seen; one beyond the memory turns the newcomer away."""
        drawn = int(self.rng.integers(self.seen))
        return drawn if drawn < bench.memory.capacity else None


def of_most_frequent(memory: Memory, newcomer: int, rng: np.random.Generator) -> int:
    """A random sample of the class ȳ that has most."""
    return int(rng.choice(memory.members(memory.most_frequent(newcomer))))


class Balanced(Policy):
    """Class-balanced random memory: a random sample of the most frequent class makes room (RM, GDumb)."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng

    def victim(self, bench: Workbench, newcomer: int) -> int:
        """Uniform among the samples of ȳ."""
        return of_most_frequent(bench.memory, newcomer, self.rng)


class Nowhere(Policy):
    """No sample is kept; the memory of such a method has no places."""

    def settle(self, bench: Workbench, samples: Sequence[Sample]) -> None:
        """They go."""


class Everything(Policy):
    """No limit: the whole stream is kept (Oracle). The memory must be as large as the stream."""

    def victim(self, bench: Workbench, newcomer: int) -> int:
        """Nobody makes room."""
        raise RamifyError(
            f"the memory holds {bench.memory.capacity} samples and is full, but this method keeps the whole "
            "stream; set memory_size to the length of the stream"
        )
