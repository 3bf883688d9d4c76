"""What workers do, whatever engine they belong to: a job is done, or says why not."""

from __future__ import annotations

import json
import logging
import os
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

import torch

from ramify.errors import RamifyError
from ramify.locks import FolderInUse
from ramify.runs.answers import ANSWERS, answers_alone, work_out
from ramify.runs.execute import run_config
from ramify.runs.folder import RunFolder
from ramify.runs.run import Run, evaluated_at, prepare_dataset, prepare_stream
from ramify.sweeps.store import working_copy
from ramify.sweeps.study import StudyRun

log = logging.getLogger("ramify")

PROGRESS, LOG, ERRORS = "progress.json", "log.txt", "errors.txt"
PATIENCE = 60.0  # seconds until a folder that another process works in is given up


@dataclass(frozen=True)
class How:
    """What a study's figures do not depend on (but for their last bits on the threads)."""

    data_dir: str | None = None
    device: str = "auto"
    threads: int = 1
    checkpoint_every: float = 300.0
    store: str | None = None
    """Where workers that do not share the study's folder keep the runs: any URL that fsspec knows."""


@dataclass(frozen=True)
class Outcome:
    """How a job ended: with a value perhaps, or with an error after which it may be tried again or not."""

    error: str | None = None
    again: bool = False
    value: Any = None


class Job(Protocol):
    """Something to be done by a worker; it travels there by pickle."""

    @property
    def name(self) -> str:
        """Unlike that of any other job."""

    @property
    def after(self) -> frozenset[str]:
        """Names of the jobs that go first."""

    def work(self) -> Outcome:
        """Do it, in the worker."""

    def lost(self, why: str) -> Outcome:
        """What to make of a worker that ended without a word; called where the sweep is."""


@dataclass(frozen=True)
class RunJob:
    """One run of a study, to be begun or continued in its folder."""

    run: StudyRun
    folder: Path
    how: How = field(default_factory=How)
    after: frozenset[str] = frozenset()
    anew: bool = False
    """Whether a finished run is to be overwritten; what was begun for that goes on."""

    @property
    def name(self) -> str:
        """The run's."""
        return self.run.name

    def work(self) -> Outcome:
        """What the run prints goes to its log.txt, what goes wrong to its errors.txt as well."""
        with working_copy(self.how.store, self.folder) as (folder, keep):
            with logged(folder / LOG):
                try:
                    self._go(folder, keep)
                except Exception as error:
                    return self._failed(outcome_of(error), folder)
            (folder / PROGRESS).unlink(missing_ok=True)
        return Outcome()

    def _go(self, folder: Path, keep: Callable[[], None]) -> None:
        how, watch, patience = self.how, _watch(folder, keep), time.monotonic() + PATIENCE
        force = self.anew and RunFolder(folder).finished()
        while True:
            try:
                run_config(
                    self.run.config,
                    folder,
                    resume=not force,
                    force=force,
                    device=how.device,
                    threads=how.threads,
                    data_dir=how.data_dir,
                    checkpoint_every=how.checkpoint_every,
                    watch=watch,
                    preset=self.run.preset,
                )
                return
            except FolderInUse:  # by a worker that was given up as lost and has not ended yet
                if time.monotonic() > patience:
                    raise
                time.sleep(1)

    def lost(self, why: str) -> Outcome:
        """The run continues from its checkpoint."""
        return self._failed(Outcome(why, again=True), self.folder)

    def _failed(self, outcome: Outcome, folder: Path) -> Outcome:
        when = datetime.now(UTC).isoformat(timespec="seconds")
        with suppress(OSError), (folder / ERRORS).open("a", encoding="utf-8") as file:
            file.write(f"{when}  {outcome.error}\n")
        return outcome


@dataclass(frozen=True)
class AnswerJob:
    """One answer of a run whose answers do not depend on each other, worked out beside it."""

    run: StudyRun
    folder: Path
    how: How
    position: int
    after: frozenset[str] = frozenset()

    @property
    def name(self) -> str:
        """The run's, and where in the stream it is asked."""
        return f"{self.run.name}@{self.position}"

    def work(self) -> Outcome:
        """The answer goes into the run's folder; the run looks for it there."""
        path = self.folder / ANSWERS / f"{self.position}.safetensors"
        if path.exists():
            return Outcome()
        path.parent.mkdir(parents=True, exist_ok=True)
        with logged(self.folder / LOG):
            try:
                torch.set_num_threads(self.how.threads)
                config = self.run.config
                work_out(
                    Run(config, prepare_dataset(config, self.how.data_dir), self.how.device),
                    self.position,
                    path,
                )
            except Exception as error:
                return outcome_of(error)
        return Outcome()

    def lost(self, why: str) -> Outcome:
        """Nothing was written."""
        return Outcome(why, again=True)


def jobs_for(
    run: StudyRun, folder: Path, how: How, places: int, anew: bool = False
) -> list[RunJob | AnswerJob]:
    """The job of a run, after one for each of its answers but the last where these can go side by side."""
    config = run.config
    if places == 1 or how.store is not None or not answers_alone(config):
        return [RunJob(run, folder, how, anew=anew)]
    asked = list(evaluated_at(config, prepare_stream(config, prepare_dataset(config, how.data_dir))))
    done = 0 if anew else len(RunFolder(folder).records())
    answers = [AnswerJob(run, folder, how, at) for at in asked[done:-1]]
    return [*answers, RunJob(run, folder, how, frozenset(job.name for job in answers), anew)]


def outcome_of(error: Exception) -> Outcome:
    """A mistake is the same the next time; anything else is printed with its traceback and tried again."""
    if isinstance(error, RamifyError):
        return Outcome(" ".join(str(error).split()), again=isinstance(error, FolderInUse))
    traceback.print_exception(error)
    return Outcome(" ".join(f"{type(error).__name__}: {error}".split()), again=True)


def read_progress(folder: Path) -> dict[str, Any] | None:
    """What the worker last said about a run on its way, None where it said nothing."""
    try:
        values: dict[str, Any] = json.loads((folder / PROGRESS).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return values


def _watch(folder: Path, keep: Callable[[], None], every: float = 1.0) -> Callable[[Run], None]:
    """Write progress.json and call `keep` once a second; a line to the log for each evaluation."""
    last, told = 0.0, 0

    def watch(run: Run) -> None:
        nonlocal last, told
        now = time.monotonic()
        if now - last >= every:
            last = now
            _write_progress(folder / PROGRESS, run)
            keep()
        for record in run.records[told:]:
            figures = "  ".join(f"{level}: {100 * value:.1f}" for level, value in record.accuracy.items())
            log.info(
                "%d/%d samples  %d updates  %s", record.samples, len(run.stream), record.updates, figures
            )
        told = len(run.records)

    return watch


def _write_progress(path: Path, run: Run) -> None:
    """Renamed into place but not forced to the disk: it is worth nothing after a crash."""
    values = {
        "samples": run.position,
        "total": len(run.stream),
        "updates": run.trainer.updates,
        "seconds": round(run.train_seconds + sum(record.eval_seconds for record in run.records), 3),
        "accuracy": run.records[-1].accuracy if run.records else {},
    }
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    beside.write_text(json.dumps(values), encoding="utf-8")
    beside.replace(path)


@contextmanager
def logged(path: Path) -> Iterator[None]:
    """Send all that this process prints, and ramify's own log, to the end of a file."""
    kept = os.dup(1), os.dup(2)
    handler, level = logging.StreamHandler(sys.stderr), log.level
    with path.open("ab", buffering=0) as file:
        sys.stdout.flush()
        sys.stderr.flush()
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
        log.addHandler(handler)
        log.setLevel(logging.INFO)
        try:
            yield
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            log.removeHandler(handler)
            log.setLevel(level)
            for number, saved in enumerate(kept, 1):
                os.dup2(saved, number)
                os.close(saved)
