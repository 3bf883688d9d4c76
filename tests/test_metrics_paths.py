"""The metrics of whole paths against hiclass and brute force."""

from __future__ import annotations

import itertools
import re
import warnings
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ramify.cli import main
from ramify.errors import RamifyError
from ramify.evaluation.hierarchical import (
    BUILT_IN,
    hierarchical_f1,
    hierarchical_precision,
    hierarchical_recall,
    inconsistency,
    preference_score,
    weighted_average_precision,
)
from ramify.evaluation.metrics import level_accuracy
from ramify.evaluation.own import find_metric, metric
from ramify.reports.measures import METRICS, SCALARS, find_measure
from ramify.taxonomy import Taxonomy
from strategies import trees

seeds = st.integers(0, 2**32)
SCORES = {
    "precision": hierarchical_precision,
    "recall": hierarchical_recall,
    "f1": hierarchical_f1,
}


def made(tree: Taxonomy, seed: int, n: int = 12) -> tuple[np.ndarray, np.ndarray]:
    """Paths, and answers of each level by itself of which some end early."""
    rng = np.random.default_rng(seed)
    truth = tree.paths(tree.depth)[rng.integers(tree.sizes[-1], size=n)]
    guess = np.stack([rng.integers(size, size=n) for size in tree.sizes], 1)
    said = np.where(rng.random(truth.shape) < 0.6, truth, guess)
    depth = rng.integers(1, tree.depth + 1, n)  # hiclass divides by 0 where nothing is said
    return np.where(np.arange(tree.depth) < depth[:, None], said, -1), truth


def as_names(tree: Taxonomy, classes: np.ndarray) -> np.ndarray:
    """One name a node, as hiclass wants them; '' for none."""
    rows = [[f"{h}:{c}" if c >= 0 else "" for h, c in enumerate(row)] for row in classes.tolist()]
    return np.array(rows)


@settings(max_examples=60, deadline=None)
@given(trees(max_depth=4), seeds)
@pytest.mark.parametrize("average", ["micro", "macro"])
def test_precision_recall_and_f1_are_those_of_hiclass(average: str, tree: Taxonomy, seed: int) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = pytest.importorskip("hiclass.metrics")
        predicted, truth = made(tree, seed)
        for name, ours in SCORES.items():
            expected = getattr(theirs, name)(
                as_names(tree, truth), as_names(tree, predicted), average=average
            )
            assert ours(predicted, truth, average) == pytest.approx(float(expected), abs=1e-12)


@settings(max_examples=40)
@given(trees(), seeds)
def test_wap_weighs_the_accuracy_of_levels_by_their_classes(tree: Taxonomy, seed: int) -> None:
    predicted, truth = made(tree, seed)
    accuracy = [
        level_accuracy(predicted[:, h], truth[:, h], np.ones(size, bool)) for h, size in enumerate(tree.sizes)
    ]
    expected = sum(a * n for a, n in zip(accuracy, tree.sizes, strict=True)) / sum(tree.sizes)
    assert weighted_average_precision(predicted, truth, tree) == pytest.approx(expected)


@settings(max_examples=40)
@given(trees(), seeds)
def test_tice_counts_answers_off_one_path(tree: Taxonomy, seed: int) -> None:
    predicted, _ = made(tree, seed)
    wrong = 0
    for row in predicted.tolist():
        told = [(h, c) for h, c in enumerate(row, 1) if c >= 0]
        last, cls = told[-1]
        wrong += any(tree.up(last, h)[cls] != c for h, c in told)
    assert inconsistency(predicted, tree) == pytest.approx(wrong / len(predicted))


TREE = Taxonomy.from_rows([("a", "a1"), ("a", "a2"), ("b", "b1"), ("b", "b2")])


def test_hops_is_1_for_orders_that_follow_the_tree_and_0_for_their_reverse() -> None:
    def hops(*order: int) -> float:
        found = preference_score(np.array([order]), np.array([0]), TREE)
        assert found is not None
        return found

    assert hops(0, 1, 2, 3) == hops(0, 1, 3, 2) == 1
    assert hops(3, 2, 1, 0) == hops(2, 3, 1, 0) == 0
    assert hops(2, 3, 0, 1) == 0  # worse than the reverse, by these weights
    # by hand: ranks 1 0 2 2 against 0 1 2 2, weights 1, 1/2, 1/4, 1/8; the reverse is off by 2 1 1 2
    assert hops(1, 0, 2, 3) == pytest.approx(1 - 1.5 / 3)
    every = [hops(*order) for order in itertools.permutations(range(4))]
    assert min(every) == 0
    assert max(every) == 1


@given(trees(), seeds, st.integers(1, 4))
def test_hops_is_as_written_out(tree: Taxonomy, seed: int, first: int) -> None:
    rng, classes = np.random.default_rng(seed), tree.sizes[-1]
    ranking = np.stack([rng.permutation(classes) for _ in range(3)])
    truth = rng.integers(classes, size=3)
    values, values_first = [], []
    for order, own in zip(ranking.tolist(), truth.tolist(), strict=True):
        above = [tree.up(tree.depth, h) for h in range(1, tree.depth + 1)]
        distances = [sum(int(up[c] != up[own]) for up in above) for c in range(classes)]
        ranks = [sorted(set(distances)).index(d) for d in distances]
        found, asked = [ranks[c] for c in order], sorted(ranks)
        weights = []
        for rank in range(max(ranks) + 1):
            n, end = ranks.count(rank), 0 if rank == max(ranks) else 2 ** -(rank + 1)
            weights += [2**-rank + (end - 2**-rank) * t / n for t in range(n)]
        for k, into in ((classes, values), (first, values_first)):
            off = sum(w * abs(a - b) for w, a, b in zip(weights, found[:k], asked[:k], strict=False))
            most = sum(w * abs(a - b) for w, a, b in zip(weights, asked[:k][::-1], asked[:k], strict=False))
            into.append(max(0.0, 1 - off / most) if most else float(off == 0))
    assert preference_score(ranking, truth, tree) == pytest.approx(np.mean(values))
    assert preference_score(ranking, truth, tree, first=first) == pytest.approx(np.mean(values_first))


def test_hops_leaves_out_what_is_not_known() -> None:
    some = np.array([[0, 2, 3], [2, 0, 3]])
    assert preference_score(some[:1], np.array([0]), TREE) == 1
    assert preference_score(some, np.array([0, 1]), TREE) == 1  # class 1 has not been met
    assert preference_score(some, np.array([-1, -1]), TREE) is None
    with pytest.raises(RamifyError, match="rankings for"):
        preference_score(some, np.array([0]), TREE)


def test_the_names_of_the_literature_can_be_chosen_and_not_taken() -> None:
    predicted, truth = made(TREE, 0)
    for name in ("fpa", "tice", "wap", "hp_micro", "hr_macro", "hf1_micro"):
        assert find_metric(name) is BUILT_IN[name]
        assert 0 <= find_metric(name)(predicted, truth, TREE)["all"] <= 1
        with pytest.raises(RamifyError, match="cannot be called so"):
            metric(name)
    assert BUILT_IN["tice"].lower_is_better


def test_every_figure_that_runs_are_compared_by_is_in_the_help_and_the_docs(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit):
        main(["compare", "--help"])
    told = " ".join(capsys.readouterr().out.split())
    written = (Path(__file__).parents[1] / "docs" / "metrics.md").read_text("utf-8")
    for name in (*METRICS, *SCALARS, *BUILT_IN):
        short = name.replace("_macro", "_micro")
        assert re.search(rf"\b{short}\b", told), name
        assert f"`{short}`" in written, name
        assert find_measure(name).name == name
