"""Gaussian schedule: no tasks, each class swells and fades around a moment of its own."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ramify.arrays import Ints
from ramify.errors import RamifyError
from ramify.streams.draws import Arrivals, draw_order, enough
from ramify.streams.setup import setup
from ramify.taxonomy import Taxonomy
from ramify.typed import NotNegative, Typed


@dataclass(frozen=True)
class Gaussian(Typed):
    """What can be set about gaussian."""

    width: NotNegative = 0.05
    """Standard deviation of a class's arrivals, as a share of the stream."""


@setup("gaussian", levels=1, tasks=5, settings=Gaussian)
def gaussian(
    leaves: Ints, tree: Taxonomy, rng: np.random.Generator, tasks: int, settings: Gaussian
) -> Arrivals:
    """Flat labels without tasks: each class arrives around a peak of its own, the peaks evenly spread.

    Tasks are equal parts of the stream, for evaluation alone: nothing changes where one ends.
    """
    enough(leaves, tree, 1, "gaussian")
    if tasks > len(leaves):
        raise RamifyError(f"{tasks} tasks for {len(leaves)} images: expected 1 to {len(leaves)}")
    peak = (draw_order(tree.leaves, rng) + 0.5) / tree.leaves
    # Normal draws of the generator's plainest ones (Box and Muller); the moments only rank the arrivals.
    moment = np.sqrt(-2 * np.log1p(-rng.random(len(leaves)))) * np.cos(2 * np.pi * rng.random(len(leaves)))
    moment *= settings.width
    moment += peak[leaves]
    place = np.empty(len(leaves), np.int64)
    place[np.lexsort((rng.random(len(leaves)), moment))] = np.arange(len(leaves))
    return np.arange(len(leaves)), np.ones_like(leaves), place * tasks // len(leaves), place
