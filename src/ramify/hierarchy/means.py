"""The tree in the mean answers of training passes: no sample is asked for it."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import ClassVar

import numpy as np
import torch

from ramify.arrays import Floats
from ramify.change import Follow, class_pairs, class_sums
from ramify.classes import Classes
from ramify.hierarchy.ties import Ties
from ramify.memory import Forward, Workbench
from ramify.networks.levels import like
from ramify.state import Stateful

FLOOR = 1e-4  # of a mean answer


class MeanAnswers(Stateful):
    """Running mean of what the model answers to the samples of each class, at every level: [class, class].

    Taken from the logits of training passes as they come; a sample speaks for each of its labels. A class's
    mean is over its latest samples, about 1 / (1 - `MEMORY`) of them, and more in a long stream
    (`bench.reach`).
    """

    _state: ClassVar[tuple[str, ...]] = ("sums", "weight")
    _follows: ClassVar[Mapping[str, Follow]] = {"sums": class_pairs, "weight": class_sums}

    MEMORY = 0.98

    def __init__(self) -> None:
        self.sums = torch.zeros(0, 0)
        self.weight = torch.zeros(0)

    @torch.no_grad()
    def learned(self, bench: Workbench, forward: Forward) -> None:
        """Take the answers of a training pass in."""
        classes, labels = len(bench.classes), forward.batch.labels
        if classes > len(self.weight):
            more = max(classes - len(self.weight), len(self.weight) // 2)  # not one by one: it is copied
            pad = torch.nn.functional.pad
            self.sums, self.weight = (
                pad(self.sums.to(bench.device), (0, more, 0, more)),
                pad(self.weight.to(bench.device), (0, more)),
            )
        rows, columns = np.nonzero(labels >= 0)
        told = labels[rows, columns]
        logits = forward.logits[like(forward.logits, rows)]
        answers = (logits[:, None] + bench.levels()).softmax(2).nan_to_num().sum(1)
        own = like(logits, told)
        names, counts = np.unique(told, return_counts=True)
        present = like(logits, names)
        kept = torch.pow(self.MEMORY ** (1 / bench.reach), like(logits, counts).to(answers.dtype))
        self.sums[present] *= kept[:, None]
        self.weight[present] *= kept
        self.sums[:, :classes].index_add_(0, own, answers)
        self.weight.index_add_(0, own, torch.ones_like(answers[:, 0]))

    def means(self) -> Floats:
        """[class, class], 0 for a class without a sample so far, and for classes that may come yet."""
        found: Floats = (self.sums / self.weight.clamp(min=1e-6)[:, None]).cpu().numpy().astype(np.float64)
        return found


def ties_of(classes: Classes, means: Floats) -> Ties:
    """The parent of each class, from the mean answers to its samples, as `best_paths` finds it.

    What a class's samples get as answers at a coarser level is divided by the mean over all classes of its
    own level, so that an answer given to everybody ties nobody.
    """
    means = means[: len(classes), : len(classes)]
    means = np.pad(means, [(0, len(classes) - n) for n in means.shape])
    score = np.zeros_like(means)
    for level in classes.levels:
        own = classes.of_level(level)
        score[own] = np.log((means[own] + FLOOR) / (means[own].mean(0) + FLOOR))
    return best_paths(classes, score, means)


def best_paths(classes: Classes, score: Floats, answers: Floats) -> Ties:
    """The parent of each class, chosen so that its whole path upwards scores best.

    `score[c, d]` says how well d fits as an ancestor of c. Parents come coarsest level first; a candidate's
    score is the sum over its own path. A class without answers [class, class] has no parent.
    """
    parents, support = np.full(len(classes), -1, np.int64), np.zeros(len(classes))
    for above, level in pairwise(classes.levels):
        children, rivals = classes.of_level(level), classes.of_level(above)
        children = children[answers[children].any(1)]
        total, path = np.zeros((len(children), len(rivals))), rivals
        while (path >= 0).any():
            total += np.where(path >= 0, score[np.ix_(children, path)], 0.0)
            path = np.where(path >= 0, parents[path], -1)
        parents[children] = rivals[total.argmax(1)]
        support[children] = answers[children, parents[children]]
    return Ties(classes, parents, support)
