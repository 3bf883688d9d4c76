"""Figures of the neighbours' papers: answers of all levels as sets of labels, and the finest level."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import jaccard_score

from ramify.errors import RamifyError
from ramify.evaluation.metrics import finest_accuracy, level_accuracy, precision_weighted_jaccard
from ramify.taxonomy import Taxonomy
from strategies import trees


def draw(tree: Taxonomy, seed: int, n: int) -> tuple[np.ndarray, np.ndarray, list[np.ndarray]]:
    """Answers, some missing, the truth, and which classes were seen."""
    rng = np.random.default_rng(seed)
    leaves = rng.integers(0, tree.leaves, n)
    truth = np.stack([tree.leaf_to(h)[leaves] for h in range(1, tree.depth + 1)], 1)
    guesses = np.stack([rng.integers(-1, size, n) for size in tree.sizes], 1)
    predictions = np.where((rng.random(truth.shape) < 0.5) & (truth >= 0), truth, guesses)
    return predictions, truth, [rng.random(size) < 0.7 for size in tree.sizes]


@settings(max_examples=60)
@given(trees(), st.integers(0, 2**31), st.integers(1, 25))
def test_label_sets_are_brute_force(tree: Taxonomy, seed: int, n: int) -> None:
    predictions, truth, seen = draw(tree, seed, n)
    scores, finest = [], []
    for said, true in zip(predictions.tolist(), truth.tolist(), strict=True):
        wanted = {(h, c) for h, c in enumerate(true) if c >= 0 and seen[h][c]}
        given_ = {(h, c) for h, c in enumerate(said) if c >= 0}
        if wanted:
            both = len(wanted & given_)
            scores.append(both / len(wanted | given_) * (both / len(given_) if given_ else 0))
        end = max(h for h, c in enumerate(true) if c >= 0)
        if seen[end][true[end]]:
            finest.append(said[end] == true[end])
    found = precision_weighted_jaccard(predictions, truth, seen)
    assert found == (pytest.approx(np.mean(scores)) if scores else None)
    assert finest_accuracy(predictions, truth, seen) == (pytest.approx(np.mean(finest)) if finest else None)


@settings(max_examples=30)
@given(trees(min_depth=2), st.integers(0, 2**31), st.integers(1, 25))
def test_one_answer_a_level_is_scikit_learns_jaccard_squared_over(tree: Taxonomy, seed: int, n: int) -> None:
    """With all classes seen and as many answers as labels, |Y∩Ŷ|/|Ŷ| follows from the Jaccard similarity."""
    predictions, truth, _ = draw(tree, seed, n)
    predictions = np.where(predictions < 0, 0, predictions)
    everything = [np.ones(size, bool) for size in tree.sizes]
    starts = np.cumsum((0, *tree.sizes[:-1]))
    sets = [np.zeros((n, tree.nodes), int) for _ in range(2)]
    for filled, classes in zip(sets, (truth, predictions), strict=True):
        np.put_along_axis(filled, classes + starts, 1, 1)
    plain = np.array([jaccard_score(*(s[i] for s in sets), zero_division=0) for i in range(n)])
    shared = 2 * plain / (1 + plain)  # of H labels and H answers: J = s / (2H - s)
    assert precision_weighted_jaccard(predictions, truth, everything) == pytest.approx(
        (plain * shared).mean()
    )
    last = level_accuracy(predictions[:, -1], truth[:, -1], everything[-1])
    assert finest_accuracy(predictions, truth, everything) == last


def test_too_many_labels_cost_precision() -> None:
    """The bear of IIRC: known as a bear only, answered as a bear and as a polar bear."""
    truth, seen = np.array([[0, 1]]), [np.array([True]), np.array([True, False])]
    assert precision_weighted_jaccard(np.array([[0, -1]]), truth, seen) == 1
    assert precision_weighted_jaccard(np.array([[0, 0]]), truth, seen) == 0.5 * 0.5
    assert precision_weighted_jaccard(np.array([[-1, -1]]), truth, seen) == 0
    assert precision_weighted_jaccard(truth, truth, [np.array([False]), np.array([False] * 2)]) is None
    with pytest.raises(RamifyError, match="`seen` is of 1 levels, the answers of 2"):
        precision_weighted_jaccard(truth, truth, seen[:1])
