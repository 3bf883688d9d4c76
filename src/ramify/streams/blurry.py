"""Flat labels: disjoint, blurry and i-Blurry, which differ only in two percentages; and Si-Blurry."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ramify.arrays import Ints
from ramify.errors import RamifyError
from ramify.streams.draws import Arrivals, draw_order, draw_ranks, enough
from ramify.streams.setup import setup
from ramify.taxonomy import Taxonomy
from ramify.typed import Percentage, Typed


@dataclass(frozen=True)
class IBlurry(Typed):
    """What can be set about i-blurry."""

    n: Percentage = 50.0
    """Percentage of disjoint classes."""
    m: Percentage = 10.0
    """Percentage of the other classes' images that stray."""


@dataclass(frozen=True)
class SiBlurry(IBlurry):
    """What can be set about si-blurry: as of i-blurry."""


def _check(tasks: int, tree: Taxonomy, _settings: IBlurry) -> None:
    if tasks > tree.leaves:
        raise RamifyError(f"{tasks} tasks for {tree.leaves} classes: expected 1 to {tree.leaves}")


@setup("disjoint", levels=1, tasks=5, check=_check, fixed=IBlurry(n=100, m=0))
def disjoint(
    leaves: Ints, tree: Taxonomy, rng: np.random.Generator, tasks: int, settings: IBlurry
) -> Arrivals:
    """Flat labels: each class in one task."""
    enough(leaves, tree, 1, "disjoint")
    return _flat(leaves, tree, rng, tasks, settings)


@setup("blurry", levels=1, tasks=5, check=_check, fixed=IBlurry(n=0, m=10))
def blurry(leaves: Ints, tree: Taxonomy, rng: np.random.Generator, tasks: int, settings: IBlurry) -> Arrivals:
    """Flat labels: each class is major in one task, and 10% of all images are dealt over all tasks."""
    enough(leaves, tree, 1, "blurry")
    return _flat(leaves, tree, rng, tasks, settings)


@setup("i-blurry", levels=1, tasks=5, check=_check, settings=IBlurry)
def i_blurry(
    leaves: Ints, tree: Taxonomy, rng: np.random.Generator, tasks: int, settings: IBlurry
) -> Arrivals:
    """Flat labels: n% of the classes are disjoint, and m% of the others' images are dealt over all tasks."""
    enough(leaves, tree, 1, "i-blurry")
    return _flat(leaves, tree, rng, tasks, settings)


def _flat(leaves: Ints, tree: Taxonomy, rng: np.random.Generator, tasks: int, settings: IBlurry) -> Arrivals:
    """n% of the classes keep to one task, of the others m% go astray.

    The strays are drawn from each class in proportion, pooled, shuffled and dealt evenly over all tasks.
    """
    ranks = draw_order(tree.leaves, rng)
    # The first ranks are the disjoint classes; tasks are dealt in turn, so that both kinds spread evenly.
    task = (ranks % tasks)[leaves]
    pool = _strays(leaves, ranks, round(tree.leaves * settings.n / 100), settings.m, rng)
    smallest_first = np.argsort(np.bincount(np.delete(task, pool), minlength=tasks), kind="stable")
    task[pool] = smallest_first[draw_order(len(pool), rng) % tasks]
    return np.arange(len(leaves)), np.ones_like(leaves), task


def _check_cuts(tasks: int, tree: Taxonomy, settings: SiBlurry) -> None:
    apart = round(tree.leaves * settings.n / 100)
    most = max(apart, tree.leaves - apart)
    if tasks > most:
        raise RamifyError(
            f"{tasks} tasks for {apart} disjoint and {tree.leaves - apart} blurry classes: "
            f"expected 1 to {most}"
        )


@setup("si-blurry", levels=1, tasks=5, check=_check_cuts, settings=SiBlurry)
def si_blurry(
    leaves: Ints, tree: Taxonomy, rng: np.random.Generator, tasks: int, settings: SiBlurry
) -> Arrivals:
    """Flat labels: i-blurry with numbers of classes and of strays in each task that are left to chance."""
    enough(leaves, tree, 1, "si-blurry")
    ranks = draw_order(tree.leaves, rng)
    apart = round(tree.leaves * settings.n / 100)
    parts = np.concatenate((_cut(apart, tasks, rng), _cut(tree.leaves - apart, tasks, rng)))
    task = parts[ranks][leaves]
    pool = _strays(leaves, ranks, apart, settings.m, rng)
    task[pool] = _cut(len(pool), tasks, rng)[draw_order(len(pool), rng)]
    return np.arange(len(leaves)), np.ones_like(leaves), task


def _cut(count: int, parts: int, rng: np.random.Generator) -> Ints:
    """The part of each of `count` things in a row cut at random places; none is empty if that can be."""
    if count < parts:
        cuts = np.sort(np.floor(rng.random(parts - 1) * (count + 1)).astype(np.int64))
    else:
        cuts = 1 + np.sort(np.argsort(rng.random(count - 1))[: parts - 1])
    return np.searchsorted(cuts, np.arange(count), side="right")


def _strays(leaves: Ints, ranks: Ints, apart: int, m: float, rng: np.random.Generator) -> Ints:
    """The images that stray: m% of each class whose rank is not below `apart`."""
    counts, order = np.bincount(leaves), np.argsort(ranks)
    blurry_counts = np.where(ranks < apart, 0, counts)[order]
    # Rounding the running total keeps the pool at m% of all, and each class within one image of its own m%.
    strays = np.empty_like(counts)
    strays[order] = np.diff(np.rint(np.cumsum(blurry_counts) * m / 100), prepend=0)
    return np.flatnonzero(draw_ranks(leaves, rng) < strays[leaves])
