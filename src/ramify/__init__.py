"""ramify: online continual learning while the labels keep branching into finer ones."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from ramify.errors import RamifyError

if TYPE_CHECKING:
    from ramify.datasets import load_dataset
    from ramify.evaluation.own import metric
    from ramify.learner import Learner, Prediction
    from ramify.learner.estimator import HierarchicalClassifier
    from ramify.methods.checks import check_method
    from ramify.reports.frame import load_runs
    from ramify.runs.execute import run_config
    from ramify.streams import build_stream
    from ramify.taxonomy import Taxonomy, read_taxonomy

__version__ = "0.1.0"

# Imported when first used: `ramify --help` must not wait for torch.
_HOMES = {
    "HierarchicalClassifier": "ramify.learner.estimator",
    "Learner": "ramify.learner",
    "Prediction": "ramify.learner",
    "Taxonomy": "ramify.taxonomy",
    "build_stream": "ramify.streams",
    "check_method": "ramify.methods.checks",
    "load_dataset": "ramify.datasets",
    "load_runs": "ramify.reports.frame",
    "metric": "ramify.evaluation.own",
    "read_taxonomy": "ramify.taxonomy",
    "run_config": "ramify.runs.execute",
}

__all__ = [
    "HierarchicalClassifier",
    "Learner",
    "Prediction",
    "RamifyError",
    "Taxonomy",
    "build_stream",
    "check_method",
    "load_dataset",
    "load_runs",
    "metric",
    "read_taxonomy",
    "run_config",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'ramify' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
