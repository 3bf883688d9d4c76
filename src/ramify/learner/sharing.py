"""A learner for others: it answers the same, and nothing in it is a sample that it was taught with."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

from ramify.arrays import Floats
from ramify.errors import RamifyError
from ramify.learner.relabel import take_all_out

if TYPE_CHECKING:
    from ramify.learner.learner import Learner
    from ramify.learner.shared import SharedTrainer

PROBES = 4  # made-up images on which both must answer the same
TOLERANCE = 1e-5  # of a probability


def without_samples(learner: Learner) -> Learner:
    """A copy without stored samples, their names, the history of edits, notes and the optimiser's moments.

    Refused where the answers depend on what is stored.
    """
    trainer = learner._trainer
    if trainer.method.trains_when_asked:
        raise _needs_them(learner)
    copy = type(learner)(**(learner.get_params() | {"precision": trainer.settings.precision}))
    copy._taxonomy, copy._draws = learner._taxonomy, learner._draws
    own = copy._trainer
    own.restore(trainer.state())
    if trainer.method.closed_form:
        own.flush()  # what waits counts in its answers
    own.optimizer = own.new_optimizer()  # its moments are of the samples' gradients
    if not len(own.classes):
        return copy
    said, ties = _answers(own), own.ties()
    take_all_out(own)
    own.know_ties(ties)
    if not np.allclose(_answers(own), said, rtol=0, atol=TOLERANCE):
        raise _needs_them(learner)
    return copy


def _answers(trainer: SharedTrainer) -> Floats:
    values = np.random.default_rng(0).integers(0, 256, (PROBES, *trainer.inputs.shape), dtype=np.uint8)
    drawn = torch.from_numpy(values)
    kind = trainer.inputs.dtype
    return np.exp(trainer.log_probabilities(drawn if kind == torch.uint8 else (drawn / 255).to(kind)))


def _needs_them(learner: Learner) -> RamifyError:
    return RamifyError(
        f"{learner._trainer.method.name} needs the stored samples to answer, so they cannot be left out; "
        "keep them (memory=True; `ramify push --with-memory`), or teach a model by another method"
    )
