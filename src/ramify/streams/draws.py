"""What setups share: random ranks, and the check that every class has images enough."""

from __future__ import annotations

import numpy as np

from ramify.arrays import Ints
from ramify.errors import RamifyError
from ramify.taxonomy import Taxonomy

Arrivals = tuple[Ints, ...]
"""(image, level, task) of all arrivals, in any order; a fourth part says the order within each task."""


def draw_shuffle(group: Ints, rng: np.random.Generator) -> Ints:
    """The order that sorts by group, in a random order within each: `lexsort((random, group))`, but faster.

    Sorting uniform draws, rather than `rng.permutation`, does all groups at once and depends on nothing but
    the bit stream of the generator.
    """
    drawn = rng.random(len(group))
    order = np.argsort(drawn)
    if (np.diff(drawn[order]) == 0).any():  # equal draws: in the order of the items, on every platform
        order = np.argsort(drawn, kind="stable")
    small = group.astype(np.min_scalar_type(int(group.max(initial=0))))  # few bits are sorted in one go
    found: Ints = order[np.argsort(small[order], kind="stable")]
    return found


def draw_ranks(group: Ints, rng: np.random.Generator) -> Ints:
    """The rank of each item in a random order of its group."""
    order = draw_shuffle(group, rng)
    sizes = np.bincount(group)
    place = np.arange(len(group))
    place -= np.repeat(np.cumsum(sizes) - sizes, sizes)
    ranks = np.empty(len(group), np.int64)
    ranks[order] = place
    return ranks


def draw_order(n: int, rng: np.random.Generator) -> Ints:
    """A random order of 0..n-1."""
    return draw_ranks(np.zeros(n, np.int64), rng)


def enough(leaves: Ints, tree: Taxonomy, least: int | Ints, what: str) -> None:
    """Refuse if a leaf has fewer than the `least` images, one number or one a leaf, that `what` needs."""
    counts = np.bincount(leaves, minlength=tree.leaves)
    needed = np.broadcast_to(least, counts.shape)
    short = np.flatnonzero(counts < needed)
    if len(short):
        raise RamifyError(
            f"too few images: {len(short)} of {tree.leaves} classes, such as {tree.leaf_names[short[0]]!r} "
            f"with {counts[short[0]]}, have fewer than the {needed[short[0]]} that {what} needs; "
            "add images or drop these classes"
        )
