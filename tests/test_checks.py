"""Mistakes in calls from Python are refused where they are made, not where they would show up later."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from ramify.datasets.dataset import Split
from ramify.errors import RamifyError
from ramify.evaluation import metrics
from ramify.learner import Learner
from ramify.memory import Column, Forward, Memory, Sample, Workbench
from ramify.methods import METHODS, Settings, Trainer, make_settings
from ramify.methods.checks import ToyNetwork, same, weights
from ramify.methods.settings import NetworkSettings
from ramify.networks import FeatureInputs, ImageInputs
from ramify.runs import Config
from ramify.runs.run import pick_device
from ramify.streams import Stream, build_stream
from ramify.taxonomy import Taxonomy, read_taxonomy
from tiny_runs import network

TREE = Taxonomy.from_rows([("a", "b"), ("a", "c"), ("d", "e")])
IMAGES = torch.arange(4 * 3 * 8 * 8).remainder(256).to(torch.uint8).view(4, 3, 8, 8)
FLOATS = IMAGES / 255
LEAVES = np.array([0, 1, 2] * 4)
PATHS = np.stack([TREE.leaf_to(1), TREE.leaf_to(2)], 1)


def trainer(method: str = "er", network: Any = None, **changes: Any) -> Trainer:
    settings = make_settings(memory_size=4, batch_size=4, network={"name": "tiny_runs:network"})
    inputs = ImageInputs(**({"size": 8, "std": (0.2,) * 3} | changes))
    return Trainer(METHODS[method], settings, inputs, network=network)


def on_features(values: Any) -> Callable[[], None]:
    """A learner of vectors of 5 values."""
    settings = make_settings(memory_size=4, batch_size=4)
    made = Trainer(METHODS["er"], settings, FeatureInputs(5), network=torch.nn.Linear(5, 3))
    return lambda: made.observe(values, [[(1, "a")]] * len(values))


def made_memory(size: int = 1, capacity: Any = 4) -> Memory:
    """A memory for four images that has `size` of them."""
    made = Memory(capacity, {"inputs": Column(torch.uint8, (3, 8, 8))})
    for image in IMAGES[:size]:
        made.add(Sample(image, (0, 1), 0))
    return made


def pairs(labels: Any = "abcd", levels: Any = (1, 1, 1, 1)) -> list[list[tuple[Any, str]]]:
    """One label a sample."""
    return [[pair] for pair in zip(levels, labels, strict=False)]


def observe(images: Any = IMAGES, labels: Any = "abcd", levels: Any = (1, 1, 1, 1)) -> Callable[[], None]:
    return lambda: trainer().observe(images, pairs(labels, levels))


def stream(**changes: Any) -> Stream:
    good = {
        "image": [0, 1],
        "level": [1, 2],
        "label": [0, 1],
        "task": [0, 0],
        "setup": "own",
        "seed": 0,
        "levels": (1, 2),
        "classes": (2, 3),
        "taxonomy": TREE.fingerprint,
        "images": 2,
    }
    return Stream(**{**good, **changes})


def split(images: Any, leaves: Any) -> Callable[[], Split]:
    return lambda: Split(images, leaves)


CALLS: dict[str, tuple[Callable[[], Any], str]] = {
    "float images": (observe(FLOATS), "torch.float32"),
    "images with nan": (observe(FLOATS * float("nan")), "torch.float32"),
    "no array": (observe([1, 2]), "a list"),
    "one image without its axis": (observe(IMAGES[0]), "shape (3, 8, 8)"),
    "images of another size": (observe(IMAGES[:, :, :4, :4]), "(n, 3, 8, 8)"),
    "channels last": (observe(IMAGES.permute(0, 2, 3, 1)), "(n, 3, 8, 8)"),
    "fewer labels than images": (observe(labels="abc"), "4 samples and 3 lists of labels"),
    "more labels than images": (observe(IMAGES[:3]), "3 samples and 4 lists of labels"),
    "level 0": (observe(levels=(1, 1, 1, 0)), "level 0"),
    "negative level": (observe(levels=(1, -2, 1, 1)), "level -2"),
    "level as text": (observe(levels=("1", 1, 1, 1)), "level '1'"),
    "half a level": (observe(levels=(1.5, 1, 1, 1)), "level 1.5"),
    "truth for a level": (observe(levels=(True, 1, 1, 1)), "level True"),
    "no level": (observe(levels=(None, 1, 1, 1)), "level None"),
    "two labels at one level": (
        lambda: trainer().observe(IMAGES[:1], [[(1, "a"), (2, "b"), (1, "c")]]),
        "two labels at one level",
    ),
    "features: images": (on_features(IMAGES), "(n, 5)"),
    "features: doubles": (on_features(np.zeros((2, 5))), "float64"),
    "features: too few": (on_features(np.zeros((2, 4), np.float32)), "(2, 4)"),
    "asking before learning": (lambda: trainer().predict(IMAGES), "nothing has been learned"),
    "asking in no parts": (lambda: trainer().predict(IMAGES, batch_size=0), "batch_size is 0"),
    "asking with floats": (lambda: trainer().predict(FLOATS), "torch.float32"),
    "asking with another size": (lambda: trainer().predict(IMAGES.numpy()[:, :, :4, :4]), "(n, 3, 8, 8)"),
    "std of 0": (lambda: trainer(std=(0.2, 0.0, 0.2)), "std"),
    "one mean": (lambda: trainer(mean=(0.5,)), "mean is (0.5,)"),
    "images without a pixel": (lambda: trainer(size=0), "image_size is 0"),
    "less than no memory": (lambda: made_memory(0, -1), "at least 0"),
    "half an image in memory": (lambda: made_memory(0, 1.5), "memory size is 1.5"),
    "memory: floats": (lambda: made_memory().add(Sample(FLOATS[0], (0,), 0)), "torch.float32"),
    "memory: another shape": (lambda: made_memory().add(Sample(IMAGES[0, :, :1, :1], (0,), 0)), "(3, 1, 1)"),
    "memory: class": (lambda: made_memory().add(Sample(IMAGES[0], ())), "class -1"),
    "memory: full": (lambda: made_memory(4).add(Sample(IMAGES[0], (0,), 0)), "full with 4"),
    "memory: replacing nothing": (lambda: made_memory().replace(3, Sample(IMAGES[0], (0,), 0)), "slot 3"),
    "memory of less than none": (lambda: Settings(memory_size=-1), "memory_size is -1"),
    "settings: half an image": (lambda: Settings(memory_size=1.5), "memory_size is 1.5"),
    "settings: text for a number": (lambda: Settings(lr="x"), "lr is 'x'"),
    "settings: too large for a float": (lambda: Settings(lr=10**400), "below 2⁶³"),
    "settings: truth for a number": (lambda: Settings(batch_size=True), "batch_size is True"),
    "settings: array for a number": (lambda: Settings(lr=np.ones((9, 9))), "lr is array"),
    "settings: text for a table": (lambda: Settings(network="resnet18"), "NetworkSettings"),
    "settings: width": (lambda: NetworkSettings(width="wide"), "width is 'wide'"),
    "settings: unknown stem": (lambda: NetworkSettings(stem=[1]), "imagenet, cifar"),
    "config: half a sample": (lambda: Config(limit=2.5), "limit is 2.5"),
    "config: half a period": (lambda: Config(eval_every=1.5), "eval_every is 1.5"),
    "config: one level": (lambda: Config(levels=3), "levels is 3; it must be a list"),
    "config: unknown moment": (lambda: Config(eval_at="x"), "any-time, task-ends"),
    "config: seed": (lambda: Config(seed=2**63), "seed is"),
    "network for something else": (lambda: trainer(network=torch.nn.Linear(3, 3)), "(1, 3, 8, 8)"),
    "network without weights": (lambda: trainer(network=torch.nn.Linear(3, 3, device="meta")), "'meta'"),
    "network of another shape": (lambda: trainer(network=torch.nn.Identity()), "features of shape"),
    "list of devices": (lambda: pick_device(["cpu"]), "['cpu'] is not available"),
    "device": (lambda: pick_device("tpu"), "'tpu' is not available"),
    "learner: device": (lambda: Learner(device="tpu"), "tpu"),
    "learner: floats": (lambda: Learner(network=network()).partial_fit(FLOATS, [*"abcd"], [1] * 4), "uint8"),
    "learner: level 0": (lambda: Learner(network=network()).partial_fit(IMAGES, [*"abcd"], [0] * 4), "0"),
    "learner: memory": (lambda: Learner(memory_size=0), "memory_size"),
    "stream: label beyond the tree": (lambda: stream(label=[0, 3]), "label 3"),
    "stream: level 0": (lambda: stream(level=[0, 1]), "level 0"),
    "stream: level beyond": (lambda: stream(level=[3, 1]), "level 3"),
    "stream: image beyond": (lambda: stream(image=[0, 2]), "image 2"),
    "stream: floats": (lambda: stream(image=[0.0, 1.0]), "integers"),
    "stream: tasks backwards": (lambda: stream(task=[0, 2]), "tasks"),
    "stream: nothing": (
        lambda: stream(**dict.fromkeys(("image", "level", "label", "task"), np.empty(0, int))),
        "above 0",
    ),
    "leaves beyond the tree": (lambda: build_stream("disjoint", LEAVES + 1, TREE, 0), "1 to 3"),
    "leaves as floats": (lambda: build_stream("disjoint", LEAVES / 1, TREE, 0), "float64"),
    "seed as a float": (lambda: build_stream("disjoint", LEAVES, TREE, 0.5), "0.5"),
    "tree: level 0": (lambda: TREE.names(0), "no level 0"),
    "tree: half a level": (lambda: TREE.names(1.5), "no level 1.5"),
    "tree: order of level 0": (lambda: TREE.order(0), "no level 0"),
    "tree: no list of levels": (lambda: TREE.restrict(2), "levels 2"),
    "tree: half a leaf": (lambda: TREE.lca_height([0.5], [0]), "float64"),
    "tree: what cannot be read": (lambda: read_taxonomy({"a": "b"}), "taxonomy is {'a': 'b'}"),
    "tree: class beyond": (lambda: TREE.parent(2, 3), "no class 3"),
    "tree: no answer as a leaf": (lambda: TREE.lca_height([0, -1], [0, 0]), "from -1"),
    "split: floats": (split(FLOATS.numpy(), LEAVES[:4]), "float32"),
    "split: floats cut to bytes": (split(FLOATS.ceil().byte().numpy(), LEAVES[:4]), "largest value"),
    "split: labels of another number": (split(IMAGES.numpy(), LEAVES), "leaf labels"),
    "accuracy: unequal": (
        lambda: metrics.level_accuracy(np.zeros(3, int), np.zeros(1, int), np.ones(2, bool)),
        "(3,) predictions for (1,)",
    ),
    "accuracy: truth beyond": (
        lambda: metrics.class_accuracy(np.zeros(1, int), np.array([-2]), np.ones(2, bool)),
        "from -2",
    ),
    "accuracy: numbers of seen classes": (
        lambda: metrics.level_accuracy(np.zeros(1, int), np.zeros(1, int), np.array([0, 1])),
        "`seen`",
    ),
    "accuracy: all levels at once": (
        lambda: metrics.level_accuracy(PATHS, PATHS, np.ones(3, bool)),
        "int64 (3, 2)",
    ),
    "accuracy: answer beyond": (
        lambda: metrics.level_accuracy(np.array([2]), np.array([0]), np.ones(2, bool)),
        "to 2",
    ),
    "either accuracy: child beyond": (
        lambda: metrics.either_accuracy(
            np.array([0]), np.array([3]), np.array([0]), TREE.up(2, 1), np.ones(2, bool)
        ),
        "predicted children run from 3 to 3",
    ),
    "consistency: class beyond": (lambda: metrics.consistency(PATHS + 1, TREE), "(2, 3) classes"),
    "consistency: another tree": (lambda: metrics.consistency(PATHS[:, :1], TREE), "2 levels"),
    "severity: unequal": (
        lambda: metrics.mistake_severity(PATHS, PATHS[:1], TREE),
        "(3, 2) predictions",
    ),
    "path accuracy: nothing": (lambda: metrics.path_accuracy(PATHS[:0], PATHS[:0]), "no predictions"),
    "path accuracy: unequal": (
        lambda: metrics.path_accuracy(np.zeros((3, 2), int), np.zeros((1, 2), int)),
        "(3, 2) predictions",
    ),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_mistake_is_refused_and_named(name: str) -> None:
    call, words = CALLS[name]
    with pytest.raises(RamifyError) as caught:
        call()
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_batch_that_is_refused_has_changed_nothing() -> None:
    learner = trainer()
    learner.observe(IMAGES, pairs())
    before = learner.model.state()["weights"]
    for bad in (pairs("efgh", [1, 1, 1, 0]), [*pairs("efg"), [(1, "h"), (1, "i")]], pairs("efg")):
        with pytest.raises(RamifyError):
            learner.observe(IMAGES, bad)
    assert (learner.samples, len(learner.classes), learner.memory.size) == (4, 4, 4)
    assert all(torch.equal(before[name], value) for name, value in learner.model.state_dict().items())


def test_a_memory_takes_labels_of_any_number() -> None:
    made = made_memory(1)
    for slot, labels in enumerate([(2,), (0, 1, 3)], 1):
        assert made.add(Sample(IMAGES[slot], labels, labels[0])) == slot
    assert made["labels"][:3, :3].tolist() == [[0, 1, -1], [2, -1, -1], [0, 1, 3]]


def test_a_method_that_is_told_paths_takes_a_part_of_one() -> None:
    learner = trainer("pl-fms-t")
    learner.observe(IMAGES, pairs())
    learner.observe(IMAGES, [[(2, "x"), (1, "a")], [(3, "y")], [], [(1, "b"), (3, "y")]])
    assert learner.samples == 8
    assert learner.predict(IMAGES).shape == (4, 3)


def test_no_images_are_no_mistake() -> None:
    learner = trainer()
    learner.observe(IMAGES, pairs())
    learner.observe(IMAGES[:0], [])
    assert learner.samples == 4
    assert learner.predict(IMAGES[:0]).shape == (0, 1)


def test_dark_images_are_no_mistake() -> None:
    learner, dark = trainer(), torch.zeros_like(IMAGES)
    learner.observe(dark, pairs())
    assert learner.samples == 4
    assert len(learner.predict(dark)) == 4


class WatchedMap(np.memmap):  # type: ignore[type-arg]
    """A memory map that notes which of its rows are read."""

    def __getitem__(self, key: Any) -> Any:
        self.parts.append(np.arange(len(self))[key])
        return np.asarray(self)[key]

    def copy(self, *args: Any, **kwargs: Any) -> Any:
        self.parts.append(np.arange(len(self)))
        return np.asarray(self).copy(*args, **kwargs)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        self.parts.append(np.arange(len(self)))  # a maximum, for one
        return getattr(ufunc, method)(*map(np.asarray, inputs), **kwargs)


def test_a_question_reads_each_image_once_and_never_all_at_once(tmp_path: Path) -> None:
    count, at_once = 5000, 64
    images = WatchedMap(tmp_path / "images", np.uint8, "w+", shape=(count, 3, 8, 8))
    np.asarray(images)[:] = np.random.default_rng(0).integers(0, 256, images.shape, np.uint8)
    learner = trainer()
    learner.observe(IMAGES, pairs())
    images.parts = []
    answers = learner.predict(images, batch_size=at_once)
    assert max(map(len, images.parts)) <= at_once
    assert np.array_equal(np.concatenate(images.parts), np.arange(count))
    assert np.array_equal(answers, learner.predict(np.asarray(images), at_once))


def test_arrays_are_learned_as_tensors_are() -> None:
    net = ToyNetwork()
    one, two = trainer(network=net), trainer(network=net)
    one.observe(IMAGES, pairs())
    array = IMAGES.numpy().copy()
    array.flags.writeable = False
    two.observe(array, pairs())
    assert same(weights(one), weights(two))


def test_a_refused_image_is_not_counted() -> None:
    full = made_memory(4)
    for image in (IMAGES[0], FLOATS[0]):
        with pytest.raises(RamifyError):
            full.add(Sample(image, (0,), 0))
    for bad in (Sample(FLOATS[0], (1,), 1), Sample(IMAGES[0], ())):
        with pytest.raises(RamifyError):
            full.replace(0, bad)
    assert (full.size, full.counts[:2].tolist(), sorted(full.members(0))) == (4, [4, 0], [0, 1, 2, 3])
    assert torch.equal(full["inputs"], IMAGES)
    assert full["labels"].tolist() == [[0, 1]] * 4


def test_a_broken_update_is_told_and_those_before_it_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    net = ToyNetwork()
    learner, twin = trainer(network=net), trainer(network=net)
    twin.observe(IMAGES[:2], pairs("ab"))
    loss = learner.recipe.minimise.loss

    def broken(bench: Workbench, forward: Forward) -> torch.Tensor:
        return loss(bench, forward) * (torch.nan if learner.updates == twin.updates else 1)

    monkeypatch.setattr(learner.recipe.minimise, "loss", broken)
    with pytest.raises(RamifyError) as caught:
        learner.observe(IMAGES, pairs())
    assert f"nan at update {twin.updates + 1} (sample 4" in str(caught.value)
    assert "This update was not made; what came before it stays learned" in str(caught.value)
    assert learner.updates == twin.updates > 0
    assert same(learner.model.backbone.state_dict(), twin.model.backbone.state_dict())
