"""A correction counts: a sample is trained on among stored ones until it is answered as it was taught."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from torch import Tensor

from ramify.classes import Pair
from ramify.hierarchy import decode
from ramify.memory import Batch, Sample, arrived
from ramify.plural import counted
from ramify.taxonomy import Taxonomy

if TYPE_CHECKING:
    from ramify.learner.shared import SharedTrainer

log = logging.getLogger("ramify")

PATIENCE = 6  # updates after which a sample that is still answered wrongly is twice as often in the batch


def correct(
    trainer: SharedTrainer,
    inputs: Tensor,
    labels: Sequence[Sequence[Pair]],
    most: int,
    tree: Taxonomy | None = None,
) -> None:
    """Learn samples as any others; then at most `most` further updates, as long as an answer is wrong.

    Each is of the corrected samples, at first once, and of others from memory that fill the batch: what is
    known holds against them. Averaged weights follow at once. A learner in closed form counts the samples
    again in place of an update. What trains when it is asked is only taught. The method's rate, memory and
    found tree do not see these updates. Answers are read as the method reads them, through `tree` if given.
    """
    size = max(1, trainer.settings.batch_size // 2)
    for start in range(0, len(labels), size):
        part = slice(start, start + size)
        trainer.observe(inputs[part], labels[part])
        trainer.flush()
        told = [row for row in range(start, min(start + size, len(labels))) if labels[row]]
        if told and not trainer.method.trains_when_asked:
            _insist(trainer, inputs[told], [labels[row] for row in told], most, tree)


def _insist(
    trainer: SharedTrainer,
    inputs: Tensor,
    labels: Sequence[Sequence[Pair]],
    most: int,
    tree: Taxonomy | None,
) -> None:
    kept = trainer.inputs.take(inputs, trainer.rng).to(trainer.memory.home)
    level_of = trainer.classes.level_of
    classes = [sorted((trainer.meet(*pair) for pair in own), key=level_of.__getitem__) for own in labels]
    samples = [Sample(row, tuple(own), own[-1]) for row, own in zip(kept, classes, strict=True)]
    # neither new nor stored: no objective treats them as anything but samples with labels
    batch = dataclasses.replace(arrived(samples), arrivals=np.full(len(samples), -1))
    half = max(len(batch), trainer.settings.batch_size // 2)
    for done in range(most):
        if _right(trainer, batch, tree):
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
        with trainer.average.beside(trainer):
            trainer.update(own, trainer.recipe.rate.value(trainer))
    if most and not _right(trainer, batch, tree):
        log.warning(
            "a corrected sample is not answered as taught after %s; correct it again, or allow more by "
            "correction=…",
            counted(most, "update"),
        )


def _right(trainer: SharedTrainer, batch: Batch, tree: Taxonomy | None) -> bool:
    """Whether each label is what is answered at its level."""
    known, way = trainer.classes, trainer.method.decode
    answers = decode(way, known, trainer.log_probabilities(batch.inputs), trainer.ancestors(way, tree))
    rows, columns = np.nonzero(batch.labels >= 0)
    own = batch.labels[rows, columns]
    return bool((answers[rows, np.searchsorted(known.levels, known.level_of[own])] == own).all())
