"""What every part of a learner may read and ask: memory, classes, model, counters, generators."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property, partial
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from ramify.arrays import AnyInts, Array, Floats, Ints, Singles
from ramify.classes import Classes
from ramify.memory.batch import Batch, Choice, Sample, joined
from ramify.memory.readings import Readings
from ramify.memory.store import SAMPLE, Columns, Memory
from ramify.networks.inputs import FeatureInputs
from ramify.networks.levels import LevelMask, Targets, cross_entropy, like, residuals
from ramify.networks.model import Model
from ramify.randomness import Generators
from ramify.state import State, Stateful

LOOK = 256  # samples in one pass without gradients
LONG, FURTHEST = 10_000, 5.0  # updates from which on `Workbench.reach` grows, and how far
Weights = dict[str, Tensor]


@dataclass
class Cost:
    """Samples that went through the network, by purpose."""

    images_forward: int = 0  # in training, virtual steps and teachers included
    images_backward: int = 0
    images_memory: int = 0  # stored samples examined for importance and votes
    images_evaluation: int = 0


@dataclass(frozen=True)
class Examination:
    """What the model says of stored samples, not augmented, in evaluation mode."""

    slots: AnyInts
    losses: Floats  # [n] cross-entropy, the mean over a sample's levels
    predictions: Ints  # [n, levels] predicted class at each level, -1 where a level has none


@dataclass(frozen=True)
class Forward:
    """One training pass: what went into the network, what came out, what it is compared with."""

    batch: Batch
    inputs: Tensor  # augmented, mixed, ready for the network
    features: Tensor
    logits: Tensor
    targets: Targets
    levels: LevelMask
    loss: Tensor | None = None  # known when the update has been made

    @cached_property
    def residuals(self) -> Tensor:
        """[n, classes] softmax minus target."""
        return residuals(self.logits, self.targets, self.levels)


class Workbench(Stateful):
    """The one object that the parts of a method share. They change their own state and memory, not its."""

    _state: ClassVar[tuple[str, ...]] = ("rng", "classes", "memory", "samples", "updates", "model")

    def __init__(
        self,
        model: Model,
        classes: Classes,
        inputs: FeatureInputs,
        memory_size: int,
        columns: Columns,
        rng: Generators,
        device: torch.device,
        home: torch.device | None = None,
    ) -> None:
        self.model, self.classes, self.inputs, self.rng, self.device = model, classes, inputs, rng, device
        self.memory = Memory(memory_size, columns, device, inputs.fetch, home)
        self.levels = LevelMask(classes, device)
        self.readings = Readings()
        self.waiting: list[Sample] = []  # arrived, not yet offered to memory; the new ones are the last
        self.samples = self.updates = 0
        self.due = 0  # updates left in this training call
        self.cost = Cost()

    @property
    def fresh(self) -> int:
        """How many of the samples that wait have not been trained on yet; the others are in a window."""
        return sum(sample.new for sample in self.waiting)

    @property
    def reach(self) -> float:
        """How long the stream is for what was tuned to `LONG` updates.

        So many times further back do running means reach, and so many times sooner do images ripen.
        """
        return min(max(self.updates / LONG, 1.0), FURTHEST)

    def send(self, values: Tensor) -> Tensor:
        """Values on the device; the host does not wait until they are there (pinned, where that is CUDA)."""
        if values.device.type == self.device.type:
            return values
        if self.device.type == "cuda":
            values = values.pin_memory()
        return values.to(self.device, non_blocking=True)

    @torch.no_grad()
    def embed(self, inputs: Tensor, weights: Weights | None = None) -> tuple[Tensor, Tensor]:
        """Features and logits of samples, not augmented, in evaluation mode; with other `weights`."""
        self.model.set_training(False)
        ready = self.inputs.ready(self.send(inputs))
        asked = torch.func.functional_call(self.model, weights, (ready,)) if weights else self.model(ready)
        features, logits = asked
        return features, logits

    def look(self, inputs: Tensor, weights: Weights | None = None) -> Tensor:
        """Their logits alone."""
        return self.embed(inputs, weights)[1]

    def examine(self, slots: AnyInts) -> Examination:
        """What the model says of stored samples."""
        losses, best = [], []
        found: list[Array] = []
        for start in range(0, len(slots), LOOK):
            batch = self.memory.batch(slots[start : start + LOOK].astype(np.int64))
            logits = self.look(batch.inputs)
            losses.append(cross_entropy(logits, Targets.of(batch.labels), self.levels))
            best.append(self.levels.best(logits))
        for parts in (losses, best):
            self.readings.ask(partial(torch.cat, parts), found.append)
        self.readings.fetch()
        self.cost.images_memory += len(slots)
        return Examination(slots, by_row(found[0], self.memory["labels"][slots]), found[1])

    def losses(self, logits: Tensor, batch: Batch) -> Floats:
        """The loss of each sample, the mean over its levels where it carries several."""
        losses = cross_entropy(logits, Targets.of(batch.labels), self.levels)
        return by_row(losses.cpu().numpy(), batch.labels)

    def gather(self, arrivals: Batch, choices: Sequence[Choice]) -> Batch:
        """The batches of some updates, one after the other."""
        batch = self.memory.batch(np.concatenate([choice.slots for choice in choices]))
        if any(len(choice.rows) for choice in choices):
            places, after = [], len(arrivals)  # of all drawn from memory, which lie behind the arrivals
            for choice in choices:
                places += [choice.rows, np.arange(after, after + len(choice.slots))]
                after += len(choice.slots)
            batch = joined([arrivals, batch]).take(np.concatenate(places))
        counted = [choice.rehearsed for choice in choices if choice.rehearsed is not None]
        return replace(batch, rehearsed=np.concatenate(counted)) if counted else batch

    def stored(self, batch: Batch, rows: AnyInts, name: str) -> Any:
        """What a column holds for some rows of a batch, all of which are in memory."""
        slots, column = batch.slots[rows], self.memory[name]
        return column[like(column, slots)] if isinstance(column, Tensor) else column[slots]

    def note(self, batch: Batch, rows: AnyInts, name: str, values: Any) -> None:
        """Keep the values [n, …] of some rows in a column; what is not stored yet brings them with it."""
        for row in rows:
            if batch.slots[row] >= 0:
                self.memory.write(name, int(batch.slots[row]), values[row])
            elif batch.arrivals[row] >= 0:
                self.waiting[batch.arrivals[row]].values[name] = values[row]

    def state(self) -> State:
        """Everything that the next update depends on, but for the parts of the method."""
        waiting = {str(place): sample.state() for place, sample in enumerate(self.waiting)}
        return super().state() | {"cost": asdict(self.cost), "waiting": waiting, "fresh": self.fresh}

    def restore(self, state: State) -> None:
        """Continue from `state`; older ones have no window, and did not number their samples."""
        super().restore(state)
        self.cost = Cost(**state["cost"])
        waiting = list(state["waiting"].values())
        trained = len(waiting) - state.get("fresh", len(waiting))
        self.waiting = [
            Sample(
                **sample
                | {"labels": tuple(sample["labels"]), "values": {"sample": SAMPLE.fill} | sample["values"]},
                new=place >= trained,
            )
            for place, sample in enumerate(waiting)
        ]


def by_row(losses: Singles, labels: Array) -> Floats:
    """The mean of the losses of each row of labels."""
    rows = Targets.of(labels).rows
    if rows is None:
        return losses.astype(np.float64)
    counts = np.bincount(rows, minlength=len(labels))
    return np.bincount(rows, losses.astype(np.float64), len(labels)) / np.maximum(counts, 1)
