"""A model that takes labelled images as they come, each once, and answers at any time, at any level."""

from __future__ import annotations

import dataclasses
import inspect
import threading
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ramify.datasets.load import MAX_SIZE
from ramify.errors import RamifyError
from ramify.learner import saving
from ramify.learner.answering import Answering
from ramify.learner.answering import Decode as Decode
from ramify.learner.correcting import correct
from ramify.learner.edits import Editable
from ramify.learner.history import History
from ramify.learner.images import Images
from ramify.learner.labels import (
    Label,
    Levels,
    as_pairs,
    refuse_missing,
    refuse_unequal,
    warn_lookalikes,
    warn_of_second_parents,
    with_above,
)
from ramify.learner.prequential import PrequentialLog
from ramify.learner.samples import Names, as_ids, as_source
from ramify.learner.shared import SharedTrainer
from ramify.learner.sharing import without_samples
from ramify.learner.taking import Features, taking
from ramify.locks import hold_to_write
from ramify.memory.held import Held
from ramify.methods import Settings, find_method, make_settings
from ramify.methods.recipe import Build, Method, as_method
from ramify.methods.settings import NetworkSettings
from ramify.named import is_own
from ramify.pixels import Channels
from ramify.plural import counted
from ramify.runs.run import pick_device
from ramify.taxonomy import Taxonomy, read_taxonomy
from ramify.typed import from_dict, no_field, whole

Network = str | dict[str, Any] | NetworkSettings | nn.Module

DEFAULTS: dict[str, Any] = {
    "updates_per_sample": 1.0,
    "lr": 1e-3,
    "network": {"name": "resnet18", "width": 0.5},
    "augment": {"autoaugment": "none"},
    "fms": {"T": 1000.0},
}


class Learner(Answering, Editable):
    """Online continual learning on a stream of your own, in scikit-learn's words.

    `method` is a name (`ramify methods`), `package.module:name`, or the method itself. `network` is a name, a
    table of `NetworkSettings`, or a module that maps normalised images [n, 3, size, size] to features [n, f];
    its weights are copied. With `freeze="all"` (or a number of stages) each image goes through what is frozen
    once, and features are kept of it; with `features=SIZE` the learner takes features in the place of images.
    `mean` and `std` are the network's own, or ImageNet's, unless given.

    `taxonomy`, a tree or what `read_taxonomy` reads, is never shown to the method; it finds the level of a
    label and makes `consistent` predictions. A share `ask` of the samples is asked before they are learned;
    the latest `log_size` answers of each level are kept and say how far answers can be trusted. `correct`
    makes at most `correction` further updates. Any field of `Settings` can be given besides
    (`batch_size=32, augment={"flip": False}`). The defaults suit a CPU; `Settings()` has the paper's.

    `predict`, `predict_proba`, `score` and `hierarchy` may be called from other threads during `partial_fit`:
    they see the model before or after an update. `notes`, a dict of JSON values of yours, is saved along.
    Labels may change: see `rename`, `merge`, `split`, `move`, `forget`, `relabel` and `undo`.
    """

    def __init__(
        self,
        method: str | Method | Build = "canopy",
        *,
        image_size: int = 64,
        memory_size: int = 2000,
        network: Network | None = None,
        freeze: str | None = None,
        features: int | None = None,
        taxonomy: Taxonomy | str | Path | None = None,
        seed: int = 0,
        device: str = "auto",
        mean: Channels | None = None,
        std: Channels | None = None,
        ask: float = 1.0,
        log_size: int = 1000,
        correction: int = 30,
        **settings: Any,
    ) -> None:
        given = {name: value for name, value in dict(locals()).items() if name not in ("self", "settings")}
        self._params = given | settings
        self.image_size = whole("image_size", image_size, 1, MAX_SIZE)
        chosen = find_method(method) if isinstance(method, str) else as_method(method)
        _refuse_untaught(chosen)
        asked = _settings(chosen, memory_size, network, freeze, settings)
        self._taxonomy = None if taxonomy is None else read_taxonomy(taxonomy)
        self.correction = whole("correction", correction, 0)
        self.notes: dict[str, Any] = {}
        self._names, self._history = Names(), History()
        own = network if isinstance(network, nn.Module) else None
        if features is not None and isinstance(network, str) and not is_own(network):
            raise RamifyError(
                f"network={network!r} takes images, and the learner features; leave it out, or give a module "
                "that maps features to features"
            )
        where, log = pick_device(device), PrequentialLog(log_size, ask)
        self._taking = taking(asked, settings, self.image_size, features, (mean, std), seed, where, own)
        self.settings, inputs = self._taking.settings, self._taking.inputs
        self._trainer = SharedTrainer(
            chosen, self.settings, inputs, seed, where, self._taking.network, log=log
        )
        images = self._taking.images
        self.mean = None if images is None else images.mean
        self.std = None if images is None else images.std
        self._learns = threading.Lock()  # one call that learns or saves at a time
        # Only a user's network draws from torch's own generator (dropout); it has a state of its own here.
        foreign = own is not None or is_own(self.settings.network.name)
        self._draws = torch.Generator().manual_seed(self._trainer.rng.seed).get_state() if foreign else None

    # ---- learning

    def partial_fit(
        self,
        images: Images | None = None,
        labels: Iterable[Any] | None = None,
        level: Levels = None,
        *,
        features: Features | None = None,
        ids: Sequence[str] | None = None,
        source: str | None = None,
    ) -> Learner:
        """Learn from labelled images, or from features in their place, in the order given, each once.

        `level` is one number or one an image; with a taxonomy it may be left out. A label may also be a path
        from level 1 down, ("fruit", "apple"), a table of several, {level: label}, or None where there is
        none. Labels and levels may be new at any time. Samples gather to a stream batch (half of
        `batch_size`) before they are trained on. What cannot be used is refused before anything is learned.
        `ids` name the images and `source` says where they come from, to correct or forget them later.
        """
        return self._taught(self._trainer.observe, images, labels, level, features, ids, source)

    def correct(
        self,
        images: Images | None = None,
        labels: Iterable[Any] | None = None,
        level: Levels = None,
        *,
        features: Features | None = None,
        ids: Sequence[str] | None = None,
        source: str | None = None,
    ) -> Learner:
        """Learn from images that were answered wrongly, or to which the answer matters, so that it counts.

        They are learned as by `partial_fit`, at once, and then trained on among stored samples until each is
        answered as taught, with at most `correction` updates for each half batch of them. With a
        taxonomy the labels above are taught as well, so that the path changes. Methods that train to be
        asked (BiC, GDumb) are only taught.
        """

        def work(pixels: Tensor, pairs: Sequence[Sequence[tuple[int, Label]]]) -> None:
            whole_paths = [
                sorted(with_above(dict(own), self.taxonomy).items(), reverse=True) for own in pairs
            ]
            correct(self._trainer, pixels, whole_paths, self.correction, self.taxonomy)

        return self._taught(work, images, labels, level, features, ids, source)

    def _taught(
        self,
        teach: Callable[[Tensor, list[list[tuple[int, Label]]]], None],
        images: Images | None,
        labels: Iterable[Any] | None,
        level: Levels,
        features: Features | None,
        ids: Sequence[str] | None,
        source: str | None,
    ) -> Learner:
        if labels is None:
            raise RamifyError("labels are missing; give one for each image, None where an image has none")
        pairs = as_pairs(labels, level, self._trainer.classes, self.taxonomy)
        pixels = self._inputs(images, features)
        refuse_unequal(len(pixels), len(pairs))
        if self.taxonomy is None:
            warn_lookalikes(pairs, self._trainer.classes)
            warn_of_second_parents(pairs, self._trainer.classes, self._trainer.stated)
        called, origin = as_ids(ids, len(pairs)), as_source(source)

        def work() -> None:
            first = self._trainer.samples
            try:
                teach(pixels, pairs)
            finally:
                self._names.take(self._trainer, first, called, origin)

        self._learn(work)
        return self

    def flush(self) -> None:
        """Train now on samples that still wait for their stream batch to fill."""
        self._learn(self._trainer.flush)

    def task_end(self) -> None:
        """Tell a method that is not task-free (EWC++, BiC, RM) that a task is over."""
        self._learn(self._trainer.task_end)

    def _learn(self, work: Callable[[], None]) -> None:
        with self._learns, self._trainer.turns:
            if self._draws is None:
                work()
                return
            with torch.random.fork_rng(devices=[]):
                torch.set_rng_state(self._draws)
                work()
                self._draws = torch.get_rng_state()

    # ---- what it is

    @property
    def taxonomy(self) -> Taxonomy | None:
        """The tree that was given; another one may take its place if it has all classes met so far."""
        return self._taxonomy

    @taxonomy.setter
    def taxonomy(self, tree: Taxonomy | str | Path | None) -> None:
        given = None if tree is None else read_taxonomy(tree)
        if given is not None:
            refuse_missing(given, self._trainer.classes)
        self._taxonomy = given

    @property
    def levels(self) -> tuple[int, ...]:
        """The levels met so far, coarsest first."""
        return tuple(self._trainer.classes.levels)

    @property
    def samples(self) -> int:
        """Samples taken so far."""
        return self._trainer.samples

    @property
    def updates(self) -> int:
        """Training steps made so far."""
        return self._trainer.updates

    def memory_counts(self, every: bool = False) -> dict[int, dict[Label, int]]:
        """How many images of each label are stored, by level.

        An image with several labels counts for the finest; with `every`, for each of them.
        """
        with self._trainer.turns:
            classes, held = self._trainer.classes, Held(self._trainer)
            rows = (held.labels if every else held.classes).ravel()
            counts = np.bincount(rows[rows >= 0], minlength=len(classes)).tolist()
            return {h: {classes.labels[c]: counts[c] for c in classes.of_level(h)} for h in classes.levels}

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """What the learner was made with, as it was given: `Learner(**learner.get_params())` is its like."""
        return dict(self._params)

    def set_params(self, **params: Any) -> Learner:
        """Become the learner that would have been made with these parameters; before it has learned only."""
        with self._learns:
            if not params:
                return self
            if self.samples:
                raise RamifyError(
                    f"the learner has taken {counted(self.samples, 'sample')}; set_params is for one "
                    "that has taken none: make another with Learner(**(learner.get_params() | {…}))"
                )
            made, notes = type(self)(**(self._params | params)), self.notes
        self.__dict__.update(made.__dict__, notes=notes)
        return self

    def __repr__(self) -> str:
        sizes = "/".join(str(len(self.labels(h))) for h in self.levels) or "no"
        taken = counted(self.samples, "sample")
        return f"<Learner {saving.method_name(self._params['method'])}: {sizes} labels, {taken}>"

    # ---- saving

    def save(self, path: str | Path, *, memory: bool = True) -> None:
        """Write the learner to a folder, whole or not at all; it waits for `partial_fit` to end.

        A folder in which another process is at work (`ramify learn --follow`, a run) is refused. README.md in
        it says what the model knows; what you write into it outside of its marks stays.

        `memory=False` is for models that others get: stored images, their names, the history and `notes` are
        left out. It answers as before; taught on, its memory begins empty.
        """
        with self._learns, self._trainer.turns, hold_to_write(Path(path)):
            saving.save(self if memory else without_samples(self), Path(path))

    @classmethod
    def load(
        cls,
        path: str | Path,
        *,
        device: str = "auto",
        method: str | Method | Build | None = None,
        network: nn.Module | str | None = None,
        own_code: bool = False,
    ) -> Learner:
        """The learner as it was saved: the next `partial_fit` gives the same weights as without.

        The folder of a run gives a learner with its final network, classes and tree, to ask or to teach on by
        the run's own method and settings; its memory begins empty. A method that needs more than samples to
        come (GDumb, BiC, Oracle, …) says by which other one the model goes on.

        A method or a network that was given as an object must be given again. One
        that was given by name (`package.module:name`) is imported only with `own_code=True`, for importing
        runs code; naming a `network` (`package.module:factory`) here allows that one.
        """
        return saving.load(cls, saving.Opened(Path(path), device, method, network, own_code))

    def export(self, path: str | Path) -> None:
        """Write the network for serving: `.onnx` (needs ramify[onnx]) or `.pt2` (torch.export).

        Input `images`: uint8 [n, 3, size, size]; outputs `level1`, …: probabilities [n, labels]. The labels
        are in the file's metadata. What is written is compared with `predict_proba` first.

        `.safetensors`: the backbone's weights alone, to begin another network from (`network.weights`).
        """
        from ramify.learner.export import Frozen, write_backbone

        with self._trainer.turns:
            if Path(path).suffix == ".safetensors":
                write_backbone(self._trainer, Path(path))
                return
            frozen = Frozen.of(self._trainer)
        frozen.write(Path(path))


def _settings(
    method: Method, memory_size: int, network: Network | None, freeze: str | None, given: dict[str, Any]
) -> Settings:
    values = {k: dataclasses.asdict(v) if dataclasses.is_dataclass(v) else v for k, v in given.items()}  # type: ignore[arg-type]
    values["memory_size"] = memory_size
    if isinstance(network, str):
        values["network"] = dataclasses.asdict(NetworkSettings(network))
    elif isinstance(network, NetworkSettings):
        values["network"] = dataclasses.asdict(network)
    elif network is not None and not isinstance(network, nn.Module):
        values["network"] = network
    if freeze is not None:
        values["network"] = {**values.get("network", {}), "freeze": freeze}
    base = make_settings(method=method, **DEFAULTS)
    known = {field.name for field in dataclasses.fields(base)}
    for name in values.keys() - known:
        raise no_field("Learner", name, known | inspect.signature(Learner).parameters.keys() - {"settings"})
    return from_dict(type(base), values, "Learner", base)


def _refuse_untaught(method: Method) -> None:
    """Refuse methods that need more than labels as they come."""
    if method.offline or method.told_paths:
        what = "learns only when its stream is over" if method.offline else "is told the label at every level"
        raise RamifyError(f"{method.name} {what}; a Learner cannot use it: choose pl-fms, er, …")
