"""The Learner: what it takes, that it learns as a run does, saves exactly and can be asked meanwhile."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors import safe_open
from safetensors.numpy import load_file, save_file
from torch import nn

import ramify
from ramify import Learner, RamifyError, Taxonomy
from ramify.learner import export as exporting
from ramify.learner.images import image_tensor
from ramify.learner.shared import Turns
from ramify.methods import Trainer, find_method
from ramify.methods.checks import SIZE, Toy, ToyNetwork, same, weights
from ramify.networks import ImageInputs

TOY = Toy.stream(60)
PLAIN = {"augment": {"padding": 0, "flip": False, "cutmix": 0.0}, "lr": 1e-2, "fms": {"T": 20.0}}


def toy_network() -> ToyNetwork:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return ToyNetwork()


def learner(method="pl-fms", **given) -> Learner:
    given = {
        "image_size": SIZE,
        "memory_size": 24,
        "network": toy_network(),
        "batch_size": 8,
        **PLAIN,
    } | given
    return Learner(method, **given)


def taught(method="pl-fms", **given) -> Learner:
    return learner(method, **given).partial_fit(TOY.images, TOY.labels, TOY.levels)


def equal(a: Learner, b: Learner) -> bool:
    return same(weights(a._trainer), weights(b._trainer))


@pytest.mark.parametrize("method", ["pl-fms", "er"])
def test_learns_one_by_one_what_a_run_learns(method):
    ours = learner(method)
    for i in range(60):
        ours.partial_fit(TOY.images[i : i + 1], [TOY.labels[i]], TOY.levels[i])
    inputs = ImageInputs(SIZE, mean=ours.mean, std=ours.std)
    trainer = Trainer(find_method(method), ours.settings, inputs, seed=0, network=toy_network())
    TOY.teach(trainer, 0, 60)
    assert same(weights(ours._trainer), weights(trainer))
    assert ours.samples == 60
    assert ours.updates == trainer.updates > 0


def test_every_kind_of_image_is_the_same_image(tmp_path):
    rng = np.random.default_rng(0)
    nhwc = rng.integers(0, 256, (5, 9, 12, 3), dtype=np.uint8)
    pillow = [Image.fromarray(image) for image in nhwc]
    paths = [tmp_path / f"{i}.png" for i in range(5)]
    for image, path in zip(pillow, paths, strict=True):
        image.save(path)
    stretched = np.stack([np.asarray(i.resize((SIZE, SIZE), Image.Resampling.BILINEAR)) for i in pillow])
    kinds = {
        "nhwc": nhwc,
        "nchw": nhwc.transpose(0, 3, 1, 2),
        "tensor": torch.from_numpy(nhwc),
        "tensor nchw": torch.from_numpy(nhwc).permute(0, 3, 1, 2),
        "pillow": pillow,
        "paths": paths,
        "strings": map(str, paths),
        "array of strings": np.array([str(path) for path in paths]),
        "read-only": np.frombuffer(nhwc.tobytes(), np.uint8).reshape(nhwc.shape),
        "right size": stretched,
    }
    found = {}
    for name, images in kinds.items():
        found[name] = learner().partial_fit(images, list("ababa"), 1)
    for name, ours in found.items():
        assert equal(ours, found["right size"]), name


WRONG = {
    "floats": (np.zeros((1, 3, 8, 8)), ["a"], 1, "uint8"),
    "one image": (np.zeros((8, 8, 3), np.uint8), ["a"], 1, r"images\[None\]"),
    "ambiguous": (np.zeros((1, 3, 8, 3), np.uint8), ["a"], 1, "only the colour axis"),
    "no colour": (np.zeros((1, 8, 8, 1), np.uint8), ["a"], 1, "n, 3, h, w"),
    "one path": ("a.png", ["a"], 1, "list"),
    "no file": (["nowhere.png"], ["a"], 1, "nowhere.png"),
    "list of arrays": ([np.zeros((8, 8, 3), np.uint8)], ["a"], 1, "np.stack"),
    "one label": (TOY.images[:2], "ab", 1, "list"),
    "too few labels": (TOY.images[:2], ["a"], 1, "2 images and 1 label were"),
    "float label": (TOY.images[:1], [1.5], 1, "strings or integers"),
    "bool label": (TOY.images[:1], [True], 1, "strings or integers"),
    "two kinds": (TOY.images[:2], ["a", 1], 1, "one kind"),
    "empty label": (TOY.images[:1], [""], 1, "empty"),
    "no level": (TOY.images[:1], ["a"], None, "level is missing"),
    "level 0": (TOY.images[:1], ["a"], 0, "count from 1"),
    "huge level": (TOY.images[:1], ["a"], 10**9, "count from 1"),
    "text level": (TOY.images[:1], ["a"], ["2"], "count from 1"),
    "one text level": (TOY.images[:2], ["a", "b"], "2", "count from 1"),
    "float level": (TOY.images[:1], ["a"], 1.0, "count from 1"),
    "table of levels": (TOY.images[:1], ["a"], np.array([[1]]), "count from 1"),
    "set of labels": (TOY.images[:2], {"a", "b"}, 1, "list"),
    "set of levels": (TOY.images[:1], ["a"], {1}, "list"),
    "dict of levels": (TOY.images[:1], ["a"], {1: 2}, "list"),
    "list of lists": (TOY.images[:1], [["a"]], 1, "path from level 1 down; leave level out"),
    "labels without values": (TOY.images[:1], torch.ones(1, device="meta"), 1, "without values"),
    "images without values": (TOY.images[:1].to("meta"), ["a"], 1, "'meta'"),
    "image without pixels": ([Image.new("RGB", (0, 8))], ["a"], 1, "0×8 pixels"),
    "floats cut to bytes": (TOY.images[:2] // 255, ["a", "b"], 1, "largest value in 2 images is 1"),
    "levels": (TOY.images[:1], ["a"], [1, 2], "2 levels for 1"),
}


@pytest.mark.parametrize("name", WRONG)
def test_refuses_in_one_line_and_learns_nothing(name):
    images, labels, level, expected = WRONG[name]
    ours = learner()
    with pytest.raises(RamifyError, match=expected) as caught:
        ours.partial_fit(images, labels, level)
    assert "\n" not in str(caught.value)
    assert ours.samples == 0
    assert ours.levels == ()


def test_a_damaged_image_that_is_open_already_is_refused(tmp_path):
    path = tmp_path / "half.png"
    Image.effect_noise((64, 64), 50).save(path)
    path.write_bytes(path.read_bytes()[:1000])
    with Image.open(path) as image, pytest.raises(RamifyError, match="image 0 cannot be used: image file is"):
        learner().partial_fit([image], ["a"], 1)


def test_many_threads_that_decode_leave_the_warnings_alone():
    image, before = Image.new("RGB", (200, 200)), list(warnings.filters)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: image_tensor([image] * 3, SIZE), range(200)))
    assert list(warnings.filters) == before


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"method": "pl-fmz"}, "did you mean 'pl-fms'"),
        ({"method": "oracle"}, "only when its stream is over"),
        ({"method": "pl-fms-t"}, "told the label at every level"),
        ({"image_size": 0}, "image_size"),
        ({"memory_size": 0}, "memory_size"),
        ({"batch_sise": 8}, "did you mean 'batch_size'"),
        ({"augment": {"flip": "yes"}}, "flip"),
        ({"network": "resnet99"}, "no network"),
        ({"device": "tpu"}, "not available"),
        ({"taxonomy": "no-such-tree"}, "no tree"),
        ({"seed": -1}, "seed is -1"),
        ({"seed": True}, "seed is True"),
        ({"seed": 2**63}, "seed is"),
        ({"image_size": True}, "image_size is True"),
        ({"device": ["cpu"]}, "not available"),
        ({"taxonomy": {"a": "b"}}, "taxonomy is {'a': 'b'}; give a Taxonomy"),
        ({"taxonomy": 5}, "taxonomy is 5"),
        ({"taxonomy": [("a", "b")]}, "taxonomy is"),
        ({"mean": ("a", 1, 1)}, "mean is"),
        ({"mean": "abc"}, "mean is 'abc'"),
        ({"mean": (0.5, 0.5, float("nan"))}, "mean is"),
        ({"mean": 5}, "mean is 5"),
        ({"mean": [[1], [1, 2], 3]}, "mean is"),
        ({"std": (1, 1, float("inf"))}, "std is"),
        ({"std": (1, 0, 1)}, "std is"),
        ({"network": nn.Linear(3, 3)}, r"the network failed on an input \(1, 3, 64, 64\)"),
        ({"network": nn.Conv2d(1, 1, 1)}, r"the network failed on an input \(1, 3, 64, 64\)"),
        ({"network": 5}, "network is 5"),
    ],
)
def test_refuses_wrong_settings(given, expected):
    with pytest.raises(RamifyError, match=expected) as caught:
        Learner(**given)
    assert "\n" not in str(caught.value)


def test_floats_cut_to_bytes_are_refused_in_every_question_and_dark_images_in_none():
    ours, dark = taught(), np.zeros((2, 9, 12, 3), np.uint8)
    for cut in (dark + 1, torch.from_numpy(dark + 1), [Image.fromarray(image) for image in dark + 1]):
        for ask, *more in ((ours.predict,), (ours.predict_proba, 1), (ours.score, ["a", "b"], 1)):
            with pytest.raises(RamifyError, match="largest value in 2 images is 1"):
                ask(cut, *more)
    assert len(ours.predict(dark)) == len(ours.predict(dark[:1] + 1)) + 1 == 2


def test_answers_at_every_level_met():
    ours = learner()
    with pytest.raises(RamifyError, match="nothing has been learned"):
        ours.predict(TOY.images)
    ours.partial_fit(TOY.images[:20], TOY.labels[:20], 1)
    assert ours.predict(TOY.images).levels == (1,)
    ours.partial_fit(TOY.images[30:], TOY.labels[30:], TOY.levels[30:])
    answer = ours.predict(TOY.images)
    assert answer.levels == ours.levels == (1, 2)
    assert len(answer) == 60
    for level in (1, 2):
        probabilities = ours.predict_proba(TOY.images, level)
        np.testing.assert_allclose(probabilities.sum(1), 1, rtol=1e-5)
        names = ours.labels(level)
        assert answer.labels[level] == [names[i] for i in probabilities.argmax(1)]
        np.testing.assert_array_equal(answer.probabilities[level], probabilities.max(1))
    right = np.mean([answer[i] == dict(enumerate(path, 1)) for i, path in enumerate(TOY.paths)])
    scores = [ours.score(TOY.images, [path[h - 1] for path in TOY.paths], h) for h in (1, 2)]
    assert right <= min(scores)
    assert ours.score(TOY.images[:4], ["never seen"] * 4, 2) == 0
    assert ours.score(TOY.images[:4], ["never seen"] * 4, 9) == 0
    assert len(ours.predict(TOY.images[:0])) == 0
    for unknown in (3, np.array([1, 2]), {1}):
        with pytest.raises(RamifyError, match="has not been met; known levels"):
            ours.predict_proba(TOY.images, unknown)
    with pytest.raises(RamifyError, match="crm"):
        ours.predict(TOY.images, decode="best")


def test_integer_labels_stay_integers():
    ours = learner().partial_fit(TOY.images[:8], np.array([3, 5] * 4), np.array([1, 2] * 4))
    assert ours.labels(1) == (3,)
    assert type(ours.predict(TOY.images).labels[2][0]) is int
    with pytest.raises(RamifyError, match="one kind"):
        ours.partial_fit(TOY.images[:1], ["3"], 1)


def test_a_taxonomy_finds_the_level_and_checks_the_label():
    tree = Taxonomy.from_rows([("red", "colour 0"), ("red", "colour 1"), ("blue", "blue")])
    ours = learner(taxonomy=tree).partial_fit(TOY.images[:3], ["colour 1", "red", "colour 0"])
    assert (ours.labels(1), ours.labels(2)) == (("red",), ("colour 1", "colour 0"))
    for label, expected in (("colour 9", "not in the taxonomy; did you mean"), ("blue", r"levels \[1, 2\]")):
        with pytest.raises(RamifyError, match=expected):
            ours.partial_fit(TOY.images[:1], [label])
    with pytest.raises(RamifyError, match="did you mean 'red'"):
        ours.partial_fit(TOY.images[:1], ["redd"], 1)
    ours.partial_fit(TOY.images[:1], ["blue"], 2)
    path = ours.predict(TOY.images, consistent=True)
    assert {(p[1], p[2]) for p in map(path.__getitem__, range(60))} <= {
        ("red", "colour 0"),
        ("red", "colour 1"),
        (None, "blue"),
    }


def test_finds_out_the_tree_by_itself():
    toy = Toy.stream(200)
    for method in ("pl-fms", "er"):
        ours = learner(method, memory_size=60).partial_fit(toy.images, toy.labels, toy.levels)
        tree = ours.hierarchy()
        assert {tree.path(leaf) for leaf in range(tree.leaves)} == {tuple(path) for path in toy.paths}
        assert all(float(share) > 0.5 for share in tree.leaf_attributes["support2"])
        answer = ours.predict(toy.images, consistent=True)
        assert {tuple(answer[i].values()) for i in range(200)} <= {tuple(path) for path in toy.paths}


@pytest.mark.parametrize("method", ["pl-fms", "er"])
def test_a_class_that_has_just_come_is_in_the_hierarchy(method):
    ours = taught(method)
    before = ours.hierarchy()
    while ours._trainer.waiting:  # so that the next sample only waits
        ours.partial_fit(TOY.images[:1], [TOY.labels[0]], TOY.levels[0])
    ours.hierarchy()
    updates = ours.updates
    ours.partial_fit(TOY.images[:1], ["new"], 2).partial_fit(TOY.images[:1], ["newer"], 3)
    assert ours.updates == updates
    tree = ours.hierarchy()
    assert (before.depth, tree.depth) == (2, 3)
    assert "new" in tree.names(2)
    assert "newer" in tree.names(3)
    assert ours.predict(TOY.images, consistent=True).levels == (1, 2, 3)


@pytest.mark.parametrize(
    "level", [2, np.int64(2), np.array(2), torch.tensor(2), [2, 2], torch.tensor([2, 2])]
)
def test_every_kind_of_level(level):
    assert learner().partial_fit(TOY.images[:2], ["a", "b"], level).labels(2) == ("a", "b")


# ---- saving


@pytest.mark.parametrize("method", ["pl-fms", "er", "bic", "mir", "gdumb"])
def test_goes_on_from_a_file_to_the_bit(method, tmp_path):
    few = {"epochs": {"count": 2}, "bic": {"epochs": 2, "validation": 0.2}, "mir": {"candidates": 12}}
    ours = learner(method, **few).partial_fit(TOY.images[:37], TOY.labels[:37], TOY.levels[:37])
    ours.notes["row"] = 37
    ours.save(tmp_path / "model")
    loaded = Learner.load(tmp_path / "model", network=ToyNetwork())
    assert loaded.notes == {"row": 37}
    names = {path.name for path in (tmp_path / "model").iterdir()} - {".lock", ".lock.pid"}
    assert names == {"learner.safetensors", "README.md"}
    for one in (ours, loaded):
        one.partial_fit(TOY.images[37:], TOY.labels[37:], TOY.levels[37:])
    expected = ours.predict_proba(TOY.images, 2)
    np.testing.assert_array_equal(loaded.predict_proba(TOY.images, 2), expected)
    assert equal(ours, loaded)


class Dropped(nn.Module):
    """A network that draws from torch's own generator."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.dropout = toy_network(), nn.Dropout(0.3)

    def forward(self, images):
        return self.dropout(self.inner(images))


def test_a_network_with_dropout_goes_on_to_the_bit_and_leaves_the_global_generator(tmp_path):
    ours = learner(network=Dropped()).partial_fit(TOY.images[:30], TOY.labels[:30], TOY.levels[:30])
    ours.save(tmp_path)
    before = torch.get_rng_state()
    ours.partial_fit(TOY.images[30:], TOY.labels[30:], TOY.levels[30:])
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(99)
    loaded = Learner.load(tmp_path, network=Dropped())
    loaded.partial_fit(TOY.images[30:], TOY.labels[30:], TOY.levels[30:])
    assert equal(ours, loaded)


def test_keeps_settings_taxonomy_and_labels(tmp_path):
    tree = Taxonomy.from_rows([("1", "10"), ("1", "11"), ("2", "12")], {"code": ["x", "y", "z"]})
    ours = Learner(
        "er", image_size=16, network={"name": "resnet18", "width": 0.05}, taxonomy=tree, mean=(0.1, 0.2, 0.3)
    )
    ours.partial_fit(TOY.images[:3], [10, 1, 12]).save(tmp_path / "a" / "b")
    loaded = Learner.load(tmp_path / "a" / "b")
    assert loaded.taxonomy == tree
    assert loaded.taxonomy.leaf_attributes == tree.leaf_attributes
    assert loaded.settings == ours.settings
    assert (loaded.mean, loaded.std, loaded.image_size) == (ours.mean, ours.std, 16)
    assert loaded.labels(2) == (10, 12)
    assert loaded.memory_counts() == ours.memory_counts()
    assert repr(loaded) == repr(ours)


def test_notes_that_are_no_json_are_refused_and_the_saved_learner_stays(tmp_path):
    ours = taught()
    ours.save(tmp_path)
    before = (tmp_path / "learner.safetensors").read_bytes()
    loop = []
    loop.append(loop)
    for wrong in (object(), {1, 2}, loop):
        ours.notes["mine"] = wrong
        with pytest.raises(RamifyError, match="`notes`"):
            ours.save(tmp_path)
    assert (tmp_path / "learner.safetensors").read_bytes() == before


def test_loading_imports_nothing_unasked(tmp_path):
    ours = learner("ramify.methods.er:er", network="ramify.methods.checks:ToyNetwork")
    ours.partial_fit(TOY.images[:9], TOY.labels[:9], 1).save(tmp_path)
    with pytest.raises(RamifyError, match="own_code"):
        Learner.load(tmp_path)
    assert equal(Learner.load(tmp_path, own_code=True), ours)


def test_what_was_given_as_an_object_must_be_given_again(tmp_path):
    taught(find_method("er")).save(tmp_path)
    with pytest.raises(RamifyError, match="method="):
        Learner.load(tmp_path)
    with pytest.raises(RamifyError, match="network="):
        Learner.load(tmp_path, method="er")
    with pytest.raises(RamifyError, match="does not fit"):
        Learner.load(tmp_path, method="er", network=nn.Sequential(nn.Flatten(), nn.Linear(768, 4)))


def test_refuses_what_is_no_learner(tmp_path):
    with pytest.raises(RamifyError, match="holds no model"):
        Learner.load(tmp_path / "nothing")
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "config.json").write_text("{}")
    with pytest.raises(RamifyError, match="ramify resume"):
        Learner.load(tmp_path / "run")
    ours = taught()
    ours.save(tmp_path)
    file = tmp_path / "learner.safetensors"
    whole = file.read_bytes()
    for broken in (whole[: len(whole) // 2], b"", b"x" * 100):
        file.write_bytes(broken)
        with pytest.raises(RamifyError, match="not a whole state file"):
            Learner.load(tmp_path, network=ToyNetwork())


def test_a_run_gives_its_network_to_a_learner(tmp_path):
    from dataclasses import replace

    from ramify.runs.presets import resolve

    tiny = replace(
        resolve("quick", "er", "garden", "multiple-depth"), limit=40, eval_images=10, image_size=16
    )
    tiny = replace(tiny, network=replace(tiny.network, width=0.1))
    ramify.run_config(tiny, tmp_path)
    garden = ramify.load_dataset("garden", image_size=16)
    ours = Learner.load(tmp_path)
    with safe_open(tmp_path / "predictions.safetensors", framework="np") as file:
        expected = file.get_tensor("predictions")[:, 0]
    names = garden.taxonomy.names(1)
    assert ours.predict(garden.test.images).labels[1] == [names[i] for i in expected]
    ours.partial_fit(garden.train.images[:20], [garden.taxonomy.names(2)[0]] * 20)
    assert ours.levels == (1, 2)
    with pytest.raises(RamifyError, match="trains when it is asked"):
        Learner.load(tmp_path, method="gdumb")
    with safe_open(tmp_path / "model.safetensors", framework="np") as file:
        header = json.loads(file.metadata()["ramify"])
    arrays = load_file(tmp_path / "model.safetensors")
    (first, *others), network = header["classes"], header["network"]
    for change, said in (
        ({"classes": [[2**200, first[1]]]}, "must lie below 2⁶³"),
        ({"classes": [[1.5, first[1]]]}, "must be of type int"),
        ({"classes": [[9, first[1]]]}, "no level 9"),
        ({"classes": [[1, None]]}, "must be of type str"),
        ({"classes": [[1, "no such plant"]]}, "no class 'no such plant' at level 1"),
        ({"classes": [first, first, *others]}, "none twice"),
        ({"classes": [[1]]}, "must be a list of 2"),
        ({"classes": []}, "one or more"),
        ({"image_size": True}, "image_size is True"),
        ({"mean": ["a", "b", "c"]}, "mean is 'a'"),
        ({"mean": [0.5, 0.5]}, "must be a list of 3"),
        ({"std": [1.0, 1.0, 0.0]}, "std above 0"),
        ({"network": network | {"width": 1e5}}, "weights are not those of"),
        ({"network": network | {"width": 1e300}}, "does not fit together"),
        ({"network": "resnet18"}, "must be a table"),
    ):
        save_file(arrays, tmp_path / "model.safetensors", {"ramify": json.dumps(header | change)})
        with pytest.raises(RamifyError) as caught:
            Learner.load(tmp_path)
        assert said in str(caught.value)
        assert "\n" not in str(caught.value)
    (tmp_path / "model.safetensors").write_bytes(b"broken")
    with pytest.raises(RamifyError, match=r"model\.safetensors does not fit together"):
        Learner.load(tmp_path)


def test_scikit_learn_can_clone_it():
    from sklearn.base import clone

    ours = Learner("er", image_size=16, network={"name": "resnet18", "width": 0.05}, batch_size=8)
    twin = clone(ours)
    assert twin.get_params() == ours.get_params()
    assert equal(twin, ours)


# ---- export


@pytest.mark.parametrize("suffix", [".onnx", ".pt2"])
def test_exported_network_answers_as_the_learner(suffix, tmp_path, monkeypatch):
    if suffix == ".onnx":
        onnxruntime = pytest.importorskip("onnxruntime")
    ours = taught()
    path = tmp_path / f"model{suffix}"
    ours.export(path)
    images = np.random.default_rng(5).integers(0, 256, (7, 3, SIZE, SIZE), dtype=np.uint8)
    if suffix == ".onnx":
        session = onnxruntime.InferenceSession(str(path))
        found = session.run(None, {"images": images})
        labels = json.loads(session.get_modelmeta().custom_metadata_map["labels"])
        assert [output.name for output in session.get_outputs()] == list(labels)
    else:
        extra = {"labels.json": ""}
        program = torch.export.load(path, extra_files=extra)
        found = [value.detach().numpy() for value in program.module()(torch.from_numpy(images))]
        labels = json.loads(extra["labels.json"])
    assert labels == {f"level{h}": list(ours.labels(h)) for h in (1, 2)}
    for level, probabilities in enumerate(found, 1):
        np.testing.assert_allclose(probabilities, ours.predict_proba(images, level), atol=1e-5)
    with pytest.raises(RamifyError, match="must end in"):
        ours.export(tmp_path / "model.pth")
    if suffix == ".pt2":
        monkeypatch.setattr(exporting, "TOLERANCE", -1.0)
        with pytest.raises(RamifyError, match="answers otherwise"):
            ours.export(tmp_path / "other.pt2")
    assert [p.name for p in tmp_path.iterdir()] == [path.name]


# ---- threads


def test_those_who_ask_meanwhile_see_only_whole_updates():
    """Each answer from another thread is one that a twin gives between two updates, to the bit."""
    toy = Toy.stream(150, levels=(1, 2))
    asked = toy.images[:2]
    twin, legal = learner(), set()

    def record() -> None:
        if twin.levels:
            legal.add(twin._trainer.log_probabilities(asked).tobytes())

    twin._trainer.turns.give_way = record
    twin.partial_fit(toy.images, toy.labels, toy.levels)
    record()
    ours = learner()
    ours.partial_fit(toy.images[:1], toy.labels[:1], toy.levels[:1])
    thread = threading.Thread(target=lambda: ours.partial_fit(toy.images[1:], toy.labels[1:], toy.levels[1:]))
    thread.start()
    seen = []
    while thread.is_alive():
        with ours._trainer.turns:
            seen.append(ours._trainer.log_probabilities(asked).tobytes())
    thread.join()
    assert len(set(seen)) > 5
    assert set(seen) <= legal
    assert equal(ours, twin)


def test_saving_waits_for_partial_fit(tmp_path):
    ours = learner()
    ours.partial_fit(TOY.images[:4], TOY.labels[:4], TOY.levels[:4])
    entered, go_on = threading.Event(), threading.Event()

    def hold() -> None:
        entered.set()
        go_on.wait(10)

    first = threading.Thread(target=ours._learn, args=(hold,))
    second = threading.Thread(target=ours.save, args=(tmp_path,))
    first.start()
    entered.wait(10)
    second.start()
    assert not (tmp_path / "learner.safetensors").exists()
    go_on.set()
    first.join()
    second.join()
    assert (tmp_path / "learner.safetensors").exists()


def test_turns_are_in_order_and_nobody_starves():
    turns, order = Turns(), []

    def ask(name: str) -> None:
        with turns:
            order.append(name)

    with turns:
        threads = []
        for name in "abc":
            threads.append(threading.Thread(target=ask, args=(name,)))
            threads[-1].start()
            while len(turns._queue) < 1 + len(threads):
                pass
        turns.give_way()
        order.append("me")
    for thread in threads:
        thread.join()
    assert order == ["a", "b", "c", "me"]


def test_one_who_is_interrupted_leaves_the_queue(monkeypatch):
    turns = Turns()
    with turns:
        monkeypatch.setattr(turns._changed, "wait_for", lambda done: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            turns.__enter__()
        assert len(turns._queue) == 1
    assert not turns._queue


# ---- the package


def test_importing_ramify_does_not_import_torch():
    code = "import sys, ramify; ramify.Taxonomy; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(__file__).parent)
    assert set(ramify.__all__) <= set(dir(ramify))
    assert all(getattr(ramify, name) is not None for name in ramify.__all__)
    with pytest.raises(AttributeError):
        _ = ramify.nothing
