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
def trees(draw: st.DrawFn, min_depth: int = 1, max_depth: int = 4) -> Taxonomy:
    return Taxonomy.from_rows(draw(tree_rows(min_depth, max_depth)))


@st.composite
def labelled(
    draw: st.DrawFn, min_images: int, min_depth: int = 1, max_depth: int = 4
) -> tuple[Taxonomy, np.ndarray]:
    """A tree, and the leaf of each image, in any order and at least `min_images` of each leaf."""
    tree = draw(trees(min_depth, max_depth))
    count = st.integers(min_images, min_images + 30)
    counts = draw(st.lists(count, min_size=tree.leaves, max_size=tree.leaves))
    leaves = np.repeat(np.arange(tree.leaves), counts)
    return tree, np.random.default_rng(draw(st.integers(0, 99))).permutation(leaves)
