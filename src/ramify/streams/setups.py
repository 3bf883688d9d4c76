"""The setups: from leaf labels, a tree and a generator to (image, level, task) of all arrivals, unordered."""

from __future__ import annotations

import numpy as np

from ramify.taxonomy import IntArray, Taxonomy

Arrivals = tuple[IntArray, IntArray, IntArray]


def draw_ranks(group: IntArray, rng: np.random.Generator) -> IntArray:
    """The rank of each item in a random order of its group.

    Sorting uniform draws, rather than `rng.permutation`, does all groups at once and depends on nothing but
    the bit stream of the generator.
    """
    order = np.lexsort((rng.random(len(group)), group))
    sizes = np.bincount(group)
    ranks = np.empty(len(group), np.int64)
    ranks[order] = np.arange(len(group)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    return ranks


def draw_order(n: int, rng: np.random.Generator) -> IntArray:
    """A random order of 0..n-1."""
    return draw_ranks(np.zeros(n, np.int64), rng)


def child_share(counts: IntArray, tasks: int) -> IntArray:
    """How many images of each class arrive with their child label: round(n·(T-1)/T), half to even."""
    return np.rint(counts * (tasks - 1) / tasks).astype(np.int64)


def single_depth(
    leaves: IntArray, tree: Taxonomy, rng: np.random.Generator, tasks: int, dual: bool
) -> Arrivals:
    """First all parents; then, in equal groups, each parent expands into its children once.

    Single-label: each image arrives once. Dual-label: all arrive as their parent first, then again.
    """
    group = draw_order(tree.sizes[0], rng) * (tasks - 1) // tree.sizes[0]
    child_task = 1 + group[tree.leaf_to(1)][leaves]
    image = np.arange(len(leaves))
    if dual:
        one = np.ones_like(image)
        return np.tile(image, 2), np.concatenate((one, 2 * one)), np.concatenate((0 * one, child_task))
    late = draw_ranks(leaves, rng) < child_share(np.bincount(leaves), tasks)[leaves]
    return image, np.where(late, 2, 1), np.where(late, child_task, 0)


def multiple_depth(leaves: IntArray, tree: Taxonomy, rng: np.random.Generator) -> Arrivals:
    """One task a level, coarse to fine; each class is dealt out equally, remainders to the deepest levels."""
    level = tree.depth - draw_ranks(leaves, rng) % tree.depth
    return np.arange(len(leaves)), level, level - 1


def flat(
    leaves: IntArray, tree: Taxonomy, rng: np.random.Generator, tasks: int, n: float, m: float
) -> Arrivals:
    """Disjoint, blurry and i-Blurry: n% of the classes keep to one task, of the others m% go astray.

    The strays are drawn from each class in proportion, pooled, shuffled and dealt evenly over all tasks.
    """
    ranks = draw_order(tree.leaves, rng)
    # The first ranks are the disjoint classes; tasks are dealt in turn, so that both kinds spread evenly.
    disjoint = round(tree.leaves * n / 100)
    counts = np.bincount(leaves)
    order = np.argsort(ranks)
    blurry_counts = np.where(ranks < disjoint, 0, counts)[order]
    # Rounding the running total keeps the pool at m% of all, and each class within one image of its own m%.
    strays = np.empty_like(counts)
    strays[order] = np.diff(np.rint(np.cumsum(blurry_counts) * m / 100), prepend=0)
    task = (ranks % tasks)[leaves]
    pool = np.flatnonzero(draw_ranks(leaves, rng) < strays[leaves])
    smallest_first = np.argsort(np.bincount(np.delete(task, pool), minlength=tasks), kind="stable")
    task[pool] = smallest_first[draw_order(len(pool), rng) % tasks]
    return np.arange(len(leaves)), np.ones_like(leaves), task
