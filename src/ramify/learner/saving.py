"""A learner in a folder."""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import nn

from ramify import __version__
from ramify.errors import RamifyError
from ramify.files import fitting
from ramify.hierarchy import Ties
from ramify.learner.card import write_card
from ramify.methods.recipe import Build, Method
from ramify.methods.settings import NetworkSettings, without_retired
from ramify.named import is_own
from ramify.networks import build_backbone
from ramify.statefiles import load_state, save_state
from ramify.taxonomy import Taxonomy
from ramify.typed import to_dict

if TYPE_CHECKING:
    from ramify.learner.learner import Learner

FILE = "learner.safetensors"  # the only file, so a folder is replaced at once
RUN_FILE = "model.safetensors"  # what `ramify run` leaves


@dataclass(frozen=True)
class Opened:
    """A folder that is opened, and what is given with it; see `Learner.load`."""

    path: Path
    device: str
    method: str | Method | Build | None
    network: nn.Module | str | None
    own_code: bool

    def refuse_code(self, name: str) -> None:
        """Refuse a name of code to import that is not trusted."""
        if is_own(name) and not self.own_code:
            raise RamifyError(
                f"{self.path} names code to import, {name!r}; if you trust it, say own_code=True (--own-code)"
            )

    def refuse_no_network(self) -> None:
        """Refuse a model with a network of one's own that is not given again."""
        if self.network is None:
            raise RamifyError(
                f"{self.path} was made with a network of your own; give it again: load(…, network=…), or "
                "name its code: --network package.module:factory"
            )

    def refuse_network(self, name: str) -> None:
        """Refuse a network of one's own where the model has another one."""
        if self.network is not None and not is_own(name):
            given = repr(self.network) if isinstance(self.network, str) else "the network"
            raise RamifyError(
                f"{self.path} was made with {name}, not with code of your own; leave out {given}"
            )


def method_name(method: str | Method | Build) -> str:
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
        "correction": learner.correction,
        "settings": to_dict(learner._trainer.settings),
        "taxonomy": None if tree is None else [tree.path(leaf) for leaf in range(tree.leaves)],
        "leaf_attributes": None if tree is None else tree.leaf_attributes,
        "tree_levels": None if tree is None else tree.level_numbers,
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


def load(kind: type[Learner], given: Opened) -> Learner:
    """Read a learner; see `Learner.load`."""
    path, network = given.path, given.network
    if (path / RUN_FILE).is_file() and not (path / FILE).exists():
        from ramify.learner.from_run import from_run  # a saved learner needs nothing of runs

        return from_run(kind, given)
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
            given = replace(given, network=own)
        learner = _made(kind, given, about)
        refuse_other_weights(learner, about.get("encoder"), path)
        learner._trainer.restore(state["trainer"])
        learner._draws = state["draws"]
        learner.notes = about["notes"]
        learner._names.restore(about.get("samples", {}))  # neither is in older files
        learner._history.restore(about.get("history", []), state.get("undo", {}))
        if state.get("ties"):
            learner._trainer.know_ties(Ties(learner._trainer.classes, **state["ties"]))
    return learner


def _made(kind: type[Learner], given: Opened, about: dict[str, Any]) -> Learner:
    """A fresh learner like the one that was saved."""
    network, chosen = given.network, given.method or about["method"]
    if chosen is None:
        raise RamifyError(
            f"{given.path} was made with a method of your own; give it again: load(…, method=…)"
        )
    settings = without_retired(about["settings"])
    if about["own_network"]:
        given.refuse_no_network()
    else:
        given.refuse_network(settings["network"]["name"])
    if given.method is None:
        given.refuse_code(about["method"])
    if isinstance(network, str) and not about["own_network"]:
        settings["network"]["name"] = network
    else:
        given.refuse_code(settings["network"]["name"])
    backbone = settings.pop("network")
    return kind(
        chosen,
        image_size=about["image_size"],
        memory_size=settings.pop("memory_size"),
        network=network if about["own_network"] else backbone,
        taxonomy=_tree(about),
        freeze=about.get("freeze"),
        features=about.get("features"),
        seed=about["seed"],
        device=given.device,
        mean=None if about["mean"] is None else tuple(about["mean"]),
        std=None if about["std"] is None else tuple(about["std"]),
        # none of these is in older files
        **{name: about[name] for name in ("ask", "log_size", "correction") if name in about},
        **settings,
    )


def _tree(about: dict[str, Any]) -> Taxonomy | None:
    if about["taxonomy"] is None:
        return None
    tree = Taxonomy.from_rows(about["taxonomy"], about["leaf_attributes"])
    return tree.numbered(about.get("tree_levels") or tree.level_numbers)  # older files have not told it


def refuse_other_weights(learner: Learner, digest: str | None, path: Path) -> None:
    """Refuse to go on with other frozen weights than those that the model learned with."""
    encoder = learner._taking.encoder
    if digest is not None and (encoder is None or encoder.digest != digest):
        name = learner.settings.network.weights or learner.settings.network.name
        raise RamifyError(
            f"{path} was learned on features of other weights than those of {name}; give the same weights"
        )


def saved_with_own_network(path: Path) -> bool:
    """Whether the model in a folder was made with a module that it cannot name."""
    if not (path / FILE).is_file():
        return False
    return bool(load_state(path / FILE)[1].get("own_network"))
