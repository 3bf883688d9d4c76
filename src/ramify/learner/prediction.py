"""A learner's answers: the label of each level."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ramify.arrays import Floats, Ints, Mask, Singles
from ramify.classes import Classes
from ramify.hierarchy.decode import probability_of
from ramify.learner.labels import Label


@dataclass(frozen=True, eq=False)
class Prediction:
    """Labels of n images at every level met so far, and the probability of each on its level's head.

    A label is None (its probability nan) where a most probable path ends above that level, where the parent
    is not known, or where the answer is not as sure as was asked.

        >>> answer = Prediction({1: ["animal"], 2: ["dog"]}, {1: np.array([0.9]), 2: np.array([0.6])})
        >>> answer.levels, answer.labels[2], answer[0]
        ((1, 2), ['dog'], {1: 'animal', 2: 'dog'})
    """

    labels: dict[int, list[Label | None]]
    probabilities: dict[int, Singles]
    confidences: dict[int, Singles] = field(default_factory=dict)
    """The share of such answers that has been right, by the prequential log; only levels that have one."""
    new: dict[int, Mask] = field(default_factory=dict)
    """Whether an image looks like none of the level's labels, by the same log."""

    @property
    def levels(self) -> tuple[int, ...]:
        """The levels met so far, coarsest first."""
        return tuple(self.labels)

    def __len__(self) -> int:
        return len(next(iter(self.labels.values())))

    def __getitem__(self, image: int) -> dict[int, Label | None]:
        """The label of one image at each level."""
        return {level: labels[image] for level, labels in self.labels.items()}


def prediction(
    classes: Classes, chosen: Ints, log: Floats, confidences: dict[int, Singles], new: dict[int, Mask]
) -> Prediction:
    """From class numbers [n, levels met], -1 for no answer, and log-probabilities [n, classes] to labels."""
    names = [*classes.labels[: log.shape[1]], None]
    picked = probability_of(chosen, log).astype(np.float32)
    labels = {level: [names[c] for c in chosen[:, k]] for k, level in enumerate(classes.levels)}
    probabilities = {level: picked[:, k] for k, level in enumerate(classes.levels)}
    return Prediction(labels, probabilities, confidences, new)
