"""Adam for a network whose heads grow."""

from __future__ import annotations

from functools import cached_property

import torch
from torch import Tensor, nn

from ramify.change import Change
from ramify.networks import Model
from ramify.networks.heads import join_rows
from ramify.state import State


class Optimizer:
    """Adam without weight decay, in the device's fused form, over parameters that may be joined by more.

    The backbone learns at `factor` times the rate. What is frozen has no part in it. torch's Adam,
    whose first use imports a compiler, is made when it is first needed: not to answer.
    """

    def __init__(self, model: Model, lr: float, factor: float = 1.0) -> None:
        self.model, self.lr, self.factor = model, lr, factor
        self._moments: dict[str, dict[str, Tensor]] = {}  # restored, for an Adam that is yet to be made

    @cached_property
    def _adam(self) -> torch.optim.Adam:
        groups = [{"params": parameters} for parameters in self._groups()]
        adam = torch.optim.Adam(groups, lr=self.lr, fused=True)
        for name, parameter in self.model.named_parameters():
            if name in self._moments:
                adam.state[parameter] = self._moments.pop(name)
        return adam

    @property
    def _made(self) -> bool:
        return "_adam" in self.__dict__

    def _groups(self) -> list[list[nn.Parameter]]:
        """Those that learn at the full rate and, where there is a factor, those that learn at another."""
        trained = [p for p in self.model.parameters() if p.requires_grad]
        if self.factor == 1:
            return [trained]
        slower = {p for p in self.model.backbone.parameters() if p.requires_grad}
        return [[p for p in trained if p not in slower], [p for p in trained if p in slower]]

    def add(self, parameters: list[nn.Parameter]) -> None:
        """Train these too; the model has them already. Their moments are as old as those of the others."""
        if not self._made and not self._moments:
            return
        steps = [value["step"] for value in self._adam.state.values()]
        if steps:
            for parameter in parameters:
                self._adam.state[parameter] = {
                    "step": steps[0].clone(),
                    "exp_avg": torch.zeros_like(parameter),
                    "exp_avg_sq": torch.zeros_like(parameter),
                }
        self._regroup()

    def _regroup(self) -> None:
        for group, parameters in zip(self._adam.param_groups, self._groups(), strict=True):
            group["params"] = parameters

    def step(self, rate: float, clip: float | None = None) -> None:
        """Apply the gradients at this rate and clear them."""
        groups = self._adam.param_groups
        if clip is not None:
            torch.nn.utils.clip_grad_norm_([p for group in groups for p in group["params"]], clip)
        for group, factor in zip(groups, (1.0, self.factor), strict=False):
            group["lr"] = rate * factor
        self._adam.step()
        self._adam.zero_grad()

    def follow(self, change: Change) -> None:
        """The moments of rows that became one are their mean."""
        for key in ("exp_avg", "exp_avg_sq"):
            named = self.model.named_parameters()
            moments = {name: self._adam.state[p][key] for name, p in named if p in self._adam.state}
            if "heads.weights.0" in moments:  # else no step has been made
                join_rows(change, moments, self.model.heads.classes, joined=False)

    def state(self) -> State:
        """Moments and steps of every parameter, by name."""
        moments = {
            name: {key: value.detach().clone() for key, value in self._adam.state[p].items()}
            for name, p in self.model.named_parameters()
            if p in self._adam.state
        }
        return {"moments": moments}

    def restore(self, state: State) -> None:
        """Continue from `state`; the network must already have its parameters."""
        self.__dict__.pop("_adam", None)
        self._moments = {
            name: {
                key: value.to(parameter.device, copy=True) for key, value in state["moments"][name].items()
            }
            for name, parameter in self.model.named_parameters()
            if name in state["moments"]
        }
