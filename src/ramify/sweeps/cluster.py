"""A Ray cluster: each run a task, rescheduled by Ray when its node is lost."""

from __future__ import annotations

import socket
from typing import Any

from ramify.errors import RamifyError
from ramify.sweeps.jobs import Job, Outcome

LOST_NODES = 3  # times that Ray starts a run again by itself because its worker or node was lost


class Ray:
    """The nodes of a running Ray cluster. They need ramify installed, and a folder in common or a store."""

    def __init__(
        self,
        address: str = "auto",
        workers: int | None = None,
        cpus: int = 1,
        gpus: float = 0.0,
        memory: float = 1e9,
    ) -> None:
        try:
            import ray
        except ImportError:
            raise RamifyError("the Ray engine needs ray: pip install 'ramify[ray]'") from None
        self.ray: Any = ray
        self.workers = workers
        self.needs = {"CPU": float(cpus), "GPU": gpus, "memory": memory}
        self._connect(address)
        self._task = ray.remote(num_cpus=cpus, num_gpus=gpus, memory=int(memory), max_retries=LOST_NODES)(
            _work
        )
        self.busy: dict[Any, Job] = {}
        self._asked_to_stop = False

    def _connect(self, address: str) -> None:
        host, colon, port = address.rpartition(":")
        try:
            if colon and port.isdecimal():  # Ray itself would try for a minute
                socket.create_connection((host, int(port)), timeout=5).close()
            self.ray.init(address=address, logging_level="error", log_to_driver=False)
        except (OSError, RuntimeError, ValueError) as error:
            raise RamifyError(
                f"no Ray cluster answers at {address!r} ({_first_line(error)}); start one with "
                "`ray start --head`"
            ) from None
        nodes = [node["Resources"] for node in self.ray.nodes() if node["Alive"]]
        fits = [all(node.get(what, 0) >= need for what, need in self.needs.items()) for node in nodes]
        if not any(fits):
            self.close()
            raise RamifyError(
                f"no node of the Ray cluster has what a run needs: {self._words()}; lower --threads, "
                "--gpus or --memory"
            )

    def _words(self) -> str:
        return f"{self.needs['CPU']:g} CPUs, {self.needs['GPU']:g} GPUs, {self.needs['memory'] / 1e9:g} GB"

    @property
    def places(self) -> int:
        """As many as the cluster has room for now: nodes come and go."""
        if self.workers is not None:
            return self.workers
        there = self.ray.cluster_resources()
        return max(1, int(min(there.get(what, 0) / need for what, need in self.needs.items() if need)))

    def start(self, job: Job) -> None:
        """Give a job to Ray."""
        self.busy[self._task.options(name=job.name).remote(job)] = job

    def ended(self, seconds: float) -> list[tuple[Job, Outcome]]:
        """The jobs that ended, after waiting for one at most so long."""
        done, _ = self.ray.wait(list(self.busy), num_returns=1, timeout=seconds)
        return [(self.busy[one], self._outcome(one, self.busy.pop(one))) for one in done]

    def _outcome(self, one: Any, job: Job) -> Outcome:
        try:
            outcome: Outcome = self.ray.get(one)
        except self.ray.exceptions.RayError as error:
            if self._asked_to_stop:
                return Outcome("stopped", again=True)
            return job.lost(f"lost by Ray ({type(error).__name__}): {_first_line(error)}")
        return outcome

    def stop(self) -> None:
        """Ask all jobs to write a checkpoint and end; a second time, to end at once."""
        for one in self.busy:
            self.ray.cancel(one, force=self._asked_to_stop)
        self._asked_to_stop = True

    def close(self) -> None:
        """Leave the cluster; it ends what this sweep has left running."""
        self.ray.shutdown()


def _work(job: Job) -> Outcome:
    return job.work()


def _first_line(error: BaseException) -> str:
    return next(iter(str(error).strip().splitlines()), type(error).__name__)
