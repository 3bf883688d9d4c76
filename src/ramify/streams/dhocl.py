"""DHOCL: the classes arrive in tasks, and each image carries its label at a level drawn at random."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from ramify.arrays import Ints
from ramify.errors import RamifyError
from ramify.streams.draws import Arrivals, draw_order, enough
from ramify.streams.setup import setup
from ramify.taxonomy import Taxonomy
from ramify.typed import Positive, Typed


@dataclass(frozen=True)
class Dhocl(Typed):
    """What can be set about dhocl."""

    grow: Literal["leaves", "branches"] = "leaves"
    """What a task brings: leaves from anywhere in the tree, or whole branches of level 1."""
    finer: Positive = 1.0
    """How much likelier each level is drawn than the one above it."""


def _tasks(tree: Taxonomy, settings: Dhocl) -> int:
    return min(5, _units(tree, settings))


def _units(tree: Taxonomy, settings: Dhocl) -> int:
    return tree.leaves if settings.grow == "leaves" else tree.sizes[0]


def _check(tasks: int, tree: Taxonomy, settings: Dhocl) -> None:
    units = _units(tree, settings)
    if tasks > units:
        raise RamifyError(f"{tasks} tasks for {units} {settings.grow}: expected 1 to {units}")


@setup("dhocl", levels=None, tasks=_tasks, check=_check, settings=Dhocl)
def dhocl(leaves: Ints, tree: Taxonomy, rng: np.random.Generator, tasks: int, settings: Dhocl) -> Arrivals:
    """New leaves in each task, and each image's level drawn at random: the tree grows at any level."""
    enough(leaves, tree, 1, "dhocl")
    group = draw_order(_units(tree, settings), rng) % tasks
    of_leaf = group if settings.grow == "leaves" else group[tree.leaf_to(1)]
    # Level h with probability finer^(h-1) / Σ, over the levels that the image's leaf has.
    weight = np.cumsum(settings.finer ** np.arange(tree.depth))
    drawn = rng.random(len(leaves)) * weight[tree.leaf_levels - 1][leaves]
    level = 1 + np.searchsorted(weight, drawn, side="right")
    return np.arange(len(leaves)), np.minimum(level, tree.leaf_levels[leaves]), of_leaf[leaves]
