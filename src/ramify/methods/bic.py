"""BiC: bias correction with a validation set that is never trained on."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from ramify.classes import Classes
from ramify.errors import RamifyError
from ramify.memory import Balanced, Memory, Reservoir
from ramify.memory.policies import Examine
from ramify.methods.engine import LOOK, Engine
from ramify.methods.recipe import Answer, Recipe, method
from ramify.methods.settings import BicSettings, Settings
from ramify.randomness import Generators
from ramify.rehearsal import HalfAndHalf, stored
from ramify.training.objectives import Distillation
from ramify.training.schedules import ExponentialReset
from ramify.training.targets import Targets, cross_entropy


class ReservoirAndValidation(Reservoir):
    """A reservoir, and beside it a class-balanced validation set of a share of the memory.

    A share of the stream is set aside for it before training, as long as that fills it or makes it more
    balanced; afterwards all samples are trained on. What is pushed out of the validation set is dropped.
    """

    _state: ClassVar[tuple[str, ...]] = ("seen", "validation")

    def __init__(self, rng: np.random.Generator, share: float, size: int) -> None:
        super().__init__(rng)
        self.share, self.size = share, size
        self.balanced = Balanced(rng)

    def capacity(self, memory_size: int) -> int:
        """What the validation set leaves."""
        return memory_size - self.size

    def bind(self, memory: Memory, classes: Classes, examine: Examine) -> None:
        """Set up the validation set beside the memory."""
        super().bind(memory, classes, examine)
        shape = tuple(memory.images.shape[1:])
        self.validation = Memory(self.size, shape, memory.images.device)
        self.balanced.bind(self.validation, classes, examine)

    def reserve(self, image: Tensor, cls: int) -> bool:
        """Put a share of the stream into the validation set instead of training on it."""
        wanted = not self.validation.full or self.validation.most_frequent(cls) != cls
        taken = wanted and bool(self.rng.random() < self.share)
        if taken:
            self.balanced.offer(image, cls)
        return taken


class BiasLayers(Answer):
    """z → α z + β for the classes that a task brought, one (α, β) per task and level.

    Before each answer the pairs of the current task are fitted on the validation set, from α = 1, β = 0;
    those of earlier tasks stay. A task's first answer waits for no end: only `next_task` needs one.
    """

    _state: ClassVar[tuple[str, ...]] = ("before", "alpha", "beta", "fitted_at")
    LR, BATCH = 1e-3, 100

    def __init__(self, keep: ReservoirAndValidation, settings: BicSettings, rng: np.random.Generator) -> None:
        self.keep, self.settings, self.rng = keep, settings, rng
        self.before = 0  # classes met before the current task
        self.alpha, self.beta = torch.ones(0), torch.zeros(0)  # class -> correction
        self.fitted_at = -1  # samples seen at the last fit

    def next_task(self, engine: Engine) -> None:
        """The task is over: its corrections are final."""
        self.prepare(engine)
        self.before = len(engine.classes)

    def correct(self, logits: Tensor) -> Tensor:
        """Apply the corrections."""
        return logits * self.alpha.to(logits.device) + self.beta.to(logits.device)

    def prepare(self, engine: Engine) -> None:
        """Fit α and β of the current task, per level, on the validation set."""
        if self.fitted_at == engine.samples:
            return
        self.fitted_at = engine.samples
        classes, device = engine.classes, engine.device
        missing = len(classes) - len(self.alpha)
        self.alpha = torch.cat([self.alpha, torch.ones(missing)])
        self.beta = torch.cat([self.beta, torch.zeros(missing)])
        self.alpha[self.before :], self.beta[self.before :] = 1.0, 0.0
        validation = self.keep.validation
        if not validation.size or self.before == len(classes):
            return
        batch = stored(validation, np.arange(validation.size))
        logits = torch.cat([self.correct(engine.look(part)) for part in torch.split(batch.images, LOOK)])
        engine.cost.images_memory += len(batch)
        is_new = torch.arange(len(classes), device=device) >= self.before
        level = torch.from_numpy(classes.level_of - 1).to(device)
        alpha = torch.ones(int(level.max()) + 1, device=device, requires_grad=True)
        beta = torch.zeros_like(alpha, requires_grad=True)
        fit = torch.optim.Adam([alpha, beta], lr=self.LR)
        mask = engine.mask()
        for _ in range(self.settings.epochs):
            for rows in np.array_split(self.rng.permutation(len(batch)), -(-len(batch) // self.BATCH)):
                part = logits[torch.from_numpy(rows).to(device)]
                corrected = torch.where(is_new, part * alpha[level] + beta[level], part)
                targets = Targets.of(batch.classes[rows], None)
                fit.zero_grad()
                cross_entropy(corrected, targets, mask, classes.level_of).mean().backward()  # type: ignore[no-untyped-call]
                fit.step()
        new = is_new.cpu()
        self.alpha[new] = alpha.detach()[level].cpu()[new]
        self.beta[new] = beta.detach()[level].cpu()[new]


@method("bic")
def bic(settings: Settings, rng: Generators) -> Recipe:
    """BiC (Wu et al. 2019): ER, distillation from the model before the latest new class, bias layers.

    Not task-free: it must know which classes the current task has brought. Part of the memory is a validation
    set that is never trained on; the reservoir has the rest. See `BiasLayers` and `Distillation`.
    """
    size = round(settings.memory_size * settings.bic.validation)
    if not 0 < settings.bic.validation < 1 or not 0 < size < settings.memory_size:
        raise RamifyError(
            f"bic.validation {settings.bic.validation} of a memory of {settings.memory_size} leaves no room "
            "for both sets; choose a share between 0 and 1 that gives each at least one image"
        )
    keep = ReservoirAndValidation(rng["keep"], settings.bic.validation, size)
    layers = BiasLayers(keep, settings.bic, rng["bias"])
    return Recipe(
        keep=keep,
        rehearse=HalfAndHalf(rng["rehearse"]),
        minimise=Distillation(settings.bic.temperature, settings.bic.weight, clip=10.0),
        rate=ExponentialReset(settings.lr, settings.lr_decay),
        consolidate=layers.next_task,
        answer=layers,
    )
