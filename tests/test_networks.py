"""Backbones, heads that grow, and Adam over them."""

from __future__ import annotations

import copy
import sys
import types

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from ramify.errors import RamifyError
from ramify.memory.workbench import LOOK
from ramify.methods import METHODS, Trainer, bic, make_settings, mir
from ramify.methods.checks import SETTINGS, SIZE, Toy, ToyNetwork, learner, same, weights
from ramify.networks import FeatureInputs, Heads, ImageInputs, Model, ResNet, build_backbone, feature_size
from ramify.networks import precision as precisions
from ramify.networks.heads import ROWS
from ramify.networks.resnet import BLOCKS
from ramify.networks.settings import NetworkSettings
from ramify.training.optimizer import Optimizer


def parameters(module):
    return sum(p.numel() for p in module.parameters())


@pytest.mark.parametrize(("name", "published"), [("resnet18", 11_176_512), ("resnet34", 21_284_672)])
def test_resnets_have_the_published_number_of_parameters(name, published):
    assert parameters(ResNet(BLOCKS[name])) == published
    # the other stem has 3·3·3·64 weights in the place of 7·7·3·64
    assert parameters(ResNet(BLOCKS[name], "cifar")) == published - 9408 + 1728


@pytest.mark.parametrize(("stem", "side"), [("imagenet", 1), ("cifar", 4)])
def test_stems_reduce_the_image_as_they_should(stem, side):
    network = ResNet(BLOCKS["resnet18"], stem, 0.125).eval()
    maps = network.layers(network.stem(torch.zeros(2, 3, 32, 32)))
    assert maps.shape == (2, 64, side, side)
    assert network(torch.zeros(2, 3, 32, 32)).shape == (2, 64)


@pytest.mark.parametrize("stem", ["imagenet", "cifar"])
@settings(max_examples=20)
@given(size=st.integers(1, 40), seed=st.integers(0, 2**31))
def test_a_network_for_one_size_computes_and_learns_the_same_with_fewer_weights(stem, size, seed):
    lean, whole = (
        ResNet(BLOCKS["resnet18"], stem, 1 / 32, torch.Generator().manual_seed(seed), image_size)
        .double()
        .eval()  # three tiny images have next to no variance: normalising by it would blow up rounding
        for image_size in (size, None)
    )
    draws = torch.Generator().manual_seed(seed)
    images = torch.randn(3, 3, size, size, dtype=torch.double, generator=draws)
    outs = [network(images) for network in (lean, whole)]
    torch.testing.assert_close(*outs)
    slope = torch.randn(outs[0].shape, dtype=torch.double, generator=draws)
    for out in outs:
        (out * slope).sum().backward()
    for some, every in zip(lean.parameters(), whole.parameters(), strict=True):
        if some.shape == every.shape:
            torch.testing.assert_close(some.grad, every.grad)
        else:  # what is left out never moves
            side = some.shape[-1]
            kept = every.grad[:, :, 1 : 1 + side, 1 : 1 + side]
            torch.testing.assert_close(some.grad, kept)
            assert every.grad.count_nonzero() == kept.count_nonzero()
    assert (parameters(lean) < parameters(whole)) == (size <= (32 if stem == "imagenet" else 8))


def test_networks_are_drawn_from_their_generator_alone():
    torch.manual_seed(3)
    before = torch.get_rng_state()
    a, b, c = (
        build_backbone(
            NetworkSettings("resnet18", 0.1, "cifar"), torch.Generator().manual_seed(seed)
        ).state_dict()
        for seed in (1, 1, 2)
    )
    assert torch.equal(torch.get_rng_state(), before)
    assert all(torch.equal(a[name], b[name]) for name in a)
    assert not torch.equal(a["stem.0.weight"], c["stem.0.weight"])


@pytest.fixture
def own(monkeypatch):
    module = types.ModuleType("own_networks")
    module.good = lambda: nn.Sequential(nn.Flatten(), nn.Linear(48, 7))
    module.flat = lambda: nn.Conv2d(3, 2, 1)
    module.other = lambda: "network"
    monkeypatch.setitem(sys.modules, "own_networks", module)


def test_a_users_network_follows_the_seed(own):
    a, b, c = (
        build_backbone(NetworkSettings("own_networks:good"), torch.Generator().manual_seed(seed))
        for seed in (1, 1, 2)
    )
    assert torch.equal(a[1].weight, b[1].weight)
    assert not torch.equal(a[1].weight, c[1].weight)
    assert feature_size(a, ImageInputs(4)) == 7
    assert a.training


@pytest.mark.parametrize(
    "name", ["resnet50", "own_networks:none", "no_such_module:x", ":x", "own_networks:other"]
)
def test_an_impossible_network_is_refused_in_one_line(own, name):
    with pytest.raises(RamifyError) as error:
        build_backbone(NetworkSettings(name))
    assert "\n" not in str(error.value)


def test_a_network_must_return_one_feature_vector_an_image(own):
    with pytest.raises(RamifyError, match="shape"):
        feature_size(build_backbone(NetworkSettings("own_networks:flat")), ImageInputs(4))


def make_heads(features=8, seed=0):
    return Heads(features, np.random.default_rng(seed))


def test_logits_of_old_classes_stay_the_same_to_the_bit_through_growth():
    heads, images = make_heads(33), torch.randn(16, 33, generator=torch.Generator().manual_seed(0))
    heads.grow()
    logits = [heads(images).detach()]
    for _ in range(3 * ROWS):
        heads.grow()
        now = heads(images).detach()
        assert now.shape[1] == logits[-1].shape[1] + 1
        assert torch.equal(now[:, :-1], logits[-1])
        logits.append(now)
    assert len(heads.weights) == 4


def test_rows_are_drawn_as_a_linear_layer_draws_them():
    heads = make_heads(16)
    for _ in range(ROWS):
        heads.grow()
    values = torch.cat([heads.weights[0].flatten(), heads.biases[0]]).detach()
    assert values.abs().max() <= 0.25
    assert abs(values.mean()) < 0.02
    assert abs(values.std() - 0.25 / 3**0.5) < 0.01


def train(model, optimizer, steps, seed=0):
    generator = torch.Generator().manual_seed(seed)
    for _ in range(steps):
        _, logits = model(torch.randn(6, 8, generator=generator))
        (logits**2).sum().backward()
        optimizer.step(1e-2)


def make_model(classes, seed=0):
    model = Model(nn.Identity(), make_heads(seed=seed))
    for _ in range(classes):
        model.heads.grow()
    return model, Optimizer(model)


def test_growth_leaves_old_rows_and_moments_alone_and_unseen_rows_never_move():
    model, optimizer = make_model(5)
    train(model, optimizer, 4)
    weight, bias = model.heads.weights[0].detach(), model.heads.biases[0].detach()
    assert (weight[5:] == 0).all()
    assert (bias[5:] == 0).all()
    before = (weight[:5].clone(), bias[:5].clone(), optimizer.state())
    for _ in range(2 * ROWS):
        optimizer.add(model.heads.grow())
    assert torch.equal(weight[:5], before[0])
    assert torch.equal(bias[:5], before[1])
    after = optimizer.state()
    for name, moments in before[2]["moments"].items():
        assert all(torch.equal(moments[key], after["moments"][name][key]) for key in moments)
    assert (after["moments"]["heads.weights.0"]["exp_avg"][5:] == 0).all()


def test_a_block_that_comes_late_learns_as_if_it_had_been_there():
    late, optimizer = make_model(ROWS)
    early, other = make_model(ROWS)
    early.heads._add_block()
    other.add([])
    for _ in range(3):
        train(late, optimizer, 2)
        train(early, other, 2)
        for _ in range(50):
            optimizer.add(late.heads.grow())
            other.add(early.heads.grow())
    train(late, optimizer, 2)
    train(early, other, 2)
    assert len(late.heads.weights) == len(early.heads.weights) == 3
    for a, b in zip(late.parameters(), early.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=0)


def test_steps_are_adams():
    model, optimizer = make_model(ROWS)
    plain = nn.Linear(8, ROWS)
    plain.load_state_dict({"weight": model.heads.weights[0].detach(), "bias": model.heads.biases[0].detach()})
    adam = torch.optim.Adam(plain.parameters(), lr=1e-2)
    train(model, optimizer, 5)
    generator = torch.Generator().manual_seed(0)
    for _ in range(5):
        adam.zero_grad()
        (plain(torch.randn(6, 8, generator=generator)) ** 2).sum().backward()
        adam.step()
    torch.testing.assert_close(model.heads.weights[0], plain.weight)


def test_the_gradient_is_clipped_over_all_parameters():
    model, optimizer = make_model(3)
    (1e3 * model(torch.ones(2, 8))[1]).sum().backward()
    optimizer.step(1e-2, clip=10.0)
    first = [moments["exp_avg"].flatten() for moments in optimizer.state()["moments"].values()]
    assert torch.cat(first).norm() == pytest.approx(0.1 * 10.0, rel=1e-4)  # a tenth of the gradient


@pytest.mark.parametrize("factor", [1.0, 0.1])
def test_steps_are_torchs_own_to_the_bit(factor):
    """Also where a part gets no gradient for a while, and one that is frozen."""
    torch.manual_seed(0)
    backbone = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 8))
    backbone[2].requires_grad_(False)
    ours, theirs = Model(backbone, make_heads()), Model(copy.deepcopy(backbone), make_heads())
    for model in (ours, theirs):
        model.heads.grow()
    optimizer = Optimizer(ours, factor)
    slow, fast = (
        [p for p in part.parameters() if p.requires_grad] for part in (theirs.backbone, theirs.heads)
    )
    groups = [{"params": fast, "lr": 1e-2}, {"params": slow, "lr": 1e-2 * factor}]
    adam = torch.optim.Adam(groups, fused=True)
    for update in range(8):
        batch = torch.randn(4, 8)
        for model in (ours, theirs):
            model.backbone[1].requires_grad_(update % 3 < 2)
            model(batch)[1].square().sum().backward()
        optimizer.step(1e-2)
        adam.step()
        adam.zero_grad()
        assert all(torch.equal(a, b) for a, b in zip(ours.parameters(), theirs.parameters(), strict=True))


def test_a_broken_step_changes_nothing():
    model, optimizer = make_model(3)
    train(model, optimizer, 2)
    before, moments = copy.deepcopy(model.state_dict()), optimizer.state()["moments"]
    for parameter in model.parameters():
        parameter.grad = torch.full_like(parameter, torch.nan)
    optimizer.step(1e-2, broken=torch.tensor(1.0))
    assert all(parameter.grad is None for parameter in model.parameters())
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    for name, kept in optimizer.state()["moments"].items():
        assert all(torch.equal(value, moments[name][key]) for key, value in kept.items())


def test_a_renewed_model_is_fresh_and_keeps_its_classes():
    backbone = nn.Linear(8, 8)
    model = Model(backbone, make_heads())
    for _ in range(4):
        model.heads.grow()
    old = model.heads.weights[0].detach().clone()
    fresh = nn.Linear(8, 8)
    model.renew(fresh)
    assert torch.equal(model.backbone.weight, fresh.weight)
    assert model.backbone.weight is not fresh.weight
    assert model.heads.classes == 4
    assert (model.heads.weights[0][:4] != old[:4]).all()
    assert (model.heads.weights[0][4:] == 0).all()


@pytest.mark.parametrize(("classes", "elsewhere"), [(5, 1), (2 * ROWS + 1, 3), (3, 2 * ROWS + 1)])
@pytest.mark.parametrize("steps", [0, 3])
def test_model_and_optimizer_restore_into_any_other(classes, elsewhere, steps):
    model, optimizer = make_model(classes)
    train(model, optimizer, steps)
    other, second = make_model(elsewhere, seed=1)
    train(other, second, 2, seed=5)
    other.restore(model.state())
    second.restore(optimizer.state())
    for pair in ((model, optimizer), (other, second)):
        train(*pair, 2, seed=9)
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), other.parameters(), strict=True))


# ---- training and evaluation


def test_feature_size_leaves_the_mode_and_the_statistics_of_a_network_alone():
    for training in (True, False):
        network = ToyNetwork().train(training)
        before = {name: value.clone() for name, value in network.state_dict().items()}
        assert feature_size(network, ImageInputs(SIZE)) == 16
        assert network.training == training
        assert same(before, network.state_dict())
    assert feature_size(nn.Linear(5, 3), FeatureInputs(5)) == 3


class Moody(ToyNetwork):
    """Remembers in which mode it was asked with gradients, and without."""

    def __init__(self):
        super().__init__()
        self.dropout, self.modes = nn.Dropout(0.0), []

    def forward(self, images):
        modes = {m.training for m in (self, self.norm, self.dropout)}
        self.modes.append((torch.is_grad_enabled(), *sorted(modes)))
        return self.dropout(super().forward(images))


class Stubborn(ToyNetwork):
    """Never normalises by the batch, as its own `train` says."""

    def train(self, mode=True):
        super().train(mode)
        self.norm.eval()
        return self


def own_network(kind=ToyNetwork):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return kind()


def make_trainer(name, network, **settings):
    chosen = make_settings(**(SETTINGS | settings))
    return Trainer(METHODS[name], chosen, ImageInputs(SIZE, std=(0.25,) * 3), network=network)


@pytest.mark.parametrize("name", ["er", "mir", "bic", "clib"])
def test_a_network_handed_over_in_evaluation_mode_trains_in_training_mode_from_the_first_update(name):
    toy = Toy.stream(30)
    given = own_network(Moody).eval()
    trainer = make_trainer(name, given)
    toy.teach(trainer, 0, 30)
    modes = trainer.model.backbone.modes
    assert modes[0] == (False, False)  # its feature is measured as it was handed over
    assert {seen for seen in modes if seen[0]} == {(True, True)}  # whoever takes gradients trains
    assert {seen for seen in modes if not seen[0]} == {(False, False)}
    assert not given.training  # the user's own is copied
    assert trainer.model.backbone.norm.num_batches_tracked >= trainer.updates > 0
    other = make_trainer(name, own_network(Moody).train())
    toy.teach(other, 0, 30)
    assert same(weights(trainer), weights(other))


@pytest.mark.parametrize("name", [n for n, one in METHODS.items() if not one.trains_when_asked])
def test_a_question_in_mid_stream_changes_nothing(name):
    toy = Toy.stream(36)
    quiet, asked = (make_trainer(name, own_network(Moody).eval()) for _ in range(2))
    for start in range(0, 36, 6):
        for trainer in (quiet, asked):
            toy.teach(trainer, start, start + 6)
        asked.predict(toy.images[:5])
        asked.answer(toy.images[:5], {"heads": ("heads", None), "path": ("path", None)})
    assert same(weights(quiet), weights(asked))
    for key in ("rng", "credit", "samples", "updates"):
        assert quiet.state()[key] == asked.state()[key]


class HalfFrozen(nn.Module):
    """A trunk that is not trained, with batch normalisation and dropout, below one that is."""

    def __init__(self, freeze=True):
        super().__init__()
        self.trunk = nn.Sequential(nn.Conv2d(3, 8, 4, 4), nn.BatchNorm2d(8), nn.ReLU(), nn.Dropout(0.5))
        self.top = nn.Sequential(nn.Conv2d(8, 8, 2), nn.BatchNorm2d(8), nn.ReLU())
        self.trunk.requires_grad_(not freeze)

    def forward(self, images):
        return self.top(self.trunk(images)).mean((2, 3))


@pytest.mark.parametrize("name", [n for n, one in METHODS.items() if not one.closed_form])
def test_a_frozen_trunk_does_not_drift_and_the_rest_learns(name):
    toy = Toy.stream(24)
    size = {"memory_size": 24}  # the whole toy, for the oracle
    trainer = make_trainer(name, own_network(HalfFrozen), **size)
    before = weights(trainer)
    toy.teach(trainer, 0, 24)
    trainer.task_end()
    trainer.predict(toy.images)
    after = weights(trainer)
    for key, value in before.items():
        if key.startswith("backbone.trunk"):
            assert torch.equal(after[key], value), key
    assert not torch.equal(after["backbone.top.1.running_mean"], before["backbone.top.1.running_mean"])
    assert not torch.equal(after["backbone.top.0.weight"], before["backbone.top.0.weight"])
    model = trainer.model
    model.set_training(True)
    modes = [
        model.backbone.trunk[1].training,
        model.backbone.trunk[3].training,
        model.backbone.top[1].training,
    ]
    assert modes == [False, False, True]  # with all that is in a frozen module


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # torch would have its users compile instead
def test_a_scripted_network_is_switched_where_it_keeps_its_mode():
    """Its flag lives outside of Python: asked twice, a network in training mode would answer otherwise."""
    layers = nn.Sequential(nn.Flatten(), nn.Linear(3 * SIZE * SIZE, 4), nn.BatchNorm1d(4), nn.Dropout(0.5))
    model = Model(torch.jit.script(layers), Heads(4, np.random.default_rng(0)))
    model.heads.grow()
    images = torch.rand(8, 3, SIZE, SIZE)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    model.set_training(False)
    with torch.no_grad():
        assert torch.equal(model(images)[1], model(images)[1])
    assert same(before, model.state_dict())
    model.set_training(True)
    assert not torch.equal(model(images)[1], model(images)[1])


@pytest.mark.parametrize("kind", [ToyNetwork, Stubborn])
def test_a_model_is_switched_as_its_network_switches_itself(kind):
    model, alone = make_trainer("er", own_network(kind)).model, own_network(kind)
    for mode in (False, True, False):
        model.set_training(mode)
        wanted = [module.training for module in alone.train(mode).modules()]
        assert [module.training for module in model.backbone.modules()] == wanted
        assert (model.training, model.heads.training) == (mode, mode)


def test_a_network_that_is_frozen_whole_stays_in_evaluation_mode_and_its_heads_learn():
    network = own_network(HalfFrozen)
    network.requires_grad_(False)
    trainer, toy = make_trainer("er", network), Toy.stream(24)
    toy.teach(trainer, 0, 2)
    before = weights(trainer)
    toy.teach(trainer, 2, 24)
    after = weights(trainer)
    assert not any(module.training for module in trainer.model.backbone.modules())
    for key, value in before.items():
        assert torch.equal(after[key], value) == key.startswith("backbone"), key


# ---- precision


class Typist(ToyNetwork):
    """Remembers what types its layers computed in, and who asked."""

    def __init__(self):
        super().__init__()
        self.seen = []

    def forward(self, images):
        features = super().forward(images)
        self.seen.append((torch.is_grad_enabled(), self.training, images.dtype, features.dtype))
        return features


@pytest.fixture
def at_the_heads(monkeypatch):
    """What types reach the heads and leave them, by whether gradients are taken and in which mode."""
    found = []
    original = Heads.forward

    def forward(heads, features):
        logits = original(heads, features)
        autocast = torch.is_autocast_enabled(features.device.type)
        found.append((torch.is_grad_enabled(), heads.training, features.dtype, logits.dtype, autocast))
        return logits

    monkeypatch.setattr(Heads, "forward", forward)
    return found


BF16, FP32 = torch.bfloat16, torch.float32


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize(("precision", "backbone"), [("fp32", FP32), ("bf16", BF16)])
def test_the_backbone_computes_in_the_precision_and_the_heads_in_fp32_whoever_asks(
    name, precision, backbone, at_the_heads
):
    toy = Toy.stream(30)
    trainer = make_trainer(name, own_network(Typist), memory_size=30, precision=precision)
    seen = next((m.seen for m in trainer.model.modules() if isinstance(m, Typist)), None)
    if seen is None:  # RanDumb has no network
        return
    assert seen.pop() == (False, False, FP32, FP32)  # its feature is measured without autocast
    toy.teach(trainer, 0, 30)
    trainer.task_end()
    trainer.predict(toy.images)
    if trainer.memory.size:
        trainer.examine(np.arange(trainer.memory.size))
    kinds = {(True, True), (False, False)}  # updates and virtual steps; looks and teachers
    if METHODS[name].closed_form:
        kinds = {(False, False)}
    assert set(seen) == {(*kind, FP32, backbone) for kind in kinds}
    assert set(at_the_heads) == {(*kind, FP32, FP32, False) for kind in kinds}
    assert all(value.dtype in (FP32, torch.int64) for value in trainer.model.state_dict().values())


def test_mirs_virtual_step_and_bics_teacher_compute_in_bf16_too(at_the_heads):
    toy = Toy.stream(24)
    trainer = make_trainer("mir", own_network(Typist), precision="bf16")
    toy.teach(trainer, 0, 24)
    seen = trainer.model.backbone.seen
    seen.clear()
    at_the_heads.clear()
    candidates = trainer.memory.batch(np.arange(6))
    arrivals = trainer.memory.batch(np.arange(6, 10))
    mir.interference(trainer, arrivals, candidates, 0.1)
    assert seen == [(True, True, FP32, BF16), *[(False, False, FP32, BF16)] * 2]  # the step, before, after
    assert {kinds[2:] for kinds in at_the_heads} == {(FP32, FP32, False)}

    trainer = make_trainer("bic", own_network(Typist), precision="bf16")
    toy.teach(trainer, 0, 24)
    objective = trainer.recipe.minimise
    assert isinstance(objective, bic.Distillation)
    assert objective.known > 0
    seen = trainer.model.backbone.seen
    seen.clear()
    at_the_heads.clear()
    answers = objective._ask(trainer, trainer.inputs.ready(toy.images[:4]))
    assert seen == [(False, False, FP32, BF16)]
    assert at_the_heads == [(False, False, FP32, FP32, False)]
    assert answers.dtype == FP32


def test_bf16_rounds_but_answers_nearly_as_fp32():
    toy = Toy.stream(80)
    full, half = (learner(METHODS["er"], toy, precision=p) for p in ("fp32", "bf16"))
    toy.teach(full, 0, 80)
    half.restore(full.state())
    a, b = (one.look(toy.images[:LOOK]) for one in (full, half))
    assert not torch.equal(a, b)
    torch.testing.assert_close(a, b, rtol=0.1, atol=0.1)


def test_auto_is_settled_when_the_learner_is_made(monkeypatch):
    for has, speed, wanted in ((False, 2.0, "fp32"), (True, 2.0, "bf16"), (True, 1.05, "fp32")):
        monkeypatch.setattr(precisions, "has_bf16", lambda device, has=has: has)
        monkeypatch.setattr(
            precisions, "_seconds", lambda model, batch, kind, speed=speed: speed if kind == "fp32" else 1.0
        )
        trainer = make_trainer("er", ToyNetwork(), precision="auto")
        assert (trainer.settings.precision, trainer.model.precision) == (wanted, wanted)


def test_measuring_leaves_the_network_and_all_draws_alone(monkeypatch):
    monkeypatch.setattr(precisions, "has_bf16", lambda device: True)
    toy, before = Toy.stream(12), torch.get_rng_state()
    measured = make_trainer("er", nn.Sequential(own_network(), nn.Dropout()), precision="auto")
    assert torch.equal(torch.get_rng_state(), before)
    measured = make_trainer("er", own_network(), precision="auto")
    chosen = measured.settings.precision
    assert chosen in ("fp32", "bf16")
    plain = make_trainer("er", own_network(), precision=chosen)
    assert same(weights(measured), weights(plain))
    for trainer in (measured, plain):
        toy.teach(trainer, 0, 12)
    assert same(weights(measured), weights(plain))


def test_statistics_are_put_back_by_name_and_nothing_else_sees_how_they_are_kept():
    model, plain = (make_model(3)[0] for _ in range(2))
    for one in (model, plain):
        one.backbone = nn.Sequential(nn.Flatten(), nn.BatchNorm1d(12), nn.Linear(12, 8), nn.BatchNorm1d(8))
    plain.load_state_dict(model.state_dict())
    batches = torch.randn(4, 6, 3, 2, 2)
    for batch in batches[:2]:
        model.remember_statistics()
        model(batch), plain(batch)
    twin, before = copy.deepcopy(model), {n: b.clone() for n, b in model.named_buffers()}
    model.remember_statistics()
    model(batches[2])
    kept = model.before_pass()
    assert all(torch.equal(kept[name], b) for name, b in before.items() if b.numel())
    model.recall_statistics()
    plain(batches[3]), twin(batches[3]), model(batches[3])
    for name, value in plain.state_dict().items():
        assert torch.equal(value, model.state_dict()[name]), name
        assert torch.equal(value, twin.state_dict()[name]), name
    model.load_state_dict(twin.state_dict())
    model.remember_statistics()
    assert all(torch.equal(value, twin.state_dict()[n]) for n, value in model.before_pass().items())
