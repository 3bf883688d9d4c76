"""Adam for a network whose heads grow."""

from __future__ import annotations

from dataclasses import dataclass, field
from operator import is_

import torch
from torch import Tensor, nn

from ramify.change import Change
from ramify.networks import Model
from ramify.networks.heads import join_rows
from ramify.state import State

BETAS, EPSILON = (0.9, 0.999), 1e-8
AdamState = dict[str, Tensor]  # step, exp_avg, exp_avg_sq


@dataclass
class _Group:
    """Parameters of one rate and type, and those that the latest step moved, with all that it needs."""

    factor: float
    trained: list[nn.Parameter] = field(default_factory=list)
    moved: list[Tensor] = field(default_factory=list)
    first: list[Tensor] = field(default_factory=list)
    second: list[Tensor] = field(default_factory=list)
    ages: Tensor = field(default_factory=lambda: torch.empty(0))  # steps of each; `each` are its elements
    each: list[Tensor] = field(default_factory=list)


class Optimizer:
    """Adam without weight decay, torch's fused kernel, over parameters that may be joined by more.

    The backbone learns at `factor` times the rate. What is frozen, or gets no gradient, has no part in it.
    The kernel is called as torch's own `Adam` would; that one looks all parameters through anew at each step,
    which takes as long as the step of a small network, and importing it imports a compiler.
    """

    def __init__(self, model: Model, factor: float = 1.0) -> None:
        self.model, self.factor = model, factor
        self._moments: dict[Tensor, AdamState] = {}
        self._groups: list[_Group] = []  # made when they are needed

    def _grouped(self) -> list[_Group]:
        if not self._groups:
            slower = set(self.model.backbone.parameters()) if self.factor != 1 else set()
            groups: dict[tuple[bool, torch.dtype], _Group] = {}
            for parameter in self.model.parameters():
                if parameter.requires_grad:
                    key = parameter in slower, parameter.dtype
                    group = groups.setdefault(key, _Group(self.factor if key[0] else 1.0))
                    group.trained.append(parameter)
            self._groups = list(groups.values())
        return self._groups

    def add(self, parameters: list[nn.Parameter]) -> None:
        """Train these too; the model has them already. Their moments are as old as those of the others."""
        self._groups = []
        if self._moments:
            age = next(iter(self._moments.values()))["step"]
            self._moments |= {parameter: _begun(parameter, age) for parameter in parameters}

    @torch.no_grad()
    def step(self, rate: float, clip: float | None = None, broken: Tensor | None = None) -> None:
        """Apply the gradients at this rate and clear them; where `broken` is 1, clear them only."""
        groups = self._grouped()
        if clip is not None:
            torch.nn.utils.clip_grad_norm_([p for group in groups for p in group.trained], clip)
        for group in groups:
            gradients = self._gradients(group)
            if not gradients:
                continue
            group.ages += 1
            torch._fused_adam_(
                *(group.moved, gradients, group.first, group.second, [], group.each),
                lr=rate * group.factor,
                beta1=BETAS[0],
                beta2=BETAS[1],
                weight_decay=0.0,
                eps=EPSILON,
                amsgrad=False,
                maximize=False,
                grad_scale=None,
                found_inf=broken,
            )
            if broken is not None:
                group.ages -= broken
            for parameter in group.moved:
                parameter.grad = None

    def _gradients(self, group: _Group) -> list[Tensor]:
        """Of those of the group's parameters that have one; its lists follow."""
        found = [(p, gradient) for p in group.trained if (gradient := p.grad) is not None]
        moved: list[Tensor] = [p for p, _ in found]
        if len(moved) != len(group.moved) or not all(map(is_, moved, group.moved)):
            for parameter in moved:
                if parameter not in self._moments:
                    none = torch.zeros((), device=parameter.device)
                    self._moments[parameter] = _begun(parameter, none)
            kept = [self._moments[parameter] for parameter in moved]
            group.moved = moved
            group.first, group.second = ([one[key] for one in kept] for key in ("exp_avg", "exp_avg_sq"))
            group.ages = torch.stack([one["step"] for one in kept]) if kept else torch.empty(0)
            group.each = list(group.ages.unbind())  # which grow with it
            for one, age in zip(kept, group.each, strict=True):
                one["step"] = age
        return [gradient for _, gradient in found]

    def follow(self, change: Change) -> None:
        """The moments of rows that became one are their mean."""
        for key in ("exp_avg", "exp_avg_sq"):
            named = self.model.named_parameters()
            moments = {name: self._moments[p][key] for name, p in named if p in self._moments}
            if "heads.weights.0" in moments:  # else no step has been made
                join_rows(change, moments, self.model.heads.classes, joined=False)

    def state(self) -> State:
        """Moments and steps of every parameter, by name."""
        moments = {
            name: {key: value.clone() for key, value in self._moments[p].items()}
            for name, p in self.model.named_parameters()
            if p in self._moments
        }
        return {"moments": moments}

    def restore(self, state: State) -> None:
        """Continue from `state`; the network must already have its parameters."""
        self._groups = []
        self._moments = {
            parameter: {
                key: value.to(parameter.device, copy=True) for key, value in state["moments"][name].items()
            }
            for name, parameter in self.model.named_parameters()
            if name in state["moments"]
        }


def _begun(parameter: Tensor, age: Tensor) -> AdamState:
    """Moments of a parameter that joins those of this age."""
    zeros = {key: torch.zeros_like(parameter) for key in ("exp_avg", "exp_avg_sq")}
    return {"step": age.clone(), **zeros}
