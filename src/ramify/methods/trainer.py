"""The learner that every method shares: samples arrive, memory keeps, updates follow, answers at any time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from ramify.allocator import keep_buffers
from ramify.arrays import Floats, Ints
from ramify.change import Change
from ramify.classes import Classes, Pair, check_labels
from ramify.errors import RamifyError
from ramify.hierarchy import Ties, ancestors_in
from ramify.hierarchy.decode import Said, decode, probability_of, ranking_of
from ramify.memory import Batch, Forward, Sample, Workbench
from ramify.memory.workbench import LOOK, Weights
from ramify.methods.ahead import Ahead
from ramify.methods.build import changes_of, columns_of, new_backbone, new_model
from ramify.methods.guard import EVERY, Guard
from ramify.methods.recipe import Method
from ramify.methods.settings import Settings
from ramify.networks import FeatureInputs, Targets
from ramify.networks.inputs import Values, as_tensor
from ramify.randomness import Generators
from ramify.state import State, moved
from ramify.taxonomy import Taxonomy
from ramify.training.averaging import Average
from ramify.training.optimizer import Optimizer
from ramify.typed import whole

TAKEN = 32  # samples that are made ready to be kept at a time


class Trainer(Workbench):
    """A method at work. `observe` takes what arrives; `predict` answers at every level met so far."""

    _state: ClassVar[tuple[str, ...]] = (*Workbench._state, "credit", "optimizer", "average")

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
        self.settings = replace(settings, precision=model.precision)  # auto: as measured
        super().__init__(model, Classes(), inputs, size, columns_of(recipe, inputs), rng, device, home)
        self.optimizer, self.guard, self.ahead = self.new_optimizer(), Guard(self), Ahead(self)
        self.average = Average(method.average if settings.average is None else settings.average)
        self.augment, self.mix = changes_of(recipe, settings, inputs)
        self.buffer_size = recipe.rehearse.buffer_size(settings.batch_size)
        self.credit = 0.0  # updates not made yet
        self.answering: Weights = {}  # in the place of the trained ones; `prepare` sets them
        self._ties: tuple[tuple[int, int], Ties] | None = None
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
        leaving = max(0, len(self.waiting) - self.recipe.rehearse.window)
        self.recipe.keep.settle(self, self.waiting[:leaving])
        self.waiting = self.waiting[leaving:]
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
            done = replace(forward, features=features.detach(), logits=logits.detach(), loss=loss.detach())
            for part in (recipe.keep, recipe.rate, recipe.answer):
                part.learned(self, done)
        if self.updates % EVERY == 0:
            self.guard.read()

    # ---- asking

    def prepare(self) -> None:
        """Make the model ready to be asked; called by `predict`."""
        if not self.classes.levels:
            raise RamifyError("nothing has been learned yet; give the learner a sample before asking it")
        self.guard.read()
        self.answering = self.recipe.answer.weights(self)

    def averaged(self) -> Weights:
        """The averaged weights; nothing where the trained ones answer."""
        return self.average.weights(self)

    def logits(self, inputs: Tensor) -> Tensor:
        """Logits [n, classes] of every class met so far, as the method answers. Call `prepare` before."""
        self.cost.images_evaluation += len(inputs)
        return self.look(inputs, self.answering)

    def weights(self) -> Weights:
        """The network as it answers: all weights and running statistics. Call `prepare` before."""
        return self.model.state_dict() | self.answering

    def predict(self, inputs: Values, batch_size: int = LOOK) -> Ints:
        """The best class of every level, [n, levels], from one pass; -1 where a level has no class yet."""
        return np.concatenate([self.levels.predict(part) for part in self._ask(inputs, batch_size)])

    def log_probabilities(self, inputs: Values, batch_size: int = LOOK) -> Floats:
        """Of every class met so far on its level's head, [n, classes]."""
        return np.concatenate([self.levels.log_probabilities(part) for part in self._ask(inputs, batch_size)])

    def consider(self, inputs: Values, batch_size: int = LOOK) -> tuple[Floats, Floats]:
        """The log-probabilities [n, classes], and how unfamiliar inputs are at each level met [n, levels]."""
        parts = [
            (self.levels.log_probabilities(part), self.levels.energies(part))
            for part in self._ask(inputs, batch_size)
        ]
        log, energies = zip(*parts, strict=True)
        return np.concatenate(log), np.concatenate(energies)

    def _ask(self, inputs: Values, batch_size: int) -> Iterator[Tensor]:
        self.inputs.check(inputs)
        whole("batch_size", batch_size, 1)
        self.prepare()
        for start in range(0, max(1, len(inputs)), batch_size):
            yield self.logits(as_tensor(inputs[start : start + batch_size]))

    def ties(self) -> Ties:
        """The tree that the model's own answers about its memory make; kept until more is learned."""
        self.prepare()
        known = self.known_ties()
        if known is None:
            known = self.find_ties()
            self.know_ties(known)
        return known

    def find_ties(self) -> Ties:
        """The tree in the model's own answers, as the method finds it."""
        return self.recipe.answer.ties(self)

    def known_ties(self) -> Ties | None:
        """That tree, where it has been found since the latest sample."""
        now = (self.updates, self.samples)
        return None if self._ties is None or self._ties[0] != now else self._ties[1]

    def know_ties(self, ties: Ties | None) -> None:
        """Let this be the tree until more is learned; None: it has to be found."""
        self._ties = None if ties is None else ((self.updates, self.samples), ties)

    def ancestors(self, way: str, tree: Taxonomy | None, by_index: bool = False) -> Ints:
        """Those of each class, where this way to read answers needs them: in a tree, or in the one found."""
        if way == "heads":
            return np.empty((0, 0), np.int64)
        return self.ties().ancestors() if tree is None else ancestors_in(tree, self.classes, by_index)

    def answer(self, inputs: Values, ways: Mapping[str, tuple[str, Taxonomy | None]]) -> dict[str, Said]:
        """Several ways to read the same answers: for each the classes at the levels met, and how probable.

        A way is a decoding and the tree that it reads through; None: the one that the learner has found.
        """
        log = self.log_probabilities(inputs)
        ranking = ranking_of(self.classes, log)
        found = {}
        for name, (way, tree) in ways.items():
            chosen = decode(way, self.classes, log, self.ancestors(way, tree, by_index=True))
            found[name] = Said(chosen, probability_of(chosen, log), ranking)
        return found

    # ---- saving, editing

    def follow(self, change: Change) -> None:
        """Let the network, the optimiser and all parts follow an edit of classes and memory."""
        self.guard.read()
        self.ahead.rewind()
        self._ties = None
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
        self.guard, self.ahead, self._ties = Guard(self), Ahead(self), None
        state = {"average": self.average.state()} | moved(state, self.device)  # older ones have none
        super().restore(state)
        for name, part in self.recipe.parts().items():
            part.restore(state[name])
