"""A learner in a folder."""

from __future__ import annotations

import copy
import json
import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from safetensors import safe_open
from torch import Tensor, nn

from ramify import __version__
from ramify.datasets.dataset import Channels
from ramify.errors import RamifyError
from ramify.files import check_format, fitting
from ramify.hierarchy import Ties
from ramify.learner.card import write_card
from ramify.learner.labels import as_levels
from ramify.methods.recipe import Build, Method
from ramify.methods.settings import NetworkSettings, without_retired
from ramify.named import is_own
from ramify.networks import build_backbone
from ramify.networks.resnet import BLOCKS
from ramify.runs.files import FORMAT
from ramify.statefiles import load_state, save_state
from ramify.taxonomy import Taxonomy, read_taxonomy
from ramify.typed import from_dict, to_dict

if TYPE_CHECKING:
    from ramify.learner.learner import Learner

FILE = "learner.safetensors"  # the only file, so a folder is replaced at once
RUN_FILE = "model.safetensors"  # what `ramify run` leaves


@dataclass(frozen=True)
class Trained:
    """What the header of a run's model says."""

    method: str
    network: NetworkSettings
    classes: tuple[tuple[int, str], ...]
    image_size: int = 64
    mean: Channels | None = None
    std: Channels | None = None
    features: int | None = None
    feature_dtype: str = "float32"
    encoder: dict[str, str] | None = None


def name_of(method: str | Method | Build) -> str:
    """A method's name."""
    if isinstance(method, Method):
        return method.name
    return method if isinstance(method, str) else getattr(method, "__name__", type(method).__name__)


def save(learner: Learner, path: Path, repo: str | None = None) -> None:
    """Write everything that the next update depends on, and the card; `repo` is where others find it."""
    params, tree = learner.get_params(), learner.taxonomy
    about = {
        "kind": "learner",
        "version": __version__,
        "method": params["method"] if isinstance(params["method"], str) else None,
        "own_network": isinstance(params["network"], nn.Module),
        "image_size": learner.image_size,
        "freeze": params["freeze"],
        "features": params["features"],
        "encoder": None if learner._taking.encoder is None else learner._taking.encoder.digest,
        "mean": learner.mean,
        "std": learner.std,
        "seed": learner._trainer.rng.seed,
        "ask": learner._trainer.log.share,
        "log_size": learner._trainer.log.size,
        "settings": to_dict(learner._trainer.settings),
        "taxonomy": None if tree is None else [tree.path(leaf) for leaf in range(tree.leaves)],
        "leaf_attributes": None if tree is None else tree.leaf_attributes,
        "notes": learner.notes,
        "history": learner._history.entries,
        "samples": learner._names.state(learner._trainer),
    }
    own = params["network"] if isinstance(params["network"], nn.Module) else None
    taking = learner._taking
    frozen = taking.encoder is not None and taking.network is None  # a digest is enough
    first = {} if own is None or frozen else {name: value.cpu() for name, value in own.state_dict().items()}
    state = {
        "trainer": learner._trainer.state(),
        "draws": learner._draws,
        "first_weights": first,
        "undo": learner._history.state(),
        "ties": _known_ties(learner),
    }
    save_state(path / FILE, state, about)
    learner._history.write(path)
    write_card(learner, path, repo)


def _known_ties(learner: Learner) -> dict[str, Any]:
    """The tree that was found, where nothing was learned since: whoever opens the model need not find it."""
    ties = learner._trainer.known_ties()
    return {} if ties is None else {"parents": ties.parents, "support": ties.support}


def load(
    kind: type[Learner],
    path: Path,
    device: str,
    method: str | Method | Build | None,
    network: nn.Module | str | None,
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
            own = (
                build_backbone(NetworkSettings(network))
                if isinstance(network, str)
                else copy.deepcopy(network)
            )
            if state["first_weights"]:
                own.load_state_dict(state["first_weights"])  # methods that begin anew begin with these
            network = own
        learner = _made(kind, path, about, device, method, network, own_code)
        _refuse_other_weights(learner, about.get("encoder"), path)
        learner._trainer.restore(state["trainer"])
        learner._draws = state["draws"]
        learner.notes = about["notes"]
        learner._names.restore(about.get("samples", {}))  # neither is in older files
        learner._history.restore(about.get("history", []), state.get("undo", {}))
        if state.get("ties"):
            learner._trainer.know_ties(Ties(learner._trainer.classes, **state["ties"]))
    return learner


def _made(
    kind: type[Learner],
    path: Path,
    about: dict[str, Any],
    device: str,
    method: str | Method | Build | None,
    network: nn.Module | str | None,
    own_code: bool,
) -> Learner:
    """A fresh learner like the one that was saved."""
    chosen = method or about["method"]
    if chosen is None:
        raise RamifyError(f"{path} was made with a method of your own; give it again: load(…, method=…)")
    if about["own_network"] and network is None:
        raise RamifyError(f"{path} {_OWN_NETWORK}")
    settings = without_retired(about["settings"])
    allowed = isinstance(network, str) and not about["own_network"]
    if isinstance(network, str) and allowed:
        if not is_own(settings["network"]["name"]):
            raise _not_asked_for(path, settings["network"]["name"], network)
        settings["network"]["name"] = network
    named = [
        name
        for name, needed in (
            (about["method"] or "", method is None),
            (settings["network"]["name"], not allowed),
        )
        if needed and is_own(name)
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
        freeze=about.get("freeze"),
        features=about.get("features"),
        seed=about["seed"],
        device=device,
        mean=None if about["mean"] is None else tuple(about["mean"]),
        std=None if about["std"] is None else tuple(about["std"]),
        **{name: about[name] for name in ("ask", "log_size") if name in about},  # not in older ones
        **settings,
    )


def _refuse_other_weights(learner: Learner, digest: str | None, path: Path) -> None:
    """Refuse to go on with other frozen weights than those that the model learned with."""
    encoder = learner._taking.encoder
    if digest is not None and (encoder is None or encoder.digest != digest):
        name = learner.settings.network.weights or learner.settings.network.name
        raise RamifyError(
            f"{path} was learned on features of other weights than those of {name}; give the same weights"
        )


def _from_run(
    kind: type[Learner],
    path: Path,
    device: str,
    method: str | Method | Build | None,
    network: nn.Module | str | None,
) -> Learner:
    """A learner with the final network, the classes and the tree of a run; its memory begins empty."""
    file, tree = path / RUN_FILE, read_taxonomy(path / "taxonomy.csv")
    with fitting(file):
        about, weights = _trained(file, tree)
        if network is None and is_own(about.network.name):
            raise RamifyError(f"{path} {_OWN_NETWORK}")
        if isinstance(network, str) and not is_own(about.network.name):
            raise _not_asked_for(path, about.network.name, network)
        if network is None and about.network.name in BLOCKS and about.encoder is None:
            _refuse_misfit(about, weights, file)
        kept = (about.encoder or {}).get("feature_dtype", about.feature_dtype)
        learner = kind(
            method or "pl-fms",
            image_size=about.image_size,
            features=about.features,
            feature_dtype=kept,
            precision=(about.encoder or {}).get("precision", "fp32"),
            network=replace(about.network, name=network)
            if isinstance(network, str)
            else network or about.network,
            freeze=about.network.freeze if isinstance(network, nn.Module) else None,
            taxonomy=tree,
            device=device,
            mean=about.mean,
            std=about.std,
        )
        _refuse_other_weights(learner, (about.encoder or {}).get("weights"), path)
        learner._trainer.adopt(weights, about.classes)
    return learner


_OWN_NETWORK = (
    "was made with a network of your own; give it again: load(…, network=…), or name its code: --network "
    "package.module:factory"
)


def _not_asked_for(path: Path, name: str, given: str) -> RamifyError:
    return RamifyError(f"{path} was made with {name}, not with code of your own; leave out {given!r}")


def saved_with_own_network(path: Path) -> bool:
    """Whether the model in a folder was made with a module that it cannot name."""
    if not (path / FILE).is_file():
        return False
    return bool(load_state(path / FILE)[1].get("own_network"))


def _trained(file: Path, tree: Taxonomy) -> tuple[Trained, dict[str, Tensor]]:
    """What a run says of its network, and the weights."""
    with safe_open(file, framework="pt") as opened:
        header = json.loads((opened.metadata() or {}).get("ramify", "{}"))
        check_format(header.pop("format", None), file, FORMAT)
        about = from_dict(Trained, header, f"{file} is damaged")
        weights = {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118
    as_levels([level for level, _ in about.classes], [label for _, label in about.classes], tree)
    if not about.classes or len(set(about.classes)) < len(about.classes):
        raise RamifyError(f"{file} is damaged: its classes must be one or more, and none twice")
    mean, std = about.mean or (0.0,), about.std or (1.0,)
    if not all(map(math.isfinite, (*mean, *std))) or min(std) <= 0:
        raise RamifyError(f"{file} is damaged: mean and std must be finite, and std above 0")
    return about, weights


def _refuse_misfit(about: Trained, weights: dict[str, Tensor], file: Path) -> None:
    """Refuse weights of another network than the one that is named, before that is given any memory."""
    network = about.network
    with torch.device("meta"):
        built = build_backbone(network, image_size=about.image_size)
    named = built.state_dict()
    if any(value.shape != _shape(weights.get(f"backbone.{name}")) for name, value in named.items()):
        named_so = f"{network.name} × {network.width:g}"
        raise RamifyError(f"{file} is damaged: its weights are not those of {named_so}; run it again")


def _shape(value: Tensor | None) -> torch.Size | None:
    return None if value is None else value.shape
