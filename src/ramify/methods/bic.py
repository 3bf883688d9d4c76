"""BiC: bias correction with a validation set that is never trained on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor
from torch.func import functional_call

from ramify.change import Change, Follow, anew, class_means
from ramify.errors import RamifyError
from ramify.memory import Column, Forward, Memory, Reservoir, Sample, Workbench
from ramify.memory.policies import of_most_frequent
from ramify.memory.store import SAMPLE
from ramify.memory.workbench import LOOK, Weights
from ramify.methods.er import er
from ramify.methods.recipe import Answer, Recipe, method
from ramify.methods.settings import Settings
from ramify.methods.trainer import Trainer
from ramify.networks import Targets, cross_entropy
from ramify.networks.heads import ROWS, join_rows
from ramify.networks.levels import like
from ramify.randomness import Generators
from ramify.state import State
from ramify.training.objectives import CrossEntropy
from ramify.typed import NotNegative, Positive, Typed, Whole


@dataclass(frozen=True)
class BicSettings(Typed):
    """BiC."""

    validation: float = 0.1
    """Share of the memory that is a class-balanced validation set."""
    temperature: Positive = 2.0
    """Softening of the distilled answers."""
    weight: NotNegative = 1.0
    """Weight of the distillation."""
    epochs: Whole = 256
    """Epochs of fitting the bias layers."""


class ReservoirAndValidation(Reservoir):
    """A reservoir, and beside it a class-balanced validation set of a share of the memory.

    A share of the stream is set aside for it before training, as long as that fills it or makes it more
    balanced; afterwards all samples are trained on. What is pushed out of the validation set is dropped.
    """

    def __init__(self, rng: np.random.Generator, share: float, size: int) -> None:
        super().__init__(rng)
        self.share, self.size = share, size
        self.validation: Memory | None = None

    def set_aside(self, bench: Workbench) -> Memory:
        """The validation set."""
        if self.validation is None:
            columns = {name: bench.memory.columns[name] for name in ("inputs", "sample")}
            self.validation = Memory(self.size, columns, bench.device)
        return self.validation

    def stores(self) -> tuple[Memory, ...]:
        """The validation set."""
        return () if self.validation is None else (self.validation,)

    def arrive(self, bench: Workbench, sample: Sample) -> bool:
        """Put a share of the stream into the validation set instead of training on it."""
        validation = self.set_aside(bench)
        wanted = not validation.full or validation.most_frequent(sample.cls) != sample.cls
        taken = bool(sample.labels) and wanted and bool(self.rng.random() < self.share)
        if taken and validation.full:
            validation.replace(of_most_frequent(validation, sample.cls, self.rng), sample)
        elif taken:
            validation.add(sample)
        return not taken

    def state(self) -> State:
        """With the validation set."""
        return super().state() | {"validation": self.validation and self.validation.state()}

    def restore(self, state: State) -> None:
        """Continue from `state`."""
        super().restore(state)
        kept = state["validation"]
        self.validation = None
        if kept is not None:
            inputs = kept["columns"]["inputs"]
            columns = {"inputs": Column(inputs.dtype, tuple(inputs.shape[1:])), "sample": SAMPLE}
            self.validation = Memory(self.size, columns, inputs.device)
            self.validation.restore(kept)


class Distillation(CrossEntropy):
    """+ weight · cross-entropy to the softened answers of the model as it was before the latest new class.

    Each row is distilled on its own level's head, over the classes that the earlier model knew there; a row
    whose level it did not know adds nothing. Bias correction is left out of the teacher's answers.
    """

    _state: ClassVar[tuple[str, ...]] = ("teacher", "known", "met")

    def __init__(self, temperature: float, weight: float, clip: float) -> None:
        super().__init__(clip)
        self.temperature, self.weight = temperature, weight
        self.teacher: Weights = {}
        self.known = 0  # classes that the teacher knows
        self.met = 0  # classes at the latest update

    def follow(self, change: Change) -> None:
        """The rows of the teacher follow as the network's own."""
        join_rows(change, self.teacher, self.known)

    def _follow(self, bench: Workbench) -> None:
        """Where classes have come since the latest update, the network as it was becomes the teacher."""
        if len(bench.classes) > self.met > 0:
            self.teacher, self.known = bench.model.before_pass(), self.met
        self.met = len(bench.classes)

    def loss(self, bench: Workbench, forward: Forward) -> Tensor:
        """Cross-entropy and distillation."""
        self._follow(bench)
        loss = super().loss(bench, forward)
        if not self.known:
            return loss
        targets, level_of = forward.targets, bench.classes.level_of
        rows = np.arange(len(forward.logits)) if targets.rows is None else targets.rows
        levels = level_of[targets.classes[:, 0]]
        familiar = np.isin(levels, level_of[: self.known])
        if not familiar.any():
            return loss
        answers = self._ask(bench, forward.inputs)
        pick = like(answers, rows[familiar])
        masks = bench.levels()[like(answers, levels[familiar] - 1), : self.known]
        soft = torch.softmax(answers[pick, : self.known].float() / self.temperature + masks, 1)
        mine = forward.logits[pick, : self.known].float() / self.temperature + masks
        apart = -(soft * torch.log_softmax(mine, 1).masked_fill(masks.isinf(), 0.0)).sum(1)
        return loss + self.weight * apart.sum() / len(levels)

    @torch.no_grad()
    def _ask(self, bench: Workbench, inputs: Tensor) -> Tensor:
        """The teacher's logits."""
        bench.model.set_training(False)
        logits: Tensor = functional_call(bench.model, self.teacher, (inputs,))[1]
        bench.model.set_training(True)
        bench.cost.images_forward += len(inputs)
        return logits


class BiasLayers(Answer):
    """z → α z + β for the classes that a task brought, one (α, β) per task and level.

    Before each answer the pairs of the current task are fitted on the validation set, from α = 1, β = 0;
    those of earlier tasks stay. A task's first answer waits for no end: only `next_task` needs one. The
    model answers with rows of its heads that contain the correction.
    """

    _state: ClassVar[tuple[str, ...]] = ("before", "alpha", "beta", "fitted_at")
    _follows: ClassVar[Mapping[str, Follow]] = {
        "alpha": class_means,
        "beta": class_means,
        "fitted_at": anew([-1, -1]),
    }
    LR, BATCH = 1e-3, 100

    def __init__(self, keep: ReservoirAndValidation, epochs: int, rng: np.random.Generator) -> None:
        self.keep, self.epochs, self.rng = keep, epochs, rng
        self.before = 0  # classes met before the current task
        self.alpha, self.beta = torch.ones(0), torch.zeros(0)  # class -> correction
        self.fitted_at = [-1, -1]  # samples and updates at the last fit

    def next_task(self, trainer: Trainer) -> None:
        """The task is over: its corrections are final."""
        self.fit(trainer)
        self.before = len(trainer.classes)

    def weights(self, trainer: Trainer) -> Weights:
        """Rows of the heads that answer α z + β."""
        self.fit(trainer)
        heads, found = trainer.model.heads, trainer.averaged()
        spare = len(heads.weights) * ROWS - len(self.alpha)
        alpha = torch.cat([self.alpha, self.alpha.new_ones(spare)]).view(-1, ROWS)
        beta = torch.cat([self.beta, self.beta.new_zeros(spare)]).view(-1, ROWS)
        for k, (weight, bias) in enumerate(zip(heads.weights, heads.biases, strict=True)):
            names = f"heads.weights.{k}", f"heads.biases.{k}"
            found[names[0]] = found.get(names[0], weight.detach()) * alpha[k][:, None]
            found[names[1]] = found.get(names[1], bias.detach()) * alpha[k] + beta[k]
        return found

    def fit(self, trainer: Trainer) -> None:
        """Fit α and β of the current task, per level, on the validation set."""
        now = [trainer.samples, trainer.updates]
        if self.fitted_at == now:
            return
        self.fitted_at = now
        classes, device = trainer.classes, trainer.device
        missing = len(classes) - len(self.alpha)
        self.alpha = torch.cat([self.alpha.to(device), torch.ones(missing, device=device)])
        self.beta = torch.cat([self.beta.to(device), torch.zeros(missing, device=device)])
        self.alpha[self.before :], self.beta[self.before :] = 1.0, 0.0
        validation = self.keep.set_aside(trainer)
        if not validation.size or self.before == len(classes):
            return
        batch = validation.batch(np.arange(validation.size))
        asked = trainer.averaged()
        logits = torch.cat([trainer.look(part, asked) for part in torch.split(batch.inputs, LOOK)])
        logits = logits * self.alpha + self.beta
        trainer.cost.images_memory += len(batch)
        is_new = torch.arange(len(classes), device=device) >= self.before
        level = like(logits, classes.level_of - 1)
        alpha = torch.ones(int(classes.level_of.max()), device=device, requires_grad=True)
        beta = torch.zeros_like(alpha, requires_grad=True)
        adam = torch.optim.Adam([alpha, beta], lr=self.LR)
        for _ in range(self.epochs):
            for rows in np.array_split(self.rng.permutation(len(batch)), -(-len(batch) // self.BATCH)):
                part = logits[like(logits, rows)]
                corrected = torch.where(is_new, part * alpha[level] + beta[level], part)
                adam.zero_grad()
                targets = Targets.of(batch.labels[rows])
                cross_entropy(corrected, targets, trainer.levels).mean().backward()  # type: ignore[no-untyped-call]
                adam.step()
        self.alpha[is_new] = alpha.detach()[level][is_new]
        self.beta[is_new] = beta.detach()[level][is_new]


@method("bic", settings={"bic": BicSettings}, task_free=False, trains_when_asked=True)
def bic(settings: Settings, rng: Generators) -> Recipe:
    """BiC (Wu et al. 2019): ER, distillation from the model before the latest new class, bias layers.

    Not task-free: it must know which classes the current task has brought. Part of the memory is a validation
    set that is never trained on; the reservoir has the rest. See `BiasLayers` and `Distillation`.
    """
    own = settings[BicSettings]
    size = round(settings.memory_size * own.validation)
    if not 0 < own.validation < 1 or not 0 < size < settings.memory_size:
        raise RamifyError(
            f"bic.validation {own.validation} of a memory of {settings.memory_size} leaves no room "
            "for both sets; choose a share between 0 and 1 that gives each at least one image"
        )
    keep = ReservoirAndValidation(rng["keep"], own.validation, size)
    layers = BiasLayers(keep, own.epochs, rng["bias"])
    return replace(
        er(settings, rng),
        keep=keep,
        minimise=Distillation(own.temperature, own.weight, clip=10.0),
        answer=layers,
        consolidate=layers.next_task,
        memory_size=settings.memory_size - size,
    )
