"""Answers by averaged weights."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from ramify.methods import METHODS
from ramify.methods.checks import Toy, learner, same, taught, through_a_file, weights
from ramify.training.averaging import Average


def test_the_average_is_that_of_the_weights_after_each_fourth_update():
    toy, decay, found = Toy.stream(48), 0.9, []
    trainer = learner(METHODS["er"], toy, average=decay)
    slow: dict[str, torch.Tensor] = {}
    update = trainer.update

    def watched(batch, rate=None):
        update(batch, rate)
        now, count = weights(trainer), trainer.updates
        if count % Average.EVERY:
            return
        keep = min(decay, count / (count + 10)) ** Average.EVERY
        for name, value in now.items():
            if not value.is_floating_point():
                continue
            before = slow.get(name, value)
            slow[name] = keep * before + (1 - keep) * value
        classes = len(trainer.classes)
        for name in ("heads.weights.0", "heads.biases.0"):  # rows of classes that have come are as they are
            for row in range(found[-1] if found else classes, classes):
                slow[name][row] = now[name][row]
        found.append(classes)

    trainer.update = watched
    toy.teach(trainer, 0, 48)
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
