"""The learner that every method shares: samples arrive, memory keeps, updates follow, answers at any time."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from ramify.allocator import keep_buffers
from ramify.change import Change
from ramify.classes import Classes, Pair, check_labels
from ramify.errors import RamifyError
from ramify.hierarchy import Ties
from ramify.memory import Batch, Forward, Sample
from ramify.memory.workbench import Weights
from ramify.methods.ahead import Ahead
from ramify.methods.asking import Askable
from ramify.methods.build import changes_of, columns_of, new_backbone, new_model
from ramify.methods.guard import EVERY, Guard
from ramify.methods.recipe import Method
from ramify.methods.settings import Settings
from ramify.networks import FeatureInputs, Targets
from ramify.networks.inputs import Values
from ramify.randomness import Generators
from ramify.state import State, moved
from ramify.training.averaging import Average
from ramify.training.optimizer import Optimizer

TAKEN = 32  # samples that are made ready to be kept at a time


class Trainer(Askable):
    """A method at work. `observe` takes what arrives; `predict` answers at every level met so far."""

    _state: ClassVar[tuple[str, ...]] = (*Askable._state, "credit", "optimizer", "average")

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
        self.method, self._template = method, network
        rng = Generators(seed)
        self.recipe = recipe = method(settings, rng)
        recipe.minimise.minimised = True
        device = torch.device(device)
        home = torch.device("cpu") if settings.memory_device == "host" else device
        size = settings.memory_size if recipe.memory_size is None else recipe.memory_size
        model = new_model(recipe, settings, inputs, rng, device, network)
        self.settings = dataclasses.replace(settings, precision=model.precision)  # auto: as measured
        super().__init__(model, Classes(), inputs, size, columns_of(recipe, inputs), rng, device, home)
        self.optimizer, self.guard, self.ahead = self.new_optimizer(), Guard(self), Ahead(self)
        self.average = Average(method.average if settings.average is None else settings.average)
        self.augment, self.mix = changes_of(recipe, settings, inputs)
        self.buffer_size = recipe.rehearse.buffer_size(settings.batch_size)
        self.credit = 0.0  # updates not made yet
        self.pause: Callable[[], None] = lambda: None  # called between the updates of long training

    def new_optimizer(self) -> Optimizer:
        """One that knows of no update so far."""
        return Optimizer(self.model, self.settings.network.lr_factor)

    def renew(self) -> None:
        """Forget all that the network has learned; memory stays."""
        self.guard.read()
        self.model.renew(new_backbone(self.recipe, self.settings, self.inputs, self.rng, self._template))
        self.optimizer = self.new_optimizer()
        self.average = Average(self.average.decay)

    # ---- learning

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
        # a copy, for the caller may use its tensor again
        for own, pairs in zip(values.clone().unbind(), labels, strict=True):
            classes = [self.meet(level, label) for level, label in pairs]
            by_level = sorted(classes, key=lambda cls: int(self.classes.level_of[cls]))
            self._arrive(Sample(own, tuple(by_level), classes[0] if classes else -1))

    def meet(self, level: int, label: Any) -> int:
        """The number of a class, which is made where it is new."""
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
        for cls in sample.labels:
            self.classes.seen[cls] += 1
        self.credit += self.settings.updates_per_sample
        if self.recipe.keep.arrive(self, sample):
            self.waiting.append(sample)
            # more, after an update that failed
            if len(self.waiting) >= self.buffer_size and self.fresh >= self.buffer_size:
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

    def state(self) -> State:
        """Everything that the next update depends on."""
        self.guard.read()
        self.ahead.rewind()
        return super().state() | {name: part.state() for name, part in self.recipe.parts().items()}

    def restore(self, state: State) -> None:
        """Become the learner that gave `state`, to the bit."""
        self.readings.fetch()  # for what was here before
        self.guard, self.ahead = Guard(self), Ahead(self)
        state = {"average": self.average.state()} | moved(state, self.device)  # older ones have none
        super().restore(state)
        for name, part in self.recipe.parts().items():
            part.restore(state[name])
