"""Saving and restoring the parts of a learner, exactly."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import torch

from ramify.change import Change, Follow

State = dict[str, Any]


class Stateful:
    """A part that changes while it learns. `_state` names the attributes that change.

    Their values are numbers, strings, lists, dicts with text keys, arrays (on the host), tensors (on the
    learner's device), None, or objects that have `state()` and `restore()` themselves. `_follows` says of
    those that are kept by class or by stored sample how they follow an edit of the labels.
    """

    _state: ClassVar[tuple[str, ...]] = ()
    _follows: ClassVar[Mapping[str, Follow]] = {}

    def state(self) -> State:
        """A copy of everything that changes, nested as the parts are."""
        return {name: _save(getattr(self, name)) for name in self._state}

    def restore(self, state: State) -> None:
        """Become the part that gave `state`, to the bit."""
        for name in self._state:
            current = getattr(self, name)
            if hasattr(current, "restore"):
                current.restore(state[name])
            else:
                setattr(self, name, copied(state[name]))

    def follow(self, change: Change) -> None:
        """Classes have become one or ended, stored samples have moved or gone: bring all along."""
        for name in self._state:
            current = getattr(self, name)
            if isinstance(current, Stateful):
                current.follow(change)
            elif name in self._follows:
                setattr(self, name, self._follows[name](change, current))


def moved(value: Any, device: torch.device) -> Any:
    """A state with all its tensors on `device`; arrays stay on the host."""
    if isinstance(value, dict):
        return {name: moved(item, device) for name, item in value.items()}
    return value.to(device) if isinstance(value, torch.Tensor) else value


def _save(value: Any) -> Any:
    return value.state() if hasattr(value, "restore") else copied(value)


def copied(value: Any) -> Any:
    """A state that shares nothing with another."""
    if isinstance(value, torch.Tensor):
        return value.detach().clone()
    if isinstance(value, dict):
        return {name: copied(item) for name, item in value.items()}
    if isinstance(value, np.ndarray):
        return value.copy()
    return copy.deepcopy(value)
