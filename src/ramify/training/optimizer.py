"""Adam for a network whose heads grow."""

from __future__ import annotations

import torch
from torch import nn

from ramify.networks import Model
from ramify.state import State


class Optimizer:
    """Adam without weight decay, in the device's fused form, over parameters that may be joined by more."""

    def __init__(self, model: Model, lr: float) -> None:
        self.model = model
        self._adam = torch.optim.Adam(model.parameters(), lr=lr, fused=True)

    def add(self, parameters: list[nn.Parameter]) -> None:
        """Train these too; the model has them already. Their moments are as old as those of the others."""
        steps = [value["step"] for value in self._adam.state.values()]
        if steps:
            for parameter in parameters:
                self._adam.state[parameter] = {
                    "step": steps[0].clone(),
                    "exp_avg": torch.zeros_like(parameter),
                    "exp_avg_sq": torch.zeros_like(parameter),
                }
        self._adam.param_groups[0]["params"] = list(self.model.parameters())

    def step(self, rate: float, clip: float | None = None) -> None:
        """Apply the gradients at this rate and clear them."""
        group = self._adam.param_groups[0]
        if clip is not None:
            torch.nn.utils.clip_grad_norm_(group["params"], clip)
        group["lr"] = rate
        self._adam.step()
        self._adam.zero_grad()

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
        self._adam.param_groups[0]["params"] = list(self.model.parameters())
        self._adam.state.clear()
        for name, parameter in self.model.named_parameters():
            if name in state["moments"]:
                self._adam.state[parameter] = {
                    key: value.to(parameter.device, copy=True)
                    for key, value in state["moments"][name].items()
                }
