"""The figures of a finished run."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

import psutil

from ramify.arrays import Floats
from ramify.evaluation import metrics
from ramify.evaluation.anytime import Evaluation, Evaluator, Record
from ramify.evaluation.calibration import area_under_risk_coverage, level_sureness, sureness
from ramify.files import check_format
from ramify.typed import Difference, NotNegative, Share, Whole, from_dict, to_dict

FORMAT = 1
PerLevel = dict[str, Share]


def peak_memory() -> int:
    """The most bytes that this process has held. (On Linux getrusage would count its parent's as well.)"""
    status = Path("/proc/self/status")
    if status.exists():
        return int(status.read_text().split("VmHWM:")[1].split()[0]) * 1024
    if sys.platform == "darwin":
        import resource

        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    held = psutil.Process().memory_info()
    return int(getattr(held, "peak_wset", held.rss))  # Windows keeps the peak; elsewhere what is held now


@dataclass(frozen=True)
class Result:
    """result.json. Shares lie in 0..1; the dictionaries have one entry a level, "1" the coarsest."""

    final_accuracy: PerLevel
    """A_last: top-1 at the end of the stream."""
    auc: PerLevel
    """A_AUC: mean of the periodic accuracies, from the first at which the level had been seen."""
    average_accuracy: PerLevel
    """A_avg: mean of the accuracies at the ends of tasks, likewise."""
    forgetting: dict[str, Difference]
    """F_last: mean over classes of best earlier task-end accuracy minus the last."""
    consistency: Share
    """Share of test images whose predictions at all levels lie on one path of the tree."""
    path_accuracy: Share
    """Share of test images with all levels right."""
    mistake_severity: dict[str, float | None]
    """Mean height of the lowest common ancestor at the deepest level, over `mistakes` and over `all`."""
    samples: Whole
    updates: Whole
    seconds: NotNegative
    """Wall-clock seconds of training and evaluation."""
    images_forward: Whole
    """Images through the network in training (virtual steps and teachers included)."""
    images_backward: Whole
    images_memory: Whole
    """Stored images examined for importance and votes."""
    images_evaluation: Whole
    peak_memory: Whole = field(default=0, compare=False)
    """Largest resident memory of the process that ended the run, in bytes."""
    balanced_accuracy: PerLevel = field(default_factory=dict)
    """A_last with each class counting the same; not in the results of older runs."""
    decoded: dict[str, PerLevel] = field(default_factory=dict)
    """A_last of every way to read the same answers, through the found tree or the `true tree`."""
    aauc: Share | None = None
    """A_AUC, mean over the levels (DHOCL). This and the next three are not in the results of older runs."""
    fauc: Share | None = None
    """Mean of the periodic accuracies at the end of each image's path: on a tree of equal depth the deepest
    level's A_AUC (DHOCL)."""
    finest_accuracy: Share | None = None
    """The last of them, on all test images."""
    jaccard: Share | None = None
    """Precision-weighted Jaccard similarity of the answered and the true labels of all levels (IIRC)."""
    hops: Share | None = None
    """How far the order in which the finest level prefers its classes follows the tree (HOPS); not in the
    results of older runs."""
    moved: dict[str, float] = field(default_factory=dict)
    """Where classes moved: of the test labels that changed, the shares answered as `new` and as `old`."""
    aurc: PerLevel = field(default_factory=dict)
    """Area under the risk–coverage curve of the last answers; not in the results of older runs."""
    metrics: dict[str, dict[str, float]] = field(default_factory=dict)
    """Metrics of your own at the end of the stream, by level or as `all`."""
    tree_levels: dict[str, int] = field(default_factory=dict)
    """By level its number in the dataset's tree, below 0 counted from the leaf; none where it is the same."""

    @classmethod
    def of(
        cls,
        records: list[Record],
        task_ends: list[dict[int, Floats]],
        last: Evaluation,
        evaluator: Evaluator,
        cost: dict[str, int],
    ) -> Result:
        """The figures of a run: from its records, class accuracies at task ends and its last answers."""
        levels = sorted(last.accuracy)
        final = records[-1]

        def mean(kind: str, level: int) -> float | None:
            chosen = [
                r.accuracy[str(level)] for r in records if getattr(r, kind) and str(level) in r.accuracy
            ]
            return metrics.area_under_curve(chosen)

        def per_level(values: dict[int, float | None]) -> PerLevel:
            return {str(h): v for h, v in values.items() if v is not None}

        severity = metrics.mistake_severity(last.predictions, evaluator.truth, evaluator.tree)
        auc = per_level({h: mean("periodic", h) for h in levels})
        finest = [r.finest for r in records if r.periodic and r.finest is not None]
        return cls(
            final_accuracy=final.accuracy,
            auc=auc,
            average_accuracy=per_level({h: mean("task_end", h) for h in levels}),
            forgetting=per_level(
                {h: metrics.forgetting([t[h] for t in task_ends if h in t]) for h in levels}
            ),
            consistency=metrics.consistency(last.predictions, evaluator.tree),
            path_accuracy=metrics.path_accuracy(last.predictions, evaluator.truth),
            mistake_severity=severity,
            samples=final.samples,
            updates=final.updates,
            seconds=final.train_seconds + sum(r.eval_seconds for r in records),
            **cost,
            peak_memory=peak_memory(),
            balanced_accuracy=per_level(
                {h: metrics.balanced_accuracy(last.class_accuracy[h]) for h in levels}
            ),
            decoded={way: {str(h): v for h, v in found.items()} for way, found in last.decoded.items()},
            aauc=metrics.area_under_curve(list(auc.values())),
            fauc=metrics.area_under_curve(finest),
            finest_accuracy=final.finest,
            jaccard=final.jaccard,
            hops=final.hops,
            moved=metrics.moved_accuracy(last.predictions, evaluator.truths[0], evaluator.truth),
            aurc=per_level({} if last.probability is None else _aurc(last, last.probability, evaluator)),
            metrics=final.metrics,
            tree_levels=final.tree_levels,
        )

    @classmethod
    def from_dict(cls, values: dict[str, Any], path: Traversable) -> Result:
        """The result of a result.json; `path` names it in errors. Older files have no format: it is 1."""
        check_format(values.get("format", FORMAT), path, FORMAT)
        fields = {name: value for name, value in values.items() if name != "format"}
        return from_dict(cls, fields, f"{path} is damaged")

    def to_dict(self) -> dict[str, Any]:
        """What result.json holds."""
        values = to_dict(self)
        return {"format": FORMAT, **{n: value for n, value in values.items() if n != "tree_levels" or value}}


def _aurc(last: Evaluation, probability: Floats, evaluator: Evaluator) -> dict[int, float | None]:
    levels = level_sureness(*sureness(last.predictions, evaluator.truth, probability))
    return {h: area_under_risk_coverage(*sure) for h, sure in levels.items()}
