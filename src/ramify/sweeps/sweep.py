"""`sweep`: the one door through which many runs go."""

from __future__ import annotations

import signal
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Protocol

from ramify.errors import RamifyError
from ramify.runs.checkpoint import Stopped
from ramify.runs.result import Result
from ramify.runs.run import prepare_dataset
from ramify.sweeps.folder import StudyFolder
from ramify.sweeps.local import Local
from ramify.sweeps.study import Study, StudyRun
from ramify.sweeps.table import Table
from ramify.sweeps.work import How, Outcome, Task

POLL = 0.5  # seconds between looks at the runs


class Engine(Protocol):
    """What runs tasks."""

    name: str
    places: int
    """How many tasks it takes at a time."""

    def start(self, task: Task) -> None:
        """Begin a task."""

    def ended(self, seconds: float) -> list[tuple[Task, Outcome]]:
        """The tasks that ended, after waiting for one at most so long."""

    def stop(self) -> None:
        """Ask all tasks to write a checkpoint and end; a second time, to end at once."""

    def close(self) -> None:
        """Leave nothing running."""


def sweep(
    study: Study,
    out: str | Path,
    engine: Engine | None = None,
    how: How | None = None,
    *,
    retries: int = 1,
    shared: bool = False,
    quiet: bool = False,
) -> dict[str, Result]:
    """Do the runs of a study that are not finished in `out`, and return the results of all by name.

    Unfinished runs continue from their checkpoint; a run that fails is tried again up to `retries` times
    while the others go on, and one that fails for good makes the sweep raise `RamifyError` at its end.
    Ctrl-C lets every run write a checkpoint. A `shared` folder holds the runs of several studies.
    """
    how = how or How()
    folder = StudyFolder(out)
    if retries < 0:
        raise RamifyError(f"retries is {retries}; it must be 0 or more")
    if not shared:
        folder.check(study)
    results = {run.name: folder.result(run) for run in study}
    missing = [run for run in study if results[run.name] is None]
    with folder.locked(), Table(study, folder, quiet) as table:
        for run in study:
            if results[run.name] is not None:
                table.known(run.name)
        if missing:
            _prepare(missing, how)
        if not shared:
            folder.write(study)
        if missing:
            errors = _drive(missing, folder, engine or Local(threads=how.threads), how, retries, table)
            if errors:
                name, error = next(iter(errors.items()))
                raise RamifyError(
                    f"{len(errors)} of {len(study)} runs failed, {name} first: {error} "
                    f"(see {folder.path / name}); the same command tries them again"
                )
    return {run.name: _finished(folder, run) for run in study}


def _prepare(runs: list[StudyRun], how: How) -> None:
    """Decode each dataset once, before workers ask for it; a dataset that is not there is an error here."""
    for config in {(c.dataset, c.image_size, c.taxonomy): c for c in (run.config for run in runs)}.values():
        prepare_dataset(config, how.data_dir)


def _drive(
    runs: list[StudyRun], folder: StudyFolder, engine: Engine, how: How, retries: int, table: Table
) -> dict[str, str]:
    """Keep the engine busy until all is done; the errors of the runs that failed for good."""
    queue = deque(Task(run, folder.of(run), how) for run in runs)
    left = {run.name: retries for run in runs}
    errors: dict[str, str] = {}
    running = 0
    try:
        with _terminable():
            while queue or running:
                while queue and running < engine.places:
                    task = queue.popleft()
                    engine.start(task)
                    running += 1
                    table.started(task.run.name)
                for task, outcome in engine.ended(POLL):
                    running -= 1
                    name = task.run.name
                    if outcome.error is None:
                        table.finished(name)
                    elif outcome.again and left[name]:
                        left[name] -= 1
                        queue.append(task)
                        table.failed(name, outcome.error, again=True)
                    else:
                        errors[name] = outcome.error
                        table.failed(name, outcome.error, again=False)
                table.refresh()
    except KeyboardInterrupt as stop:
        _stop(engine, running, table)
        done = sum(folder.result(run) is not None for run in runs)
        code = getattr(stop, "number", signal.SIGINT)
        raise Stopped(
            code, f"stopped with {done} of {len(runs)} runs done; the same command goes on"
        ) from None
    finally:
        engine.close()
    return errors


def _stop(engine: Engine, running: int, table: Table) -> None:
    """Let the running tasks write their checkpoints; a second Ctrl-C does not wait for them."""
    table.say(f"stopping: {running} runs write their checkpoints (Ctrl-C again: stop at once)")
    engine.stop()
    try:
        while running:
            running -= len(engine.ended(POLL))
    except KeyboardInterrupt:
        engine.stop()


class _Terminated(KeyboardInterrupt):
    number = signal.SIGTERM


@contextmanager
def _terminable() -> Iterator[None]:
    """Let SIGTERM stop a sweep as Ctrl-C does."""

    def raise_it(number: int, frame: FrameType | None) -> None:
        raise _Terminated

    before = signal.signal(signal.SIGTERM, raise_it)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _finished(folder: StudyFolder, run: StudyRun) -> Result:
    result = folder.result(run)
    if result is None:
        raise RamifyError(
            f"{folder.of(run)} was removed while the sweep was at work; the same command goes on"
        )
    return result
