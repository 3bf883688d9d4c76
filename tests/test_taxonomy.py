"""The label tree against plain Python over its rows, and the trees that are shipped."""

from __future__ import annotations

import doctest
import pickle
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ramify.taxonomy.tree
from ramify.errors import RamifyError
from ramify.taxonomy import Taxonomy, builtin_trees, read_taxonomy
from strategies import tree_rows

FAST = settings(max_examples=60)
COUNTS = {
    "cifar100": (2, 4, 8, 20, 100),
    "cifar100-2": (20, 100),
    "stanford-cars": (9, 196),
    "imagenet-hier100": (10, 100),
}


def common(a: tuple[str, ...], b: tuple[str, ...]) -> int:
    """How many levels two paths share."""
    return sum(a[: h + 1] == b[: h + 1] for h in range(len(a)))


@FAST
@given(tree_rows())
def test_maps_agree_with_the_rows(rows: list[tuple[str, ...]]) -> None:
    tree = Taxonomy.from_rows(rows)
    assert [tree.path(leaf) for leaf in range(tree.leaves)] == rows
    for level in range(1, tree.depth + 1):
        names = list(dict.fromkeys(row[level - 1] for row in rows))
        assert tree.names(level) == tuple(names)
        assert [names[i] for i in tree.leaf_to(level)] == [row[level - 1] for row in rows]
        for i, name in enumerate(names):
            below = [leaf for leaf, row in enumerate(rows) if row[level - 1] == name]
            assert tree.leaves_below(level, i).tolist() == below
            assert tree.index(level, name) == i
            for above in range(1, level + 1):
                assert tree.names(above)[tree.up(level, above)[i]] == rows[below[0]][above - 1]
            if level > 1:
                assert i in tree.children(level - 1, tree.parent(level, i))
            if level < tree.depth:
                children = {row[level] for row in rows if row[level - 1] == name}
                assert {tree.names(level + 1)[child] for child in tree.children(level, i)} == children


@FAST
@given(tree_rows())
def test_common_ancestors_and_statistics(rows: list[tuple[str, ...]]) -> None:
    tree = Taxonomy.from_rows(rows)
    every = np.arange(tree.leaves)
    heights = tree.lca_height(every[:, None], every)
    assert heights.tolist() == [[tree.depth - common(a, b) for b in rows] for a in rows]
    levels, classes = tree.lca(every[:, None], every)
    assert (levels == tree.depth - heights).all()
    for a, b in combinations(range(tree.leaves), 2):
        name = tree.names(levels[a, b])[classes[a, b]] if levels[a, b] else None
        assert name == (rows[a][levels[a, b] - 1] if common(rows[a], rows[b]) else None)
    nodes = {row[: h + 1] for row in rows for h in range(tree.depth)}
    inner = {node[:-1] for node in nodes}
    assert tree.nodes == len(nodes)
    assert tree.branching_factor == pytest.approx(len(nodes) / len(inner))
    distances = [2 * (tree.depth - common(a, b)) for a, b in combinations(rows, 2)]
    assert tree.mean_leaf_distance == pytest.approx(np.mean(distances) if distances else 0)


@FAST
@given(tree_rows(), st.data())
def test_restricting_drops_columns(rows: list[tuple[str, ...]], data: st.DataObject) -> None:
    tree = Taxonomy.from_rows(rows, {"id": [str(i) for i in range(len(rows))]})
    levels = sorted(data.draw(st.sets(st.integers(1, tree.depth), min_size=1)))
    small = tree.restrict(levels)
    kept = dict.fromkeys(tuple(row[level - 1] for level in levels) for row in rows)
    assert small == Taxonomy.from_rows(list(kept))
    assert ("id" in small.leaf_attributes) == (levels[-1] == tree.depth)


@FAST
@given(tree_rows())
def test_tree_order_keeps_relatives_together(rows: list[tuple[str, ...]]) -> None:
    tree = Taxonomy.from_rows(rows)
    for level in range(1, tree.depth + 1):
        order = tree.order(level)
        assert sorted(order.tolist()) == list(range(tree.sizes[level - 1]))
        for above in range(1, level):
            ancestors = tree.up(level, above)[order]
            assert (np.diff(ancestors) != 0).sum() == tree.sizes[above - 1] - 1


def test_fingerprint_is_of_names_and_order() -> None:
    rows = [("a", "x"), ("a", "y"), ("b", "z")]
    tree = Taxonomy.from_rows(rows)
    assert tree == Taxonomy.from_rows(rows, {"id": ["1", "2", "3"]}) == pickle.loads(pickle.dumps(tree))
    others = [rows[::-1], [("a", "x"), ("a", "y"), ("b", "w")], [("a", "x"), ("b", "y"), ("b", "z")]]
    assert len({tree.fingerprint, *(Taxonomy.from_rows(other).fingerprint for other in others)}) == 4
    assert read_taxonomy("cifar100").fingerprint.startswith("c45d3587ed55e37d")


def test_the_docstring_example_runs() -> None:
    result = doctest.testmod(ramify.taxonomy.tree)
    assert result.attempted
    assert not result.failed


def test_it_cannot_be_changed() -> None:
    tree = Taxonomy.from_rows([("a", "x"), ("b", "y")])
    with pytest.raises(ValueError, match="read-only"):
        tree.leaf_to(1)[0] = 1


@pytest.mark.parametrize(
    "question",
    [
        lambda tree: tree.names(3),
        lambda tree: tree.names(0),
        lambda tree: tree.leaf_to(-1),
        lambda tree: tree.up(1, 2),
        lambda tree: tree.parent(1, 0),
        lambda tree: tree.parent(2, 2),
        lambda tree: tree.children(1, -1),
        lambda tree: tree.path(2),
        lambda tree: tree.restrict([]),
        lambda tree: tree.restrict([2, 1]),
        lambda tree: tree.restrict([1, 3]),
        lambda tree: tree.index(2, "xx"),
    ],
)
def test_questions_about_what_is_not_there(question: object) -> None:
    tree = Taxonomy.from_rows([("a", "x"), ("b", "y")])
    with pytest.raises(RamifyError):
        question(tree)  # type: ignore[operator]


def test_shipped_trees_have_the_published_counts() -> None:
    assert {name: read_taxonomy(name).sizes for name in builtin_trees()} == COUNTS
    tree = read_taxonomy("cifar100")
    assert (tree.nodes, tree.leaves) == (134, 100)
    assert (round(tree.branching_factor, 2), round(tree.mean_leaf_distance, 2)) == (3.83, 7.83)
    assert "plants" in tree.names(2)
    assert "plants" in tree.names(3)
    assert list(tree.names(5)) == sorted(tree.names(5))  # the order of the official label numbers
    assert len(set(read_taxonomy("imagenet-hier100").leaf_attributes["wnid"])) == 100
    assert set(np.bincount(read_taxonomy("cifar100-2").leaf_to(1))) == {5}


def test_shipped_trees_are_the_published_ones() -> None:
    shared = Path(__file__).parents[2] / "shared" / "taxonomies"
    if not shared.is_dir():
        pytest.skip("the published trees are not beside the repository")
    published = {tuple(read_taxonomy(path).sizes): read_taxonomy(path) for path in shared.glob("*.csv")}
    for name in builtin_trees():
        tree = read_taxonomy(name)
        assert published.get(tree.sizes, tree) == tree


def test_real_sizes_are_answered_at_once() -> None:
    rows = [[f"{i // 14 // 2**k}" for k in (6, 5, 4, 3, 2, 0)] + [f"species {i}"] for i in range(1010)]
    tree = Taxonomy.from_rows(rows)
    assert tree.depth == 7
    every = np.arange(tree.leaves)
    assert tree.lca_height(every[:, None], every).shape == (1010, 1010)
    assert tree.leaf_to(3)[np.zeros(190_000, np.int64)].shape == (190_000,)
