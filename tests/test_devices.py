"""Learning on a device: as on the CPU to the bit, interrupted or not, whatever the device cannot do."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import pretend
from ramify import Learner
from ramify.methods import METHODS, Trainer, make_settings
from ramify.methods.checks import SETTINGS, SIZE, Toy, ToyNetwork
from ramify.networks import ImageInputs
from ramify.statefiles import load_state, save_state

TOY = Toy.stream(36)
PARTS = [(0, 11, True), (11, 25, False), (25, 36, True)]  # from, to, whether a task ends there
SAVED = 2  # parts learned before the state is saved, with a buffer that is not full
AUGMENT = {"padding": 2, "flip": True, "autoaugment": "cifar10", "cutmix": 1.0}
CPU = torch.device("cpu")


@pytest.fixture(params=[True, False], ids=["device", "without float64"])
def device(request):
    with pretend.device(float64=request.param) as device:
        yield device


def fresh(name, device, seed=0, **settings):
    """A small learner; one that keeps the whole stream gets a memory for it."""
    size = {"memory_size": len(TOY.labels) if METHODS[name].offline or METHODS[name].keeps_stream else 24}
    chosen = make_settings(**(SETTINGS | size | settings))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        network = ToyNetwork()
    inputs = ImageInputs(SIZE, std=(0.25, 0.25, 0.25))
    return Trainer(METHODS[name], chosen, inputs, seed, device, network=network)


def learn(learner, parts):
    for start, stop, task_ends in parts:
        TOY.teach(learner, start, stop)
        if task_ends:
            learner.task_end()


def learned(learner):
    """Weights, running statistics and answers, as arrays."""
    answers = learner.predict(TOY.images)
    weights = {name: value.detach().cpu().numpy() for name, value in learner.model.state_dict().items()}
    return weights | {"answers": answers}


def assert_same(found, wanted):
    assert found.keys() == wanted.keys()
    for name in wanted:
        np.testing.assert_array_equal(found[name], wanted[name], name)


def through_a_file(learner, path):
    save_state(path, learner.state(), {})
    return load_state(path)[0]


def check(name, device, path, **settings):
    """Learn on the CPU, on the device, and with a break in which the learner lies in a file."""
    here = fresh(name, CPU, **settings)
    learn(here, PARTS)
    wanted = learned(here)

    there = fresh(name, device, **settings)
    learn(there, PARTS)
    assert_same(learned(there), wanted)

    for before, after in ((device, device), (CPU, device), (device, CPU)):
        first, second = fresh(name, before, **settings), fresh(name, after, seed=5, **settings)
        learn(first, PARTS[:SAVED])
        second.restore(through_a_file(first, path / "state.safetensors"))
        learn(second, PARTS[SAVED:])
        assert_same(learned(second), wanted)


@pytest.mark.parametrize("name", METHODS)
def test_a_method_learns_on_a_device_and_continues_from_a_file(name, device, tmp_path):
    check(name, device, tmp_path)


@pytest.mark.parametrize("name", ["er", "pl-fms-t", "bic"])
def test_augmentation_works_on_a_device(name, device, tmp_path):
    check(name, device, tmp_path, augment=AUGMENT)


@pytest.mark.parametrize("kind", ["sweep", "probe", "first-order"])
def test_importance_is_followed_on_a_device(kind, device, tmp_path):
    check("clib", device, tmp_path, importance={"kind": kind, "probe": 8})


@pytest.mark.parametrize("name", METHODS)
def test_answers_follow_a_restored_state_at_once(name, device, tmp_path):
    first, second = fresh(name, device), fresh(name, device, seed=5)
    learn(first, PARTS)
    state = through_a_file(first, tmp_path / "state.safetensors")
    wanted = learned(first)
    second.restore(state)
    assert_same(learned(second), wanted)
    again = first.predict(TOY.images.to(device))  # images that are there already
    np.testing.assert_array_equal(again, wanted["answers"])


def test_an_export_from_a_device_leaves_the_cpu_alone(tmp_path, monkeypatch):
    mean, std = (0.4, 0.5, 0.6), (0.2, 0.3, 0.4)  # no other test's, for tensors made of them may be kept
    with pretend.device() as device:
        monkeypatch.setattr("ramify.learner.learner.pick_device", lambda name: device)
        learner = Learner("er", image_size=SIZE, memory_size=24, mean=mean, std=std, network=ToyNetwork())
        learner.partial_fit(TOY.images, TOY.labels, TOY.levels)
        for name in ("first.pt2", "second.pt2"):
            learner.export(tmp_path / name)
    ready = ImageInputs(SIZE, mean=mean, std=std).ready(TOY.images)
    wanted = (TOY.images / 255 - torch.tensor(mean).view(3, 1, 1)) / torch.tensor(std).view(3, 1, 1)
    torch.testing.assert_close(ready, wanted)
