"""Answers by averaged weights."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from ramify.hierarchy.means import MeanAnswers
from ramify.methods import METHODS, Trainer
from ramify.methods.checks import Toy, learner, same, taught, through_a_file, weights
from ramify.training.averaging import Average


def further(updates):
    """How many times as far means reach back: once up to 10,000 updates, five times from 50,000 on."""
    return 1 if updates < 10_000 else 5 if updates > 50_000 else updates / 10_000


@pytest.mark.parametrize(("before", "reach"), [(0, 1.0), (30_000, 3.0), (900_000, 5.0)])
def test_the_average_is_that_of_the_weights_after_each_fourth_update(before, reach):
    toy, decay, found = Toy.stream(48), 0.3, []
    trainer = learner(METHODS["er"], toy, average=decay)
    trainer.updates = before  # as in a long stream
    slow: dict[str, torch.Tensor] = {}
    update = trainer.update

    def watched(batch, rate=None):
        update(batch, rate)
        now, count = weights(trainer), trainer.updates - before
        if count % Average.EVERY:
            return
        keep = min(decay ** (1 / further(trainer.updates)), count / (count + 10)) ** Average.EVERY
        for name, value in now.items():
            if not value.is_floating_point():
                continue
            slow[name] = keep * slow.get(name, value) + (1 - keep) * value
        classes = len(trainer.classes)
        for name in ("heads.weights.0", "heads.biases.0"):  # rows of classes that have come are as they are
            for row in range(found[-1] if found else classes, classes):
                slow[name][row] = now[name][row]
        found.append(classes)

    trainer.update = watched
    toy.teach(trainer, 0, 48)
    assert trainer.reach == pytest.approx(reach, rel=0.01)
    assert len(found) >= 10
    assert found[-1] > found[0]
    answering = trainer.averaged()
    assert answering.keys() == slow.keys()
    for name, value in slow.items():
        torch.testing.assert_close(answering[name], value, rtol=1e-5, atol=1e-6, msg=name)


@pytest.mark.parametrize("name", [n for n in METHODS if not METHODS[n].closed_form])
def test_every_method_can_answer_by_averaged_weights_and_trains_the_same(name):
    method, toy = METHODS[name], Toy.stream(36)
    plain, averaged = (taught(method, toy, average=average) for average in (0.0, 0.9))
    assert same(weights(plain), weights(averaged))
    assert not plain.averaged()
    answering = averaged.averaged()
    assert any(not torch.equal(answering[n], v) for n, v in weights(averaged).items() if n in answering)
    again = learner(method, toy, seed=5, average=0.9)
    again.restore(through_a_file(averaged))
    averaged.prepare()
    again.prepare()
    images = toy.images
    np.testing.assert_array_equal(averaged.logits(images).numpy(), again.logits(images).numpy())
    assert not torch.equal(averaged.logits(images), plain.logits(images))


def test_asking_leaves_nothing_behind_in_the_average():
    """Also where classes have come since its latest update: their rows are as they are, for this answer."""
    toy = Toy.stream(40)
    silent, asked = (learner(METHODS["canopy"], toy) for _ in range(2))
    came_between = 0
    for start in range(40):
        toy.teach(silent, start, start + 1)
        toy.teach(asked, start, start + 1)
        asked.predict(toy.images[:4])
        came_between += asked.average.met < len(asked.classes)
        answering = asked.averaged()
        for name in ("heads.weights.0", "heads.biases.0"):
            new = slice(asked.average.met, len(asked.classes))
            assert torch.equal(answering[name][new], weights(asked)[name][new])
    assert came_between
    assert same(silent.average.values, asked.average.values)
    assert same(weights(silent), weights(asked))


def test_beside_a_training_step_the_average_moves_as_far_as_the_network():
    """All but running statistics: the difference of two may be more than a variance is."""
    toy = Toy.stream(48)
    trainer = taught(METHODS["canopy"], toy)
    averaged, raw = ({n: v.clone() for n, v in of(trainer).items()} for of in (Trainer.averaged, weights))
    with trainer.average.beside(trainer), torch.no_grad():
        for value in trainer.model.state_dict().values():
            value += 1 if value.is_floating_point() else 0
    trained = dict(trainer.model.named_parameters())
    for name, value in trainer.averaged().items():
        moved = weights(trainer)[name] - raw[name] if name in trained else torch.zeros_like(value)
        torch.testing.assert_close(value, averaged[name] + moved, msg=name)


@pytest.mark.parametrize("updates", [0, 30_000, 900_000])
@pytest.mark.parametrize("paths", [False, True])
def test_mean_answers_are_those_of_a_slow_loop(updates, paths):
    """A sample with several labels speaks for each of them."""
    toy = Toy.stream(60)
    trainer = learner(METHODS["canopy"], toy)
    trainer.updates = updates
    answers, slow = trainer.recipe.answer.answers, {}
    taken = answers.learned

    def watched(bench, forward):
        taken(bench, forward)
        own, level_of = forward.batch.labels, bench.classes.level_of
        said = np.zeros(forward.logits.shape)
        for level in bench.classes.levels:
            among = level_of == level
            odds = np.exp(forward.logits.numpy()[:, among].astype(np.float64))
            said[:, among] = odds / odds.sum(1, keepdims=True)
        for cls in set(own[own >= 0].tolist()):
            rows = np.flatnonzero((own == cls).any(1))
            kept = MeanAnswers.MEMORY ** (len(rows) / further(bench.updates))
            total, weight = slow.get(cls, (np.zeros(0), 0.0))
            total = np.pad(total, (0, len(level_of) - len(total)))
            slow[cls] = (kept * total + said[rows].sum(0), kept * weight + len(rows))

    answers.learned = watched
    if paths:
        trainer.observe(toy.images, [[(h, name) for h, name in enumerate(own, 1)] for own in toy.paths])
    else:
        toy.teach(trainer, 0, 60)
    means = answers.means()
    assert len(slow) == len(trainer.classes)
    for cls, (total, weight) in slow.items():
        np.testing.assert_allclose(means[cls, : len(total)], total / weight, rtol=1e-4, atol=1e-6)


def test_a_restored_network_that_is_asked_before_it_learns_on_is_averaged_with_its_statistics():
    toy, decay = Toy.stream(48), 1e-6  # so that the average is the network of the latest fourth update
    trained = taught(METHODS["er"], toy, average=decay)
    again = learner(METHODS["er"], toy, seed=5, average=decay)
    again.restore(through_a_file(trained))
    again.prepare()
    before, update, latest = again.updates, again.update, {}

    def watched(batch, rate=None):
        update(batch, rate)
        if again.average.updates % Average.EVERY == 0:
            latest.update({n: v.clone() for n, v in weights(again).items()})

    again.update = watched
    toy.teach(again, 0, 48)
    assert again.updates > before + Average.EVERY
    for name, value in again.averaged().items():
        torch.testing.assert_close(value, latest[name], msg=name)
