"""Drift: the classes are there from the beginning, and some of them move to another parent in mid-stream."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ramify.arrays import Ints
from ramify.errors import RamifyError
from ramify.streams.draws import Arrivals, draw_order, draw_ranks, enough
from ramify.streams.moves import Move
from ramify.streams.setup import setup
from ramify.taxonomy import Taxonomy
from ramify.typed import SomePercent, Typed, Whole


@dataclass(frozen=True)
class Drift(Typed):
    """What can be set about drift."""

    share: SomePercent = 10.0
    """Percentage of the classes of the moving level that move at each new task, at least one."""
    moving: Whole = 0
    """The level whose classes move, with all that is below them; 0 is the deepest at which they can."""


def _check(_tasks: int, tree: Taxonomy, settings: Drift) -> None:
    if settings.moving and not 2 <= settings.moving <= tree.depth:
        raise RamifyError(f"moving is {settings.moving}: expected a level with parents, 2 to {tree.depth}")
    if not _moving(tree, settings):
        where = f"level {settings.moving}" if settings.moving else "any level"
        raise RamifyError(
            f"no class of {where} can move: expected two parents, one of them with two children"
        )


def _moving(tree: Taxonomy, settings: Drift) -> int:
    """The level whose classes move; 0 if none can."""
    for level in [settings.moving] if settings.moving else range(tree.depth, 1, -1):
        children = np.bincount(tree.up(level, level - 1))
        if (children > 0).sum() > 1 and children.max() > 1:
            return level
    return 0


def moves(tree: Taxonomy, rng: np.random.Generator, tasks: int, settings: Drift) -> tuple[Move, ...]:
    """At each task after the first some classes to another parent each; every parent keeps a child."""
    level = _moving(tree, settings)
    above = tree.up(level, level - 1).copy()
    parents = np.unique(above)
    found: list[Move] = []
    for task in range(1, tasks):
        free = np.flatnonzero(draw_ranks(above, rng) > 0)  # of each parent one child is not free
        count = min(len(free), max(1, round(len(above) * settings.share / 100)))
        chosen = free[draw_order(len(free), rng) < count]
        step = 1 + np.floor(rng.random(count) * (len(parents) - 1)).astype(np.int64)
        above[chosen] = parents[(np.searchsorted(parents, above[chosen]) + step) % len(parents)]
        found += [Move(task, level, int(c), int(above[c])) for c in chosen]
    return tuple(found)


@setup("drift", levels=None, tasks=2, check=_check, settings=Drift, moves=moves)
def drift(leaves: Ints, tree: Taxonomy, rng: np.random.Generator, tasks: int, settings: Drift) -> Arrivals:
    """All classes at all levels in every task; with each new task some classes move to another parent."""
    depth = tree.leaf_levels
    enough(leaves, tree, tasks * depth, f"drift with {tasks} tasks")
    ranks = draw_ranks(leaves, rng)
    level = depth[leaves] - ranks // tasks % depth[leaves]
    return np.arange(len(leaves)), level, ranks % tasks
