"""Weights from files, and by which digest they are known."""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from ramify.errors import RamifyError

NAMED = 5  # weights that an error names
WRAPPERS = ("state_dict", "model", "model_state_dict", "net")  # tables that checkpoints keep weights in
PREFIXES = ("module.", "backbone.", "model.", "_orig_mod.")
Rename = Callable[[Mapping[str, Tensor]], dict[str, Tensor]]
CLASSIFIERS = ("fc.", "_fc.", "classifier.", "head.", "heads.")  # another task's: of no use here


def read_weights(path: str | Path) -> dict[str, Tensor]:
    """The weights in a .safetensors file, or in a .pth that is read without running code."""
    try:
        if Path(path).suffix == ".safetensors":
            return load_file(path)
        found: Any = torch.load(path, map_location="cpu", weights_only=True)
    except OSError as error:
        raise RamifyError(f"{path} cannot be read: {error.strerror or error}; it must hold weights") from None
    except pickle.UnpicklingError:
        raise RamifyError(
            f"{path} holds more than weights, and loading that could run code: save state_dict() alone"
        ) from None
    except (SafetensorError, RuntimeError, EOFError, ValueError) as error:
        words = str(error).partition("\n")[0]
        raise RamifyError(f"{path} holds no weights ({words}); give a .safetensors or .pth file") from None
    for name in WRAPPERS:
        if isinstance(found, Mapping) and isinstance(found.get(name), Mapping):
            found = found[name]
    if not isinstance(found, Mapping) or not all(isinstance(v, Tensor) for v in found.values()):
        raise RamifyError(f"{path} holds no table of weights; save state_dict() alone")
    return {str(name): value for name, value in found.items()}


def load_into(
    network: nn.Module, weights: Mapping[str, Tensor], where: str | Path, rename: Rename = dict
) -> None:
    """Begin from these weights; all of the network must be there, in its shapes. What is too much stays out.

    A classifier may be too much; anything else is named, for it is likely another network's. `rename` turns
    names of another layout into those of the network.
    """
    wanted = network.state_dict()
    found = _fitting(weights, wanted, rename)
    missing = [n for n in wanted if n not in found and not n.endswith("num_batches_tracked")]
    unlike = [
        f"{n} is {tuple(found[n].shape)}, not {tuple(wanted[n].shape)}"
        for n in wanted
        if n in found and found[n].shape != wanted[n].shape
    ]
    strange = [n for n in found if n not in wanted and not n.startswith(CLASSIFIERS)]
    told = [
        f"{len(names)} {what}: {', '.join(names[:NAMED])}{' …' if len(names) > NAMED else ''}"
        for what, names in (
            ("are missing", missing),
            ("have another shape", unlike),
            ("are unknown", strange),
        )
        if names
    ]
    if missing or unlike or strange:
        raise RamifyError(
            f"{where} does not fit the network ({'; '.join(told)}); give weights of the same one"
        )
    network.load_state_dict({n: v for n, v in found.items() if n in wanted}, strict=False)


def _fitting(
    weights: Mapping[str, Tensor], wanted: Mapping[str, Tensor], rename: Rename
) -> dict[str, Tensor]:
    """The weights by the network's names, without the prefix that a wrapper may have put before all."""
    for prefix in ("", *PREFIXES):
        inside = {n.removeprefix(prefix): v for n, v in weights.items() if n.startswith(prefix)}
        if (found := rename(inside)).keys() & wanted.keys():
            return found
    return dict(weights)


def digest_of(module: nn.Module) -> str:
    """A digest of all weights and statistics, by name."""
    checksum = hashlib.sha256()
    for name, value in sorted(module.state_dict().items()):
        array = value.detach().cpu().contiguous()
        checksum.update(f"{name} {array.dtype} {tuple(array.shape)}\n".encode())
        checksum.update(array.view(-1).view(torch.uint8).numpy().tobytes() if array.numel() else b"")
    return checksum.hexdigest()
