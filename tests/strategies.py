"""Hypothesis strategies shared by the tests: random label trees, and images of unevenly many a class."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from ramify.taxonomy import Taxonomy


@st.composite
def tree_rows(draw: st.DrawFn, min_depth: int = 1, max_depth: int = 4) -> list[tuple[str, ...]]:
    """Rows of names, one a leaf, in any order; words are shared by the levels, as in CIFAR-100."""
    depth = draw(st.integers(min_depth, max_depth))
    rows: list[tuple[str, ...]] = [()]
    for _ in range(depth):
        counts = draw(st.lists(st.integers(1, 3), min_size=len(rows), max_size=len(rows)))
        parents = [row for row, count in zip(rows, counts, strict=True) for _ in range(count)]
        rows = [(*row, f"class {i}") for i, row in enumerate(parents)]
    return draw(st.permutations(rows))


@st.composite
def uneven_rows(draw: st.DrawFn, min_depth: int = 1, max_depth: int = 4) -> list[tuple[str, ...]]:
    """Rows of unlike length: leaves end at any level, some at a class that others go on from."""
    rows = draw(tree_rows(min_depth, max_depth))
    ends = draw(st.lists(st.integers(1, len(rows[0])), min_size=len(rows), max_size=len(rows)))
    return list(dict.fromkeys(row[:end] for row, end in zip(rows, ends, strict=True)))


def seven_levels(leaves: int, seed: int = 0) -> list[tuple[str, ...]]:
    """Rows of a tree of seven levels with so many leaves, some of which end at each level."""
    rng = np.random.default_rng(seed)
    open_nodes, rows = [()], list[tuple[str, ...]]()
    for level, share in enumerate((0.002, 0.01, 0.05, 0.15, 0.25, 0.25), 1):
        width = max(2, round((leaves * 0.7) ** (level / 7)))
        nodes = [(*open_nodes[int(rng.integers(len(open_nodes)))], f"{level}.{i}") for i in range(width)]
        nodes += [(*node, f"{level}.only {i}") for i, node in enumerate(open_nodes)]
        ends = max(1, round(leaves * share))
        rows += [(*open_nodes[int(rng.integers(len(open_nodes)))], f"{level}.leaf {i}") for i in range(ends)]
        open_nodes = nodes
    more = leaves - len(rows) - len(open_nodes)
    rows += [(*node, f"7.{i}") for i, node in enumerate(open_nodes)]
    rows += [(*open_nodes[int(rng.integers(len(open_nodes)))], f"7.more {i}") for i in range(more)]
    return [rows[i] for i in rng.permutation(len(rows))[:leaves]]


@st.composite
def trees(draw: st.DrawFn, min_depth: int = 1, max_depth: int = 4, uneven: bool = False) -> Taxonomy:
    return Taxonomy.from_rows(draw((uneven_rows if uneven else tree_rows)(min_depth, max_depth)))


@st.composite
def labelled(
    draw: st.DrawFn, min_images: int, min_depth: int = 1, max_depth: int = 4, uneven: bool = False
) -> tuple[Taxonomy, np.ndarray]:
    """A tree, and the leaf of each image, in any order and at least `min_images` of each leaf."""
    tree = draw(trees(min_depth, max_depth, uneven))
    count = st.integers(min_images, min_images + 30)
    counts = draw(st.lists(count, min_size=tree.leaves, max_size=tree.leaves))
    leaves = np.repeat(np.arange(tree.leaves), counts)
    return tree, np.random.default_rng(draw(st.integers(0, 99))).permutation(leaves)
