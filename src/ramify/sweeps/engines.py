"""The contract of the engines, and the loop that keeps one of them busy."""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Sequence
from typing import Protocol

from ramify.plural import counted
from ramify.signals import Stopped, interrupted
from ramify.sweeps.jobs import Job, Outcome

POLL = 0.5  # seconds between looks at the jobs


class Engine(Protocol):
    """Local processes, a Ray cluster, Slurm."""

    @property
    def places(self) -> int:
        """How many jobs it takes at a time."""

    def start(self, job: Job) -> None:
        """Begin a job; called when a place is free."""

    def ended(self, seconds: float) -> list[tuple[Job, Outcome]]:
        """The jobs that ended, after waiting for one at most so long."""

    def stop(self) -> None:
        """Ask all jobs to write a checkpoint and end; a second time, to end at once."""

    def close(self) -> None:
        """Leave nothing running."""


class Watcher:
    """Told about jobs as they go; this one keeps silent."""

    def started(self, name: str) -> None:
        """A job was given to a worker."""

    def finished(self, name: str) -> None:
        """A job was done."""

    def failed(self, name: str, error: str, again: bool) -> None:
        """A job failed, and will be tried again or not."""

    def refresh(self) -> None:
        """A moment has passed."""

    def say(self, text: str) -> None:
        """Something else to be told."""


def drive(engine: Engine, jobs: Sequence[Job], watcher: Watcher, retries: int = 0) -> dict[str, Outcome]:
    """Do all jobs, each after those that it waits for; how each of them ended in the end.

    A job that fails in a way that may pass is tried again, at the end of the queue, up to `retries` times.
    SIGINT and SIGTERM let the running jobs stop cleanly and raise `Stopped`.
    """
    waiting, running = list(jobs), 0
    tries: Counter[str] = Counter()
    done: dict[str, Outcome] = {}
    try:
        with interrupted():
            while waiting or running:
                while running < engine.places and (job := _next(waiting, done)) is not None:
                    waiting.remove(job)
                    engine.start(job)
                    running += 1
                    watcher.started(job.name)
                for job, outcome in engine.ended(POLL):
                    running -= 1
                    if outcome.error is None:
                        done[job.name] = outcome
                        watcher.finished(job.name)
                        continue
                    again = outcome.again and tries[job.name] < retries
                    tries[job.name] += 1
                    watcher.failed(job.name, outcome.error, again)
                    if again:
                        waiting.append(job)
                    else:
                        done[job.name] = outcome
                watcher.refresh()
    except KeyboardInterrupt as stop:
        _stop(engine, running, watcher)
        number = getattr(stop, "number", signal.SIGINT)
        raise Stopped(
            number, f"stopped after {len(done)} of {counted(len(jobs), 'run')}; the same command goes on"
        ) from None
    finally:
        engine.close()
    return done


def _next(waiting: list[Job], done: dict[str, Outcome]) -> Job | None:
    """The first job that need not wait for another."""
    return next((job for job in waiting if done.keys() >= job.after), None)


def _stop(engine: Engine, running: int, watcher: Watcher) -> None:
    """Let the running jobs write their checkpoints; a second signal does not wait for them."""
    if not running:
        return
    watcher.say(f"stopping: {running} at work write their checkpoints (Ctrl-C again: stop at once)")
    engine.stop()
    try:
        with interrupted():
            while running:
                running -= len(engine.ended(POLL))
    except KeyboardInterrupt:
        engine.stop()
