"""Adam for a network whose heads grow."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from ramify.change import Change
from ramify.networks import Model
from ramify.networks.heads import ROWS, join_rows
from ramify.state import State

BETAS = (0.9, 0.999)


class Optimizer:
    """Adam without weight decay, in the device's fused form, over parameters that may be joined by more.

    Adam's averages start at 0, and it makes up for that by their age in steps. torch knows one age for a
    whole parameter; a class's row is as old as the class. So with `row_age` the steps of young rows are
    shortened to what they would be at their own age, and a class learns at the same pace whenever it comes.
    """

    def __init__(self, model: Model, lr: float, row_age: bool = True) -> None:
        self.model, self.row_age = model, row_age
        self.steps = 0
        self.born = np.zeros(model.heads.classes, np.int64)  # steps made before each class was met
        self._adam = torch.optim.Adam(model.parameters(), lr=lr, betas=BETAS, fused=True)

    def add(self, parameters: list[nn.Parameter]) -> None:
        """Train these too, and the rows of new classes; the model has them already."""
        steps = [value["step"] for value in self._adam.state.values()]
        if steps:
            for parameter in parameters:
                self._adam.state[parameter] = {
                    "step": steps[0].clone(),
                    "exp_avg": torch.zeros_like(parameter),
                    "exp_avg_sq": torch.zeros_like(parameter),
                }
        self._adam.param_groups[0]["params"] = list(self.model.parameters())
        self.born = np.append(self.born, np.full(self.model.heads.classes - len(self.born), self.steps))

    def step(self, rate: float, clip: float | None = None) -> None:
        """Apply the gradients at this rate and clear them."""
        group = self._adam.param_groups[0]
        if clip is not None:
            torch.nn.utils.clip_grad_norm_(group["params"], clip)
        group["lr"] = rate
        self.steps += 1
        pace = _bias(self.steps - self.born) / _bias(np.array([self.steps]))
        young = self.row_age and bool((np.abs(pace - 1) > 1e-6).any())
        before = self._rows() if young else []
        self._adam.step()
        self._adam.zero_grad()
        if young:
            self._shorten(before, pace)

    def _rows(self) -> list[Tensor]:
        heads = self.model.heads
        return [p.detach().clone() for p in (*heads.weights, *heads.biases)]

    @torch.no_grad()
    def _shorten(self, before: list[Tensor], pace: npt.NDArray[np.float64]) -> None:
        """Go only the share `pace` of each row's way from where it was."""
        heads = self.model.heads
        spare = np.ones(len(heads.weights) * ROWS - len(pace))
        shares = torch.from_numpy(np.append(pace, spare).astype(np.float32)).to(before[0].device)
        blocks = [*shares.view(-1, ROWS)]
        for parameter, old, share in zip((*heads.weights, *heads.biases), before, blocks * 2, strict=True):
            parameter.copy_(old.lerp(parameter, share[:, None] if parameter.ndim == 2 else share))

    def follow(self, change: Change) -> None:
        """The moments of rows that became one are their mean; what is left is as old as it was."""
        for key in ("exp_avg", "exp_avg_sq"):
            moments = {
                name: self._adam.state[p][key]
                for name, p in self.model.named_parameters()
                if p in self._adam.state
            }
            join_rows(change, moments, len(self.born) if moments else 0, joined=False)

    def state(self) -> State:
        """Moments and steps of every parameter, by name, and the ages of the classes."""
        moments = {
            name: {key: value.detach().clone() for key, value in self._adam.state[p].items()}
            for name, p in self.model.named_parameters()
            if p in self._adam.state
        }
        return {"steps": self.steps, "born": self.born.copy(), "moments": moments}

    def restore(self, state: State) -> None:
        """Continue from `state`; the network must already have its parameters."""
        self.steps, self.born = state["steps"], state["born"].copy()
        self._adam.param_groups[0]["params"] = list(self.model.parameters())
        self._adam.state.clear()
        for name, parameter in self.model.named_parameters():
            if name in state["moments"]:
                self._adam.state[parameter] = {
                    key: value.to(parameter.device, copy=True)
                    for key, value in state["moments"][name].items()
                }


def _bias(age: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """Adam's correction of a step for averages of this age."""
    first, second = BETAS
    corrected: npt.NDArray[np.float64] = np.sqrt(1 - second**age) / (1 - first**age)
    return corrected
