"""IIRC: superclasses first, then their subclasses, with images that come under both names."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ramify.arrays import Floats, Ints
from ramify.errors import RamifyError
from ramify.streams.draws import Arrivals, draw_order, draw_ranks, enough
from ramify.streams.setup import setup
from ramify.taxonomy import Taxonomy
from ramify.typed import Count, SomePercent, Typed

A_TASK = 5  # classes of each task after the first, as on CIFAR-100


@dataclass(frozen=True)
class Iirc(Typed):
    """What can be set about iirc."""

    coarse: SomePercent = 40.0
    """Percentage of a subclass's images that come under its superclass."""
    fine: SomePercent = 80.0
    """Percentage of them that come under the subclass."""
    first: Count = 10
    """Superclasses of the first task, at most all."""
    cap: Count = 8
    """Subclasses from which on a superclass has no more images."""


def _counts(tree: Taxonomy, settings: Iirc) -> tuple[int, int]:
    """How many superclasses the first task has, and how many classes of both levels the others."""
    first = min(settings.first, len(np.unique(tree.up(2, 1))))
    return first, sum(tree.sizes) - first


def _tasks(tree: Taxonomy, settings: Iirc) -> int:
    return 1 + max(_least(tree, settings), -(-_counts(tree, settings)[1] // A_TASK))


def _least(tree: Taxonomy, settings: Iirc) -> int:
    """Tasks after the first: one, or two where superclasses come in them, before their subclasses."""
    return 1 if settings.first >= len(np.unique(tree.up(2, 1))) else 2


def _check(tasks: int, tree: Taxonomy, settings: Iirc) -> None:
    least, most = 1 + _least(tree, settings), 1 + _counts(tree, settings)[1]
    if not least <= tasks <= most:
        raise RamifyError(f"{tasks} tasks: expected {least} to {most} for {sum(tree.sizes)} classes")


@setup("iirc", levels=2, tasks=_tasks, check=_check, settings=Iirc)
def iirc(leaves: Ints, tree: Taxonomy, rng: np.random.Generator, tasks: int, settings: Iirc) -> Arrivals:
    """Two levels: superclasses first, later their subclasses, each with a share of the images.

    Some images come under both. A class of the upper level without subclasses comes in a later
    task, with all of its images.
    """
    below = tree.leaf_levels > 1
    enough(leaves, tree, _needed(tree, settings), "iirc")
    upper, lower = _class_tasks(tree, rng, tasks, settings)
    counts = np.bincount(leaves, minlength=tree.leaves)
    shares = _shares(tree, settings) * counts[:, None]
    early, late = np.floor(shares + 1e-9).astype(np.int64).T
    ranks = draw_ranks(leaves, rng)
    # The first images of a class come under the superclass, the last under the subclass.
    coarse = np.flatnonzero(ranks < early[leaves])
    fine = np.flatnonzero(below[leaves] & (ranks >= (counts - late)[leaves]))
    image = np.concatenate((coarse, fine))
    level = np.repeat([1, 2], [len(coarse), len(fine)])
    at = np.concatenate((upper[tree.leaf_to(1)][leaves[coarse]], lower[tree.leaf_to(2)][leaves[fine]]))
    return image, level, at


def _shares(tree: Taxonomy, settings: Iirc) -> Floats:
    """[leaf, level] → the share of a leaf's images that come at each level."""
    above = tree.up(2, 1)
    size = np.bincount(above, minlength=tree.sizes[0])
    coarse = settings.coarse / 100 * np.minimum(1, settings.cap / np.maximum(size, 1))
    below = tree.leaf_levels > 1
    early = np.where(below, coarse[tree.leaf_to(1)], 1)
    return np.stack((early, np.where(below, settings.fine / 100, 0)), 1)


def _needed(tree: Taxonomy, settings: Iirc) -> Ints:
    """The fewest images of each leaf that leave one for each level that it has."""
    shares = _shares(tree, settings)
    least = np.where(shares > 0, shares, 1).min(1)
    needed: Ints = np.ceil(1 / least - 1e-9).astype(np.int64)
    return needed


def _class_tasks(tree: Taxonomy, rng: np.random.Generator, tasks: int, settings: Iirc) -> tuple[Ints, Ints]:
    """The task of each class of either level: about equally many each, superclasses before subclasses."""
    above, size = tree.up(2, 1), tree.sizes[0]
    parents = np.unique(above)
    moment = rng.random(size)
    moment[parents[draw_order(len(parents), rng) < _counts(tree, settings)[0]]] = -1
    # A subclass comes at any time after its superclass.
    begin = np.maximum(moment, 0)[above]
    moment = np.concatenate((moment, begin + (1 - begin) * rng.random(len(above))))
    task = np.where(moment < 0, 0, tasks)  # `tasks`: not yet known
    parent = np.concatenate((np.full(size, -1), above))
    is_parent = np.isin(np.arange(len(task)), parents)
    left = np.argsort(moment, kind="stable")
    for now in range(1, tasks):
        left = left[task[left] == tasks]
        ready = left[(parent[left] < 0) | (task[parent[left]] < now)]
        count = -(-len(left) // (tasks - now))
        if now == tasks - 2:  # the last moment for a superclass
            ready = ready[np.argsort(~is_parent[ready], kind="stable")]
            count = max(count, int(is_parent[ready].sum()))
        task[ready[:count]] = now
    return task[:size], task[size:]
