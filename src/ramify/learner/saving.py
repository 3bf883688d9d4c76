"""A learner in a folder."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from safetensors import SafetensorError, safe_open
from torch import nn

from ramify import __version__
from ramify.errors import RamifyError
from ramify.files import fitting
from ramify.methods.recipe import Method
from ramify.runs.config import to_dict
from ramify.statefiles import load_state, save_state
from ramify.taxonomy import Taxonomy, read_taxonomy

if TYPE_CHECKING:
    from ramify.learner.learner import Learner

FILE = "learner.safetensors"  # the only file, so a folder is replaced at once
RUN_FILE = "model.safetensors"  # what `ramify run` leaves


def name_of(method: str | Method) -> str:
    """A method's name."""
    return method if isinstance(method, str) else getattr(method, "__name__", type(method).__name__)


def save(learner: Learner, path: Path) -> None:
    """Write everything that the next update depends on."""
    params, tree = learner.get_params(), learner.taxonomy
    about = {
        "kind": "learner",
        "version": __version__,
        "method": params["method"] if isinstance(params["method"], str) else None,
        "own_network": isinstance(params["network"], nn.Module),
        "image_size": learner.image_size,
        "mean": learner.mean,
        "std": learner.std,
        "seed": learner._engine.rng.seed,
        "settings": to_dict(learner.settings),
        "taxonomy": None if tree is None else [tree.path(leaf) for leaf in range(tree.leaves)],
        "leaf_attributes": None if tree is None else tree.leaf_attributes,
        "notes": learner.notes,
    }
    own = params["network"] if isinstance(params["network"], nn.Module) else None
    first = {} if own is None else {name: value.cpu() for name, value in own.state_dict().items()}
    state = {"engine": learner._engine.state(), "draws": learner._draws, "first_weights": first}
    save_state(path / FILE, state, about)


def load(
    kind: type[Learner],
    path: Path,
    device: str,
    method: str | Method | None,
    network: nn.Module | None,
    own_code: bool,
) -> Learner:
    """Read a learner; see `Learner.load`."""
    if (path / RUN_FILE).is_file() and not (path / FILE).exists():
        return _from_run(kind, path, device, method, network)
    if not (path / FILE).is_file():
        if (path / "config.json").is_file():
            raise RamifyError(f"{path} is a run that has not ended; end it with: ramify resume {path}")
        raise RamifyError(
            f"{path} holds no model (no {FILE} in it); give a folder that `ramify learn`, `ramify run` or "
            "`save` has written"
        )
    state, about = load_state(path / FILE)
    if about.get("kind") != "learner":
        raise RamifyError(f"{path / FILE} is not a learner's; give a folder that `save` has written")
    with fitting(path / FILE):
        if about["own_network"] and network is not None:
            network = copy.deepcopy(network)
            network.load_state_dict(state["first_weights"])  # methods that begin anew begin with these
        learner = _made(kind, path, about, device, method, network, own_code)
        learner._engine.restore(state["engine"])
        learner._draws = state["draws"]
        learner.notes = about["notes"]
    return learner


def _made(
    kind: type[Learner],
    path: Path,
    about: dict[str, Any],
    device: str,
    method: str | Method | None,
    network: nn.Module | None,
    own_code: bool,
) -> Learner:
    """A fresh learner like the one that was saved."""
    chosen = method or about["method"]
    if chosen is None:
        raise RamifyError(f"{path} was made with a method of your own; give it again: load(…, method=…)")
    if about["own_network"] and network is None:
        raise RamifyError(f"{path} was made with a network of your own; give it again: load(…, network=…)")
    settings = about["settings"]
    named = [
        name
        for name, needed in ((about["method"] or "", method is None), (settings["network"]["name"], True))
        if needed and ":" in name
    ]
    if named and not own_code:
        raise RamifyError(
            f"{path} names code to import, {named[0]!r}; if you trust it, say own_code=True (--own-code)"
        )
    tree = about["taxonomy"]
    backbone = settings.pop("network")
    return kind(
        chosen,
        image_size=about["image_size"],
        memory_size=settings.pop("memory_size"),
        network=network if about["own_network"] else backbone,
        taxonomy=None if tree is None else Taxonomy.from_rows(tree, about["leaf_attributes"]),
        seed=about["seed"],
        device=device,
        mean=tuple(about["mean"]),
        std=tuple(about["std"]),
        **settings,
    )


def _from_run(
    kind: type[Learner], path: Path, device: str, method: str | Method | None, network: nn.Module | None
) -> Learner:
    """A learner with the final network, the classes and the tree of a run; its memory begins empty."""
    try:
        with safe_open(path / RUN_FILE, framework="pt") as file:
            about = json.loads((file.metadata() or {})["ramify"])
            weights = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        if network is None and ":" in about["network"]["name"]:
            raise RamifyError(
                f"{path} was made with a network of your own; give it again: load(…, network=…)"
            )
        learner = kind(
            method or "pl-fms",
            image_size=about["image_size"],
            network=network or about["network"],
            taxonomy=read_taxonomy(path / "taxonomy.csv"),
            device=device,
            mean=tuple(about["mean"]),
            std=tuple(about["std"]),
        )
        learner._engine.adopt(weights, about["classes"])
    except (OSError, SafetensorError, KeyError, TypeError, ValueError, RuntimeError) as error:
        reason = str(error).splitlines()[0]
        raise RamifyError(f"{path / RUN_FILE} cannot be used ({type(error).__name__}: {reason})") from None
    return learner
