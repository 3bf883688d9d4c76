"""Figures of whole paths, under the names that the literature gives them; pure functions of arrays.

Predictions and truth are [n, levels], class indices of each level, coarse to fine; −1 stands for no answer,
and in the truth for a path that ends above.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
import numpy.typing as npt

from ramify.errors import RamifyError
from ramify.evaluation.metrics import consistency, path_accuracy
from ramify.evaluation.own import METRICS, Metric
from ramify.taxonomy import Taxonomy

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Average = Literal["micro", "macro"]


def _shared(predictions: Ints, truth: Ints) -> tuple[Floats, Floats, Floats]:
    """|α ∩ β|, |α| and |β| of each image: α the classes answered, β those of its path."""
    if predictions.shape != truth.shape or truth.ndim != 2 or not len(truth):
        raise RamifyError(
            f"{predictions.shape} predictions for {truth.shape} truths; give [n, levels] of both"
        )
    told, true = predictions >= 0, truth >= 0
    both = told & true & (predictions == truth)
    return both.sum(1).astype(float), told.sum(1).astype(float), true.sum(1).astype(float)


def _ratio(part: Floats, whole: Floats, average: Average) -> float:
    if average == "micro":
        return float(part.sum() / whole.sum()) if whole.sum() else 0.0
    return float(np.divide(part, whole, out=np.zeros_like(part), where=whole > 0).mean())


def hierarchical_precision(predictions: Ints, truth: Ints, average: Average = "micro") -> float:
    """HP = Σ|α∩β| / Σ|α| (Kiritchenko et al. 2006), or the mean over images of |α∩β| / |α|.

    An image without an answer has 0.
    """
    both, told, _ = _shared(predictions, truth)
    return _ratio(both, told, average)


def hierarchical_recall(predictions: Ints, truth: Ints, average: Average = "micro") -> float:
    """HR = Σ|α∩β| / Σ|β|, or the mean over images of |α∩β| / |β|."""
    both, _, true = _shared(predictions, truth)
    return _ratio(both, true, average)


def hierarchical_f1(predictions: Ints, truth: Ints, average: Average = "micro") -> float:
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


def preference_score(ranking: npt.NDArray[np.integer], truth: Ints, tree: Taxonomy) -> float | None:
    """HOPS: how far the order in which classes are preferred follows the tree, 1 the best order, 0 the worst.

    `ranking` [n, k] has classes of the deepest level from the most to the least probable, −1 at the end for
    those not known; `truth` [n] the true class there, −1 for none. In the order that the tree asks for (Sani
    and Anand 2026) no class stands before one that is nearer to the truth, by the height of the common
    ancestor. With the heights h_k at each rank and h*_k in that order, the score is 1 − Σ_k (h_k − h*_k) / k,
    the sum as a share of that of the reversed order; the weights 1 / k are ours. None without an image.
    """
    if ranking.ndim != 2 or ranking.shape[:1] != truth.shape:
        raise RamifyError(f"{ranking.shape} rankings for {truth.shape} truths; give [n, classes] and [n]")
    paths, scores = tree.paths(tree.depth), [np.empty(0)]
    weights = 1 / np.arange(1, ranking.shape[1] + 1)
    ranking, truth = ranking[truth >= 0], truth[truth >= 0]
    for start in range(0, len(truth), 256):
        rows, own = ranking[start : start + 256], truth[start : start + 256]
        known = rows >= 0
        heights = (paths[np.maximum(rows, 0)] != paths[own][:, None]).sum(2)
        best = np.sort(np.where(known, heights, tree.depth + 1), 1)
        worst = -np.sort(-np.where(known, heights, -1), 1)
        off = (weights * (heights - best) * known).sum(1)
        most = (weights * (worst - best) * known).sum(1)
        scores.append(1 - np.divide(off, most, out=np.zeros(len(off)), where=most > 0))
    found = np.concatenate(scores)
    return float(found.mean()) if len(found) else None


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
