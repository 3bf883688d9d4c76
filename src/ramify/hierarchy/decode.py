"""The ways to read an answer: from the log-probabilities of every class on its level's head to labels.

Each gives class numbers [n, levels met], -1 for no answer. `ancestors` is [class, level met], as
`Ties.ancestors` gives it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ramify.arrays import AnyInts, Floats, Ints
from ramify.classes import Classes
from ramify.errors import RamifyError
from ramify.hierarchy.ends import COARSER, FINER, answer_ends, path_log
from ramify.hierarchy.ties import is_last, level_sizes, own_column

Decoding = Callable[[Classes, Floats, Ints], Ints]
STRAY = 0.5  # nats that a class loses to be chosen below one that is not its parent (docs/canopy.md)


class Said(NamedTuple):
    """What was answered in one of these ways, [n, levels met] each."""

    classes: Ints  # -1 for no answer
    probability: Floats  # of each on its level's head, nan for no answer
    ranking: AnyInts  # [n, classes of the finest level met], from the most to the least probable on its head


def heads(classes: Classes, log: Floats, ancestors: Ints | None = None) -> Ints:
    """The most probable class of each level by itself; no tree plays a part."""
    return np.stack([_within(classes, level, -log) for level in classes.levels], 1)


def path(classes: Classes, log: Floats, ancestors: Ints) -> Ints:
    """The classes of the most probable path: that of the greatest product of its levels' probabilities.

    It ends at a class below which none has been met, at the level that `answer_ends` finds. An ancestor that
    is not known may be any of its level's n classes: 1/n. It is -1 in the path, as are levels below its end.
    """
    paths = ancestors[is_last(ancestors)]
    return _of_length(paths, path_log(log, paths, level_sizes(ancestors)), answer_ends(log, ancestors))


def crm(classes: Classes, log: Floats, ancestors: Ints) -> Ints:
    """CRM (Karthik et al. 2021): at each level the class of least expected height of the common ancestor."""
    probabilities = np.exp(log)
    chosen = []
    for column, level in enumerate(classes.levels):
        rows = classes.of_level(level)
        paths = ancestors[rows, : column + 1]
        shared = (paths[:, None] == paths[None]) & (paths >= 0)[:, None]
        heights = column + 1.0 - shared.sum(2)
        np.fill_diagonal(heights, 0)
        expected = np.zeros_like(probabilities)
        expected[:, rows] = probabilities[:, rows] @ heights
        chosen.append(_within(classes, level, expected))
    return np.stack(chosen, 1)


def up(classes: Classes, log: Floats, ancestors: Ints) -> Ints:
    """The most probable class of the finest level, and its ancestors.

    Where `answer_ends` finds a coarser level, it is of the classes that end there.
    """
    last = is_last(ancestors)
    return _of_length(ancestors[last], log[:, last], answer_ends(log, ancestors))


def joint(classes: Classes, log: Floats, ancestors: Ints) -> Ints:
    """One class a level, so that the sum of their scores is greatest, less `STRAY` for each that strays.

    A class's score is the sum over levels of the log-probability that the level's head gives to its path: to
    its ancestor at a coarser level, to all of its descendants at a finer one. A finer head counts
    `FINER` of its own, a coarser one `COARSER`: one that errs, or a tree found in part, must not outvote it.
    A level that has none of the class says nothing: each of the n classes to tell apart has 1/n. A class
    strays if it is not a child of the one that is chosen above it.
    """
    total, back = np.zeros((len(log), len(classes))), []
    for column, level in enumerate(classes.levels):  # Viterbi: the best choice that ends in each class
        rows = classes.of_level(level)
        total[:, rows] = _joint_scores(classes, log, ancestors, column)
        if column:
            above = classes.of_level(classes.levels[column - 1])
            best = above[total[:, above].argmax(1)][:, None]
            stray = np.take_along_axis(total, best, 1) - STRAY
            parents = ancestors[rows, column - 1]
            follow = np.where(parents >= 0, total[:, parents], -np.inf)
            total[:, rows] += np.maximum(follow, stray)
            back.append(np.where(follow >= stray, parents, best))
    place = total[:, rows].argmax(1)
    chosen = [rows[place]]
    for column in range(len(back) - 1, -1, -1):
        chosen.append(back[column][np.arange(len(log)), place])
        place = np.searchsorted(classes.of_level(classes.levels[column]), chosen[-1])
    return np.stack(chosen[::-1], 1)


def _joint_scores(classes: Classes, log: Floats, ancestors: Ints, column: int) -> Floats:
    """[n, classes of a level]: what all heads together say of each."""
    rows, probabilities = classes.of_level(classes.levels[column]), np.exp(log)
    score = log[:, rows].copy()
    for other, other_level in enumerate(classes.levels):
        members = classes.of_level(other_level)
        if other < column:
            above = ancestors[rows, other]
            score += COARSER * np.where(above >= 0, log[:, above], -np.log(len(members)))
        elif other > column:
            below = ancestors[members, column][:, None] == rows
            mass = np.maximum(probabilities[:, members] @ below, np.finfo(float).tiny)
            score += FINER * np.where(below.any(0), np.log(mass), -np.log(len(rows)))
    return score


DECODINGS: dict[str, Decoding] = {"heads": heads, "path": path, "crm": crm, "up": up, "joint": joint}


def decode(name: str, classes: Classes, log: Floats, ancestors: Ints) -> Ints:
    """Read answers in one of these ways."""
    if name not in DECODINGS:
        raise RamifyError(f"no decoding {name!r}; use {', '.join(DECODINGS)}")
    return DECODINGS[name](classes, log, ancestors)


def ranking_of(classes: Classes, log: Floats) -> AnyInts:
    """The classes of the finest level met as its head prefers them."""
    rows = classes.of_level(classes.levels[-1])
    narrow = rows.astype(np.min_scalar_type(len(classes)))
    return narrow[np.argsort(-log[:, rows], axis=1, kind="stable")]


def probability_of(chosen: Ints, log: Floats) -> Floats:
    """The probability of each class [n, levels met] on its level's head, nan for no answer."""
    return np.where(chosen >= 0, np.exp(np.take_along_axis(log, np.maximum(chosen, 0), 1)), np.nan)


def _of_length(paths: Ints, score: Floats, ends: Ints) -> Ints:
    """The path of the greatest score among those that end at the column of each image."""
    fits = own_column(paths) == ends[:, None]
    found: Ints = paths[np.where(fits, np.maximum(score, np.finfo(float).min), -np.inf).argmax(1)]
    return found


def _within(classes: Classes, level: int, cost: Floats) -> Ints:
    rows = classes.of_level(level)
    found: Ints = rows[cost[:, rows].argmin(1)]
    return found
