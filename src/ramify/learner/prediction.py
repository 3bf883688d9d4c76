"""A learner's answers: the label of each level, and the ways to choose it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ramify.classes import Classes
from ramify.learner.hierarchy import is_last, own_column
from ramify.learner.labels import Label

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Prediction:
    """Labels of n images at every level met so far, and the probability of each on its level's head.

    A label is None (its probability nan) where a most probable path ends above that level, or where the
    parent is not known.

        >>> answer = Prediction({1: ["animal"], 2: ["dog"]}, {1: np.array([0.9]), 2: np.array([0.6])})
        >>> answer.levels, answer.labels[2], answer[0]
        ((1, 2), ['dog'], {1: 'animal', 2: 'dog'})
    """

    labels: dict[int, list[Label | None]]
    probabilities: dict[int, Floats]

    @property
    def levels(self) -> tuple[int, ...]:
        """The levels met so far, coarsest first."""
        return tuple(self.labels)

    def __len__(self) -> int:
        return len(next(iter(self.labels.values())))

    def __getitem__(self, image: int) -> dict[int, Label | None]:
        """The label of one image at each level."""
        return {level: labels[image] for level, labels in self.labels.items()}


def prediction(classes: Classes, chosen: Ints, probabilities: Floats) -> Prediction:
    """From class numbers [n, levels met], -1 for no answer, and probabilities [n, classes] to labels."""
    names = [*classes.labels[: probabilities.shape[1]], None]
    picked = np.take_along_axis(probabilities, np.maximum(chosen, 0), 1)
    picked = np.where(chosen >= 0, picked, np.float32(np.nan))
    labels = {level: [names[c] for c in chosen[:, k]] for k, level in enumerate(classes.levels)}
    return Prediction(labels, {level: picked[:, k] for k, level in enumerate(classes.levels)})


def best(classes: Classes, probabilities: Floats) -> Ints:
    """The most probable class of each level by itself."""
    return np.stack([_within(classes, level, -probabilities) for level in classes.levels], 1)


def best_path(probabilities: Floats, ancestors: Ints) -> Ints:
    """The classes of the most probable path: that of the greatest product of its levels' probabilities.

    A path ends at a class below which none has been met; paths of unlike length are compared by the mean of
    their log-probabilities. An ancestor that is not known may be any of its level's n classes: 1/n. It is -1
    in the path, as are the levels below its end.
    """
    paths, sizes = ancestors[is_last(ancestors)], np.bincount(own_column(ancestors))
    log = np.log(np.maximum(probabilities, np.finfo(np.float32).tiny))
    log = np.concatenate([log, np.zeros_like(log[:, :1])], 1)  # column -1: a level without a class
    length = own_column(paths) + 1
    unknown = (paths < 0) & (np.arange(paths.shape[1]) < length[:, None])
    score = (sum(log[:, column] for column in paths.T) - unknown @ np.log(sizes)) / length
    found: Ints = paths[score.argmax(1)]
    return found


def least_distance(classes: Classes, probabilities: Floats, ancestors: Ints) -> Ints:
    """CRM (Karthik et al. 2021): at each level the class of least expected height of the common ancestor."""
    chosen = []
    for column, level in enumerate(classes.levels):
        rows = classes.of_level(level)
        paths = ancestors[rows, : column + 1]
        shared = (paths[:, None] == paths[None]) & (paths >= 0)[:, None]
        heights = (column + 1 - shared.sum(2)).astype(np.float32)
        np.fill_diagonal(heights, 0)
        expected = np.zeros_like(probabilities)
        expected[:, rows] = probabilities[:, rows] @ heights
        chosen.append(_within(classes, level, expected))
    return np.stack(chosen, 1)


def _within(classes: Classes, level: int, cost: Floats) -> Ints:
    rows = classes.of_level(level)
    found: Ints = rows[cost[:, rows].argmin(1)]
    return found
