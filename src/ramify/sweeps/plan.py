"""What a study will take on this machine, from a few timed updates of each kind of run."""

from __future__ import annotations

import heapq
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np
from rich.table import Table as Grid

from ramify.console import screen
from ramify.errors import RamifyError
from ramify.runs.config import Config
from ramify.sweeps.cost import Costing, Work
from ramify.sweeps.engines import Watcher, drive
from ramify.sweeps.folder import StudyFolder
from ramify.sweeps.jobs import How
from ramify.sweeps.local import Local
from ramify.sweeps.probe import ProbeJob, Speed
from ramify.sweeps.study import Study, StudyRun
from ramify.sweeps.words import duration
from ramify.typed import amount


@dataclass(frozen=True)
class Estimate:
    """What one run will take."""

    run: StudyRun
    work: Work
    seconds: float
    memory: int
    paper_seconds: float


def plan(study: Iterable[StudyRun], how: How, engine: Local, watcher: Watcher) -> list[Estimate]:
    """Estimate the runs; those that differ only in seed, length or evaluation are timed once."""
    runs, costing = list(study), Costing(how.data_dir)
    probes: dict[Config, ProbeJob] = {}
    for run in runs:
        kind = _kind(run.config)
        if kind not in probes:
            probes[kind] = _probe(f"probe {len(probes)}", run.config, costing, how)
    done = drive(engine, list(probes.values()), watcher)
    for kind, probe in probes.items():
        if done[probe.name].error is not None:
            raise RamifyError(f"{kind.method} on {kind.dataset} cannot be timed: {done[probe.name].error}")
    return [_estimate(run, costing, done[probes[_kind(run.config)].name].value) for run in runs]


def _kind(config: Config) -> Config:
    """The config without what does not bear on the speed of an update."""
    return replace(config, seed=0, limit=None, per_class=None, eval_every=1, eval_images=None)


def _probe(name: str, config: Config, costing: Costing, how: How) -> ProbeJob:
    dataset = costing.dataset(config)
    stream = costing.stream(config, dataset)
    some = np.linspace(0, len(stream) - 1, min(1000, len(stream))).astype(int)
    levels, labels = (tuple(array[some].tolist()) for array in (stream.level, stream.label))
    size, features = dataset.image_size, dataset.of_features
    return ProbeJob(name, config, levels, labels, size, len(stream), how, features=features)


def _estimate(run: StudyRun, costing: Costing, speed: Speed) -> Estimate:
    work = costing.work(run.config)
    seconds = (
        work.samples * speed.sample
        + work.memory_updates * speed.memory_update
        + work.answers * speed.answer
        + work.evaluated * speed.evaluated
    )
    return Estimate(run, work, seconds, speed.memory, seconds * costing.paper_ratio(run.config))


def wall_seconds(seconds: Sequence[float], places: int) -> float:
    """When the last of these runs ends, if each starts as soon as a place is free.

    >>> wall_seconds([3, 1, 1, 1], 2)
    3.0
    """
    free = [0.0] * places
    for one in seconds:
        heapq.heappush(free, heapq.heappop(free) + one)
    return max(free)


def print_plan(
    study: Study,
    out: str | Path,
    how: How,
    workers: int | None = None,
    rerun: Literal["changed"] | None = None,
) -> None:
    """Print the runs of a study with the time and memory of those that `sweep` would do; run nothing."""
    folder, engine = StudyFolder(out), Local(workers, how.threads)
    changed = folder.changed(study)
    anew = set(changed) if rerun == "changed" else set()
    missing = [run for run in study if folder.result(run) is None or run.name in anew]
    found, notes = _estimates(missing, how, engine)
    grid = Grid(box=None, pad_edge=False)
    grid.add_column("run", no_wrap=True)
    for column in ("samples", "updates", "time", "memory"):
        grid.add_column(column, justify="right", no_wrap=True)
    for run in study:
        if run.name not in found:
            state = "finished (code changed since)" if run.name in changed else "finished"
            grid.add_row(run.name, "", "", "?" if run in missing else state, "")
            continue
        one = found[run.name]
        begun = " (begun)" if folder.files(run).begun() else ""
        begun = " (code changed since)" if run.name in anew else begun
        counts = f"{one.work.samples:,}", f"{one.work.updates:,.0f}"
        grid.add_row(run.name, *counts, duration(one.seconds) + begun, amount(one.memory))
    console = screen(file=sys.stdout)
    console.print(grid)
    if found:
        seconds = [one.seconds for one in found.values()]
        places = min(engine.places, len(seconds))
        most = sum(sorted((one.memory for one in found.values()), reverse=True)[:places])
        paper = sum(one.paper_seconds for one in found.values())
        wall = duration(wall_seconds(seconds, engine.places))
        text = (
            f"{len(found)} of {len(study)} runs to do: {duration(sum(seconds))} of computing, {wall} with "
            f"{engine.places} at a time, {amount(most)} of memory. "
            f"With the paper's settings, by multiply-adds: about {duration(paper)} of computing."
        )
        console.print(text, highlight=False, soft_wrap=True)
    for note in notes:
        console.print(note, highlight=False, soft_wrap=True, markup=False)


def _estimates(runs: Sequence[StudyRun], how: How, engine: Local) -> tuple[dict[str, Estimate], list[str]]:
    """Estimates by name, and why some runs have none: a dataset that is not at hand."""
    found: dict[str, Estimate] = {}
    notes: list[str] = []
    for dataset in dict.fromkeys(run.config.dataset for run in runs):
        chosen = [run for run in runs if run.config.dataset == dataset]
        try:
            found |= {one.run.name: one for one in plan(chosen, how, engine, Watcher())}
        except RamifyError as error:
            notes.append(f"no estimate for {len(chosen)} runs: {error}")
    return found, notes
