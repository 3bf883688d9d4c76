"""Means, spreads and paired tests over seeds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

LEAST_SEEDS = 3
ALPHA = 0.05


@dataclass(frozen=True)
class Figure:
    """One figure of a table. `std` is the sample standard deviation over seeds, None for a single one."""

    mean: float
    std: float | None = None
    seeds: Mapping[int, float] | None = None  # the value of each seed, where they are known

    @classmethod
    def over_seeds(cls, seeds: Mapping[int, float]) -> Figure:
        """Mean and spread of one value a seed."""
        values = np.array(list(seeds.values()), np.float64)
        return cls(float(values.mean()), float(values.std(ddof=1)) if len(values) > 1 else None, dict(seeds))


def gap(ours: Figure, theirs: Figure) -> float | None:
    """(ours - theirs) in standard deviations: the root mean square of the spreads that are known."""
    known = [figure.std for figure in (ours, theirs) if figure.std is not None]
    spread = float(np.sqrt(np.mean(np.square(known)))) if known else 0.0
    return (ours.mean - theirs.mean) / spread if spread > 0 else None


@dataclass(frozen=True)
class Comparison:
    """A paired t-test of two methods over the seeds they share."""

    difference: float
    seeds: int
    p: float | None  # None with fewer than three seeds


def paired(a: Mapping[int, float], b: Mapping[int, float]) -> Comparison | None:
    """Compare `a` with `b`, seed by seed; None where they share no seed."""
    common = sorted(a.keys() & b.keys())
    if not common:
        return None
    differences = np.array([a[seed] - b[seed] for seed in common], np.float64)
    mean = float(differences.mean())
    if len(common) < LEAST_SEEDS:
        return Comparison(mean, len(common), None)
    if np.ptp(differences) <= 1e-9 * max(1.0, abs(mean)):  # no spread: the test statistic is not defined
        return Comparison(mean, len(common), 0.0 if abs(mean) > 1e-9 else 1.0)
    from scipy.stats import ttest_1samp

    return Comparison(mean, len(common), float(ttest_1samp(differences, 0.0).pvalue))


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's correction: the chance of any false alarm among all of these comparisons stays below alpha."""
    p = np.array(p_values, np.float64)
    order = np.argsort(p)
    steps = np.minimum(1.0, np.maximum.accumulate(p[order] * (len(p) - np.arange(len(p)))))
    corrected = np.empty_like(p)
    corrected[order] = steps
    return [float(value) for value in corrected]
