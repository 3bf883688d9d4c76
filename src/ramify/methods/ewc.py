"""EWC++."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor, nn

from ramify.memory import Workbench
from ramify.methods.er import er
from ramify.methods.recipe import Recipe, method
from ramify.methods.settings import Settings
from ramify.randomness import Generators
from ramify.training.objectives import CrossEntropy
from ramify.typed import NotNegative, Share, Typed


@dataclass(frozen=True)
class EwcSettings(Typed):
    """EWC++."""

    strength: NotNegative = 100.0
    """Weight of the penalty."""
    decay: Share = 0.5
    """Share of the newest batch in the running Fisher information."""


class FisherPenalty(CrossEntropy):
    """+ strength · Σ F (θ - θ*)² over all but the heads.

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

    def anchor(self, bench: Workbench) -> None:
        """Remember where the network is, and which weights matter there (none before the first update)."""
        if not self.fisher:
            return
        names, parameters = _parameters(bench)
        self.anchored = {n: f.clone() for n, f in self.fisher.items()}
        self.anchor_point = {n: p.detach().clone() for n, p in zip(names, parameters, strict=True)}

    def differentiate(self, bench: Workbench, loss: Tensor) -> None:
        """Update F from the batch's gradient, then add the gradient of the penalty."""
        super().differentiate(bench, loss)
        with torch.no_grad():
            names, parameters = _parameters(bench)
            if not parameters:  # features go to the heads as they are
                return
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


def _parameters(bench: Workbench) -> tuple[list[str], list[nn.Parameter]]:
    trained = {n: p for n, p in bench.model.backbone.named_parameters() if p.requires_grad}
    return list(trained), list(trained.values())


@method("ewc++", settings={"ewc": EwcSettings}, task_free=False)
def ewc(settings: Settings, rng: Generators) -> Recipe:
    """EWC++ (Chaudhry et al. 2018): ER, and weights that mattered so far are held where they were.

    Not task-free: where the weights are held, and how firmly, is fixed at the end of each task; before the
    first one there is no penalty.
    """
    own = settings[EwcSettings]
    penalty = FisherPenalty(own.strength, own.decay)
    return replace(er(settings, rng), minimise=penalty, consolidate=penalty.anchor)
