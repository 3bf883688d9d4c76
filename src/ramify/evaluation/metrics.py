"""The figures of an evaluation, as pure functions of arrays.

Predictions and truth are class indices of a level, [n], or of all levels of a tree, [n, H]; −1 stands for no
answer, as at a level of which no class has been seen, and in the truth for a leaf that ends above the level:
such an image does not count there, whatever is answered. A figure with nothing to average over is None;
figures of whole paths need at least one image.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from ramify.arrays import Floats, Ints, Mask
from ramify.errors import RamifyError
from ramify.taxonomy import Taxonomy

PATHS = ("n", "levels")


def _mean(values: npt.NDArray[np.generic]) -> float | None:
    return float(values.mean(dtype=np.float64)) if len(values) else None


def _ints(name: str, values: Ints, axes: tuple[str, ...]) -> None:
    if not isinstance(values, np.ndarray) or values.dtype.kind not in "iu" or values.ndim != len(axes):
        found = f"{values.dtype} {values.shape}" if isinstance(values, np.ndarray) else type(values).__name__
        raise RamifyError(f"{name} are {found}; they must be an integer array [{', '.join(axes)}]")


def _within(name: str, values: Ints, least: int, sizes: int | tuple[int, ...]) -> None:
    """Refuse class indices below `least` or beyond the size of their level, one or a size a column."""
    if values.shape[1:] != np.shape(sizes):
        raise RamifyError(f"{name} are of shape {values.shape}; the tree has {np.size(sizes)} levels")
    if ((values < least) | (values >= np.asarray(sizes))).any():
        raise RamifyError(
            f"{name} run from {values.min()} to {values.max()}; there are {sizes} classes, counted from 0"
        )


def _pair(predicted: Ints, truth: Ints, axes: tuple[str, ...]) -> None:
    _ints("predictions", predicted, axes)
    _ints("true classes", truth, axes)
    if predicted.shape != truth.shape:
        raise RamifyError(f"{predicted.shape} predictions for {truth.shape} truths; give one for each image")


def _level(predicted: Ints, truth: Ints, seen: Mask) -> None:
    """Refuse what is not the answers and the truth of one level, and which of its classes have been seen."""
    _pair(predicted, truth, ("n",))
    if not isinstance(seen, np.ndarray) or seen.dtype != bool or seen.ndim != 1:
        raise RamifyError("`seen` must be a boolean array that says of each class whether it was seen")
    _within("predictions", predicted, -1, len(seen))
    _within("true classes", truth, -1, len(seen))


def level_accuracy(predicted: Ints, truth: Ints, seen: Mask) -> float | None:
    """Top-1 at one level over the images whose class has been seen: mean of [ŷ = y] over n with seen[y]."""
    _level(predicted, truth, seen)
    asked = (truth >= 0) & seen[truth]
    return _mean(predicted[asked] == truth[asked])


def class_accuracy(predicted: Ints, truth: Ints, seen: Mask) -> Floats:
    """a_c = mean of [ŷ = c] over the images of class c; nan for a class not seen or without images."""
    _level(predicted, truth, seen)
    images = np.bincount(truth[truth >= 0], minlength=len(seen))
    right = np.bincount(truth[(predicted == truth) & (truth >= 0)], minlength=len(seen))
    return np.where(seen & (images > 0), right / np.maximum(images, 1), np.nan)


def balanced_accuracy(by_class: Floats) -> float | None:
    """Mean of a_c over the classes that have one: each class counts the same, however many images it has."""
    return _mean(by_class[~np.isnan(by_class)])


def either_accuracy(
    predicted: Ints, predicted_child: Ints, truth: Ints, parent: Ints, seen: Mask
) -> float | None:
    """Optimistic accuracy of some papers: right if ŷ = y OR the parent of the child prediction is y.

    It uses the tree and flatters; `level_accuracy` is the honest figure. `parent` maps a child to its parent.
    """
    _pair(predicted_child, truth, ("n",))
    _within("predicted children", predicted_child, -1, len(parent))
    answered = predicted_child >= 0
    by_child = np.where(answered, parent[predicted_child], -1)
    return level_accuracy(np.where(by_child == truth, truth, predicted), truth, seen)


def finest_accuracy(predictions: Ints, truth: Ints, seen: Sequence[Mask]) -> float | None:
    """Top-1 of each image at the level at which its leaf ends, over those whose class there has been seen.

    `seen` says of each class of each level whether it was seen. On a tree of equal depth this is the accuracy
    of the deepest level.
    """
    known = _known(predictions, truth, seen)
    ends = np.arange(len(truth)), (truth >= 0).sum(1) - 1
    return _mean((predictions == truth)[ends][known[ends]])


def precision_weighted_jaccard(predictions: Ints, truth: Ints, seen: Sequence[Mask]) -> float | None:
    """Mean of |Y∩Ŷ|/|Y∪Ŷ| · |Y∩Ŷ|/|Ŷ| (IIRC): Y the classes of an image, Ŷ those answered, of all levels.

    Of Y only classes that have been seen count, and images that have none of these are left out. An image
    without an answer counts 0.
    """
    known, answered = _known(predictions, truth, seen), predictions >= 0
    wanted, given = known.sum(1), answered.sum(1)
    shared = (known & (predictions == truth)).sum(1)
    score = shared / np.maximum(wanted + given - shared, 1) * shared / np.maximum(given, 1)
    return _mean(score[wanted > 0])


def moved_accuracy(predictions: Ints, before: Ints, after: Ints) -> dict[str, float]:
    """Of the labels that are not what they were, of all levels, the shares answered as `new` and as `old`."""
    _pair(predictions, after, PATHS)
    changed = before != after
    if not changed.any():
        return {}
    said = predictions[changed]
    return {
        "new": float((said == after[changed]).mean()),
        "old": float((said == before[changed]).mean()),
    }


def _known(predictions: Ints, truth: Ints, seen: Sequence[Mask]) -> Mask:
    """[n, levels]: whether the class of each image at each level has been seen; refuse what does not fit."""
    _pair(predictions, truth, PATHS)
    if len(seen) != truth.shape[1]:
        raise RamifyError(f"`seen` is of {len(seen)} levels, the answers of {truth.shape[1]}; give one each")
    for level, mask in enumerate(seen):
        _level(predictions[:, level], truth[:, level], mask)
    known: Mask = np.stack([mask[y] & (y >= 0) for mask, y in zip(seen, truth.T, strict=True)], 1)
    return known


def area_under_curve(accuracies: Sequence[float]) -> float | None:
    """A_AUC = Σ a_i / k over the k periodic accuracies; over those at the ends of tasks it is A_avg."""
    return _mean(np.array(accuracies, np.float64))


def forgetting(task_ends: Sequence[Floats]) -> float | None:
    """F_last = mean over c of max_{t<T} a_{t,c} − a_{T,c}, from `class_accuracy` at the end of each task.

    Only classes seen at an earlier task end count, so a class of the last task does not dilute it.
    """
    if len(task_ends) < 2:
        return None
    best = np.nan_to_num(np.stack(task_ends[:-1]), nan=-np.inf).max(0)
    lost = best - task_ends[-1]
    return _mean(lost[np.isfinite(lost)])


def consistency(predictions: Ints, tree: Taxonomy) -> float:
    """Share of images with answers on one path: ŷ_h is the ancestor of ŷ_d, d the image's deepest answer.

    Levels without an answer do not count, and an answer below the end of a leaf does: no class of the tree
    lies below it.
    """
    _ints("predictions", predictions, PATHS)
    _within("predictions", predictions, -1, tree.sizes)
    _refuse_silence(predictions)
    path = deepest_answers(predictions, tree)
    return float(((predictions == path) | (predictions < 0)).all(1).mean())


def path_accuracy(predictions: Ints, truth: Ints) -> float:
    """Share of images with every level right: mean of Π_h [ŷ_h = y_h].

    No answer is not right, and neither is one below the end of a leaf: a path is right if it ends there, too.
    """
    _pair(predictions, truth, PATHS)
    if not len(predictions):
        raise RamifyError("there are no predictions; give those of at least one image")
    return float((predictions == truth).all(1).mean())


def mistake_severity(predictions: Ints, truth: Ints, tree: Taxonomy) -> dict[str, float | None]:
    """Mean height of the lowest common ancestor of answer and truth, over `mistakes` and over `all` images.

    The answer is that of the level at which the leaf ends or, where there is none, the next coarser one; what
    is answered below the end does not count. None while the deepest level has no answers; `mistakes` is None
    too if there is no mistake.
    """
    _pair(predictions, truth, PATHS)
    _within("predictions", predictions, -1, tree.sizes)
    _within("true classes", truth, -1, tree.sizes)
    _refuse_silence(predictions)
    if (predictions[:, -1] < 0).all():
        return {"mistakes": None, "all": None}
    heights = mistake_heights(predictions, truth, tree)
    return {"mistakes": _mean(heights[heights > 0]), "all": _mean(heights[heights >= 0])}


def mistake_heights(predictions: Ints, truth: Ints, tree: Taxonomy) -> Ints:
    """The height of the lowest common ancestor of each image's answer and leaf: 0 = right, H = only the root.

    -1 for an image that has a class at none of the levels.
    """
    answers = deepest_answers(np.where(truth >= 0, predictions, -1), tree)
    return np.where((truth >= 0).any(1), tree.height_between(answers, truth), -1)


def farthest(heights: Ints, truth: Ints, most: int, then: npt.NDArray[np.generic] | None = None) -> Ints:
    """The images of the highest mistakes, one of each path at most, highest first; equal ones by `then`."""
    order = np.lexsort([np.arange(len(heights)) if then is None else then, -heights])
    order = order[heights[order] > 0]
    first = np.unique(truth[order], axis=0, return_index=True)[1]
    found: Ints = order[np.sort(first)[:most]]
    return found


def deepest_answers(predictions: Ints, tree: Taxonomy) -> Ints:
    """[n, H]: the path to the deepest class that was answered of each image, -1 below it."""
    path = np.full_like(predictions, -1)
    for level in range(1, tree.depth + 1):
        answered = predictions[:, level - 1] >= 0
        path[answered] = tree.paths(level)[predictions[answered, level - 1]]
    return path


def _refuse_silence(predictions: Ints) -> None:
    if not (predictions >= 0).any():
        raise RamifyError(
            f"found predictions of shape {predictions.shape} without an answer; train the model first"
        )
