"""Metrics of one's own: functions of answers and truth, registered like methods, found by name."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ramify.arrays import Ints
from ramify.errors import RamifyError
from ramify.named import blamed, find_named
from ramify.taxonomy import Taxonomy
from ramify.typed import shown

Compute = Callable[[Ints, Ints, Taxonomy], Any]
MetricValues = dict[str, float]
ALL = "all"  # the key of a figure that is not of one level
TAKEN = frozenset(  # what records and results have anyway
    (
        "aauc",
        "accuracy",
        "auc",
        "aurc",
        "average_accuracy",
        "balanced_accuracy",
        "consistency",
        "fauc",
        "final_accuracy",
        "finest_accuracy",
        "forgetting",
        "hops",
        "jaccard",
        "path_accuracy",
        "peak_memory",
        "seconds",
        "severity",
        "updates",
        *("fpa", "tice", "wap", "hops"),
        *(f"{kind}_{average}" for kind in ("hp", "hr", "hf1") for average in ("micro", "macro")),
    )
)


@dataclass(frozen=True)
class Metric:
    """A figure of answers: how it is computed, and how tables show it."""

    name: str
    compute: Compute
    """(predictions, truth, tree) → a number, {level: number}, or None where there is nothing to say.

    Predictions and truth are [images, levels], classes of each level of the tree; −1: no answer, and in the
    truth no class, below the end of a leaf (`tree.even`: there is none)."""
    lower_is_better: bool = False
    percent: bool = True
    """Whether tables show it times 100."""

    def __call__(self, predictions: Ints, truth: Ints, tree: Taxonomy) -> MetricValues:
        """The figure by level, or as `all`; what goes wrong in it is told as such."""
        with blamed(f"the metric {self.name}"):
            found = self.compute(predictions.copy(), truth.copy(), tree)
        if found is None:
            return {}
        table = found if isinstance(found, Mapping) else {ALL: found}
        levels = {ALL, *map(str, range(1, tree.depth + 1))}
        values = {str(key): _number(value) for key, value in table.items() if value is not None}
        if not values.keys() <= levels or any(value is None for value in values.values()):
            raise RamifyError(
                f"the metric {self.name} returned {shown(found)}; it must return a finite number, "
                f"{{level: number}} for levels 1 to {tree.depth}, or None"
            )
        return {key: value for key, value in values.items() if value is not None}


METRICS: dict[str, Metric] = {}


def metric(name: str, *, lower_is_better: bool = False, percent: bool = True) -> Callable[[Compute], Metric]:
    """Register a metric under a name; see `Metric`.

    >>> @metric("answered")
    ... def answered(predictions, truth, tree):
    ...     return float((predictions >= 0).all(1).mean())
    >>> METRICS.pop("answered").name
    'answered'
    """
    if name in TAKEN or ":" in name or not name:
        raise RamifyError(f"the metric {name!r} cannot be called so; give it a name that is not ramify's own")

    def register(compute: Compute) -> Metric:
        METRICS[name] = Metric(name, compute, lower_is_better, percent)
        return METRICS[name]

    return register


def find_metric(name: str) -> Metric:
    """A metric of one's own, by the name it was registered under or as `package.module:name`."""
    found = find_named(name, METRICS, "metric")
    if isinstance(found, Metric):
        return found
    if not callable(found):
        raise RamifyError(f"metric {name!r} is {shown(found)}; it must be a function of answers and truth")
    return Metric(name.partition(":")[2], found)


def find_metrics(names: Iterable[str]) -> tuple[Metric, ...]:
    """Metrics by their names, no two of one name."""
    found = tuple(map(find_metric, names))
    called = [one.name for one in found]
    twice = next((name for name in called if called.count(name) > 1), None)
    if twice is not None:
        raise RamifyError(f"two metrics are called {twice!r}; give one of them another name")
    return found


def _number(value: Any) -> float | None:
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None
    return number if math.isfinite(number) else None
