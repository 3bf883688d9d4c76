"""Slurm, through submitit: each run a job of the queue."""

from __future__ import annotations

import shutil
import time
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ramify.errors import RamifyError
from ramify.sweeps.jobs import Job, Outcome

QUEUED = 64  # runs in the queue at a time, unless told otherwise


class Slurm:
    """The queue of a Slurm cluster, whose nodes share the study's folder.

    `options` are submitit's (slurm_partition, timeout_min, mem_gb, …). A job that meets its time limit or is
    preempted goes back into the queue by itself. `cluster="local"` makes processes of this machine instead.
    """

    def __init__(
        self,
        folder: str | Path,
        workers: int | None = None,
        cpus: int = 1,
        cluster: str = "slurm",
        **options: Any,
    ) -> None:
        if find_spec("submitit") is None:
            raise RamifyError("the Slurm engine needs submitit: pip install 'ramify[slurm]'")
        if cluster == "slurm" and shutil.which("srun") is None:
            raise RamifyError("Slurm cannot be used here: there is no srun; go to a node of the cluster")
        self.folder, self.cluster = Path(folder) / "slurm", cluster
        self.options = {"cpus_per_task": cpus, "name": "ramify", **options}
        self.places = workers or QUEUED
        self.busy: list[tuple[Any, Job]] = []
        self.stopping = False

    @cached_property
    def executor(self) -> Any:
        """Submitit's; it makes its folder at once, so it has to wait until the sweep has looked at that."""
        import submitit

        try:
            executor = submitit.AutoExecutor(folder=self.folder, cluster=self.cluster)
            executor.update_parameters(**self.options)
        except (RuntimeError, ValueError, NameError, TypeError) as error:
            raise RamifyError(f"Slurm refuses the options: {' '.join(str(error).split())}") from None
        return executor

    def start(self, job: Job) -> None:
        """Submit a job."""
        self.busy.append((self.executor.submit(Requeued(), job), job))

    def ended(self, seconds: float) -> list[tuple[Job, Outcome]]:
        """The jobs that ended, after waiting for one at most so long."""
        until = time.monotonic() + seconds
        while not (done := [pair for pair in self.busy if pair[0].done()]) and time.monotonic() < until:
            time.sleep(0.1)
        self.busy = [pair for pair in self.busy if pair not in done]
        return [(job, self._outcome(submitted, job)) for submitted, job in done]

    def _outcome(self, submitted: Any, job: Job) -> Outcome:
        import submitit

        try:
            outcome: Outcome = submitted.result()
        except (submitit.core.utils.FailedJobError, submitit.core.utils.UncompletedJobError) as error:
            if self.stopping:
                return Outcome("stopped", again=True)
            reason = str(error).splitlines()[0]
            return job.lost(f"job {submitted.job_id} ended in state {submitted.state}: {reason}")
        return outcome

    def stop(self) -> None:
        """Cancel all jobs: Slurm sends SIGTERM, at which a run writes a checkpoint, and later SIGKILL."""
        self.stopping = True
        for submitted, _ in self.busy:
            submitted.cancel(check=False)

    def close(self) -> None:
        """Leave nothing in the queue."""
        self.stop()
        self.busy = []


class Requeued:
    """Does a job; when its time limit is near, submitit puts it back into the queue as it is."""

    def __call__(self, job: Job) -> Outcome:
        """Do it."""
        return job.work()

    def checkpoint(self, job: Job) -> Any:
        """What to submit again; the run continues from its own checkpoint."""
        import submitit

        return submitit.helpers.DelayedSubmission(self, job)
