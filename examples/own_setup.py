"""A setup of your own: bottom-up, the finest labels first. Try it where this file is:

ramify stream show --setup own_setup:bottom_up --dataset garden
ramify run --setup own_setup:bottom_up --dataset garden --method er --out runs/bottom-up
"""

from __future__ import annotations

import numpy as np

from ramify.streams.draws import Arrivals, draw_ranks
from ramify.streams.setup import setup
from ramify.taxonomy import IntArray, Taxonomy


@setup("bottom-up", levels=None, tasks=lambda tree, _: tree.depth)
def bottom_up(
    leaves: IntArray, tree: Taxonomy, rng: np.random.Generator, tasks: int, settings: None
) -> Arrivals:
    """One task a level, fine to coarse; the images of each class are dealt out equally."""
    task = draw_ranks(leaves, rng) % tasks  # by class, in a random order
    return np.arange(len(leaves)), tree.depth - task, task
