"""Most probable paths, least expected distance and worked-out trees, against brute force."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ramify.classes import Classes
from ramify.hierarchy import Ties, ancestors_in
from ramify.hierarchy.decode import crm, heads, path
from ramify.learner.prediction import prediction
from strategies import trees

MANY = settings(max_examples=60)


@st.composite
def met(draw, every=False):
    """A tree, the classes that were met of it in some order, and probabilities for five images."""
    tree = draw(trees(max_depth=3))
    nodes = [(h, name) for h in range(1, tree.depth + 1) for name in tree.names(h)]
    chosen = nodes if every else draw(st.lists(st.sampled_from(nodes), min_size=1, unique=True))
    classes = Classes()
    for level, name in draw(st.permutations(chosen)):
        classes.meet(level, name, 0)
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    logits = rng.normal(size=(5, len(classes)))
    for level in classes.levels:
        rows = classes.of_level(level)
        logits[:, rows] = np.exp(logits[:, rows]) / np.exp(logits[:, rows]).sum(1, keepdims=True)
    return tree, classes, logits.astype(np.float32)


@MANY
@given(met(every=True))
def test_most_probable_path_of_a_whole_tree(case):
    tree, classes, probabilities = case
    log = np.log(probabilities.astype(float))
    chosen = prediction(classes, path(classes, log, ancestors_in(tree, classes)), log, {}, {})
    for i in range(5):
        products = {}
        for leaf in range(tree.leaves):
            names = tree.path(leaf)
            numbers = [classes.find(h, name) for h, name in enumerate(names, 1)]
            products[names] = np.prod(probabilities[i, numbers], dtype=np.float64)
        found = tuple(chosen[i].values())
        assert products[found] == pytest.approx(max(products.values()), rel=1e-4)
        for h in classes.levels:
            assert chosen.probabilities[h][i] == probabilities[i, classes.find(h, found[h - 1])]


@MANY
@given(met())
def test_paths_through_what_was_met_are_paths_of_the_tree(case):
    tree, classes, probabilities = case
    ancestors = ancestors_in(tree, classes)
    for row in path(classes, np.log(probabilities.astype(float)), ancestors):
        ends = [c for c in row if c >= 0]
        assert ends
        level, label = classes.level_of[ends[-1]], classes.labels[ends[-1]]
        index = tree.index(level, label)
        for column, above in enumerate(classes.levels):
            if above <= level:
                name = tree.names(above)[tree.up(level, above)[index]]
                number = classes.find(above, name)
                assert row[column] == (-1 if number is None else number)
            else:
                assert row[column] == -1
        below = [
            classes.find(h, n)
            for h in classes.levels
            if h > level
            for n in tree.names(h)
            if tree.up(h, level)[tree.index(h, n)] == index
        ]
        assert not any(number is not None for number in below)


@MANY
@given(met())
def test_a_path_with_gaps_is_as_probable_as_its_parents_may_be(case):
    tree, classes, probabilities = case
    ancestors = ancestors_in(tree, classes)
    known = {(h, x): c for c, (h, x) in enumerate(zip(classes.level_of, classes.labels, strict=True))}
    for i, row in enumerate(path(classes, np.log(probabilities.astype(float)), ancestors)):
        means = {}
        for (level, label), c in known.items():
            if any(c in line for other, line in enumerate(ancestors) if other != c):
                continue  # something lies below it
            place, factors = tree.index(level, label), []
            for above in (h for h in classes.levels if h <= level):
                number = known.get((above, tree.names(above)[tree.up(level, above)[place]]))
                rivals = classes.of_level(above)
                factors.append(1 / len(rivals) if number is None else probabilities[i, number])
            means[c] = np.prod(factors, dtype=np.float64) ** (1 / len(factors))
        end = next(c for c in row[::-1] if c >= 0)  # where it ends, tests/test_decoding.py tells
        rivals = [mean for c, mean in means.items() if classes.level_of[c] == classes.level_of[end]]
        assert means[end] == pytest.approx(max(rivals), rel=1e-4)


@MANY
@given(met(every=True))
def test_least_expected_distance(case):
    tree, classes, probabilities = case
    chosen = crm(classes, np.log(probabilities.astype(float)), ancestors_in(tree, classes))
    for column, level in enumerate(classes.levels):
        part = tree.restrict(range(1, level + 1))
        numbers = [classes.find(level, name) for name in part.names(level)]
        everything = np.arange(part.leaves)
        costs = part.lca_height(everything[:, None], everything[None])
        expected = probabilities[:, numbers] @ costs
        found = [numbers.index(c) for c in chosen[:, column]]
        np.testing.assert_allclose(expected[np.arange(5), found], expected.min(1), atol=1e-5)


@MANY
@given(met())
def test_best_of_each_level(case):
    _, classes, probabilities = case
    chosen = heads(classes, np.log(probabilities.astype(float)))
    for column, level in enumerate(classes.levels):
        rows = classes.of_level(level).tolist()
        for i, found in enumerate(chosen[:, column]):
            assert found in rows
            assert probabilities[i, found] == probabilities[i, rows].max()


def test_classes_of_one_name_without_votes_are_told_apart():
    classes = Classes()
    for level, label in ((1, "a"), (2, "a"), (2, "a (level 1)"), (3, "b")):
        classes.meet(level, label, 0)
    tree = Ties.by_votes(classes, np.zeros((4, 4), np.int64)).taxonomy()
    assert tree.depth == 3
    assert tree.leaves == 4


@MANY
@given(met(), st.integers(0, 10**6), st.floats(0, 1))
def test_ties_follow_the_votes(case, seed, share):
    _, classes, _ = case
    rng = np.random.default_rng(seed)
    cast = [
        (c, int(rng.choice(classes.of_level(h))))
        for c in range(len(classes))
        for h in classes.levels
        for _ in range(int(rng.integers(0, 5)))
        if rng.random() < share
    ]
    votes = np.zeros((len(classes),) * 2, np.int64)
    for pair in cast:
        votes[pair] += 1
    ties = Ties.by_votes(classes, votes)
    for c in range(len(classes)):
        place = classes.levels.index(classes.level_of[c])
        counted = Counter(
            d for x, d in cast if x == c and place and classes.level_of[d] == classes.levels[place - 1]
        )
        if not counted:
            assert (ties.parents[c], ties.support[c]) == (-1, 0)
        else:
            assert counted[ties.parents[c]] == max(counted.values())
            assert ties.support[c] == pytest.approx(max(counted.values()) / sum(counted.values()))
    tree = ties.taxonomy()
    assert tree.depth == len(classes.levels)
    for c in range(len(classes)):
        level = classes.levels.index(classes.level_of[c]) + 1
        index = tree.index(level, classes.labels[c])
        if ties.parents[c] >= 0:
            assert tree.names(level - 1)[tree.parent(level, index)] == classes.labels[ties.parents[c]]
            leaf = tree.leaves_below(level, index)[0]
            assert float(tree.leaf_attributes[f"support{level}"][leaf]) == pytest.approx(
                ties.support[c], abs=6e-4
            )
