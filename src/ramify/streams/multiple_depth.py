"""HLE multiple-depth: all levels of the tree, coarse to fine; also as top-down, and reversed as bottom-up."""

from __future__ import annotations

import numpy as np

from ramify.arrays import Ints
from ramify.errors import RamifyError
from ramify.streams.draws import Arrivals, draw_ranks, enough
from ramify.streams.setup import setup
from ramify.taxonomy import Taxonomy


def _tasks(tree: Taxonomy, _settings: None) -> int:
    return tree.depth


def _check(tasks: int, tree: Taxonomy, _settings: None) -> None:
    if tasks != tree.depth:
        raise RamifyError(f"{tasks} tasks: multiple-depth has one task a level, here {tree.depth}")


@setup("multiple-depth", levels=None, tasks=_tasks, check=_check)
def multiple_depth(
    leaves: Ints, tree: Taxonomy, rng: np.random.Generator, tasks: int, _settings: None
) -> Arrivals:
    """One task a level, coarse to fine; each class is dealt out equally, remainders to the deepest levels.

    A leaf that ends above the deepest level is dealt out to the levels that it has.
    """
    enough(leaves, tree, tree.leaf_levels, f"multiple-depth with {tasks} levels")
    depth = tree.leaf_levels[leaves]
    level = depth - draw_ranks(leaves, rng) % depth
    return np.arange(len(leaves)), level, level - 1


@setup("top-down", levels=None, tasks=multiple_depth.tasks, check=multiple_depth.check)
def top_down(leaves: Ints, tree: Taxonomy, rng: np.random.Generator, tasks: int, _settings: None) -> Arrivals:
    """One task a level, coarse to fine: the same stream as multiple-depth."""
    return multiple_depth.arrivals(leaves, tree, rng, tasks, None)


@setup("bottom-up", levels=None, tasks=multiple_depth.tasks, check=multiple_depth.check)
def bottom_up(
    leaves: Ints, tree: Taxonomy, rng: np.random.Generator, tasks: int, _settings: None
) -> Arrivals:
    """One task a level, fine to coarse: the images of multiple-depth with the same labels, in reverse."""
    image, level, task = multiple_depth.arrivals(leaves, tree, rng, tasks, None)
    return image, level, tasks - 1 - task
