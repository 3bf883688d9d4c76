"""Levels that help each other: a class is known also by those above and below it in the found tree."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from ramify.hierarchy.ties import Ties
from ramify.networks.closed_form import Moments


def with_children(moments: Moments, ties: Ties) -> Moments:
    """The features of a class's children are its own too, and those of their children."""
    counts, sums = moments.counts.clone(), moments.sums.clone()
    for level in reversed(ties.classes.levels):
        own = ties.classes.of_level(level)
        tied = torch.from_numpy(own[ties.parents[own] >= 0])
        parents = torch.from_numpy(ties.parents)[tied]
        counts.index_add_(0, parents, counts[tied])
        sums.index_add_(0, parents, sums[tied])
    return replace(moments, counts=counts, sums=sums)


def towards_parents(moments: Moments, ties: Ties, k: float) -> Tensor:
    """Means [classes, f], each with that of its parent in it as if `k` features had been seen there.

    All classes of a level go the same share of the way, that of the harmonic mean of their counts: one that
    went further than its rivals would lie in their midst, and be answered for them.
    """
    means = moments.means
    for level in ties.classes.levels[1:]:
        own = ties.classes.of_level(level)
        tied = torch.from_numpy(own[ties.parents[own] >= 0])
        if len(tied):
            above = means[torch.from_numpy(ties.parents)[tied]]
            count = len(tied) / (1 / moments.counts[tied]).sum()
            means[tied] = above + (means[tied] - above) * (count / (count + k))
    return means
