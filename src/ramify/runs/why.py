"""Why a run is mistaken: the stored samples that are nearest to the images of its worst mistakes."""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING

import numpy as np

from ramify.arrays import Ints
from ramify.evaluation.metrics import farthest, mistake_heights
from ramify.evaluation.nearest import nearest_stored
from ramify.memory.held import Held
from ramify.networks.inputs import as_tensor

if TYPE_CHECKING:
    from ramify.runs.run import Run

MISTAKES = 24  # more than a report shows, so that it can choose those on which seeds agree
NEAREST = 3


def why(run: Run, predictions: Ints) -> tuple[Ints, Ints]:
    """Test images of the worst mistakes [m], and what is nearest to each [m, nearest, 3].

    That is the number of a training image, and the level and class it was taught as; -1 where there is none.
    It is no part of what the method costs.
    """
    trainer, truth = run.trainer, run.evaluator.truth
    images = farthest(mistake_heights(predictions, truth, run.evaluator.tree), truth, MISTAKES)
    found = np.full((len(images), NEAREST, 3), -1, np.int64)
    held = Held(trainer)
    if not len(images) or not len(held):
        return images, found
    cost = copy(trainer.cost)
    inputs = as_tensor(run.evaluator.images[images])
    nearest = nearest_stored(trainer, held, inputs, trainer.log_probabilities(inputs), NEAREST)
    trainer.cost = cost
    classes = trainer.classes
    for row, stored in enumerate(nearest):
        for place, (one, _) in enumerate(stored):
            sample, cls = int(held.numbers[one]), int(held.classes[one])
            if sample >= 0:  # stored by a run of before, its number is not known
                taught = run.stream.image[sample], classes.level_of[cls], classes.labels[cls]
                found[row, place] = taught
    return images, found
