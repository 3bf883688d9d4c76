"""A correction counts: a sure wrong answer is another one afterwards, and what was known stays."""

from __future__ import annotations

import numpy as np
import pytest

import ramify
from ramify import Learner, RamifyError

SMALL = {"name": "tiny_runs:three_layers"}
LIKE = {"image_size": 16, "memory_size": 60, "network": SMALL}


@pytest.fixture(scope="module")
def garden():
    return ramify.load_dataset("garden", image_size=16)


def chosen(garden):
    return np.random.default_rng(0).permutation(len(garden.train))[:120]


def taught(garden, method="er", **given):
    learner = Learner(method, **LIKE, **given)
    labels = [garden.taxonomy.path(leaf)[1] for leaf in garden.train.leaves[chosen(garden)]]
    return learner.partial_fit(garden.train.images[chosen(garden)], labels, 2)


def wrong(learner, garden):
    """An image that is answered wrongly, and its label."""
    answers = learner.predict(garden.test.images[::7]).labels[2]
    truth = [garden.taxonomy.path(leaf)[1] for leaf in garden.test.leaves[::7]]
    at = next(i for i, (said, name) in enumerate(zip(answers, truth, strict=True)) if said != name)
    return garden.test.images[::7][at : at + 1], truth[at]


@pytest.mark.parametrize("method", ["er", "pl-fms", "clib", "der++", "er-ace", "canopy", "slda", "ncm"])
def test_a_corrected_image_is_answered_as_it_was_taught(garden, method):
    learner = taught(garden, method, correction=120)  # how many it takes depends on the processor's rounding
    one, name = wrong(learner, garden)
    truth = [garden.taxonomy.path(leaf)[1] for leaf in garden.train.leaves[chosen(garden)]]
    before = learner.score(garden.train.images[chosen(garden)], truth, 2)
    learner.correct(one, [name], 2)
    assert learner.predict(one).labels[2] == [name]
    assert learner.samples == 121
    assert learner.score(garden.train.images[chosen(garden)], truth, 2) > before - 0.15


def blobs(n, seed=5):
    """Features of six classes, and one sample in the middle of each."""
    rng = np.random.default_rng(seed)
    kind, centre = rng.integers(0, 6, n), rng.normal(size=(6, 16)) * 2
    return (centre[kind] + rng.normal(size=(n, 16))).astype(np.float32), kind, centre.astype(np.float32)


def test_averaged_weights_follow_a_correction_however_long_the_stream_was(tmp_path, caplog):
    features, kind, centre = blobs(320)
    learner = Learner("canopy", features=16, memory_size=200, ask=0, lr=3e-3, correction=60)
    learner.partial_fit(features=features, labels=[f"c{k}" for k in kind], level=1).flush()
    learner._trainer.average.updates = learner._trainer.updates = 50_000
    learner.save(tmp_path)
    for k in range(4):
        again, label = Learner.load(tmp_path), f"c{(k + 1) % 6}"
        again.correct(features=centre[k : k + 1], labels=[label], level=1)
        assert again.predict(features=centre[k : k + 1]).labels[1] == [label]
    assert "not answered as taught" not in caplog.text


def test_a_correction_that_is_not_enough_says_so(caplog):
    features, kind, centre = blobs(320)
    learner = Learner("er", features=16, memory_size=200, ask=0, lr=3e-3, correction=1)
    learner.partial_fit(features=features, labels=[f"c{k}" for k in kind], level=1).flush()
    learner.correct(features=centre[:1], labels=["c1"], level=1)
    assert learner.predict(features=centre[:1]).labels[1] == ["c0"]
    assert "a corrected sample is not answered as taught after 1 update;" in caplog.text


def test_a_corrected_fine_label_changes_the_whole_path(garden):
    learner = Learner("er", **LIKE, taxonomy=garden.taxonomy)
    paths = [garden.taxonomy.path(leaf)[:3] for leaf in garden.train.leaves[chosen(garden)]]
    learner.partial_fit(garden.train.images[chosen(garden)], paths)
    answers = learner.predict(garden.test.images[::7], decode="path").labels[1]
    truth = [garden.taxonomy.path(leaf)[:3] for leaf in garden.test.leaves[::7]]
    at = next(i for i, (said, path) in enumerate(zip(answers, truth, strict=True)) if said != path[0])
    one = garden.test.images[::7][at : at + 1]
    learner.correct(one, [truth[at][2]], 3)
    assert tuple(learner.predict(one, decode="path")[0].values()) == truth[at]


def test_without_further_updates_it_is_a_sample_as_any_other(garden):
    plain, none = taught(garden), taught(garden, correction=0)
    one, name = garden.test.images[:1], plain.labels(2)[0]
    plain.partial_fit(one, [name], 2)
    plain.flush()
    none.correct(one, [name], 2)
    assert plain.updates == none.updates
    assert (plain.predict_proba(one, 2) == none.predict_proba(one, 2)).all()


def test_corrections_go_on_exactly_after_a_save(garden, tmp_path):
    learner = taught(garden)
    learner.save(tmp_path)
    again = Learner.load(tmp_path, own_code=True)
    for one in (learner, again):
        one.correct(garden.test.images[:3], [one.labels(2)[-1]] * 3, 2)
        one.partial_fit(garden.train.images[:16], [one.labels(2)[0]] * 16, 2)
    assert (
        learner.predict_proba(garden.test.images[:9], 2) == again.predict_proba(garden.test.images[:9], 2)
    ).all()
    assert again.correction == 30


def test_many_corrections_and_ones_without_a_label(garden):
    learner = taught(garden)
    labels = [*learner.labels(2)[:1] * 20, None]
    learner.correct(garden.test.images[:21], labels, 2)
    assert learner.samples == 141
    with pytest.raises(RamifyError, match="labels are missing"):
        learner.correct(garden.test.images[:1])


def test_what_trains_when_it_is_asked_is_taught(garden):
    learner = taught(garden, "gdumb", epochs={"count": 1})
    learner.correct(garden.test.images[:1], [learner.labels(2)[0]], 2)
    assert learner.samples == 121


def test_a_frozen_network_takes_corrections(garden):
    learner = taught(garden, freeze="all", correction=300)
    one, name = wrong(learner, garden)
    learner.correct(one, [name], 2)
    assert learner.predict(one).labels[2] == [name]
