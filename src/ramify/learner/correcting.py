"""A correction counts: a sample is trained on among stored ones until it is answered as it was taught."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from torch import Tensor

from ramify.classes import Pair
from ramify.memory import Batch, Sample, arrived

if TYPE_CHECKING:
    from ramify.learner.shared import SharedTrainer

PATIENCE = 6  # updates after which a sample that is still answered wrongly is twice as often in the batch


def correct(trainer: SharedTrainer, inputs: Tensor, labels: Sequence[Sequence[Pair]], most: int) -> None:
    """Learn samples as any others; then at most `most` further updates, as long as an answer is wrong.

    Each is of the corrected samples, at first once, and of others from memory that fill the batch: what is
    known holds against them. A learner in closed form counts them again in place of an update. What trains
    when it is asked is only taught. The method's own schedules do not see these updates.
    """
    size = max(1, trainer.settings.batch_size // 2)
    for start in range(0, len(labels), size):
        part = slice(start, start + size)
        trainer.observe(inputs[part], labels[part])
        trainer.flush()
        told = [row for row in range(start, min(start + size, len(labels))) if labels[row]]
        if told and not trainer.method.trains_when_asked:
            _insist(trainer, inputs[told], [labels[row] for row in told], most)


def _insist(trainer: SharedTrainer, inputs: Tensor, labels: Sequence[Sequence[Pair]], most: int) -> None:
    kept = trainer.inputs.take(inputs, trainer.rng).to(trainer.memory.home)
    level_of = trainer.classes.level_of
    classes = [sorted((trainer.meet(*pair) for pair in own), key=level_of.__getitem__) for own in labels]
    samples = [Sample(row, tuple(own), own[-1]) for row, own in zip(kept, classes, strict=True)]
    # neither new nor stored: no objective treats them as anything but samples with labels
    batch = dataclasses.replace(arrived(samples), arrivals=np.full(len(samples), -1))
    half = max(len(batch), trainer.settings.batch_size // 2)
    for done in range(most):
        if _right(trainer, batch):
            return
        if trainer.method.closed_form:
            trainer.recipe.keep.settle(trainer, samples)
            continue
        # gently at first: ever more of the batch, up to half of it
        again = np.tile(np.arange(len(batch)), 2 ** (done // PATIENCE))[:half]
        drawn = trainer.memory.sample(
            max(0, trainer.settings.batch_size - len(again)), trainer.rng["correct"]
        )
        own = batch.take(again).join(trainer.memory.batch(drawn))
        trainer.update(own, trainer.recipe.rate.value(trainer))


def _right(trainer: SharedTrainer, batch: Batch) -> bool:
    """Whether each label is the best of its level's head."""
    answers = trainer.predict(batch.inputs)
    rows, columns = np.nonzero(batch.labels >= 0)
    own = batch.labels[rows, columns]
    return bool((answers[rows, trainer.classes.level_of[own] - 1] == own).all())
