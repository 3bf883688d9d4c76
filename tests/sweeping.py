"""What the tests of sweeps share: a small study, what a run gave, jobs and a method of their own."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ramify.memory import Forward, Workbench
from ramify.methods import Settings, find_method
from ramify.methods.recipe import Recipe
from ramify.randomness import Generators
from ramify.rehearsal import HalfAndHalf
from ramify.runs.folder import RunFolder
from ramify.runs.run import Run
from ramify.sweeps import Study, jobs
from ramify.sweeps.jobs import Job, Outcome
from ramify.sweeps.local import Local
from ramify.training.objectives import CrossEntropy

FIXED = {
    "limit": 64,
    "updates_per_sample": 0.75,
    "eval_every": 16,
    "eval_images": 20,
    "memory_size": 20,
    "network": {"width": 0.125},
}
TOML = """
[fixed]
limit = 64
updates_per_sample = 0.75
eval_every = 16
eval_images = 20
memory_size = 20
network.width = 0.125
[axes]
"""


def small_study(**axes: list[Any]) -> Study:
    """A study of runs of a few seconds."""
    return Study.of("small", axes, FIXED | {"epochs": {"count": 1}})


def outcome(folder: Path) -> dict[str, Any]:
    """All that a run gave but the time and memory that it took."""
    run = RunFolder(folder)
    values = [*map(asdict, run.records()), asdict(run.result())]
    for one in values:
        for name in ("train_seconds", "eval_seconds", "seconds", "peak_memory"):
            one.pop(name, None)
    files = ("model.safetensors", "predictions.safetensors")
    return {"values": values, **{name: (folder / name).read_bytes() for name in files}}


class Buggy(HalfAndHalf):
    """Fails at the first update."""

    def updates_due(self, credit: float) -> int:
        raise ZeroDivisionError("a bug\nof two lines")


def broken(settings: Settings, rng: Generators) -> Recipe:
    """A method with a bug."""
    return replace(find_method("er")(settings, rng), rehearse=Buggy(rng["rehearse"]))


class Slow(CrossEntropy):
    """Takes as long as the environment says, so that a signal finds a run on its way."""

    def loss(self, bench: Workbench, forward: Forward) -> Tensor:
        time.sleep(float(os.environ.get("SWEEPING_SLEEP", "0")))
        return super().loss(bench, forward)


def slow_er(settings: Settings, rng: Generators) -> Recipe:
    """ER, slowly."""
    return replace(find_method("er")(settings, rng), minimise=Slow())


def slow_clib(settings: Settings, rng: Generators) -> Recipe:
    """CLIB, slowly."""
    return replace(find_method("clib")(settings, rng), minimise=Slow())


@dataclass(frozen=True)
class WhereJob:
    """Says where it runs."""

    name: str
    after: frozenset[str] = frozenset()

    def work(self) -> Outcome:
        return Outcome(value=(os.sched_getaffinity(0), os.getpgrp() == os.getpid(), torch.get_num_threads()))

    def lost(self, why: str) -> Outcome:
        return Outcome(why)


WATCH = jobs._watch


@dataclass(frozen=True)
class DyingJob:
    """A run that dies when it has kept its first checkpoint; its next try goes on.

    Of several runs only the first to get so far dies. It leaves its process and name in the file `mark`.
    """

    job: Job
    mark: Path

    @property
    def name(self) -> str:
        return self.job.name

    @property
    def after(self) -> frozenset[str]:
        return self.job.after

    def work(self) -> Outcome:
        jobs._watch = self._watch  # of the worker's process
        return self.job.work()

    def lost(self, why: str) -> Outcome:
        return self.job.lost(why)

    def die(self) -> None:
        """As the kernel ends a process when memory is short."""
        os.kill(os.getpid(), signal.SIGKILL)

    def _watch(self, folder: Path, keep: Callable[[], None]) -> Callable[[Run], None]:
        watch = WATCH(folder, keep, every=0.0)

        def watch_and_die(run: Run) -> None:
            watch(run)
            if any(folder.glob("checkpoint-*.sha256")) and self._first():
                self.die()

        return watch_and_die

    def _first(self) -> bool:
        written = self.mark.with_name(f"{self.mark.name}.{os.getpid()}")
        written.write_text(f"{os.getpid()} {self.name}")
        try:
            os.link(written, self.mark)
        except FileExistsError:
            return False
        return True


def died(mark: Path) -> tuple[int, str]:
    """The process and the name of the run that died."""
    pid, name = mark.read_text().split()
    return int(pid), name


class Deadly(Local):
    """The first run to keep a checkpoint dies there."""

    def __init__(self, workers: int, mark: Path) -> None:
        super().__init__(workers)
        self.mark = mark

    def start(self, job: Job) -> None:
        super().start(job if isinstance(job, DyingJob) else DyingJob(job, self.mark))
