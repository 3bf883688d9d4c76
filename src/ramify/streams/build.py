"""Building a stream by the name of its setup: defaults, checks, and the shuffle inside each task."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ramify.errors import RamifyError
from ramify.streams import setups
from ramify.streams.stream import Stream, labels_of
from ramify.taxonomy import IntArray, Taxonomy
from ramify.typed import whole_seed

# How many of the tree's last levels a setup uses unless told; None = all.
SETUPS: dict[str, int | None] = {
    "single-depth": 2,
    "multiple-depth": None,
    "disjoint": 1,
    "blurry": 1,
    "i-blurry": 1,
}
# N% disjoint classes, M% strays; only i-Blurry's can be set.
BLUR = {"disjoint": (100.0, 0.0), "blurry": (0.0, 10.0), "i-blurry": (50.0, 10.0)}
FLAT_TASKS = 5
# The paper's single-depth task counts, by the sizes of its levels: CIFAR100, Stanford Cars, ImageNet-Hier100
PAPER_TASKS: dict[tuple[int, ...], int] = {(20, 100): 6, (9, 196): 10, (10, 100): 6}


def build_stream(
    setup: str,
    leaves: npt.ArrayLike,
    taxonomy: Taxonomy,
    seed: int,
    *,
    labels: str = "single",
    tasks: int | None = None,
    n: float | None = None,
    m: float | None = None,
    levels: Sequence[int] | None = None,
) -> Stream:
    """The stream of a setup, a pure function of its arguments.

    `leaves` are the training images' classes at the tree's deepest level. `labels` is "single" or "dual"
    (single-depth), `n` and `m` are i-Blurry's percentages, `levels` the levels of the tree to use.
    `tasks` defaults to `default_tasks`.
    """
    if setup not in SETUPS:
        raise RamifyError(f"no setup {setup!r}: expected one of {', '.join(SETUPS)}")
    chosen = _levels(setup, taxonomy, levels)
    tree = taxonomy.restrict(chosen)
    all_leaves = _leaves(leaves, taxonomy)
    kept = taxonomy.up(taxonomy.depth, chosen[-1])[all_leaves]
    count = default_tasks(setup, tree) if tasks is None else tasks
    seed = whole_seed(seed)
    rng = np.random.Generator(np.random.PCG64(seed))
    settings = _settings(setup, labels, count, n, m)
    image, level, task = _arrivals(setup, kept, tree, rng, settings)
    order = np.lexsort((rng.random(len(image)), task))
    image, level, task = image[order], level[order], task[order]
    return Stream(
        image=image,
        level=level,
        label=labels_of(taxonomy, chosen, all_leaves[image], level),
        task=task,
        setup=setup,
        seed=seed,
        levels=chosen,
        classes=tree.sizes,
        taxonomy=taxonomy.fingerprint,
        images=len(all_leaves),
        settings=settings,
    )


def default_tasks(setup: str, tree: Taxonomy) -> int:
    """The task count of a setup on the levels it uses: the paper's where it has one.

    Otherwise single-depth has one task for the parents and, for the children, the divisor of the number of
    parents that is nearest to the paper's usual 5 (the smaller of two; 1 only for a single parent).
    """
    if setup == "multiple-depth":
        return tree.depth
    if setup != "single-depth":
        return FLAT_TASKS
    parents = tree.sizes[0]
    candidates = _divisors(parents)[1:] or [1]
    return PAPER_TASKS.get(tree.sizes) or 1 + min(candidates, key=lambda d: (abs(d - 5), d))


def _settings(setup: str, labels: str, tasks: int, n: float | None, m: float | None) -> dict[str, Any]:
    """The settings a setup has, refusing those it has not."""
    if labels not in ("single", "dual") or (labels == "dual" and setup != "single-depth"):
        raise RamifyError(f"labels {labels!r} with {setup}: expected single, or dual with single-depth")
    if setup != "i-blurry" and not n is m is None:
        raise RamifyError(f"n and m cannot be set for {setup}: use i-blurry")
    if setup == "single-depth":
        return {"tasks": tasks, "labels": labels}
    if setup == "multiple-depth":
        return {"tasks": tasks}
    blur = {"n": BLUR[setup][0] if n is None else n, "m": BLUR[setup][1] if m is None else m}
    for key, value in blur.items():
        if not 0 <= value <= 100:
            raise RamifyError(f"{key} = {value} must be a percentage from 0 to 100")
    return {"tasks": tasks, **blur}


def _arrivals(
    setup: str, leaves: IntArray, tree: Taxonomy, rng: np.random.Generator, settings: dict[str, Any]
) -> setups.Arrivals:
    tasks = settings["tasks"]
    if setup == "single-depth":
        parents = tree.sizes[0]
        if tasks < 2 or parents % (tasks - 1):
            works = ", ".join(str(d + 1) for d in _divisors(parents))
            raise RamifyError(
                f"{tasks} tasks: one for the parents leaves {tasks - 1}, which do not share {parents} "
                f"parents equally; task counts that work: {works}"
            )
        dual = settings["labels"] == "dual"
        _enough(leaves, tree, 1 if dual else _least(tasks), f"single-depth with {tasks} tasks")
        return setups.single_depth(leaves, tree, rng, tasks, dual)
    if setup == "multiple-depth":
        if tasks != tree.depth:
            raise RamifyError(f"{tasks} tasks: multiple-depth has one task a level, here {tree.depth}")
        _enough(leaves, tree, tree.depth, f"multiple-depth with {tree.depth} levels")
        return setups.multiple_depth(leaves, tree, rng)
    if not 1 <= tasks <= tree.leaves:
        raise RamifyError(f"{tasks} tasks for {tree.leaves} classes: expected 1 to {tree.leaves}")
    _enough(leaves, tree, 1, setup)
    return setups.flat(leaves, tree, rng, tasks, settings["n"], settings["m"])


def _levels(setup: str, taxonomy: Taxonomy, levels: Sequence[int] | None) -> tuple[int, ...]:
    wanted = SETUPS[setup]
    if wanted is not None and taxonomy.depth < wanted:
        raise RamifyError(
            f"{setup} needs {wanted} levels and this tree has {taxonomy.depth}: give it a tree with parents, "
            "or use disjoint, blurry or i-blurry"
        )
    if levels is None:
        return tuple(range(1 if wanted is None else taxonomy.depth - wanted + 1, taxonomy.depth + 1))
    if wanted not in (None, len(levels)):
        raise RamifyError(
            f"{setup} uses {wanted} level{'s'[: wanted != 1]}, {len(levels)} given: {list(levels)}"
        )
    return tuple(levels)


def _leaves(leaves: npt.ArrayLike, taxonomy: Taxonomy) -> IntArray:
    array = np.asarray(leaves)
    if array.ndim != 1 or array.dtype.kind not in "iu" or not len(array):
        raise RamifyError(f"leaves must be a list of class indices, found {array.dtype}{array.shape}")
    if array.min() < 0 or array.max() >= taxonomy.leaves:
        raise RamifyError(
            f"leaf indices run from {array.min()} to {array.max()}, the tree has 0 to {taxonomy.leaves - 1}"
        )
    return array.astype(np.int64)


def _enough(leaves: IntArray, tree: Taxonomy, least: int, setup: str) -> None:
    counts = np.bincount(leaves, minlength=tree.leaves)
    short = np.flatnonzero(counts < least)
    if len(short):
        name = tree.names(tree.depth)[short[0]]
        raise RamifyError(
            f"too few images: {len(short)} of {tree.leaves} classes, such as {name!r} with "
            f"{counts[short[0]]}, have fewer than the {least} that {setup} needs; "
            "add images or drop these classes"
        )


def _least(tasks: int) -> int:
    """The fewest images of a class that leave one for its parent's task and one for its own."""
    counts = np.arange(tasks + 1)
    share = setups.child_share(counts, tasks)
    return int(np.argmax((share > 0) & (share < counts)))


def _divisors(number: int) -> list[int]:
    return [d for d in range(1, number + 1) if number % d == 0]
