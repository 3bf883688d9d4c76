"""Si-Blurry: as i-Blurry, but how many classes and strays a task has is left to chance."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ramify.errors import RamifyError
from ramify.streams.blurry import IBlurry, draw_strays
from ramify.streams.draws import Arrivals, draw_order, enough
from ramify.streams.setup import setup
from ramify.taxonomy import IntArray, Taxonomy


@dataclass(frozen=True)
class SiBlurry(IBlurry):
    """What can be set about si-blurry: as of i-blurry."""


def _tasks(_tree: Taxonomy, _settings: SiBlurry) -> int:
    return 5


def _check(tasks: int, tree: Taxonomy, settings: SiBlurry) -> None:
    apart = round(tree.leaves * settings.n / 100)
    most = max(apart, tree.leaves - apart)
    if not 1 <= tasks <= most:
        raise RamifyError(
            f"{tasks} tasks for {apart} disjoint and {tree.leaves - apart} blurry classes: "
            f"expected 1 to {most}"
        )


@setup("si-blurry", levels=1, tasks=_tasks, check=_check, settings=SiBlurry)
def si_blurry(
    leaves: IntArray, tree: Taxonomy, rng: np.random.Generator, tasks: int, settings: SiBlurry
) -> Arrivals:
    """Flat labels: i-blurry with numbers of classes and of strays in each task that are left to chance."""
    enough(leaves, tree, 1, "si-blurry")
    ranks = draw_order(tree.leaves, rng)
    apart = round(tree.leaves * settings.n / 100)
    parts = np.concatenate((_cut(apart, tasks, rng), _cut(tree.leaves - apart, tasks, rng)))
    task = parts[ranks][leaves]
    pool = draw_strays(leaves, ranks, apart, settings.m, rng)
    task[pool] = _cut(len(pool), tasks, rng)[draw_order(len(pool), rng)]
    return np.arange(len(leaves)), np.ones_like(leaves), task


def _cut(count: int, parts: int, rng: np.random.Generator) -> IntArray:
    """The part of each of `count` things in a row cut at random places; none is empty if that can be."""
    if count < parts:
        cuts = np.sort(np.floor(rng.random(parts - 1) * (count + 1)).astype(np.int64))
    else:
        cuts = 1 + np.sort(np.argsort(rng.random(count - 1))[: parts - 1])
    return np.searchsorted(cuts, np.arange(count), side="right")
