"""Every figure that runs can be compared by, under one name each."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ramify.errors import RamifyError
from ramify.evaluation.anytime import TRUE
from ramify.evaluation.own import ALL, Metric, find_metric
from ramify.evaluation.own import METRICS as OWN
from ramify.hierarchy import DECODINGS
from ramify.reports.data import RunData
from ramify.runs.result import Result

METRICS = {
    "final_accuracy": "Accuracy (%) at the end of the stream (A_last), mean ± standard deviation over seeds.",
    "balanced_accuracy": "Balanced accuracy (%) at the end: the mean over classes of the accuracy of each.",
    "auc": "Any-time accuracy (%): mean over the periodic evaluations (A_AUC).",
    "average_accuracy": "Accuracy (%) at the ends of tasks, averaged (A_avg).",
    "forgetting": "Forgetting (points): best earlier accuracy of a class minus its last (F_last).",
    "aurc": "Area under the risk–coverage curve (%) at the end: mistakes when only the surest are answered.",
}

SCALARS: dict[str, tuple[str, float]] = {
    "finest_accuracy": ("accuracy at the finest (%)", 100.0),
    "aauc": ("any-time, all levels (%)", 100.0),
    "fauc": ("any-time, finest (%)", 100.0),
    "jaccard": ("label sets (%)", 100.0),
    "hops": ("order of preference (%)", 100.0),
    "consistency": ("answers on one path (%)", 100.0),
    "path_accuracy": ("all levels right (%)", 100.0),
    "severity": ("height of mistakes", 1.0),
    "updates": ("updates", 1.0),
    "seconds": ("seconds", 1.0),
    "peak_memory": ("peak memory (MB)", 1e-6),
}
LOWER = frozenset(("forgetting", "aurc", "severity", "updates", "seconds", "peak_memory"))
DECODED = "decoded."  # before a way to read answers; `-true` behind it: through the dataset's own tree
WAYS = {
    **{f"{DECODED}{way}": way for way in DECODINGS},
    **{f"{DECODED}{way}-true": f"{way}{TRUE}" for way in DECODINGS if way != "heads"},
}


@dataclass(frozen=True)
class Measure:
    """A figure of finished runs."""

    name: str
    caption: str
    values: Callable[[RunData, Result], Mapping[str, float]]
    """Of one run: by level, or as `all`, as tables show it."""
    lower_is_better: bool = False


def measure_names() -> list[str]:
    """What can be chosen by name, beside metrics of one's own."""
    return [*METRICS, *SCALARS, *WAYS, *OWN]


def find_measure(name: str, runs: Sequence[RunData] = ()) -> Measure:
    """A figure by name: one that results have, one of your own that these runs recorded, or your code."""
    if name in METRICS:
        return Measure(name, METRICS[name], lambda _, r: _times(getattr(r, name), 100), name in LOWER)
    if name in SCALARS:
        told = f"{SCALARS[name][0].capitalize()}, mean ± standard deviation over seeds."
        return Measure(name, told, lambda _, r: _scalar(r, name), name in LOWER)
    if name in WAYS:
        way = WAYS[name]
        told = f"Accuracy (%) at the end of the stream with answers read by {way}."
        return Measure(name, told, lambda _, r: _times(r.decoded.get(way, {}), 100))
    if name in OWN or ":" in name:
        return _own(find_metric(name))
    if any(run.result is not None and name in run.result.metrics for run in runs):
        return Measure(name, f"{name}, as recorded.", lambda _, r: r.metrics.get(name, {}))
    near = difflib.get_close_matches(name, measure_names(), n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(measure_names())}"
    raise RamifyError(f"no metric {name!r}; {hint}; or package.module:name for your own")


def _own(metric: Metric) -> Measure:
    """A metric of one's own: as recorded, or worked out from the last answers of a run without it."""

    def values(run: RunData, result: Result) -> Mapping[str, float]:
        found = result.metrics.get(metric.name)
        if found is None and run.answers is not None:
            found = metric(run.answers.predictions, run.answers.truth, run.tree)
        return _times(found or {}, 100 if metric.percent else 1)

    unit = " (%)" if metric.percent else ""
    told = f"{metric.name}{unit} at the end of the stream, mean ± standard deviation over seeds."
    return Measure(metric.name, told, values, metric.lower_is_better)


def scalar(result: Result, name: str) -> float | None:
    """A figure of a run that has no levels, as tables show it."""
    if name == "severity":
        return result.mistake_severity["mistakes"]
    value = getattr(result, name)
    return None if value is None else float(value) * SCALARS[name][1]


def _scalar(result: Result, name: str) -> dict[str, float]:
    value = scalar(result, name)
    return {} if value is None else {ALL: value}


def _times(values: Mapping[str, float], factor: float) -> dict[str, float]:
    return {key: factor * value for key, value in values.items()}
