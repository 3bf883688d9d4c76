"""Backbones, heads that grow, and Adam over them."""

from __future__ import annotations

import sys
import types

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from ramify.errors import RamifyError
from ramify.networks import Heads, Model, ResNet, build_backbone, feature_size
from ramify.networks.heads import ROWS
from ramify.networks.resnet import BLOCKS
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
        build_backbone("resnet18", "cifar", 0.1, torch.Generator().manual_seed(seed)).state_dict()
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
        build_backbone("own_networks:good", "cifar", 1.0, torch.Generator().manual_seed(seed))
        for seed in (1, 1, 2)
    )
    assert torch.equal(a[1].weight, b[1].weight)
    assert not torch.equal(a[1].weight, c[1].weight)
    assert feature_size(a, 4) == 7
    assert a.training


@pytest.mark.parametrize(
    "name", ["resnet50", "own_networks:none", "no_such_module:x", ":x", "own_networks:other"]
)
def test_an_impossible_network_is_refused_in_one_line(own, name):
    with pytest.raises(RamifyError) as error:
        build_backbone(name, "cifar", 1.0)
    assert "\n" not in str(error.value)


def test_a_network_must_return_one_feature_vector_an_image(own):
    with pytest.raises(RamifyError, match="shape"):
        feature_size(build_backbone("own_networks:flat", "cifar", 1.0), 4)


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
    return model, Optimizer(model, 1e-2)


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


@pytest.mark.parametrize("late", [1, 30, 3000])
def test_a_class_learns_at_the_same_pace_whenever_it_comes(late):
    model, optimizer = make_model(2)
    generator = torch.Generator().manual_seed(0)

    def step(others=()):
        gradient = torch.randn(8, generator=generator)
        model.heads.weights[0].grad = torch.zeros(ROWS, 8)
        model.heads.weights[0].grad[: model.heads.classes] = gradient
        model.heads.biases[0].grad = torch.zeros(ROWS)
        for adam, row in others:
            row.grad = gradient.clone()
            adam.step()
        optimizer.step(1e-2)

    for _ in range(late):
        step()
    optimizer.add(model.heads.grow())
    row = nn.Parameter(model.heads.weights[0][2].detach().clone())
    own = torch.optim.Adam([row], lr=1e-2)  # which is as old as the class
    for _ in range(200):
        step([(own, row)])
        torch.testing.assert_close(model.heads.weights[0][2], row, rtol=1e-4, atol=1e-5)


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
    norms = []
    optimizer._adam.register_step_pre_hook(
        lambda *_: norms.append(torch.cat([p.grad.flatten() for p in model.parameters()]).norm())
    )
    optimizer.step(1e-2, clip=10.0)
    assert norms[0] == pytest.approx(10.0, rel=1e-4)


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
