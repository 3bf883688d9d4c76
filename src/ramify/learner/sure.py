"""Answers that know when to stop: how sure a label is by the prequential log, and which images look new."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ramify.arrays import Floats, Ints
from ramify.errors import RamifyError
from ramify.evaluation.calibration import deepest
from ramify.hierarchy.decode import probability_of
from ramify.learner.prediction import Prediction, prediction
from ramify.learner.prequential import LEAST
from ramify.typed import shown

if TYPE_CHECKING:
    from ramify.learner.shared import SharedTrainer

ONE_PATH = ("path", "up")  # the ways whose labels lie on one path through the tree


def check_confidence(trainer: SharedTrainer, confidence: float) -> None:
    """Refuse what is no share, and a learner whose log is too short to say how sure it is."""
    if isinstance(confidence, bool) or not isinstance(confidence, int | float) or not 0 < confidence <= 1:
        raise RamifyError(f"confidence is {shown(confidence)}; it is a share of right answers, such as 0.9")
    if trainer.log.fitted(trainer.classes)[0]:
        return
    if trainer.method.trains_when_asked:
        why = f"{trainer.method.name} trains when it is asked, so it is not asked before it learns"
    else:
        why = f"no level has {LEAST} answers in the log yet (it has {len(trainer.log)} in all)"
    raise RamifyError(f"{why}; leave confidence out, or teach more samples (with ask above 0)")


def limits(trainer: SharedTrainer) -> str:
    """How sure each level can be, by the log: why an answer may not come at a confidence."""
    worth, classes = trainer.log.fitted(trainer.classes)[0], trainer.classes
    told = []
    for level in classes.levels:
        entries = trainer.log.entries(classes, level)
        if level in worth:
            most = np.floor(100 * worth[level](entries.probability).max()) / 100  # it promises no more
            right = f"right on {entries.right.mean():.0%} of its latest {len(entries.right)} answers"
            told.append(f"level {level} is at most {most:.2f} sure ({right})")
        else:
            told.append(
                f"level {level} has {len(entries.right)} of the {LEAST} answers in the log that it needs"
            )
    return "; ".join(told)


def answered(
    trainer: SharedTrainer, chosen: Ints, log: Floats, score: Floats, way: str, confidence: float | None
) -> Prediction:
    """The labels that were chosen, [n, levels met], with their confidence; only those that are sure enough.

    On one path the finest sure label is answered with all of its ancestors; otherwise each level by itself.
    """
    classes = trainer.classes
    worth, least = trainer.log.fitted(classes)
    picked, sure = probability_of(chosen, log), np.full(chosen.shape, np.nan)
    for column, level in enumerate(classes.levels):
        if level in worth:
            sure[:, column] = worth[level](picked[:, column])
    if way in ONE_PATH:  # a right label has right ones above it: none is surer than they are
        sure = np.where(np.isnan(sure), np.nan, np.fmin.accumulate(sure, axis=1))
    if confidence is not None:
        if way in ONE_PATH:
            kept = np.arange(chosen.shape[1]) < deepest(sure, confidence)[:, None]
        else:
            kept = np.nan_to_num(sure, nan=-1) >= confidence
        chosen, sure = np.where(kept, chosen, -1), np.where(kept, sure, np.nan)
    levels = list(enumerate(classes.levels))
    confidences = {h: sure[:, k].astype(np.float32) for k, h in levels if h in worth}
    new = {h: score[:, k] > least[h] for k, h in levels if h in least}
    return prediction(classes, chosen, log, confidences, new)
