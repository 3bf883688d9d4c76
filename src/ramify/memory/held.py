"""What a learner holds of what it was taught: the samples in memory, and those on their way there."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from ramify.arrays import Ints
from ramify.memory.batch import arrived, stacked
from ramify.memory.store import SAMPLE
from ramify.memory.workbench import Workbench


class Held:
    """Stored samples by place: first those in memory, by slot, then those that wait or are in a window.

    A method that stores nothing holds nothing. What is asked about stored samples is asked about all of them:
    a window of 64 is most of what a small model has been taught with.
    """

    def __init__(self, bench: Workbench) -> None:
        memory = self.memory = bench.memory
        self.numbers: Ints = np.asarray(memory["sample"][: memory.size], np.int64)
        inside = set(self.numbers.tolist()) - {SAMPLE.fill}
        waiting = bench.waiting if memory.capacity else []
        self.waiting = [sample for sample in waiting if sample.values["sample"] not in inside]
        self.classes: Ints = memory.classes[: memory.size].astype(np.int64)
        self.labels: Ints = memory["labels"][: memory.size].astype(np.int64)
        if self.waiting:
            others = arrived(self.waiting)
            self.numbers = np.append(self.numbers, [sample.values["sample"] for sample in self.waiting])
            self.classes = np.append(self.classes, others.classes)
            self.labels = stacked([self.labels, others.labels])

    def __len__(self) -> int:
        return len(self.numbers)

    def inputs(self, places: Ints) -> Tensor:
        """What the network takes of some of them, in the order of `places`, which rises."""
        inside = np.searchsorted(places, self.memory.size)
        stored = self.memory.batch(places[:inside]).inputs
        if inside == len(places):
            return stored
        others = torch.stack([self.waiting[place - self.memory.size].inputs for place in places[inside:]])
        return torch.cat([stored, others.to(stored)]) if inside else others
