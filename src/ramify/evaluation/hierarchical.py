"""Figures of whole paths, under the names that the literature gives them; pure functions of arrays.

Predictions and truth are [n, levels], class indices of each level, coarse to fine; −1 stands for no answer,
and in the truth for a path that ends above.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from ramify.arrays import AnyInts, Floats, Ints
from ramify.errors import RamifyError
from ramify.evaluation.metrics import consistency, path_accuracy
from ramify.evaluation.own import METRICS, Metric
from ramify.taxonomy import Taxonomy

Averaging = Literal["micro", "macro"]


def _shared(predictions: Ints, truth: Ints) -> tuple[Floats, Floats, Floats]:
    """|α ∩ β|, |α| and |β| of each image: α the classes answered, β those of its path."""
    if predictions.shape != truth.shape or truth.ndim != 2 or not len(truth):
        raise RamifyError(
            f"{predictions.shape} predictions for {truth.shape} truths; give [n, levels] of both"
        )
    told, true = predictions >= 0, truth >= 0
    both = told & true & (predictions == truth)
    return both.sum(1).astype(float), told.sum(1).astype(float), true.sum(1).astype(float)


def _ratio(part: Floats, whole: Floats, average: Averaging) -> float:
    if average == "micro":
        return float(part.sum() / whole.sum()) if whole.sum() else 0.0
    return float(np.divide(part, whole, out=np.zeros_like(part), where=whole > 0).mean())


def hierarchical_precision(predictions: Ints, truth: Ints, average: Averaging = "micro") -> float:
    """HP = Σ|α∩β| / Σ|α| (Kiritchenko et al. 2006), or the mean over images of |α∩β| / |α|.

    An image without an answer has 0.
    """
    both, told, _ = _shared(predictions, truth)
    return _ratio(both, told, average)


def hierarchical_recall(predictions: Ints, truth: Ints, average: Averaging = "micro") -> float:
    """HR = Σ|α∩β| / Σ|β|, or the mean over images of |α∩β| / |β|."""
    both, _, true = _shared(predictions, truth)
    return _ratio(both, true, average)


def hierarchical_f1(predictions: Ints, truth: Ints, average: Averaging = "micro") -> float:
    """HF = 2 hP hR / (hP + hR), of all images together or the mean over images; 0 where both are 0."""
    both, told, true = _shared(predictions, truth)
    if average == "micro":
        both, told, true = both.sum(keepdims=True), told.sum(keepdims=True), true.sum(keepdims=True)
    return _ratio(2 * both, told + true, "macro")


def weighted_average_precision(predictions: Ints, truth: Ints, tree: Taxonomy) -> float:
    """Σ_h n_h / Σ n · P_h (wAP): top-1 of each level, weighted by its classes (Park et al. 2025)."""
    _shared(predictions, truth)
    asked = (truth >= 0).sum(0)
    right = ((predictions == truth) & (truth >= 0)).sum(0) / np.maximum(asked, 1)
    return float(np.average(right, weights=np.array(tree.sizes) * (asked > 0)))


def inconsistency(predictions: Ints, tree: Taxonomy) -> float:
    """TICE (Wang et al. 2023): the share of images whose answers do not lie on one path of the tree."""
    return 1.0 - consistency(predictions, tree)


def preference_score(
    ranking: AnyInts, truth: Ints, tree: Taxonomy, level: int | None = None, first: int | None = None
) -> float | None:
    """HOPS (Sani and Anand 2026): how far the order of preference follows the tree, 1 the best, 0 the worst.

    `ranking` [n, k] has classes of a level (the deepest) from the most to the least probable, `truth` [n] the
    true class there, −1 for none; images whose class is not ranked are left out. A class has the rank of its
    distance from the truth, by the height of the common ancestor: 0 for the truth, 1 for the nearest there
    are, and so on. With the ranks o_j found and e_j asked for, which rise, the score is
    1 − Σ w_j |o_j − e_j| / Σ w_j |e_{k+1−j} − e_j|, or 0 where that is less: the weights fall by a half from
    rank to rank, and evenly within one. With `first` (HOPS@k) only so many places count, of both sums. None
    without an image.
    """
    if ranking.ndim != 2 or ranking.shape[:1] != truth.shape:
        raise RamifyError(f"{ranking.shape} rankings for {truth.shape} truths; give [n, classes] and [n]")
    paths, scores = tree.paths(level or tree.depth), [np.empty(0)]
    ranked = np.isin(truth, ranking[:1])
    ranking, truth = ranking[ranked], truth[ranked]
    for start in range(0, len(truth), 256):
        rows, own = ranking[start : start + 256], truth[start : start + 256]
        found = _dense((paths[rows] != paths[own][:, None]).sum(2))
        asked = np.sort(found, 1)
        weights = _rank_weights(asked)[:, :first]
        found, asked = found[:, :first], asked[:, :first]
        off = (weights * abs(found - asked)).sum(1)
        most = (weights * abs(asked[:, ::-1] - asked)).sum(1)
        scores.append(1 - np.divide(off, most, out=np.minimum(off, 1), where=most > 0))
    every = np.concatenate(scores).clip(0, 1)
    return float(every.mean()) if len(every) else None


def _dense(heights: Ints) -> Ints:
    """Each row's values as numbers without gaps, from 0."""
    there = (heights[:, :, None] == np.arange(heights.max() + 1)).any(1)
    return np.take_along_axis(there.cumsum(1) - 1, heights, 1)


def _rank_weights(ranks: Ints) -> Floats:
    """2^−r at the first place of rank r, falling evenly to that of the next; to 0 at the last rank."""
    weights = np.empty(ranks.shape)
    for rank in range(int(ranks.max()) + 1):
        here = ranks == rank
        before = (here.cumsum(1) - 1) / np.maximum(
            here.sum(1, keepdims=True), 1
        )  # share of the rank's places
        fall = np.where(ranks[:, -1:] == rank, 1.0, 0.5)
        weights[here] = ((1 - before * fall) / 2.0**rank)[here]
    return weights


BUILT_IN = {
    metric.name: metric
    for metric in (
        Metric("fpa", lambda p, t, tree: path_accuracy(p, t)),
        Metric(
            "tice", lambda predictions, truth, tree: inconsistency(predictions, tree), lower_is_better=True
        ),
        Metric("wap", weighted_average_precision),
        Metric("hp_micro", lambda p, t, tree: hierarchical_precision(p, t)),
        Metric("hr_micro", lambda p, t, tree: hierarchical_recall(p, t)),
        Metric("hf1_micro", lambda p, t, tree: hierarchical_f1(p, t)),
        Metric("hp_macro", lambda p, t, tree: hierarchical_precision(p, t, "macro")),
        Metric("hr_macro", lambda p, t, tree: hierarchical_recall(p, t, "macro")),
        Metric("hf1_macro", lambda p, t, tree: hierarchical_f1(p, t, "macro")),
    )
}
METRICS.update(BUILT_IN)
