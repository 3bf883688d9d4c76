"""Flat labels: disjoint, blurry and i-Blurry, which differ only in two percentages."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ramify.errors import RamifyError
from ramify.streams.draws import Arrivals, draw_order, draw_ranks, enough
from ramify.streams.setup import setup
from ramify.taxonomy import IntArray, Taxonomy
from ramify.typed import Typed


@dataclass(frozen=True)
class IBlurry(Typed):
    """What can be set about i-blurry."""

    n: float = 50.0
    """Percentage of disjoint classes."""
    m: float = 10.0
    """Percentage of the other classes' images that stray."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for key, value in (("n", self.n), ("m", self.m)):
            if not 0 <= value <= 100:
                raise RamifyError(f"{key} = {value} must be a percentage from 0 to 100")


def _tasks(_tree: Taxonomy, _settings: IBlurry) -> int:
    return 5


def _check(tasks: int, tree: Taxonomy, _settings: IBlurry) -> None:
    if not 1 <= tasks <= tree.leaves:
        raise RamifyError(f"{tasks} tasks for {tree.leaves} classes: expected 1 to {tree.leaves}")


@setup("disjoint", levels=1, tasks=_tasks, check=_check, fixed=IBlurry(n=100, m=0))
def disjoint(
    leaves: IntArray, tree: Taxonomy, rng: np.random.Generator, tasks: int, settings: IBlurry
) -> Arrivals:
    """Flat labels: each class in one task."""
    enough(leaves, tree, 1, "disjoint")
    return _flat(leaves, tree, rng, tasks, settings)


@setup("blurry", levels=1, tasks=_tasks, check=_check, fixed=IBlurry(n=0, m=10))
def blurry(
    leaves: IntArray, tree: Taxonomy, rng: np.random.Generator, tasks: int, settings: IBlurry
) -> Arrivals:
    """Flat labels: each class is major in one task, and 10% of all images are dealt over all tasks."""
    enough(leaves, tree, 1, "blurry")
    return _flat(leaves, tree, rng, tasks, settings)


@setup("i-blurry", levels=1, tasks=_tasks, check=_check, settings=IBlurry)
def i_blurry(
    leaves: IntArray, tree: Taxonomy, rng: np.random.Generator, tasks: int, settings: IBlurry
) -> Arrivals:
    """Flat labels: n% of the classes are disjoint, and m% of the others' images are dealt over all tasks."""
    enough(leaves, tree, 1, "i-blurry")
    return _flat(leaves, tree, rng, tasks, settings)


def _flat(
    leaves: IntArray, tree: Taxonomy, rng: np.random.Generator, tasks: int, settings: IBlurry
) -> Arrivals:
    """n% of the classes keep to one task, of the others m% go astray.

    The strays are drawn from each class in proportion, pooled, shuffled and dealt evenly over all tasks.
    """
    ranks = draw_order(tree.leaves, rng)
    # The first ranks are the disjoint classes; tasks are dealt in turn, so that both kinds spread evenly.
    task = (ranks % tasks)[leaves]
    pool = draw_strays(leaves, ranks, round(tree.leaves * settings.n / 100), settings.m, rng)
    smallest_first = np.argsort(np.bincount(np.delete(task, pool), minlength=tasks), kind="stable")
    task[pool] = smallest_first[draw_order(len(pool), rng) % tasks]
    return np.arange(len(leaves)), np.ones_like(leaves), task


def draw_strays(
    leaves: IntArray, ranks: IntArray, apart: int, m: float, rng: np.random.Generator
) -> IntArray:
    """The images that stray: m% of each class whose rank is not below `apart`."""
    counts, order = np.bincount(leaves), np.argsort(ranks)
    blurry_counts = np.where(ranks < apart, 0, counts)[order]
    # Rounding the running total keeps the pool at m% of all, and each class within one image of its own m%.
    strays = np.empty_like(counts)
    strays[order] = np.diff(np.rint(np.cumsum(blurry_counts) * m / 100), prepend=0)
    return np.flatnonzero(draw_ranks(leaves, rng) < strays[leaves])
