"""A setup of your own: a spiral, each task adds a level and returns to those above it.

Try it where this file is:

ramify stream show --setup own_setup:spiral --dataset garden
ramify run --setup own_setup:spiral --dataset garden --method er --out runs/spiral
"""

from __future__ import annotations

import numpy as np

from ramify.arrays import Ints
from ramify.streams.draws import Arrivals, draw_ranks
from ramify.streams.setup import setup
from ramify.taxonomy import Taxonomy


@setup("spiral", levels=None, tasks=lambda tree, _: tree.depth)
def spiral(leaves: Ints, tree: Taxonomy, rng: np.random.Generator, tasks: int, settings: None) -> Arrivals:
    """One task a level, coarse to fine, in which all levels so far are equally likely."""
    task = draw_ranks(leaves, rng) % tasks  # each class is dealt out equally, in a random order
    level = 1 + np.floor(rng.random(len(leaves)) * (task + 1)).astype(int)
    return np.arange(len(leaves)), np.minimum(level, tree.leaf_levels[leaves]), task
