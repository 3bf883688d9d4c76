"""Long-tailed streams: any setup on images of which some classes keep many and most keep few."""

from __future__ import annotations

import math

import numpy as np

from ramify.arrays import Ints
from ramify.errors import RamifyError
from ramify.randomness import Generators
from ramify.streams.draws import draw_order, draw_ranks


def check_imbalance(ratio: float) -> float:
    """`ratio` if it can be that of the most to the least frequent class."""
    if isinstance(ratio, bool) or not isinstance(ratio, int | float) or not 1 <= ratio < math.inf:
        raise RamifyError(
            f"imbalance is {ratio!r}; it must be 1 or more, the images of the most frequent class for one of "
            "the least frequent"
        )
    return float(ratio)


def long_tail(leaves: Ints, classes: int, ratio: float, seed: int) -> Ints:
    """Positions of the images that are kept, in order.

    In a random order of the classes the r-th of C (from 0) keeps ⌊n·ratio^(-r/(C-1))⌋ of its n images, drawn
    at random, and at least one: the exponential profile of CIFAR-100-LT. The setup draws apart from it.
    """
    rng = Generators(seed)["imbalance"]
    share = check_imbalance(ratio) ** (-draw_order(classes, rng) / max(classes - 1, 1))
    kept = np.maximum(np.floor(np.bincount(leaves, minlength=classes) * share + 1e-9), 1)
    return np.flatnonzero(draw_ranks(leaves, rng) < kept[leaves])
