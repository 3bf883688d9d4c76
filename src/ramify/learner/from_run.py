"""A learner that goes on from the end of a run."""

from __future__ import annotations

import json
import logging
import math
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from safetensors import safe_open
from torch import Tensor, nn

from ramify.errors import RamifyError
from ramify.files import check_format, fitting
from ramify.learner.labels import as_levels
from ramify.learner.saving import RUN_FILE, Opened, refuse_other_weights
from ramify.methods import find_method, make_settings
from ramify.methods.closed_form import take_sums
from ramify.methods.settings import NetworkSettings
from ramify.named import is_own
from ramify.networks import build_backbone
from ramify.networks.resnet import BLOCKS
from ramify.pixels import Channels
from ramify.runs.config import Config, read_config
from ramify.runs.files import FORMAT
from ramify.runs.folder import SUMS, RunFolder
from ramify.taxonomy import Taxonomy, read_taxonomy
from ramify.typed import from_dict, to_dict

if TYPE_CHECKING:
    from ramify.learner.learner import Learner

log = logging.getLogger("ramify")

OTHERWISE = "pl-fms"  # by which a model is taught on where its run's method cannot be


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
    seen: tuple[int, ...] | None = None
    """Samples of each class; not in older files."""


def from_run(kind: type[Learner], given: Opened) -> Learner:
    """A learner with the network, the classes, the tree, the method and the settings of a run.

    Its memory begins empty. A method in closed form has the sums over all of the run's samples.
    """
    path, network = given.path, given.network
    file, tree = path / RUN_FILE, _tree(path)
    with fitting(file):
        about, arrays = _trained(file, tree)
        sums = {name.removeprefix(SUMS): arrays.pop(name) for name in list(arrays) if name.startswith(SUMS)}
        if is_own(about.network.name):
            given.refuse_no_network()
        given.refuse_network(about.network.name)
        config = _config(path, about, given.own_code or given.method is not None)
        chosen = given.method or _goes_on_by(given, config.method, bool(sums))
        if network is None and about.network.name in BLOCKS and about.encoder is None:
            _refuse_misfit(about, arrays, file)
        learner = kind(
            chosen,
            image_size=about.image_size,
            features=about.features,
            network=replace(about.network, name=network)
            if isinstance(network, str)
            else network or about.network,
            freeze=about.network.freeze if isinstance(network, nn.Module) else None,
            taxonomy=tree,
            seed=config.seed,
            device=given.device,
            mean=about.mean,
            std=about.std,
            **_settings(config, about),
        )
        refuse_other_weights(learner, (about.encoder or {}).get("weights"), path)
        learner._trainer.adopt(arrays, about.classes, about.seen)
        take_sums(learner._trainer, sums)
    return learner


def _tree(path: Path) -> Taxonomy:
    """The tree of the run's levels, told as those of the dataset's tree that they are."""
    tree = read_taxonomy(path / "taxonomy.csv")
    if not (path / "config.json").is_file():
        return tree
    stream = RunFolder(path).about()["stream"]
    return tree.numbered(stream.get("levels") or tree.level_numbers)  # older runs have not told it


def _config(path: Path, about: Trained, own_code: bool) -> Config:
    """What the run was told; the defaults where its model was taken out of its folder."""
    if not (path / "config.json").is_file():
        return Config(method=about.method if not is_own(about.method) else OTHERWISE)
    return read_config(RunFolder(path).about()["config"], f"{path}/config.json", own_code)


def _goes_on_by(given: Opened, name: str, sums: bool) -> str:
    """The run's own method or, with a word, `OTHERWISE` where that needs more than samples to come."""
    given.refuse_code(name)
    method = find_method(name)
    why = {
        "learns only when its stream is over": method.offline,
        "is told the label at every level": method.told_paths,
        "trains anew when it is asked, on what the run has stored": method.trains_when_asked,
        "needs the sums of its samples, which this older run has not kept": method.closed_form and not sums,
    }
    if told := next((words for words, holds in why.items() if holds), None):
        log.info("%s %s: if it is taught on, %s goes on by %s", name, told, given.path, OTHERWISE)
        return OTHERWISE
    return name


def _settings(config: Config, about: Trained) -> dict[str, Any]:
    """The run's settings as a learner takes them; on encoded images those with which they were encoded."""
    values = to_dict(config)
    known = {f.name for f in fields(make_settings())} | {f.name for f in fields(type(config))} - {
        f.name for f in fields(Config)
    }
    found = {name: value for name, value in values.items() if name in known and name != "network"}
    encoder = about.encoder or {}
    found["feature_dtype"] = encoder.get("feature_dtype", about.feature_dtype)
    return found | {"precision": encoder.get("precision", found["precision"])}


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
    # that of RanPAC stands within its projections; RanDumb has none
    there = {name.replace("backbone.", ""): value.shape for name, value in weights.items()}
    if there.keys() & named.keys() and any(there.get(n) != value.shape for n, value in named.items()):
        named_so = f"{network.name} × {network.width:g}"
        raise RamifyError(f"{file} is damaged: its weights are not those of {named_so}; run it again")
