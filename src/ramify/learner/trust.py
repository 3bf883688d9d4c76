"""What the prequential log says of a learner's answers: how often right, how well calibrated."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ramify.evaluation.calibration import Bin, Calibration, expected_calibration_error, reliability

if TYPE_CHECKING:
    from ramify.learner.shared import SharedTrainer


@dataclass(frozen=True)
class Trust:
    """How far the answers of one level can be trusted, by the latest that were given before learning."""

    answers: int
    """How many, about samples of classes that were known."""
    accuracy: float | None
    ece: float | None
    """Expected calibration error of the head's probabilities, as they are."""
    reliability: list[Bin]
    """Its probabilities in ten ranges, and how often the answers were right."""
    calibration: Calibration | None
    """What leads from them to the confidences of `predict`; None while there are too few answers."""
    new: int
    """How many samples were of a class that had not been met."""
    noticed: float | None
    """The share of these that looked new."""


def trust(trainer: SharedTrainer) -> dict[int, Trust]:
    """By level."""
    classes, log = trainer.classes, trainer.log
    worth, least = log.fitted(classes)
    found = {}
    for level in classes.levels:
        entries = log.entries(classes, level)
        new = entries.new
        found[level] = Trust(
            len(entries.right),
            float(entries.right.mean()) if len(entries.right) else None,
            expected_calibration_error(entries.probability, entries.right),
            reliability(entries.probability, entries.right),
            worth.get(level),
            len(new),
            float(np.mean(new > least[level])) if len(new) and level in least else None,
        )
    return found
