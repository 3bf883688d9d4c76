"""All levels in either order: top-down is multiple-depth by another name, bottom-up its reverse."""

from __future__ import annotations

import numpy as np

from ramify.streams.draws import Arrivals
from ramify.streams.multiple_depth import multiple_depth
from ramify.streams.setup import setup
from ramify.taxonomy import IntArray, Taxonomy


@setup("top-down", levels=None, tasks=multiple_depth.tasks, check=multiple_depth.check)
def top_down(
    leaves: IntArray, tree: Taxonomy, rng: np.random.Generator, tasks: int, _settings: None
) -> Arrivals:
    """One task a level, coarse to fine: the same stream as multiple-depth."""
    return multiple_depth.arrivals(leaves, tree, rng, tasks, None)


@setup("bottom-up", levels=None, tasks=multiple_depth.tasks, check=multiple_depth.check)
def bottom_up(
    leaves: IntArray, tree: Taxonomy, rng: np.random.Generator, tasks: int, _settings: None
) -> Arrivals:
    """One task a level, fine to coarse: the images of multiple-depth with the same labels, in reverse."""
    image, level, task = multiple_depth.arrivals(leaves, tree, rng, tasks, None)
    return image, level, tasks - 1 - task
