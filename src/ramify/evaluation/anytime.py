"""Any-time evaluation: what the learner answers at every level on the test images, from one pass."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from ramify.arrays import Array, Floats, Ints
from ramify.classes import Classes
from ramify.datasets import Split
from ramify.evaluation.hierarchical import preference_score
from ramify.evaluation.metrics import (
    class_accuracy,
    finest_accuracy,
    level_accuracy,
    precision_weighted_jaccard,
)
from ramify.evaluation.own import Metric, MetricValues
from ramify.hierarchy import DECODINGS
from ramify.hierarchy.decode import Said
from ramify.streams.moves import Eras, Move
from ramify.taxonomy import Taxonomy
from ramify.typed import NotNegative, Share, Whole, from_dict

SUBSET_SEED = 0  # the periodic evaluations of all runs use the same images
HEADS = "heads"
TRUE = ", true tree"  # behind the name of a decoding that reads through the dataset's tree
Way = tuple[str, Taxonomy | None]
"""A decoding, and the tree that it reads through; None: the one that the learner has found."""


class Respondent(Protocol):
    """What is asked of a learner to evaluate it. Its labels are class indices of the stream's tree."""

    classes: Classes

    def answer(self, inputs: Array, ways: Mapping[str, Way]) -> dict[str, Said]:
        """For each way the class of each level met, [n, levels met], and its probability."""
        ...


@dataclass(frozen=True)
class Evaluation:
    """One look at the test images. Levels count from 1; a level that was not seen yet is left out."""

    images: Ints  # which test images were asked
    predictions: Ints  # [n, levels] predicted class index in the tree's level, -1 for no answer
    accuracy: dict[int, float]  # top-1 among the images whose class has been seen, among the classes seen
    classes_seen: dict[int, int]
    class_accuracy: dict[int, Floats]  # nan for a class that was not seen
    decoded: dict[str, dict[int, float]]  # accuracy of each way to read the same answers
    metrics: dict[str, MetricValues] = field(default_factory=dict)  # of one's own, by level or as `all`
    finest: float | None = None  # accuracy at the end of each image's path
    jaccard: float | None = None  # of all levels' answers as one set of labels, precision-weighted
    hops: float | None = None  # of the order in which the finest level met prefers its classes
    probability: Floats | None = None  # [n, levels] of each prediction on its level's head, nan for none


class Evaluator:
    """The test images of a run, with their class at every level of the stream's tree, -1 where it has none.

    `decode` is the way to read answers that all figures but `decoded` are of. Where classes move to other
    parents on the way, `tree` and `truth` are those of the end; an evaluation has those of its task.
    """

    def __init__(
        self,
        test: Split,
        taxonomy: Taxonomy,
        levels: Sequence[int],
        subset: int | None = None,
        decode: str = HEADS,
        metrics: Sequence[Metric] = (),
        moves: Sequence[Move] = (),
    ) -> None:
        self.images = test.images
        self.eras = Eras.of(taxonomy, levels, moves)
        self.tree = self.eras.trees[-1]
        self.decode = decode
        self.metrics = tuple(metrics)
        self.truths: tuple[Ints, ...] = tuple(paths[test.leaves] for paths in self.eras.paths)
        self.truth: Ints = self.truths[-1]
        self.all: Ints = np.arange(len(self.truth))
        self.subset = self.all
        if subset is not None and subset < len(self.all):
            self.subset = np.sort(np.random.default_rng(SUBSET_SEED).permutation(len(self.all))[:subset])

    def __call__(
        self, learner: Respondent, whole: bool, every_way: bool = False, task: int | None = None
    ) -> Evaluation:
        """Ask about all test images or the periodic subset; read the answers in `every_way` there is.

        `task`, from 0, is that of the last sample; None: the last one.
        """
        era = -1 if task is None else int(self.eras.at(task))
        tree = self.eras.trees[era]
        asked = self.all if whole else self.subset
        images = self.images if len(asked) == len(self.all) else self.images[asked]
        ways: dict[str, Way] = {self.decode: (self.decode, None)}
        if every_way:
            ways = {way: (way, None) for way in DECODINGS}
            ways |= {f"{way}{TRUE}": (way, tree) for way in DECODINGS if way != HEADS}
        answers = learner.answer(images, ways)
        classes = learner.classes
        predictions = np.full((len(asked), self.tree.depth), -1, np.int64)
        probability = np.full(predictions.shape, np.nan)
        labels = np.array([*classes.labels, -1], np.int64)
        truth = self.truths[era][asked]
        accuracy, seen_count, by_class = {}, {}, {}
        all_seen = [np.zeros(size, bool) for size in self.tree.sizes]
        decoded: dict[str, dict[int, float]] = {way: {} for way in answers}
        for column, level in enumerate(classes.levels):
            seen = all_seen[level - 1]
            seen[labels[classes.of_level(level)]] = True
            for way, said in answers.items():
                value = level_accuracy(labels[said.classes[:, column]], truth[:, level - 1], seen)
                if value is not None:
                    decoded[way][level] = value
            predictions[:, level - 1] = labels[answers[self.decode].classes[:, column]]
            probability[:, level - 1] = answers[self.decode].probability[:, column]
            if level in decoded[self.decode]:
                accuracy[level] = decoded[self.decode][level]
            seen_count[level] = int(seen.sum())
            by_class[level] = class_accuracy(predictions[:, level - 1], truth[:, level - 1], seen)
        own = {metric.name: metric(predictions, truth, tree) for metric in self.metrics}
        finest = finest_accuracy(predictions, truth, all_seen)
        jaccard = precision_weighted_jaccard(predictions, truth, all_seen)
        finest_level, ranking = classes.levels[-1], answers[self.decode].ranking
        hops = preference_score(labels[ranking], truth[:, finest_level - 1], tree, finest_level)
        figures = (accuracy, seen_count, by_class, decoded, own, finest, jaccard, hops)
        return Evaluation(asked, predictions, *figures, probability)


@dataclass(frozen=True)
class Record:
    """One line of records.jsonl."""

    samples: Whole  # of the stream, so far
    updates: Whole
    task: Whole  # from 1
    periodic: bool  # counts towards A_AUC
    task_end: bool  # counts towards A_avg and F_last
    accuracy: dict[str, Share]
    classes_seen: dict[str, Whole]
    memory: dict[str, Whole]  # stored images by the level of their label
    memory_classes: dict[str, list[int]]  # and by class, in the order of the tree's level
    train_seconds: NotNegative
    eval_seconds: NotNegative
    lr: NotNegative | None = None  # the learning rate that has been reached; not in the records of older runs
    metrics: dict[str, MetricValues] = field(default_factory=dict)  # of one's own, where there are any
    finest: Share | None = None  # accuracy at the end of each image's path; not in the records of older runs
    jaccard: Share | None = None  # of all levels' answers as one set of labels; likewise
    hops: Share | None = None  # of the order in which the finest level met prefers its classes; likewise
    tree_levels: dict[str, int] = field(default_factory=dict)  # number in the dataset's tree, if another

    @classmethod
    def from_dict(cls, values: dict[str, Any], where: str = "a record is damaged") -> Record:
        """The record of a line; `where` names it in errors."""
        return from_dict(cls, values, where)

    def to_dict(self) -> dict[str, Any]:
        """What a line holds."""
        return {
            name: value
            for name, value in vars(self).items()
            if name not in ("metrics", "tree_levels") or value
        }
