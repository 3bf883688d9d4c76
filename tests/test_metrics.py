"""The metrics against scikit-learn and brute force."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import accuracy_score, recall_score

from ramify.errors import RamifyError
from ramify.evaluation.metrics import (
    area_under_curve,
    balanced_accuracy,
    class_accuracy,
    consistency,
    either_accuracy,
    farthest,
    forgetting,
    level_accuracy,
    mistake_severity,
    path_accuracy,
)
from ramify.taxonomy import Taxonomy
from strategies import trees

seeds = st.integers(0, 2**32)
quick = settings(max_examples=100)


@quick
@given(seeds, st.integers(1, 8), st.integers(0, 40))
def test_accuracy_is_scikit_learns_on_the_seen_classes(seed: int, classes: int, n: int) -> None:
    rng = np.random.default_rng(seed)
    predicted, truth = rng.integers(0, classes, (2, n))
    seen = rng.random(classes) < 0.7
    kept = [i for i in range(n) if seen[truth[i]]]
    accuracy = level_accuracy(predicted, truth, seen)
    assert accuracy == (pytest.approx(accuracy_score(truth[kept], predicted[kept])) if kept else None)
    by_class = class_accuracy(predicted, truth, seen)
    assert by_class.shape == (classes,)
    for c in range(classes):
        if seen[c] and c in truth:
            assert by_class[c] == pytest.approx(recall_score(truth == c, predicted == c))
        else:
            assert np.isnan(by_class[c])
    present = np.unique(truth[kept])
    recall = recall_score(truth[kept], predicted[kept], labels=present, average="macro") if kept else None
    assert balanced_accuracy(by_class) == (pytest.approx(recall) if kept else None)


@quick
@given(seeds, st.integers(1, 6), st.integers(1, 5))
def test_forgetting_is_brute_force(seed: int, classes: int, tasks: int) -> None:
    rng = np.random.default_rng(seed)
    first_seen = rng.integers(0, tasks + 1, classes)
    ends = [np.where(first_seen <= t, rng.random(classes), np.nan) for t in range(tasks)]
    lost = [
        max(ends[t][c] for t in range(first_seen[c], tasks - 1)) - ends[-1][c]
        for c in range(classes)
        if first_seen[c] < tasks - 1
    ]
    assert forgetting(ends) == (pytest.approx(sum(lost) / len(lost)) if lost else None)


def test_a_class_that_improves_has_negative_forgetting() -> None:
    ends = [np.array([0.2, np.nan]), np.array([0.6, 0.5]), np.array([0.8, 0.1])]
    assert forgetting(ends) == pytest.approx(((0.6 - 0.8) + (0.5 - 0.1)) / 2)


def test_area_under_curve() -> None:
    assert area_under_curve([0.5, 0.25, 0.75]) == 0.5
    assert area_under_curve([]) is None


def draw_answers(tree: Taxonomy, seed: int, n: int) -> tuple[np.ndarray, np.ndarray]:
    """True and predicted classes at all levels; a third of the answers lie on a path."""
    rng = np.random.default_rng(seed)
    maps = np.stack([tree.leaf_to(level) for level in range(1, tree.depth + 1)], axis=1)
    truth = maps[rng.integers(0, tree.leaves, n)]
    predictions = np.stack([rng.integers(0, size, n) for size in tree.sizes], axis=1)
    paths = rng.random(n) < 1 / 3
    predictions[paths] = maps[rng.integers(0, tree.leaves, n)][paths]
    return predictions, truth


@quick
@given(trees(), seeds, st.integers(1, 25), st.data())
def test_whole_paths_are_brute_force(tree: Taxonomy, seed: int, n: int, data: st.DataObject) -> None:
    predictions, truth = draw_answers(tree, seed, n)
    answered = sorted(data.draw(st.sets(st.integers(1, tree.depth), min_size=1)))
    for level in set(range(1, tree.depth + 1)) - set(answered):
        predictions[:, level - 1] = -1
    consistent = 0
    for row in predictions:
        at, index = answered[-1], row[answered[-1] - 1]
        path = {at: index}
        while at > 1:
            index = tree.parent(at, index)
            at -= 1
            path[at] = index
        consistent += all(path[level] == row[level - 1] for level in answered)
    assert consistency(predictions, tree) == pytest.approx(consistent / n)
    right = sum(
        all(p == t for p, t in zip(*rows, strict=True)) for rows in zip(predictions, truth, strict=True)
    )
    assert path_accuracy(predictions, truth) == pytest.approx(right / n)


@quick
@given(trees(), seeds, st.integers(1, 25))
def test_severity_is_brute_force(tree: Taxonomy, seed: int, n: int) -> None:
    predictions, truth = draw_answers(tree, seed, n)
    heights = []
    for a, b in zip(predictions[:, -1], truth[:, -1], strict=True):
        one, two = tree.path(a), tree.path(b)
        common = next((i for i in range(tree.depth) if one[i] != two[i]), tree.depth)
        heights.append(tree.depth - common)
    severity = mistake_severity(predictions, truth, tree)
    assert severity["all"] == pytest.approx(sum(heights) / n)
    wrong = [height for height in heights if height]
    assert severity["mistakes"] == (pytest.approx(sum(wrong) / len(wrong)) if wrong else None)
    predictions[:, -1] = -1
    if tree.depth > 1:
        assert mistake_severity(predictions, truth, tree) == {"mistakes": None, "all": None}


@quick
@given(trees(min_depth=2), seeds, st.integers(1, 25), st.booleans())
def test_either_accuracy_is_brute_force(tree: Taxonomy, seed: int, n: int, answered: bool) -> None:
    predictions, truth = draw_answers(tree, seed, n)
    if not answered:
        predictions[:, 1] = -1
    seen = np.random.default_rng(seed).random(tree.sizes[0]) < 0.7
    right = [
        row[0] == true[0] or (row[1] >= 0 and tree.parent(2, row[1]) == true[0])
        for row, true in zip(predictions, truth, strict=True)
        if seen[true[0]]
    ]
    value = either_accuracy(predictions[:, 0], predictions[:, 1], truth[:, 0], tree.up(2, 1), seen)
    assert value == (pytest.approx(sum(right) / len(right)) if right else None)
    honest = level_accuracy(predictions[:, 0], truth[:, 0], seen)
    assert value is None or value >= honest


def test_no_answers_at_all_is_a_clear_error() -> None:
    tree = Taxonomy.from_rows([("a", "b"), ("a", "c")])
    with pytest.raises(RamifyError, match="train the model"):
        consistency(np.full((3, 2), -1), tree)


@settings(max_examples=60)
@given(st.integers(0, 2**32), st.integers(1, 40), st.integers(1, 6))
def test_the_farthest_mistakes_are_one_of_each_path(seed: int, n: int, most: int) -> None:
    rng = np.random.default_rng(seed)
    heights, truth, then = rng.integers(-1, 4, n), rng.integers(0, 3, (n, 2)), rng.integers(0, 3, n)
    found: list[int] = []
    for i in sorted(range(n), key=lambda i: (-heights[i], then[i])):
        if heights[i] > 0 and all((truth[i] != truth[j]).any() for j in found):
            found.append(i)
    assert farthest(heights, truth, most, then).tolist() == found[:most]
