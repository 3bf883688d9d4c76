"""What one change does: the runs of studies/causes.toml beside those of studies/study.toml.

Each run stands beside the run of the study, on the same stream and with the same method and seed, that it has
most settings in common with: final accuracy in % at levels 1, 2, ... without and with the change, mean ±
standard deviation where the change was made with several seeds.

python tools/causes.py results/study.jsonl results/causes.jsonl
"""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from claims import Seeds, levels
from ramify.errors import RamifyError
from ramify.reports.data import RunData, finished, read_runs
from ramify.reports.series import differing
from ramify.sweeps.experiments import display_name
from tables import cell, head, row

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


def base(run: RunData, study: list[RunData]) -> RunData:
    """The run of the study that is most like this one; of several, that with the study's usual settings."""
    same = ("dataset", "setup", "labels", "seed")
    stream = [
        other
        for other in study
        if all(getattr(other.config, name) == getattr(run.config, name) for name in same)
    ]
    alike = [other for other in stream if other.config.method == original(run.config.method)]
    if not alike:
        raise RamifyError(f"the study has no run to set {run.path} beside; give the study that it belongs to")
    apart = [len(changes(other, run)) for other in alike]
    nearest = [other for other, count in zip(alike, apart, strict=True) if count == min(apart)]
    return min(nearest, key=lambda other: sum(len(changes(other, each)) for each in stream))


def what(run: RunData, before: RunData) -> tuple[str, str]:
    """Which method on which stream, and what was changed."""
    changed = [f"`{name}` {old} → {new}" for name, (old, new) in changes(before, run).items()]
    if run.config.method != before.config.method:
        changed.append(f"`{run.config.method.partition(':')[2]}`")
    return f"{display_name(before.config.method)}, {run.config.setup}", "; ".join(changed)


def accuracies(seeds: Seeds) -> str:
    """Final accuracy, coarse to fine."""
    return ", ".join(cell(seeds, level) for level in levels(seeds))


def table(study: str, causes: str) -> Iterator[str]:
    """A line a change, grouped by the settings that it concerns."""
    known, changed = ([run for run, _ in finished(read_runs([folder]))] for folder in (study, causes))
    pairs: dict[tuple[str, str], tuple[Seeds, Seeds]] = defaultdict(lambda: ({}, {}))
    for run in changed:
        before = base(run, known)
        without, with_it = pairs[what(run, before)]
        without[run.config.seed], with_it[run.config.seed] = before, run
    yield from head("method and stream", ["change", "without", "with"])
    for (where, change), both in sorted(pairs.items(), key=lambda item: item[0][::-1]):
        yield row(where, [change, *map(accuracies, both)])


def main() -> int:
    """Print a line a change."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("study", help="folder of the study's runs")
    parser.add_argument("causes", help="folder of the runs with a change")
    args = parser.parse_args()
    print("\n".join(table(args.study, args.causes)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
