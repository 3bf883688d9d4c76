"""What to keep: which stored sample makes room for a newcomer, or whether the newcomer is let in at all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt
from torch import Tensor

from ramify.classes import Classes
from ramify.errors import RamifyError
from ramify.memory.store import Ints, Memory
from ramify.state import Stateful


@dataclass(frozen=True)
class Examination:
    """What the model says of stored samples, not augmented, in evaluation mode."""

    losses: npt.NDArray[np.float64]  # [n] cross-entropy at the sample's own level
    predictions: npt.NDArray[np.int64]  # [n, levels] predicted class at each level, -1 where a level has none


Examine = Callable[[Ints], Examination]


@dataclass(frozen=True)
class Update:
    """What one training step has shown of its batch. Rows that are not in memory have slot -1."""

    slots: npt.NDArray[np.int64]
    levels: npt.NDArray[np.int64]
    loss: float
    features: Tensor
    residuals: Callable[
        [], Tensor
    ]  # [n, classes] softmax minus target; like the next, computed when asked for
    predictions: Callable[[], npt.NDArray[np.int64]]  # [n, levels]


class Policy(Stateful):
    """Decides who stays. `before_training`: whether a newcomer is stored before it is trained on."""

    before_training: ClassVar[bool] = False

    def capacity(self, memory_size: int) -> int:
        """How many of the images allowed are for the memory itself."""
        return memory_size

    def bind(self, memory: Memory, classes: Classes, examine: Examine) -> None:
        """Learn which memory to keep, and how to ask the model about stored samples."""
        self.memory, self.classes, self.examine = memory, classes, examine

    def reserve(self, image: Tensor, cls: int) -> bool:
        """Take a sample aside before training sees it (only for methods that validate)."""
        return False

    def offer(self, image: Tensor, cls: int, path: Ints | None = None) -> int | None:
        """Store a newcomer, in the place of the policy's victim once memory is full; its slot or None."""
        if not self.memory.full:
            slot = self.memory.add(image, cls, path)
        else:
            victim = self.victim(cls)
            if victim is None:
                return None
            self.forget(victim)
            slot = self.memory.replace(victim, image, cls, path)
        self.admitted(slot)
        return slot

    def victim(self, newcomer: int) -> int | None:
        """The slot that a newcomer of this class takes in a full memory, or None to turn it away."""
        raise TypeError(f"{type(self).__name__} does not say which sample makes room")

    def forget(self, slot: int) -> None:
        """The sample at `slot` is about to be replaced."""

    def admitted(self, slot: int) -> None:
        """A sample has just been stored at `slot`."""

    def trained(self, update: Update) -> bool:
        """A training step is done. True when the importance of the samples was refreshed."""
        return False


class Reservoir(Policy):
    """Every sample of the stream is in memory with equal probability (Vitter 1985); labels play no part."""

    _state: ClassVar[tuple[str, ...]] = ("seen",)

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng
        self.seen = 0

    def offer(self, image: Tensor, cls: int, path: Ints | None = None) -> int | None:
        """Count the sample, then store it or not."""
        self.seen += 1
        return super().offer(image, cls, path)

    def victim(self, newcomer: int) -> int | None:
        """A uniform draw among all samples seen; one beyond the memory turns the newcomer away."""
        drawn = int(self.rng.integers(self.seen))
        return drawn if drawn < self.memory.capacity else None


class Balanced(Policy):
    """Class-balanced random memory: a random sample of the most frequent class makes room (RM, GDumb)."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng

    def victim(self, newcomer: int) -> int:
        """Uniform among the samples of ȳ."""
        return int(self.rng.choice(self.memory.members(self.memory.most_frequent(newcomer))))


class Everything(Policy):
    """No limit: the whole stream is kept (Oracle). The memory must be as large as the stream."""

    def victim(self, newcomer: int) -> int:
        """Nobody makes room."""
        raise RamifyError(
            f"the memory holds {self.memory.capacity} images and is full, but this method keeps the whole "
            "stream; set memory_size to the length of the stream"
        )
