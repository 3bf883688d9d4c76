"""What to minimise."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call

from ramify.classes import Classes
from ramify.networks import Model
from ramify.state import State, Stateful
from ramify.training.targets import LevelMask, Targets, cross_entropy


@dataclass(frozen=True)
class Forward:
    """One training pass: what went into the network, what came out, what it is compared with."""

    images: Tensor  # normalised, augmented
    features: Tensor
    logits: Tensor
    targets: Targets


class CrossEntropy(Stateful):
    """Mean over the batch of each sample's cross-entropy on its own level's head, over the classes seen."""

    extra_passes = 0  # forward passes of the batch besides the training pass itself

    def __init__(self, clip: float | None = None) -> None:
        self.clip = clip  # largest norm of the gradient

    def bind(self, model: Model, classes: Classes, mask: LevelMask) -> None:
        """Learn which network is trained."""
        self.model, self.classes, self.mask = model, classes, mask

    def new_class(self, updates: int) -> None:
        """A class was met for the first time; the heads are about to grow."""

    def loss(self, forward: Forward) -> Tensor:
        """The value to differentiate."""
        return cross_entropy(forward.logits, forward.targets, self.mask(), self.classes.level_of).mean()

    def adjust_gradients(self) -> None:
        """The gradients of `loss` are there; change them before the step."""


class FisherPenalty(CrossEntropy):
    """EWC++ (Chaudhry et al. 2018): + strength · Σ F (θ - θ*)² over all but the heads.

    F is a running average of the squared gradient of the cross-entropy of each batch; θ* and the F in use are
    fixed by `anchor`. The penalty's gradient is added in closed form, so F never contains it.
    """

    _state: ClassVar[tuple[str, ...]] = ("fisher", "anchored", "anchor_point")

    def __init__(self, strength: float, decay: float) -> None:
        super().__init__()
        self.strength, self.decay = strength, decay
        self.fisher: dict[str, Tensor] = {}
        self.anchored: dict[str, Tensor] = {}
        self.anchor_point: dict[str, Tensor] = {}

    def _parameters(self) -> tuple[list[str], list[nn.Parameter]]:
        names, parameters = zip(*self.model.backbone.named_parameters(), strict=True)
        return list(names), list(parameters)

    def anchor(self) -> None:
        """Remember where the network is, and which weights matter there (none before the first update)."""
        if not self.fisher:
            return
        names, parameters = self._parameters()
        self.anchored = {n: f.clone() for n, f in self.fisher.items()}
        self.anchor_point = {n: p.detach().clone() for n, p in zip(names, parameters, strict=True)}

    @torch.no_grad()
    def adjust_gradients(self) -> None:
        """Update F from the batch's gradient, then add the gradient of the penalty."""
        names, parameters = self._parameters()
        gradients = [p.grad if p.grad is not None else torch.zeros_like(p) for p in parameters]
        if not self.fisher:
            self.fisher = {n: torch.zeros_like(p) for n, p in zip(names, parameters, strict=True)}
        fisher = [self.fisher[n] for n in names]
        torch._foreach_mul_(fisher, 1 - self.decay)
        torch._foreach_addcmul_(fisher, gradients, gradients, self.decay)
        if self.anchor_point:
            points = [self.anchor_point[n] for n in names]
            away = torch._foreach_sub(parameters, points)  # type: ignore[arg-type]
            torch._foreach_addcmul_(gradients, [self.anchored[n] for n in names], away, 2 * self.strength)

    def restore(self, state: State) -> None:
        """Continue from `state`, on the network's device."""
        device = next(self.model.parameters()).device
        moved = {k: {n: t.to(device) for n, t in v.items()} for k, v in state.items()}
        super().restore(moved)


class Distillation(CrossEntropy):
    """BiC's objective: + weight · cross-entropy to the softened answers of an earlier model.

    The teacher is the model as it was before the latest new class.

    Each row is distilled on its own level's head, over the classes that the earlier model knew there; a row
    whose level it did not know adds nothing. Bias correction is left out of the teacher's answers.
    """

    _state: ClassVar[tuple[str, ...]] = ("teacher", "known", "taken_at")

    def __init__(self, temperature: float, weight: float, clip: float) -> None:
        super().__init__(clip)
        self.temperature, self.weight = temperature, weight
        self.teacher: dict[str, Tensor] = {}
        self.known = 0  # classes that the teacher knows
        self.taken_at = 0

    @property
    def extra_passes(self) -> int:  # type: ignore[override]
        """The teacher's pass."""
        return 1 if self.known else 0

    def new_class(self, updates: int) -> None:
        """The network as it is now becomes the teacher (the old one stays if nothing was learned since)."""
        if updates > self.taken_at:
            values = [*self.model.named_parameters(), *self.model.named_buffers()]
            self.teacher = {name: value.detach().clone() for name, value in values}
            self.known, self.taken_at = len(self.classes), updates

    def loss(self, forward: Forward) -> Tensor:
        """Cross-entropy and distillation."""
        loss = super().loss(forward)
        if not self.known:
            return loss
        rows = forward.targets.rows
        first = np.arange(len(forward.logits)) if rows is None else rows
        levels = self.classes.level_of[forward.targets.classes]
        familiar = np.isin(levels, self.classes.level_of[: self.known])
        if not familiar.any():
            return loss
        self.model.set_training(False)
        with torch.no_grad():
            _, answers = functional_call(self.model, self.teacher, (forward.images,))
        self.model.set_training(True)
        device = answers.device
        pick = torch.from_numpy(first[familiar]).to(device)
        masks = self.mask()[torch.from_numpy(levels[familiar] - 1).to(device), : self.known]
        soft = torch.softmax(answers[pick, : self.known].float() / self.temperature + masks, 1)
        mine = forward.logits[pick, : self.known].float() / self.temperature + masks
        apart = -(soft * torch.log_softmax(mine, 1).masked_fill(masks.isinf(), 0.0)).sum(1)
        return loss + self.weight * apart.sum() / len(levels)

    def restore(self, state: State) -> None:
        """Continue from `state`, on the network's device."""
        super().restore(state)
        device = next(self.model.parameters()).device
        self.teacher = {name: value.to(device) for name, value in self.teacher.items()}
