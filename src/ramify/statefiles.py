"""A learner's state in one file: safetensors for the arrays, JSON in its header for everything else."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import safe_open
from safetensors.torch import save_file

from ramify.errors import RamifyError
from ramify.files import UNFIT, beside, check_format
from ramify.state import State

FORMAT = 3
OLDER = (
    "a learner or a run that was saved in an older one cannot be continued; begin it again, or use the "
    "version that wrote it (the model.safetensors of a finished run can be opened still)"
)


def save_state(path: Path, state: State, about: dict[str, Any], make_folder: bool = True) -> None:
    """Write a state (nested dicts of tensors, numpy arrays and JSON values), whole or not at all."""
    tensors: dict[str, torch.Tensor] = {}
    tree = _take_apart(state, "", tensors)
    try:
        header = {"ramify": json.dumps({"format": FORMAT, "about": about, "state": tree})}
    except (TypeError, ValueError, RecursionError) as error:
        raise RamifyError(
            f"{path} cannot be written: {error}; what is saved along (`notes`) must be JSON values"
        ) from None
    with beside(path, make_folder) as temporary:
        save_file(tensors, temporary, header)


def load_state(path: Path) -> tuple[State, dict[str, Any]]:
    """The state and what was said about it. Nothing in the file can run code."""
    try:
        with safe_open(path, framework="pt") as file:
            header = json.loads((file.metadata() or {})["ramify"])
            check_format(header.get("format"), path, FORMAT, OLDER)
            # copies: what is kept of a state must not hang on its file, which may go
            tensors = {name: file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118
            state, about = _put_together(header["state"], tensors), header["about"]
            if not isinstance(state, dict) or not isinstance(about, dict):
                raise TypeError("its parts are no tables")
            return state, about
    except UNFIT as error:
        raise RamifyError(f"{path} is not a whole state file ({type(error).__name__}: {error})") from None


def _take_apart(value: Any, name: str, tensors: dict[str, torch.Tensor]) -> Any:
    if isinstance(value, dict):
        return {key: _take_apart(item, f"{name}/{key}", tensors) for key, item in value.items()}
    if isinstance(value, torch.Tensor | np.ndarray):
        kind = "tensor" if isinstance(value, torch.Tensor) else "array"
        tensors[name] = torch.as_tensor(value).detach().cpu().contiguous()
        return {f"${kind}": name}
    if isinstance(value, np.integer | np.floating):
        return value.item()
    return value


def _put_together(value: Any, tensors: dict[str, torch.Tensor]) -> Any:
    if not isinstance(value, dict):
        return value
    if "$tensor" in value:
        return tensors[value["$tensor"]]
    if "$array" in value:
        return tensors[value["$array"]].numpy()
    return {key: _put_together(item, tensors) for key, item in value.items()}
