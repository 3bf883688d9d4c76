"""The cores of this machine: each run in a process of its own, pinned to cores of its own."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkServerContext, SpawnContext
from multiprocessing.process import BaseProcess

from ramify.errors import RamifyError
from ramify.signals import Stopped
from ramify.sweeps.jobs import Job, Outcome


def usable_cores() -> list[int]:
    """The cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


@dataclass
class Worker:
    """A process at work on a job."""

    process: BaseProcess
    job: Job
    place: int
    hear: Connection


class Local:
    """Processes on this machine, as many at a time as there are cores for their threads.

    They are forked from a server that has everything imported, so a run starts in milliseconds, dies alone,
    and shares the memory-mapped images with the others.
    """

    def __init__(self, workers: int | None = None, threads: int = 1) -> None:
        cores = usable_cores()
        if (workers is not None and workers < 1) or threads < 1:
            raise RamifyError(f"workers is {workers} and threads is {threads}; both must be at least 1")
        self.places = workers or max(1, len(cores) // threads)
        self.cores = [
            {cores[(place * threads + i) % len(cores)] for i in range(threads)}
            for place in range(self.places)
        ]
        self.busy: list[Worker] = []
        self.stopping = False
        self.context = _context()

    def start(self, job: Job) -> None:
        """Begin a job in a free place."""
        place = min(set(range(self.places)) - {worker.place for worker in self.busy})
        hear, say = self.context.Pipe(duplex=False)
        process = self.context.Process(target=_main, args=(job, self.cores[place], say), name=job.name)
        process.start()
        say.close()
        self.busy.append(Worker(process, job, place, hear))

    def ended(self, seconds: float) -> list[tuple[Job, Outcome]]:
        """The jobs that ended, after waiting for one at most so long."""
        wait([worker.process.sentinel for worker in self.busy], timeout=seconds)
        done = [worker for worker in self.busy if worker.process.exitcode is not None]
        self.busy = [worker for worker in self.busy if worker not in done]
        return [(worker.job, _outcome(worker, self.stopping)) for worker in done]

    def stop(self) -> None:
        """Ask all workers to write a checkpoint and end; a second time, to end at once."""
        self.stopping = True
        for worker in self.busy:
            worker.process.terminate()

    def close(self) -> None:
        """Nothing is left running."""
        for worker in self.busy:
            worker.process.kill()
            worker.process.join()
        self.busy = []


def _context() -> ForkServerContext | SpawnContext:
    """How processes are started: forked from one that has all imported; on Windows each by itself."""
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])
    return context


def _main(job: Job, cores: set[int], say: Connection) -> None:
    """A worker process, in a group of its own: Ctrl-C is the sweep's to pass on. It ends with the sweep."""
    if hasattr(os, "setpgrp"):
        os.setpgrp()
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, cores)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        say.send(job.work())
    except Stopped as stop:
        sys.exit(stop.code)


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os.kill(os.getpid(), signal.SIGTERM)


def _outcome(worker: Worker, stopping: bool) -> Outcome:
    """What the worker said, or what its exit code says where it could not."""
    worker.process.join()
    code = worker.process.exitcode or 0
    with worker.hear:
        if code == 0 and worker.hear.poll():
            outcome: Outcome = worker.hear.recv()
            return outcome
    if stopping:
        return Outcome("stopped", again=True)
    ended_by = signal.Signals(-code).name if code < 0 else f"exit code {code}"
    reason = " (out of memory?)" if ended_by == "SIGKILL" else ""
    return worker.job.lost(f"the worker was ended by {ended_by}{reason}")
