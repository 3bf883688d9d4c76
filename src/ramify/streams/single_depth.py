"""HLE single-depth: two levels; first all parents, then one group of them after the other expands."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from ramify.arrays import Ints
from ramify.errors import RamifyError
from ramify.streams.draws import Arrivals, draw_order, draw_ranks, enough
from ramify.streams.setup import setup
from ramify.taxonomy import Taxonomy
from ramify.typed import Typed

# The paper's task counts, by the sizes of the two levels: CIFAR100, Stanford Cars, ImageNet-Hier100
PAPER_TASKS: dict[tuple[int, ...], int] = {(20, 100): 6, (9, 196): 10, (10, 100): 6}


@dataclass(frozen=True)
class SingleDepth(Typed):
    """What can be set about single-depth."""

    labels: Literal["single", "dual"] = "single"
    """Each image once, or again with its child label."""


def _tasks(tree: Taxonomy, _settings: SingleDepth) -> int:
    """The paper's number where it has one.

    Otherwise one task for the parents and, for the children, the divisor of the number of parents that is
    nearest to the paper's usual 5 (the smaller of two; 1 only for a single parent).
    """
    candidates = _divisors(len(_expanding(tree)))[1:] or [1]
    return PAPER_TASKS.get(tree.sizes) or 1 + min(candidates, key=lambda d: (abs(d - 5), d))


def _check(tasks: int, tree: Taxonomy, _settings: SingleDepth) -> None:
    parents = len(_expanding(tree))
    if tasks < 2 or parents % (tasks - 1):
        works = ", ".join(str(d + 1) for d in _divisors(parents))
        raise RamifyError(
            f"{tasks} tasks: one for the parents leaves {tasks - 1}, which do not share {parents} "
            f"parents equally; task counts that work: {works}"
        )


@setup("single-depth", levels=2, tasks=_tasks, check=_check, settings=SingleDepth)
def single_depth(
    leaves: Ints, tree: Taxonomy, rng: np.random.Generator, tasks: int, settings: SingleDepth
) -> Arrivals:
    """Two levels: first all parents; then, in equal groups, each parent expands into its children once.

    Single-label: each image arrives once. Dual-label: all arrive as their parent first, then again. The
    images of a parent that is itself a leaf all arrive in the first task.
    """
    dual, below = settings.labels == "dual", tree.leaf_levels > 1
    least = np.where(below, 1 if dual else _least(tasks), 1)
    enough(leaves, tree, least, f"single-depth with {tasks} tasks")
    parents = _expanding(tree)
    group = np.full(tree.sizes[0], -1)
    group[parents] = draw_order(len(parents), rng) * (tasks - 1) // len(parents)
    child_task = 1 + group[tree.leaf_to(1)][leaves]
    image = np.arange(len(leaves))
    if dual:
        again = np.flatnonzero(below[leaves])
        level = np.repeat([1, 2], [len(image), len(again)])
        task = np.concatenate((0 * image, child_task[again]))
        return np.concatenate((image, again)), level, task
    share = np.where(below, _child_share(np.bincount(leaves), tasks), 0)
    late = draw_ranks(leaves, rng) < share[leaves]
    return image, np.where(late, 2, 1), np.where(late, child_task, 0)


def _expanding(tree: Taxonomy) -> Ints:
    """The parents that have children."""
    return np.unique(tree.up(2, 1))


def _child_share(counts: Ints, tasks: int) -> Ints:
    """How many images of each class arrive with their child label: round(n·(T-1)/T), half to even."""
    return np.rint(counts * (tasks - 1) / tasks).astype(np.int64)


def _least(tasks: int) -> int:
    """The fewest images of a class that leave one for its parent's task and one for its own."""
    counts = np.arange(tasks + 1)
    share = _child_share(counts, tasks)
    return int(np.argmax((share > 0) & (share < counts)))


def _divisors(number: int) -> list[int]:
    return [d for d in range(1, number + 1) if number % d == 0]
