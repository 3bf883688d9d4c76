"""The label tree against plain Python over its rows, and the trees that are shipped."""

from __future__ import annotations

import doctest
import io
import pickle
import time
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

import ramify.taxonomy.tree
from ramify.errors import RamifyError
from ramify.serve.commands import grown
from ramify.taxonomy import Taxonomy, builtin_trees, edit, read_taxonomy
from ramify.taxonomy.show import render
from strategies import seven_levels, tree_rows, uneven_rows

FAST = settings(max_examples=60)
COUNTS = {
    "cifar100": (2, 4, 8, 20, 100),
    "cifar100-2": (20, 100),
    "stanford-cars": (9, 196),
    "imagenet-hier100": (10, 100),
    "cub200": (13, 38, 200),
    "tiny-imagenet": (6, 17, 41, 80, 76, 38, 16, 7, 11),
}


ROWS = tree_rows() | uneven_rows()


def common(a: tuple[str, ...], b: tuple[str, ...]) -> int:
    """How many levels two paths share."""
    return sum(a[: h + 1] == b[: h + 1] for h in range(min(len(a), len(b))))


def height(node: tuple[str, ...], rows: list[tuple[str, ...]]) -> int:
    """The levels from a node down to the deepest leaf below it."""
    return max(len(row) for row in rows if row[: len(node)] == node) - len(node)


def at(row: tuple[str, ...], level: int) -> str | None:
    return row[level - 1] if len(row) >= level else None


@FAST
@given(ROWS)
def test_maps_agree_with_the_rows(rows: list[tuple[str, ...]]) -> None:
    tree = Taxonomy.from_rows(rows)
    assert [tree.path(leaf) for leaf in range(tree.leaves)] == rows
    assert tree.leaf_levels.tolist() == list(map(len, rows))
    assert tree.leaf_names == tuple(row[-1] for row in rows)
    assert tree.even == (len(set(map(len, rows))) == 1)
    assert tree.leaf_open.tolist() == [height(row, rows) > 0 for row in rows]
    for level in range(1, tree.depth + 1):
        names = list(dict.fromkeys(row[level - 1] for row in rows if len(row) >= level))
        assert tree.names(level) == tuple(names)
        assert [at(row, level) for row in rows] == [names[i] if i >= 0 else None for i in tree.leaf_to(level)]
        for i, name in enumerate(names):
            below = [leaf for leaf, row in enumerate(rows) if at(row, level) == name]
            path = rows[below[0]][:level]
            assert tree.leaves_below(level, i).tolist() == below
            assert tree.index(level, name) == i
            assert tree.heights(level)[i] == height(path, rows)
            assert [tree.names(h)[c] for h, c in enumerate(tree.paths(level)[i], 1) if c >= 0] == list(path)
            for above in range(1, level + 1):
                assert tree.names(above)[tree.up(level, above)[i]] == path[above - 1]
            if level > 1:
                assert i in tree.children(level - 1, tree.parent(level, i))
            if level < tree.depth:
                children = {row[level] for row in rows if at(row, level) == name and len(row) > level}
                assert {tree.names(level + 1)[child] for child in tree.children(level, i)} == children


@FAST
@given(ROWS)
def test_common_ancestors_and_statistics(rows: list[tuple[str, ...]]) -> None:
    tree = Taxonomy.from_rows(rows)
    every = np.arange(tree.leaves)
    heights = tree.lca_height(every[:, None], every)
    assert heights.tolist() == [
        [0 if a == b else height(a[: common(a, b)], rows) for b in rows] for a in rows
    ]
    nodes = {row[: h + 1] for row in rows for h in range(len(row))}
    inner = {node[:-1] for node in nodes}
    assert tree.nodes == len(nodes)
    assert tree.branching_factor == pytest.approx(len(nodes) / len(inner))
    distances = [len(a) + len(b) - 2 * common(a, b) for a, b in combinations(rows, 2)]
    assert tree.mean_leaf_distance == pytest.approx(np.mean(distances) if distances else 0)


@FAST
@given(ROWS, st.data())
def test_restricting_drops_columns(rows: list[tuple[str, ...]], data: st.DataObject) -> None:
    tree = Taxonomy.from_rows(rows, {"id": [str(i) for i in range(len(rows))]})
    levels = sorted(data.draw(st.sets(st.integers(1, tree.depth), min_size=1)))
    small, place = tree.restrict(levels), tree.leaf_in(levels)
    cut = [tuple(row[level - 1] for level in levels if len(row) >= level) for row in rows]
    kept = [row for row in dict.fromkeys(cut) if row]
    assert small == Taxonomy.from_rows(kept)
    assert place.tolist() == [kept.index(row) if row else -1 for row in cut]
    assert ("id" in small.leaf_attributes) == (levels[-1] == tree.depth and len(kept) == len(rows))


@FAST
@given(uneven_rows(), st.integers(1, 3))
def test_restricting_to_the_last_levels_of_each_leaf(rows: list[tuple[str, ...]], count: int) -> None:
    # Names that say their level, so that none stands at two
    rows = [tuple(f"{name} {h}" for h, name in enumerate(row)) for row in rows]
    tree = Taxonomy.from_rows(rows, {"id": [str(i) for i in range(len(rows))]})
    count = min(count, tree.depth)
    levels = range(-count, 0)
    small = tree.restrict(levels)
    assert [small.path(i) for i in range(small.leaves)] == [row[-count:] for row in rows]
    assert tree.leaf_in(levels).tolist() == list(range(len(rows)))
    assert small.leaf_attributes == tree.leaf_attributes
    if tree.even:
        assert small == tree.restrict(range(tree.depth - count + 1, tree.depth + 1))


def test_leaves_of_one_name_are_told_apart_by_their_level() -> None:
    tree = Taxonomy.from_rows([("plant", "rose"), ("rose",), ("animal", "dog")])
    assert tree.restrict([-1]).names(1) == ("rose (level 2)", "rose (level 1)", "dog")
    with pytest.raises(RamifyError, match=r"no level -1"):
        tree.restrict([-1, 1])


@FAST
@given(ROWS)
def test_tree_order_keeps_relatives_together(rows: list[tuple[str, ...]]) -> None:
    tree = Taxonomy.from_rows(rows)
    for level in range(1, tree.depth + 1):
        order = tree.order(level)
        assert sorted(order.tolist()) == list(range(tree.sizes[level - 1]))
        for above in range(1, level):
            ancestors = tree.up(level, above)[order]
            assert (np.diff(ancestors) != 0).sum() == len(set(ancestors.tolist())) - 1
    leaves = tree.leaf_order()
    assert sorted(leaves.tolist()) == list(range(tree.leaves))
    for level in range(1, tree.depth + 1):
        runs = tree.leaf_to(level)[leaves]
        changes = np.flatnonzero(np.diff(runs, prepend=-2))
        assert all((runs[changes] == c).sum() == 1 for c in range(tree.sizes[level - 1]))
    if tree.even:
        assert leaves.tolist() == tree.order(tree.depth).tolist()


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
        lambda tree: tree.path(-1),
        lambda tree: tree.lca_height([0], [2]),
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


def test_a_large_uneven_tree_is_answered_at_once() -> None:
    tree = Taxonomy.from_rows(seven_levels(10_000))
    assert (tree.depth, tree.leaves, tree.even) == (7, 10_000, False)
    assert len(set(tree.leaf_levels.tolist())) == 7
    begin = time.process_time()
    every = np.arange(tree.leaves)
    assert (tree.lca_height(every, every[::-1]) > 0).all()
    assert tree.restrict(range(-2, 0)).leaves == tree.leaves
    assert tree.branching_factor > 1
    console = Console(file=io.StringIO(), width=100)
    console.print(render(tree, "large", everything=True))
    assert len(console.file.getvalue().splitlines()) == 1 + tree.nodes
    assert time.process_time() - begin < 10


@pytest.mark.parametrize("numbers", [(1,), (1, 2, "3"), 3, "123", None])
def test_numbers_of_levels_that_do_not_fit_are_refused(numbers: object) -> None:
    tree = Taxonomy.from_rows([("plant", "fruit", "apple"), ("animal", "mammal", "dog")])
    with pytest.raises(RamifyError, match=r"expected a whole number for each of 3 levels"):
        tree.numbered(numbers)  # type: ignore[arg-type]


def test_levels_of_a_deeper_tree_are_told_with_their_numbers_there() -> None:
    tree = Taxonomy.from_rows(
        [("plant", "fruit", "apple"), ("animal", "mammal", "dog"), ("animal", "fish", "ray")]
    )
    lower = tree.restrict((2, 3)).numbered((2, 3))
    assert [lower.level_name(h) for h in (1, 2)] == ["level 1 (tree level 2)", "level 2 (tree level 3)"]
    assert lower.level_name(2, "3 classes") == "level 2 (tree level 3; 3 classes)"
    assert tree.level_name(2, "3 classes") == "level 2 (3 classes)"
    assert lower == tree.restrict((2, 3))  # they are no part of what a tree is
    assert tree.restrict((-1,)).numbered((-1,)).level_name(1) == "level 1 (the leaves)"
    changed = (
        edit.renamed(lower, 2, "dog", "hound"),
        edit.moved(lower, 2, "dog", "fish"),
        edit.merged(lower, 1, ["mammal", "fish"], "animal"),
        edit.joined(lower, 2, "cat", "dog"),
        edit.removed(lower, 2, "dog"),
        grown(lower, [(1, "mammal"), (2, "cat")]),
    )
    assert {one.level_numbers for one in changed} == {(2, 3)}
    assert edit.removed(edit.removed(edit.removed(lower, 2, "dog"), 2, "ray"), 2, "apple").depth == 1
