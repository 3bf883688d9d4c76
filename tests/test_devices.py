"""Learning on a device: as on the CPU to the bit, interrupted or not, whatever the device cannot do."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

import pretend
from ramify import Learner
from ramify.errors import RamifyError
from ramify.methods import METHODS, Trainer, checks, make_settings
from ramify.methods.checks import SETTINGS, SIZE, Toy, ToyNetwork
from ramify.methods.guard import EVERY
from ramify.methods.settings import NetworkSettings
from ramify.networks import ImageInputs
from ramify.runs import run_config
from ramify.statefiles import load_state, save_state
from tiny_runs import tiny

TOY, BRIEF = Toy.stream(36), Toy.stream(24)
PARTS = [(0, 7, True), (7, 17, False), (17, 24, True)]  # of BRIEF: from, to, whether a task ends there
SAVED = 2  # parts learned before the state is saved, with a buffer that is not full
OFTEN = {"fms": {"T": 6.0, "unit": "samples"}, "bic": {"validation": 0.2, "epochs": 3}}
AUGMENT = {"padding": 2, "flip": True, "autoaugment": "cifar10", "cutmix": 1.0}
CPU = torch.device("cpu")


def fresh(name, device, seed=0, **settings):
    """A small learner; one that keeps the whole stream gets a memory for it."""
    size = {"memory_size": len(TOY.labels) if METHODS[name].offline or METHODS[name].keeps_stream else 14}
    chosen = make_settings(**(SETTINGS | size | settings))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        network = ToyNetwork()
    inputs = ImageInputs(SIZE, std=(0.25, 0.25, 0.25))
    return Trainer(METHODS[name], chosen, inputs, seed, device, network=network)


def learn(learner, parts):
    for start, stop, task_ends in parts:
        BRIEF.teach(learner, start, stop)
        if task_ends:
            learner.task_end()


def learned(learner):
    """Weights, running statistics and answers, as arrays."""
    answers = learner.predict(BRIEF.images)
    weights = {name: value.detach().cpu().numpy() for name, value in learner.model.state_dict().items()}
    return weights | {"answers": answers}


def assert_same(found, wanted):
    assert found.keys() == wanted.keys()
    for name in wanted:
        np.testing.assert_array_equal(found[name], wanted[name], name)


def through_a_file(learner, path):
    save_state(path, learner.state(), {})
    return load_state(path)[0]


def check(name, path, number, **settings):
    """Learn on the CPU, on either device, and with a break in which the learner lies in a file.

    Of tests with an even and an odd number each tries the breaks on one of the devices that the other
    tries on the other.
    """
    settings = OFTEN | settings
    here = fresh(name, CPU, **settings)
    learn(here, PARTS)
    wanted = learned(here)
    for float64 in (True, False):
        with pretend.device(float64) as device:
            there = fresh(name, device, **settings)
            learn(there, PARTS)
            assert_same(learned(there), wanted)
            answers_follow_at_once(name, there, fresh(name, device, seed=5, **settings), wanted, path)

            whole = [(device, device)]
            breaks = whole if float64 is bool(number % 2) else [(CPU, device), (device, CPU)]
            for before, after in breaks:
                first, second = fresh(name, before, **settings), fresh(name, after, seed=5, **settings)
                learn(first, PARTS[:SAVED])
                second.restore(through_a_file(first, path / "state.safetensors"))
                learn(second, PARTS[SAVED:])
                assert_same(learned(second), wanted)


def answers_follow_at_once(name, first, second, wanted, path):
    """What a state is restored into answers as the learner that it is of, and learns nothing for it."""
    second.restore(through_a_file(first, path / "state.safetensors"))
    assert_same(learned(second), wanted)
    again = first.predict(BRIEF.images.to(first.device))  # images that are there already
    np.testing.assert_array_equal(again, wanted["answers"])


@pytest.mark.parametrize(("number", "name"), [*enumerate(METHODS)])
def test_a_method_learns_on_a_device_and_continues_from_a_file(name, number, tmp_path):
    check(name, tmp_path, number)


@pytest.mark.parametrize(("number", "name"), [(0, "er"), (1, "pl-fms-t"), (2, "bic")])
def test_augmentation_works_on_a_device(name, number, tmp_path):
    check(name, tmp_path, number, augment=AUGMENT)


@pytest.mark.parametrize(("number", "kind"), [(0, "sweep"), (1, "probe"), (2, "first-order")])
def test_importance_is_followed_on_a_device(kind, number, tmp_path):
    check("clib", tmp_path, number, importance={"kind": kind, "probe": 8})


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


class Crash(Exception):
    pass


def crash(run):
    if run.position >= 20:
        raise Crash


ENCODER = "made_features:frozen"


@pytest.mark.parametrize(
    ("name", "network"),
    [
        *(("pl-fms", "tiny_runs:network"), ("bic", "tiny_runs:network"), ("gdumb", "tiny_runs:network")),
        *(("canopy", NetworkSettings(ENCODER, freeze="2")), ("slda", NetworkSettings(ENCODER, freeze="all"))),
    ],
)
def test_a_run_is_continued_on_a_device(name, network, tmp_path, monkeypatch):
    """From its checkpoint; also where images are encoded there. It ends as on the CPU."""
    network = NetworkSettings(network) if isinstance(network, str) else network
    config = tiny(name, network=network, limit=40, eval_every=16)
    run_config(config, tmp_path / "here", threads=1, device="cpu")
    with pretend.device(float64=False) as device:
        monkeypatch.setattr("ramify.runs.run.pick_device", lambda name: device)
        with pytest.raises(Crash):
            run_config(config, tmp_path / "there", threads=1, checkpoint_every=0, watch=crash)
        run_config(config, tmp_path / "there", threads=1, resume=True)
    for file in ("model.safetensors", "predictions.safetensors"):
        here, there = (load_file(tmp_path / where / file) for where in ("here", "there"))
        assert_same({n: v.numpy() for n, v in there.items()}, {n: v.numpy() for n, v in here.items()})


@pytest.mark.parametrize("name", ["er", "canopy", "ranpac"])
def test_a_learner_is_saved_and_loaded_on_a_device(name, tmp_path, monkeypatch):
    given = {"image_size": SIZE, "memory_size": 24, "network": f"{checks.__name__}:ToyNetwork", "lr": 1e-2}
    half = len(TOY.labels) // 2
    with pretend.device() as device:
        monkeypatch.setattr("ramify.learner.learner.pick_device", lambda name: device)
        learner = Learner(name, **given)
        learner.partial_fit(TOY.images[:half], TOY.labels[:half], TOY.levels[:half])
        learner.save(tmp_path / "model")
        again = Learner.load(tmp_path / "model", own_code=True)
        for one in (learner, again):
            one.partial_fit(TOY.images[half:], TOY.labels[half:], TOY.levels[half:])
        assert {value.device.type for value in again._trainer.model.state_dict().values()} == {device.type}
        assert_same(learned(again._trainer), learned(learner._trainer))


# ---- nobody waits for the device

LEARNERS = ["er", "clib", "fms", "pl-fms", "canopy"]


@pytest.fixture
def gpu():
    with pretend.device() as device:
        yield device


def taught_there(name, device, **settings):
    """A learner on the device with a full memory, of which nothing waits to be read; an update a sample."""
    own = {"augment": AUGMENT, "updates_per_sample": 1.0, "batch_size": 8, "memory_size": 12}
    learner = fresh(name, device, **(own | settings))
    TOY.teach(learner, 0, 32)
    learner.guard.read()
    pretend.device_counter.reset()
    return learner


@pytest.mark.parametrize(("name", "home"), [*((name, "device") for name in LEARNERS), ("pl-fms", "host")])
def test_no_update_reads_from_the_device_and_a_refresh_reads_once(name, home, gpu):
    learner = taught_there(name, gpu, memory_device=home)
    examine, refreshes, before = learner.examine, [], learner.updates
    learner.examine = lambda slots: refreshes.append(len(slots)) or examine(slots)
    TOY.teach(learner, 20, 36)
    assert learner.updates == before + 16
    assert before + 16 < EVERY  # else losses are read
    assert len(refreshes) == (0 if name in ("er", "canopy") else 4)
    assert pretend.device_counter.to_host == len(refreshes), pretend.device_counter.places


def network_of(learner):
    return next(m for m in learner.model.modules() if isinstance(m, ToyNetwork))


def network_state(learner):
    """Weights, running statistics and moments."""
    moments = learner.optimizer.state()["moments"]
    values = {f"{name} {key}": value for name, own in moments.items() for key, value in own.items()}
    values |= learner.model.state_dict()
    return {name: value.detach().cpu().numpy().copy() for name, value in values.items()}


@pytest.mark.parametrize("name", LEARNERS)
def test_a_broken_update_on_a_device_is_not_made_and_is_told(name, gpu):
    learner = taught_there(name, gpu)
    update, first = learner.update, learner.updates

    def sometimes_broken(batch, rate=None):
        before = network_state(learner)
        network_of(learner).broken = learner.updates == first + 2
        update(batch, rate)
        if network_of(learner).broken:
            assert_same(network_state(learner), before)
        else:
            assert any((before[name] != value).any() for name, value in network_state(learner).items())
        network_of(learner).broken = False

    def teach_and_save():
        TOY.teach(learner, 0, 8)
        return learner.state()

    learner.update = sometimes_broken
    with pytest.raises(RamifyError, match=f"the loss became nan at update {first + 3} "):
        teach_and_save()
    saved = teach_and_save()  # it has been told
    assert all(value.isfinite().all() for value in saved["model"]["weights"].values())


@pytest.mark.parametrize("asked", ["state", "predict", "updates"])
def test_a_broken_update_is_told_before_saving_and_answering_and_after_some_updates(asked, gpu):
    learner = taught_there("er", gpu)
    network_of(learner).broken = True
    TOY.teach(learner, 0, 4)
    network_of(learner).broken = False
    doing = {
        "state": learner.state,
        "predict": lambda: learner.predict(TOY.images),
        "updates": lambda: TOY.teach(learner, 0, EVERY - learner.updates),
    }
    with pytest.raises(RamifyError, match="and at 3 later ones; lower lr"):
        doing[asked]()
    learner.state()


@pytest.mark.parametrize("name", ["er", "mir", "pl-fms", "der++", "bic"])
def test_a_memory_on_the_host_learns_the_same(name, gpu, tmp_path):
    own = {"augment": AUGMENT, "memory_device": "host"}
    here, there, again = (fresh(name, where, seed, **own) for where, seed in ((CPU, 0), (gpu, 0), (gpu, 5)))
    learn(here, PARTS)
    learn(there, PARTS)
    assert there.memory["inputs"].device == CPU
    wanted = learned(here)
    assert_same(learned(there), wanted)
    again.restore(through_a_file(there, tmp_path / "state.safetensors"))
    assert_same(learned(again), wanted)
