"""Answers that know when to stop, what looks new, and why: the prequential log and what is made of it."""

from __future__ import annotations

from xml.etree import ElementTree

import numpy as np
import pytest
import torch

from ramify import Learner, RamifyError
from ramify.learner.prequential import ALARMS, LEAST, RECENT
from ramify.learner.trust import trust_drawing
from ramify.methods.checks import SIZE, Toy, same, weights
from test_learner import learner, taught

LONG = Toy.stream(400, levels=(1, 2, 1, 2))


def long_taught(**given) -> Learner:
    seldom = {"updates_per_sample": 0.25}
    return learner("er", **(seldom | given)).partial_fit(LONG.images, LONG.labels, LONG.levels)


def log_of(one: Learner) -> dict[str, np.ndarray]:
    return one._trainer.log.state()


@pytest.mark.parametrize("method", ["er", "pl-fms", "canopy", "clib"])
def test_asking_changes_nothing_of_what_is_learned(method):
    asked, not_asked = taught(method, ask=1.0), taught(method, ask=0.0)
    assert len(asked._trainer.log) > 0
    assert len(not_asked._trainer.log) == 0
    assert same(weights(asked._trainer), weights(not_asked._trainer))


def test_the_log_has_what_predict_says_before_each_stream_batch():
    one, expected = learner("er"), []
    for start in range(0, 120, 4):  # four samples are a stream batch
        part = slice(start, start + 4)
        known = {h: set(one.labels(h)) for h in one.levels}
        said = one.predict(LONG.images[part]) if known else None
        for i, (label, level) in enumerate(zip(LONG.labels[part], LONG.levels[part], strict=True)):
            if said is not None:
                seen = level in known
                answer = said.labels[level][i] if seen else None
                sure = float(said.probabilities[level][i]) if seen else np.nan
                expected.append((label, answer, sure, not seen or label not in known[level], start + i))
        one.partial_fit(LONG.images[part], LONG.labels[part], LONG.levels[part])
    log, names = one._trainer.log, [*one._trainer.classes.labels, None]
    found = [
        (names[t], names[s], p, bool(new), int(n))
        for t, s, p, new, n in zip(log.truth, log.said, log.probability, log.new, log.sample, strict=True)
    ]
    assert [(f[0], f[1], f[3], f[4]) for f in found] == [(e[0], e[1], e[3], e[4]) for e in expected]
    assert [f[2] for f in found] == pytest.approx([e[2] for e in expected], nan_ok=True, abs=1e-5)


def test_the_log_is_bounded_for_each_level_and_keeps_the_latest():
    one = long_taught(log_size=30)
    log, level_of = one._trainer.log, one._trainer.classes.level_of
    for level in (1, 2):
        own = log.sample[level_of[log.truth] == level]
        taught_at = [i for i, h in enumerate(LONG.levels) if h == level]
        assert own.tolist() == taught_at[-30:]


def test_a_share_of_the_samples_is_asked():
    one = long_taught(ask=0.25)
    assert 60 <= len(one._trainer.log) <= 140


def test_the_log_is_saved_and_goes_on_as_without(tmp_path):
    few = {"ask": 0.5, "log_size": 70, "updates_per_sample": 0.25}
    whole, half = (learner("er", **few) for _ in range(2))
    for one in (whole, half):
        one.partial_fit(LONG.images[:203], LONG.labels[:203], LONG.levels[:203])
    half.save(tmp_path / "m")
    from test_learner import toy_network

    again = Learner.load(tmp_path / "m", network=toy_network())
    assert (again.get_params()["ask"], again.get_params()["log_size"]) == (0.5, 70)
    for one in (whole, again):
        one.partial_fit(LONG.images[203:], LONG.labels[203:], LONG.levels[203:])
    assert same(weights(whole._trainer), weights(again._trainer))
    for name, values in log_of(whole).items():
        np.testing.assert_array_equal(values, log_of(again)[name])


def test_confidence_cuts_the_path_at_the_finest_sure_label():
    one = long_taught()
    images = Toy.stream(40, seed=3).images
    path = one.predict(images, decode="path")
    assert set(path.confidences) == {1, 2}
    for demand in (0.5, 0.9, 0.999999):
        cut = one.predict(images, confidence=demand)
        for i in range(len(images)):
            sure = [h for h in (1, 2) if path.confidences[h][i] >= demand]
            expected = {h: path[i][h] if sure and h <= max(sure) else None for h in (1, 2)}
            assert cut[i] == expected
            assert all(np.isnan(cut.confidences[h][i]) == (expected[h] is None) for h in (1, 2))
    by_level = one.predict(images, decode="heads", confidence=0.9)
    heads = one.predict(images)
    for h in (1, 2):
        told = zip(heads.labels[h], heads.confidences[h], strict=True)
        assert by_level.labels[h] == [label if sure >= 0.9 else None for label, sure in told]


def test_what_is_said_with_confidence_is_right_as_often():
    """Half of the labels at level 2 are drawn at random, so that no one can be sure of them."""
    rng = np.random.default_rng(0)
    n = 900
    toy = Toy.stream(n, levels=(1,), seed=5)
    leaf = [p[1] if rng.random() < 0.5 else f"colour {rng.integers(4)}" for p in toy.paths]
    one = learner("er", memory_size=200, ask=1.0, log_size=400, updates_per_sample=0.5)
    one.partial_fit(toy.images, [{1: p[0], 2: c} for p, c in zip(toy.paths, leaf, strict=True)])
    test = Toy.stream(300, levels=(1,), seed=6)
    truth = [p[1] if rng.random() < 0.5 else f"colour {rng.integers(4)}" for p in test.paths]
    sure = one.predict(test.images, confidence=0.9)
    assert all(label is None for label in sure.labels[2])
    assert np.mean([a == p[0] for a, p in zip(sure.labels[1], test.paths, strict=True)]) > 0.9
    half = one.predict(test.images, confidence=0.4)
    told = [(a, t) for a, t in zip(half.labels[2], truth, strict=True) if a is not None]
    assert len(told) > 200
    assert np.mean([a == t for a, t in told]) == pytest.approx(
        np.nanmean(half.confidences[2]), abs=0.1
    )  # 0.625: the half that is told and a quarter of the other


def test_no_label_of_a_path_is_surer_than_the_one_above_it():
    """Level 1 is drawn at random, level 2 is not: its head is sure of labels whose parents nobody knows."""
    rng = np.random.default_rng(0)
    toy = Toy.stream(300, levels=(1,), seed=5)
    told = [{1: f"side {rng.integers(2)}", 2: path[0]} for path in toy.paths]
    one = learner("er", memory_size=100, ask=1.0, log_size=150)
    one.partial_fit(toy.images, told)
    images = Toy.stream(40, levels=(1,), seed=6).images
    heads, path = one.predict(images, decode="heads"), one.predict(images, decode="path")
    assert np.mean(heads.confidences[2] > heads.confidences[1]) > 0.9
    assert (path.confidences[2] <= path.confidences[1]).all()
    assert not any(one.predict(images, confidence=0.9).labels[2])


def test_confidence_needs_a_log():
    images = LONG.images[:2]
    with pytest.raises(RamifyError, match=f"no level has {LEAST} answers in the log yet"):
        taught("er", ask=0.0).predict(images, confidence=0.9)
    with pytest.raises(RamifyError, match="gdumb trains when it is asked"):
        taught("gdumb", epochs={"count": 1}).predict(images, confidence=0.9)
    one = long_taught()
    for wrong in (0, 1.5, True, "0.9", float("nan")):
        with pytest.raises(RamifyError, match="confidence is"):
            one.predict(images, confidence=wrong)
    for wrong in (-0.1, 2, True, None):
        with pytest.raises(RamifyError, match="ask is"):
            learner(ask=wrong)


def test_levels_without_enough_answers_are_not_sure():
    toy = Toy.stream(200)
    one = learner("er").partial_fit(toy.images[:120], toy.labels[:120], toy.levels[:120])
    assert one.levels == (1, 2)
    answer = one.predict(toy.images[:5], confidence=0.5)
    assert list(answer.confidences) == [1]
    assert answer.labels[2] == [None] * 5
    assert list(answer.new) == [1]


def test_few_known_samples_look_new_and_foreign_ones_do():
    long = Toy.stream(1200, levels=(1,))
    one = learner("er", memory_size=200, lr=1e-3).partial_fit(long.images, long.labels, long.levels)
    log, classes = one._trainer.log, one._trainer.classes
    score, least = log.entries(classes, 1).score[-RECENT:], log.fitted(classes)[1][1]
    assert (score > least).mean() == pytest.approx(ALARMS, abs=0.01)
    assert one.predict(Toy.stream(400, seed=9).images).new[1].mean() < 4 * ALARMS
    grey = np.full((20, 3, SIZE, SIZE), 60, np.uint8)  # neither red nor blue
    assert one.predict(grey).new[1].mean() > 0.8


def test_explain_finds_the_nearest_stored_images_of_the_answer():
    one = long_taught(memory_size=60)
    image = LONG.images[7]
    found = one.explain(image, k=6)
    trainer = one._trainer
    stored = trainer.memory.batch(np.arange(trainer.memory.size))
    a = torch.nn.functional.normalize(trainer.embed(image[None])[0])
    b = torch.nn.functional.normalize(trainer.embed(stored.inputs)[0])
    similar = (b @ a[0]).sort(descending=True)
    assert [r.similarity for r in found] == pytest.approx(similar.values[:6].tolist(), abs=1e-5)
    answer = one.predict(image[None])[0]
    for reason in found:
        assert reason.image.shape == (SIZE, SIZE, 3)
        assert reason.agrees == any(answer[h] == label for h, label in reason.labels.items())
    assert found[0].agrees
    same_image = one.explain(found[0].image, k=1)[0]
    assert same_image.similarity == pytest.approx(1, abs=1e-5)
    np.testing.assert_array_equal(same_image.image, found[0].image)


def test_what_is_in_the_window_counts_as_stored():
    """Canopy's latest 64 samples are not in memory yet; of a small model these are all that there is."""
    toy, names = Toy.stream(40, levels=(1, 2)), [f"photo {n}" for n in range(40)]
    one = learner("canopy", memory_size=2000).partial_fit(toy.images, toy.labels, toy.levels, ids=names)
    assert one._trainer.memory.size == 0
    stored = one.stored()
    assert [sample.id for sample in stored] == names
    for level, counts in one.memory_counts(every=True).items():
        assert counts == {label: len(one.stored(level, label)) for label in one.labels(level)}
    assert sum(sum(counts.values()) for counts in one.memory_counts().values()) == 40
    nearest = one.explain(toy.images[17], k=3)
    assert (nearest[0].id, nearest[0].number) == ("photo 17", 17)
    assert nearest[0].similarity == pytest.approx(1, abs=1e-5)
    np.testing.assert_array_equal(nearest[0].image.transpose(2, 0, 1), toy.images[17])


def test_explain_looks_at_memory_and_window_alike():
    one = learner("canopy", memory_size=1024).partial_fit(LONG.images, LONG.labels, LONG.levels)
    trainer = one._trainer
    assert trainer.memory.size
    assert len(trainer.waiting) == 64
    taken = np.array([sample.number for sample in one.stored()])
    weights = trainer.answering
    a = torch.nn.functional.normalize(trainer.embed(torch.as_tensor(LONG.images[taken]), weights)[0])
    b = torch.nn.functional.normalize(trainer.embed(torch.as_tensor(LONG.images[399:]), weights)[0])
    expected = (a @ b[0]).sort(descending=True)
    found = one.explain(LONG.images[399], k=20)
    assert [r.similarity for r in found] == pytest.approx(expected.values[:20].tolist(), abs=1e-5)
    assert {r.number >= 336 for r in found} == {True, False}


def test_explain_takes_one_image():
    one = learner()
    with pytest.raises(RamifyError, match="one image is asked for, and a list of 1 was given"):
        one.explain([LONG.images[0]])
    by_features = Learner("er", features=3).partial_fit(features=np.eye(3), labels=["a", "b", "a"], level=1)
    for count in (0, 2):
        with pytest.raises(RamifyError, match=f"{count} samples were given; explain takes one"):
            by_features.explain(features=np.ones((count, 3)))


def test_explain_looks_at_the_likely_classes_only(monkeypatch):
    one = long_taught(memory_size=60)
    monkeypatch.setattr("ramify.evaluation.nearest.AT_MOST", 10)
    before = one._trainer.cost.images_memory
    assert all(reason.agrees for reason in one.explain(LONG.images[7], k=10))
    assert one._trainer.cost.images_memory == before + 10
    with pytest.raises(RamifyError, match="k is 0"):
        one.explain(LONG.images[7], k=0)


def test_the_log_follows_labels_that_change():
    one = long_taught()
    before = one.calibration()[2]
    names = {"colour 0", "colour 1"}
    labels, log = [*one._trainer.classes.labels, None], one._trainer.log
    told = [(labels[t], labels[s], n) for t, s, n in zip(log.truth, log.said, log.new, strict=True)]
    one.merge(2, ["colour 0", "colour 1"])
    right = [a == b or {a, b} <= names for a, b, new in told if a.startswith("colour") and b and not new]
    assert one.calibration()[2].answers == before.answers == len(right)
    assert one.calibration()[2].accuracy == pytest.approx(np.mean(right))
    one.undo()
    assert one.calibration()[2] == before
    one.forget(2, "colour 3")
    known = {"colour 0", "colour 1", "colour 2"}  # an answer that is forgotten counts no more
    kept = [a for a, b, new in told if {a, b} <= known and not new]
    assert one.calibration()[2].answers == len(kept)
    one.partial_fit(LONG.images[:40], LONG.labels[:40], LONG.levels[:40])
    assert (one._trainer.log.truth >= 0).all()


def test_the_figure_shows_risk_and_coverage_of_each_level_and_accuracy_by_depth(tmp_path):
    toy = Toy.stream(200, levels=(1,), seed=5)
    one = learner("er").partial_fit(toy.images, [{1: a, 2: b} for a, b in toy.paths])
    drawn = trust_drawing(one._trainer)
    assert [panel.title for panel in drawn.panels] == ["Risk against coverage", "Accuracy against depth"]
    drawn.save(tmp_path / "figure.svg")
    texts = [text.text for text in ElementTree.parse(tmp_path / "figure.svg").iter() if text.text]
    assert [text for text in texts if text.startswith("level ")] == ["level 1", "level 2"]
    assert len(trust_drawing(long_taught()._trainer).panels) == 1  # no sample has a label at both levels
    with pytest.raises(RamifyError, match="nothing to draw"):
        trust_drawing(learner("er")._trainer)
