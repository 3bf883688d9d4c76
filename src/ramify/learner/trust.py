"""What the prequential log says of a learner's answers: how often right, how well calibrated."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ramify.errors import RamifyError
from ramify.evaluation.calibration import Bin, Calibration, expected_calibration_error, reliability
from ramify.learner.prequential import LEAST

if TYPE_CHECKING:
    from ramify.learner.shared import SharedTrainer
    from ramify.reports.figures.panel import Drawing
    from ramify.reports.figures.sureness import Sure


WINDOWS, PART = 24, 8  # at most so many parts of the log, each of at least so many samples


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


def course(trainer: SharedTrainer) -> list[dict[str, Any]]:
    """How the share of right answers has moved: the share at each level in parts of the log, oldest first."""
    log, classes = trainer.log, trainer.classes
    told = (log.truth >= 0) & ~log.new & (log.said >= 0)
    samples = np.unique(log.sample[told])
    found = []
    for part in np.array_split(samples, min(WINDOWS, max(1, len(samples) // PART))):
        if not len(part):
            continue
        own = told & (log.sample >= part[0]) & (log.sample <= part[-1])
        levels, right = classes.level_of[log.truth[own]], log.said[own] == log.truth[own]
        shares = {str(h): float(right[levels == h].mean()) for h in np.unique(levels).tolist()}
        found.append({"samples": int(part[-1]) + 1, "accuracy": shares})
    return found


def trust_drawing(trainer: SharedTrainer) -> Drawing:
    """Risk and coverage of each level and, of samples with a label at every level, accuracy by depth."""
    from ramify.reports.figures.sureness import sureness  # an answer needs no figures

    classes, log = trainer.classes, trainer.log
    worth, _ = log.fitted(classes)
    if not worth:
        raise RamifyError(f"no level has {LEAST} answers in the log yet; there is nothing to draw")
    levels = {}
    for level, calibration in worth.items():
        entries = log.entries(classes, level)
        levels[level] = calibration(entries.probability), entries.right
    return sureness(levels, _paths(trainer, worth) if len(worth) > 1 else None)


def _paths(trainer: SharedTrainer, worth: dict[int, Calibration]) -> Sure:
    """Confidence and rightness [n, levels] of the samples that were asked at all of these levels."""
    classes, log = trainer.classes, trainer.log
    usable = (log.truth >= 0) & (log.said >= 0) & ~log.new
    column = {level: k for k, level in enumerate(worth)}
    rows: dict[int, dict[int, tuple[float, bool]]] = {}
    for i in np.flatnonzero(usable).tolist():
        level = int(classes.level_of[log.truth[i]])
        if level in column:
            sure = float(worth[level](log.probability[i]))
            rows.setdefault(int(log.sample[i]), {})[column[level]] = sure, bool(log.said[i] == log.truth[i])
    whole = [row for row in rows.values() if len(row) == len(column)]
    found = np.array([[row[k] for k in range(len(column))] for row in whole]).reshape(-1, len(column), 2)
    return found[:, :, 0], found[:, :, 1].astype(bool)
