"""The learner that every method shares: samples arrive, memory keeps, updates follow, answers at any time."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from ramify.allocator import keep_buffers
from ramify.change import Change
from ramify.classes import Classes
from ramify.errors import RamifyError
from ramify.hierarchy import Ties
from ramify.memory import Batch, Column, Forward, Sample
from ramify.memory.store import SAMPLE, Columns
from ramify.memory.workbench import Cost, Weights
from ramify.methods.ahead import Ahead
from ramify.methods.asking import Askable
from ramify.methods.guard import EVERY, Guard
from ramify.methods.recipe import Method
from ramify.methods.settings import Settings
from ramify.networks import (
    FeatureInputs,
    Heads,
    ImageInputs,
    Model,
    Targets,
    build_backbone,
    feature_backbone,
    feature_size,
)
from ramify.networks.inputs import Values
from ramify.networks.precision import measured_precision
from ramify.randomness import Generators
from ramify.state import State, moved
from ramify.training.augment import as_it_is, one_view
from ramify.training.averaging import Average
from ramify.training.cutmix import CutMix
from ramify.training.optimizer import Optimizer

Pair = tuple[int, Any]  # level and label
TAKEN = 32  # samples that are made ready to be kept at a time


class Trainer(Askable):
    """A method at work. `observe` takes what arrives; `predict` answers at every level met so far."""

    _state: ClassVar[tuple[str, ...]] = (*Askable._state, "credit", "optimizer", "average")
    columns: ClassVar[Columns] = {"sample": SAMPLE}  # kept with each sample, whatever the method

    def __init__(
        self,
        method: Method,
        settings: Settings,
        inputs: FeatureInputs,
        seed: int = 0,
        device: torch.device | str = "cpu",
        network: nn.Module | None = None,
    ) -> None:
        keep_buffers()
        self.method, self.settings, self._template = method, settings, network
        rng = Generators(seed)
        self.recipe = recipe = method(settings, rng)
        backbone = self._backbone(rng, inputs)
        heads = Heads(feature_size(backbone, inputs), rng["heads"])
        columns = {"inputs": Column(*inputs.kept), **self.columns}
        for part in recipe.parts().values():
            columns |= getattr(part, "columns", {})
        device = torch.device(device)
        size = settings.memory_size if recipe.memory_size is None else recipe.memory_size
        precision = settings.precision
        if precision == "auto":
            precision = measured_precision(backbone, inputs, settings.batch_size, device)
        self.settings = dataclasses.replace(settings, precision=precision)  # what is restored keeps it
        model = Model(backbone, heads, precision).to(device)
        home = torch.device("cpu") if settings.memory_device == "host" else device
        super().__init__(model, Classes(), inputs, size, columns, rng, device, home)
        self.optimizer, self.guard, self.ahead = self._new_optimizer(), Guard(self), Ahead(self)
        self.average = Average(method.average if settings.average is None else settings.average)
        self.augment, self.mix = recipe.augment or as_it_is, recipe.mix
        if isinstance(inputs, ImageInputs):
            self.augment = recipe.augment or settings.augment.made(recipe.ripe)
            self.mix = recipe.mix or CutMix(settings.augment.cutmix, half=recipe.ripe)
        elif inputs.views:
            self.augment = recipe.augment or one_view
        self.buffer_size = recipe.rehearse.buffer_size(settings.batch_size)
        self.credit = 0.0  # updates not made yet
        self.pause: Callable[[], None] = lambda: None  # called between the updates of long training

    def _backbone(self, rng: Generators, inputs: FeatureInputs) -> nn.Module:
        """A backbone with fresh weights, the user's own or one built by name, as the method uses it."""
        if self._template is not None:
            backbone = copy.deepcopy(self._template)
        else:
            draws = torch.Generator().manual_seed(int(rng["network"].integers(2**63)))
            build = build_backbone if isinstance(inputs, ImageInputs) else feature_backbone
            backbone = build(self.settings.network, draws, inputs.size)
        return backbone if self.recipe.features is None else self.recipe.features(backbone, inputs)

    def _new_optimizer(self) -> Optimizer:
        return Optimizer(self.model, self.settings.network.lr_factor)

    def renew(self) -> None:
        """Forget all that the network has learned; memory stays."""
        self.guard.read()
        self.model.renew(self._backbone(self.rng, self.inputs))
        self.optimizer = self._new_optimizer()
        self.average = Average(self.average.decay)

    # ---- learning

    @property
    def fresh(self) -> int:
        """How many of the samples that wait have not been trained on yet; the others are in a window."""
        return sum(sample.new for sample in self.waiting)

    def observe(self, inputs: Values, labels: Sequence[Sequence[Pair]]) -> None:
        """Learn from samples in the order in which they arrive.

        Each has labels, pairs of a level and a label: one, several at different levels, or none. In memory it
        counts for the first of them.
        """
        self.inputs.check(inputs, learned=True)
        check_labels(labels, len(inputs))
        for start in range(0, len(labels), TAKEN):
            part = slice(start, start + TAKEN)
            self._take(self.inputs.take(inputs[part], self.rng).to(self.memory.home), labels[part])

    def _take(self, values: Tensor, labels: Sequence[Sequence[Pair]]) -> None:
        for row, pairs in enumerate(labels):
            classes = [self._meet(level, label) for level, label in pairs]
            by_level = sorted(classes, key=lambda cls: int(self.classes.level_of[cls]))
            # a copy, for the caller may use its tensor again
            sample = Sample(values[row].clone(), tuple(by_level), classes[0] if classes else -1)
            self._arrive(sample)

    def _meet(self, level: int, label: Any) -> int:
        known = self.classes.find(level, label)
        if known is not None:
            return known
        self.readings.fetch()  # what waits speaks of the classes so far
        cls = self.classes.meet(level, label, when=self.samples)
        self.optimizer.add(self.model.heads.grow())
        return cls

    def _arrive(self, sample: Sample) -> None:
        sample.values["sample"] = self.samples
        self.samples += 1
        self.classes.seen[list(sample.labels)] += 1
        self.credit += self.settings.updates_per_sample
        if self.recipe.keep.arrive(self, sample):
            self.waiting.append(sample)
            if self.fresh >= self.buffer_size:  # more, after an update that failed
                self.flush()

    def flush(self) -> None:
        """Train on what has arrived since the last update, then let the memory have it."""
        if not self.fresh:
            return
        self.due = self.recipe.rehearse.updates_due(self.credit)
        self.credit = max(0.0, self.credit - self.due)
        labelled = self.memory.size > 0 or any(sample.labels for sample in self.waiting)
        while self.due and labelled:  # else there is nothing to learn yet
            for batch in self.ahead.batches(self.waiting):
                self.due -= 1
                self.update(batch)
        self.due = 0
        leaving = len(self.waiting) - self.recipe.rehearse.window
        self.recipe.keep.settle(self, self.waiting[: max(0, leaving)])
        self.waiting = self.waiting[max(0, leaving) :]
        for sample in self.waiting:
            sample.new = False

    def task_end(self) -> None:
        """Tell a method that is not task-free that a task is over."""
        if self.recipe.consolidate is not None:
            self.flush()
            self.recipe.consolidate(self)

    def update(self, batch: Batch, rate: float | None = None) -> None:
        """One training step on a batch; at `rate` where the method's own schedule does not apply."""
        if not len(batch):
            raise RamifyError(
                "the method gave an empty batch; let `rehearse` take arrivals, or `keep` store before "
                "training"
            )
        if len(batch) == 1:  # batch normalisation needs two values
            batch = batch.join(batch)
        targets = Targets.of(batch.labels)
        if not len(targets):  # no label, nothing to learn
            return
        ready = batch.ready
        if ready is None:
            self.ahead.rewind()
            ready = self.inputs.ready(self.send(self.augment(self, batch)))
        if self.mix is not None:
            ready, targets = self.mix(self, batch, ready, targets)
        self.model.set_training(True)
        self.model.remember_statistics()
        features, logits = self.model(ready)
        forward = Forward(batch, ready, features, logits, targets, self.levels)
        recipe = self.recipe
        loss = recipe.minimise.loss(self, forward)
        speed = recipe.rate.value(self) if rate is None else rate
        broken = self.guard.check(loss, speed)
        recipe.minimise.differentiate(self, loss)
        self.optimizer.step(speed, recipe.minimise.clip, broken)
        if broken is not None:
            self.model.recall_statistics(broken)
        self.updates += 1
        self.average.learned(self)
        self.cost.images_forward += len(batch)
        self.cost.images_backward += len(batch)
        if rate is None:
            known = (features.detach(), logits.detach(), targets, self.levels, loss.detach())
            done = Forward(batch, ready, *known)
            for part in (recipe.keep, recipe.rate, recipe.answer):
                part.learned(self, done)
        if self.updates % EVERY == 0:
            self.guard.read()

    # ---- asking: what only a method at work can say; the rest is `Askable`'s

    def prepare(self) -> None:
        """Make the model ready to be asked; called by `predict`."""
        if not self.classes.levels:
            raise RamifyError("nothing has been learned yet; give the learner a sample before asking it")
        self.guard.read()
        self.answering = self.recipe.answer.weights(self)

    def averaged(self) -> Weights:
        """The averaged weights; nothing where the trained ones answer."""
        return self.average.weights(self)

    def find_ties(self) -> Ties:
        """The tree in the model's own answers, as the method finds it."""
        return self.recipe.answer.ties(self)

    # ---- saving, editing

    def follow(self, change: Change) -> None:
        """Let the network, the optimiser and all parts follow an edit of classes and memory."""
        self.guard.read()
        self.ahead.rewind()
        super().follow(change)
        self.model.heads.follow(change)
        self.optimizer.follow(change)
        for part in self.recipe.parts().values():
            part.follow(change)
        self._ties = None

    def state(self) -> State:
        """Everything that the next update depends on."""
        self.guard.read()
        self.ahead.rewind()
        waiting = {
            str(place): {
                "inputs": sample.inputs,
                "labels": list(sample.labels),
                "cls": sample.cls,
                "slot": sample.slot,
                "values": dict(sample.values),
            }
            for place, sample in enumerate(self.waiting)
        }
        parts = {name: part.state() for name, part in self.recipe.parts().items()}
        own = {"cost": dataclasses.asdict(self.cost), "waiting": waiting, "fresh": self.fresh}
        return super().state() | own | parts

    def restore(self, state: State) -> None:
        """Become the learner that gave `state`, to the bit."""
        self.readings.fetch()  # for what was here before
        self.guard, self.ahead = Guard(self), Ahead(self)
        older = {"average": self.average.state(), "fresh": len(state["waiting"])}  # did not have these
        state = older | moved(state, self.device)
        super().restore(state)
        self.cost, self._ties = Cost(**state["cost"]), None
        for name, part in self.recipe.parts().items():
            part.restore(state[name])
        self.waiting = [
            Sample(**{**sample, "labels": tuple(sample["labels"])}) for sample in state["waiting"].values()
        ]
        for sample in self.waiting:
            sample.values.setdefault("sample", SAMPLE.fill)  # what older runs did not number
        for sample in self.waiting[: len(self.waiting) - state["fresh"]]:  # the latest are the new ones
            sample.new = False


def check_labels(labels: Sequence[Sequence[Pair]], count: int) -> None:
    """Refuse what is not a list of (level, label) pairs for each sample, at different levels."""
    if len(labels) != count:
        raise RamifyError(
            f"{count} samples and {len(labels)} lists of labels were given; each sample needs one"
        )
    for pairs in labels:
        levels = [level for level, _ in pairs]
        wrong = [h for h in levels if not isinstance(h, int | np.integer) or isinstance(h, bool) or h < 1]
        if wrong:
            raise RamifyError(f"level {wrong[0]!r} was given; levels are whole numbers from 1, the coarsest")
        if len(set(levels)) < len(levels):
            raise RamifyError(f"a sample has two labels at one level, {pairs}; give one a level")
