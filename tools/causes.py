"""What one change does: the runs of studies/causes.toml beside those of studies/study.toml.

Each run stands beside the run of the study, on the same stream and with the same method, that it has most
settings in common with: final accuracy in % at levels 1, 2, ... without and with the change.

python tools/causes.py results/study results/causes
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

from ramify.reports.data import RunData, finished, load_runs
from ramify.reports.series import differing

ORIGINALS = {"pl_fms": "pl-fms", "clib": "clib", "er": "er"}  # of the methods in studies/variants.py
ASIDE = ("method", "eval_at")  # the first is named apart, the second changes no final figure


def original(method: str) -> str:
    """The paper's method, of which this is a variant."""
    name = method.partition(":")[2]
    return next((paper for start, paper in ORIGINALS.items() if name.startswith(start)), method)


def changes(before: RunData, after: RunData) -> dict[str, list[Any]]:
    """The settings that differ, with both values."""
    both = differing([before.config, after.config])
    return {name: values for name, values in both.items() if name not in ASIDE}


def base(run: RunData, study: list[RunData]) -> RunData | None:
    """The run of the study that is most like this one."""
    same = ("dataset", "setup", "labels", "seed")
    alike = [
        other
        for other in study
        if other.config.method == original(run.config.method)
        and all(getattr(other.config, name) == getattr(run.config, name) for name in same)
    ]
    return min(alike, key=lambda other: len(changes(other, run)), default=None)


def accuracies(run: RunData) -> list[float]:
    """Final accuracy in per cent, coarse to fine."""
    assert run.result is not None
    return [100 * value for _, value in sorted(run.result.final_accuracy.items())]


def line(run: RunData, study: list[RunData]) -> str:
    """What was changed, and the figures without and with it."""
    before = base(run, study)
    if before is None:
        return f"{run.config.method}, {run.config.setup}: the study has no such run"
    changed = [f"{name} {old} → {new}" for name, (old, new) in changes(before, run).items()]
    if run.config.method != before.config.method:
        changed.append(run.config.method.partition(":")[2])
    figures = [", ".join(f"{value:.1f}" for value in accuracies(each)) for each in (before, run)]
    return f"{before.config.method}, {run.config.setup}, {'; '.join(changed)}: {' → '.join(figures)}"


def main() -> int:
    """Print a line a run."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("study", help="folder of the study's runs")
    parser.add_argument("causes", help="folder of the runs with a change")
    args = parser.parse_args()
    study = [run for run, _ in finished(load_runs([args.study]))]
    for run, _ in finished(load_runs([args.causes])):
        print(line(run, study))
    return 0


if __name__ == "__main__":
    sys.exit(main())
