"""A run's folder as a learner: it goes on by the run's own method and settings."""

from __future__ import annotations

import logging
from dataclasses import replace

import numpy as np
import pytest

import ramify
from ramify import Learner, RamifyError
from ramify.memory import Nowhere
from ramify.methods import METHODS, Method, find_method
from ramify.methods.settings import NetworkSettings
from ramify.rehearsal import Nothing
from tiny_runs import tiny

SMALL = NetworkSettings("resnet18", 0.05)


@pytest.fixture(scope="module")
def garden():
    return ramify.load_dataset("garden", image_size=8)


def run_of(method, folder, **changes):
    return ramify.run_config(tiny(method, limit=48, network=SMALL, **changes), folder)


@pytest.mark.parametrize("method", ["er", "mir", "der++", "ewc++", "canopy", "slda", "ranpac", "randumb"])
def test_a_learner_goes_on_as_its_run_did(method, tmp_path, garden):
    run_of(method, tmp_path, updates_per_sample=0.5, lr=2e-3, seed=3)
    ours = Learner.load(tmp_path)
    assert ours.get_params()["method"] == method
    told = ours.settings
    assert (told.updates_per_sample, told.lr, told.memory_size, told.batch_size) == (0.5, 2e-3, 30, 8)
    assert told.augment.padding == 1
    before = ours.predict(garden.test.images[:20]).labels[1]
    ours.partial_fit(garden.train.images[:16], [garden.taxonomy.names(1)[0]] * 16, 1)
    ours.save(tmp_path / "taught")
    assert Learner.load(tmp_path / "taught").get_params()["method"] == method
    assert len(before) == 20


@pytest.mark.parametrize("method", ["ncm", "slda", "ranpac", "randumb"])
def test_sums_go_on_as_if_the_run_had(method, tmp_path, garden):
    """Taught on, a method in closed form has the head of one that has seen all of the samples."""
    config = tiny(method, limit=48, network=SMALL)
    ramify.run_config(config, tmp_path)
    ours = Learner.load(tmp_path)
    whole = ramify.runs.run.Run(config, garden, "cpu")
    whole.collect(48)
    images, labels = garden.train.images[-8:], [(1, 0)] * 8
    whole.trainer.observe(images, [[pair] for pair in labels])
    ours.partial_fit(images, [garden.taxonomy.names(1)[0]] * 8, 1)
    for trainer in (whole.trainer, ours._trainer):
        trainer.flush()
    assert np.allclose(
        whole.trainer.log_probabilities(garden.test.images[:50]),
        ours._trainer.log_probabilities(garden.test.images[:50]),
        atol=1e-6,
    )
    assert ours._trainer.classes.seen.tolist() == whole.trainer.classes.seen.tolist()


def test_a_closed_form_method_of_ones_own_need_not_gather_as_ours_do(tmp_path, monkeypatch):
    """It failed when the run's model was written."""

    def build(settings, rng):
        return replace(
            find_method("er")(settings, rng), keep=Nowhere(), rehearse=Nothing(rng["rehearse"]), memory_size=0
        )

    monkeypatch.setitem(METHODS, "mine", Method("mine", build, closed_form=True))
    run_of("mine", tmp_path)
    assert len(Learner.load(tmp_path).labels(1)) > 1


@pytest.mark.parametrize(
    ("method", "said"),
    [("gdumb", "trains anew"), ("oracle", "stream is over"), ("pl-fms-t", "at every level")],
)
def test_what_cannot_be_taught_on_says_what_is_done_instead(method, said, tmp_path, caplog, garden):
    run_of(method, tmp_path)
    with caplog.at_level(logging.INFO, "ramify"):
        ours = Learner.load(tmp_path)
    assert said in caplog.text
    assert "goes on by pl-fms" in caplog.text
    ours.partial_fit(garden.train.images[:16], [garden.taxonomy.names(1)[0]] * 16, 1)


def own_er(settings, rng):
    return find_method("er")(settings, rng)


def test_a_run_of_ones_own_method_imports_it_only_when_told(tmp_path):
    config = replace(tiny("er", limit=48, network=SMALL), method="test_learner_runs:own_er")
    ramify.run_config(config, tmp_path)
    with pytest.raises(RamifyError, match="own_code=True"):
        Learner.load(tmp_path)
    assert Learner.load(tmp_path, own_code=True).get_params()["method"] == "test_learner_runs:own_er"
    assert Learner.load(tmp_path, method="er").settings.lr == config.lr
