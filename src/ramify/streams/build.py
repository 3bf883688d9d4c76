"""Building a stream by the name of its setup: defaults, checks, and the shuffle inside each task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
import numpy.typing as npt

from ramify.arrays import Ints
from ramify.errors import RamifyError
from ramify.named import blamed
from ramify.plural import counted
from ramify.streams.draws import Arrivals, draw_shuffle
from ramify.streams.imbalance import long_tail
from ramify.streams.moves import Eras
from ramify.streams.setup import SETUPS, Setup, find_setup
from ramify.streams.stream import Stream, labels_of
from ramify.taxonomy import Taxonomy
from ramify.typed import Typed, whole, whole_seed


def build_stream(
    setup: str,
    leaves: npt.ArrayLike,
    taxonomy: Taxonomy,
    seed: int,
    *,
    settings: Mapping[str, Any] | Typed | None = None,
    tasks: int | None = None,
    levels: Sequence[int] | None = None,
    imbalance: float | None = None,
) -> Stream:
    """The stream of a setup, a pure function of its arguments.

    `setup` is a name (`ramify stream list`) or `package.module:name`. `leaves` are the training images'
    leaves of the tree. `settings` are the setup's own, as a mapping or an instance of their class; `tasks` is
    their number, `default_tasks` if left out. `levels` are the levels of the tree to use or, below 0, levels
    counted from the end of each leaf; on a tree of unequal depth a setup of one or two levels takes the last
    ones of each leaf. Images whose leaf has none of the levels do not arrive. `imbalance` makes the images
    long-tailed first (`ramify.streams.imbalance.long_tail`).
    """
    rule = find_setup(setup)
    own = rule.own(settings)
    chosen = taxonomy.chosen(_levels(rule, taxonomy, levels))
    tree = taxonomy.restrict(chosen)
    all_leaves = _leaves(leaves, taxonomy)
    kept = taxonomy.leaf_in(chosen)[all_leaves]
    there = None if (kept >= 0).all() else np.flatnonzero(kept >= 0)  # a leaf may end above all these levels
    seed = whole_seed(seed)
    if imbalance is not None:
        tail = long_tail(kept if there is None else kept[there], tree.leaves, imbalance, seed)
        there = tail if there is None else there[tail]
    rng = np.random.Generator(np.random.PCG64(seed))
    seen = kept if there is None else kept[there]
    with blamed(f"the setup {rule.name}"):
        count = whole("tasks", rule.tasks(tree, own) if tasks is None else tasks, 1)
        rule.check(count, tree, own)
        image, level, task, *within = map(np.asarray, rule.arrivals(seen, tree, rng, count, own))
        moves = () if rule.moves is None else tuple(rule.moves(tree, rng, count, own))
    _check(rule, (image, level, task, *within[:1]), (len(seen), tree.depth, count))
    del kept, seen  # a large stream takes most of the memory: no array is kept without need
    order = np.lexsort((within[0], task)) if within else draw_shuffle(task, rng)
    image = image[order] if there is None else there[image[order]]
    level = level[order]
    task = task[order]
    del order, there, within
    label = labels_of(Eras.of(taxonomy, chosen, moves), all_leaves[image], level, task)
    _check_ends(rule, taxonomy, chosen, all_leaves, (image, level, label))
    for array in (image, level, label, task):
        array.flags.writeable = False  # they need no copy
    return Stream(
        image=image,
        level=level,
        label=label,
        task=task,
        setup=setup,
        seed=seed,
        levels=chosen,
        classes=tree.sizes,
        taxonomy=taxonomy.fingerprint,
        images=len(all_leaves),
        moves=moves,
        settings={
            "tasks": count,
            **({} if own is None else asdict(own)),
            **({} if imbalance is None else {"imbalance": float(imbalance)}),
        },
    )


def default_tasks(setup: str, tree: Taxonomy, settings: Mapping[str, Any] | Typed | None = None) -> int:
    """The number of tasks of a setup on the levels it uses: the paper's where it has one."""
    rule = find_setup(setup)
    return rule.tasks(tree, rule.own(settings))


def _check(rule: Setup, arrivals: Arrivals, counts: tuple[int, int, int]) -> None:
    """Refuse arrivals that do not fit the numbers of images, levels and tasks."""
    shapes = {array.shape for array in arrivals}
    if (
        len(shapes) > 1
        or not len(arrivals[0])
        or any(a.ndim != 1 or a.dtype.kind not in "iu" for a in arrivals)
    ):
        found = ", ".join(f"{array.dtype}{array.shape}" for array in arrivals)
        raise RamifyError(
            f"the setup {rule.name} returned {found}; expected image, level and task: "
            "whole numbers, equally many of each"
        )
    for name, array, low, count in zip(("image", "level", "task"), arrivals, (0, 1, 0), counts, strict=False):
        if array.min() < low or array.max() >= low + count:
            raise RamifyError(
                f"the setup {rule.name} returned {name}s from {array.min()} to {array.max()}; "
                f"expected {low} to {low + count - 1}"
            )
    absent = np.flatnonzero(np.bincount(arrivals[2]) == 0)
    if len(absent):
        raise RamifyError(
            f"the setup {rule.name} returned nothing for task {absent[0]}; number them 0, 1, 2, …"
        )


def _check_ends(
    rule: Setup, taxonomy: Taxonomy, chosen: tuple[int, ...], leaves: Ints, arrivals: Arrivals
) -> None:
    """Refuse arrivals, here (image, level, label), at a level that their leaf does not have."""
    image, level, label = arrivals
    at = int(label.argmin())
    if label[at] < 0:
        leaf = leaves[image[at]]
        ends = taxonomy.restrict(chosen).leaf_levels[taxonomy.leaf_in(chosen)[leaf]]
        raise RamifyError(
            f"the setup {rule.name} returned level {level[at]} for an image of "
            f"{taxonomy.leaf_names[leaf]!r}, which ends at level {ends}; see tree.leaf_levels"
        )


def _levels(rule: Setup, taxonomy: Taxonomy, levels: Sequence[int] | None) -> tuple[int, ...]:
    wanted = rule.levels
    if wanted is not None and taxonomy.depth < wanted:
        others = [s.name for s in SETUPS.values() if s.levels is not None and s.levels <= taxonomy.depth]
        raise RamifyError(
            f"{rule.name} needs {wanted} levels and this tree has {taxonomy.depth}: "
            f"give it a tree with parents, or use {', '.join(others)}"
        )
    if levels is None and wanted is not None and not taxonomy.even:
        return tuple(range(-wanted, 0))
    if levels is None:
        return tuple(range(1 if wanted is None else taxonomy.depth - wanted + 1, taxonomy.depth + 1))
    if wanted is not None and wanted != len(levels):
        raise RamifyError(f"{rule.name} uses {counted(wanted, 'level')}, {len(levels)} given: {list(levels)}")
    return tuple(levels)


def _leaves(leaves: npt.ArrayLike, taxonomy: Taxonomy) -> Ints:
    array = np.asarray(leaves)
    if array.ndim != 1 or array.dtype.kind not in "iu" or not len(array):
        raise RamifyError(f"leaves must be a list of class indices, found {array.dtype}{array.shape}")
    if array.min() < 0 or array.max() >= taxonomy.leaves:
        raise RamifyError(
            f"leaf indices run from {array.min()} to {array.max()}, the tree has 0 to {taxonomy.leaves - 1}"
        )
    return array.astype(np.int64, copy=False)
