"""Where an answer ends: at the level whose most probable class, by all heads together, has no children.

A path's product of probabilities cannot tell: that of three levels is smaller than that of two, and a head
of many classes gives each of them less. So classes are compared within one level, each by its whole mass.
"""

from __future__ import annotations

import numpy as np

from ramify.arrays import Floats, Ints, Mask
from ramify.hierarchy.ties import is_last, level_sizes, own_column

TINY = float(np.finfo(float).tiny)
# What the heads of other levels count, chosen on images held out of training (tools/tune.py): a finer one
# tells more kinds apart and helps; a coarser one says little that the level itself does not know.
FINER, COARSER = 0.4, 0.1


def answer_ends(log: Floats, ancestors: Ints) -> Ints:
    """The column of the level at which the answer to each image ends.

    Levels are looked at from the coarsest on. A finer head is about those alone that go on to it, so the mass
    that it gives to a class's descendants counts times the mass of the classes that go on; a class without
    children keeps what its own head gives it. The score of a class is the sum of its log-masses by all heads,
    those of other levels times `FINER` or `COARSER`, as in `joint`. Where the best class of a level has no
    children, the answer ends. With heads that are right that depends on the probability of the class alone,
    not on how many levels and classes lie below the others.

    Classes whose ancestor is not known stand together as one more candidate of that level, of probability
    1/n, n its classes; each of these may be the ancestor, and so may go on, as probably as that.
    """
    own, last, depth = own_column(ancestors), is_last(ancestors), ancestors.shape[1]
    found = np.full(len(log), depth - 1, np.int64)
    if (own[last] == depth - 1).all():
        return found
    probabilities, sizes = np.exp(log), level_sizes(ancestors)
    doubt = np.array([_doubt(ancestors, own, last, column, sizes[column]) for column in range(depth)])
    stays = np.where(last, 1 - doubt[own], 0.0)  # the share of each class that ends there
    goes_on = np.stack([(probabilities * (1 - stays))[:, own == k].sum(1) for k in range(depth)], 1)
    for column in range(depth - 2, -1, -1):  # the coarsest end wins
        members = np.flatnonzero(own == column)
        score = _upward(log, ancestors, sizes, column)
        stopped, reached = np.zeros_like(score), np.ones((len(log), 1))
        for finer in range(column, depth - 1):
            here, below = own == finer, own == finer + 1
            stopped += reached * _by_ancestor(
                (probabilities * stays)[:, here], ancestors[here, column], members
            )
            reached = reached * goes_on[:, finer, None]
            alive = reached * _by_ancestor(probabilities[:, below], ancestors[below, column], members)
            score += FINER * np.log(np.maximum(stopped + alive, TINY))
        best = score.argmax(1)
        ends = np.append(last[members], False)[best]
        found[ends] = column
    return found


def _doubt(ancestors: Ints, own: Ints, last: Mask, column: int, size: int) -> float:
    """How probably a class of this level has a descendant of which that is not known."""
    strangers = int((last & (own > column) & (ancestors[:, column] < 0)).sum())
    return float(1 - (1 - 1 / size) ** strangers) if strangers else 0.0


def _upward(log: Floats, ancestors: Ints, sizes: Ints, column: int) -> Floats:
    """[n, classes of the level + 1]: what its own head and the coarser ones say; last of the unknown."""
    own = own_column(ancestors)
    members, strangers = own == column, (own > column) & (ancestors[:, column] < 0)
    above = path_log(log, ancestors[members, :column], sizes)
    unknown = path_log(log, ancestors[strangers, :column], sizes).max(1, initial=-np.inf)
    return np.column_stack([log[:, members] + COARSER * above, COARSER * unknown - np.log(sizes[column])])


def path_log(log: Floats, paths: Ints, sizes: Ints) -> Floats:
    """[n, paths]: the sum of the log-probabilities on each path, 1/n for a class that is not known."""
    total = np.zeros((len(log), len(paths)))
    for column, classes in enumerate(paths.T):
        total += np.where(classes >= 0, log[:, classes], -np.log(sizes[column]))
    return total


def _by_ancestor(values: Floats, ancestor: Ints, members: Ints) -> Floats:
    """Sums of columns by the ancestor of each, an entry of `members` (rising), and last of the unknown."""
    found = np.zeros((len(values), len(members) + 1))
    place = np.where(ancestor >= 0, np.searchsorted(members, ancestor), len(members))
    order = np.argsort(place, kind="stable")
    present, starts = np.unique(place[order], return_index=True)
    if len(present):
        found[:, present] = np.add.reduceat(values[:, order], starts, axis=1)
    return found
