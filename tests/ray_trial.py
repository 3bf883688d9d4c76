"""A sweep on a Ray cluster of three raylets on this machine; the node of a run is killed in its middle.

Run by test_sweeps_cluster.py in a process of its own. Prints what happened as JSON.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from pathlib import Path

from ray.cluster_utils import Cluster

from ramify.sweeps import How, Study, sweep
from ramify.sweeps.cluster import Ray
from ramify.sweeps.jobs import Job
from sweeping import DyingJob, died


class StandingJob(DyingJob):
    """Stands still where another dies, until its node is killed."""

    def die(self) -> None:
        time.sleep(240)


class Standing(Ray):
    """The first run to keep a checkpoint stands still there."""

    def __init__(self, mark: Path, address: str, memory: float) -> None:
        super().__init__(address, memory=memory)
        self.mark = mark

    def start(self, job: Job) -> None:
        super().start(StandingJob(job, self.mark))


def kill_node_at_work(cluster: Cluster, mark: Path, killed: list[str]) -> None:
    """Wait for the run that stands still, and kill the node that it is on."""
    while not mark.exists():
        time.sleep(0.05)
    holder, name = died(mark)
    for node in cluster.worker_nodes:
        raylet = node.all_processes["raylet"][0].process.pid
        if raylet in ancestors(holder):
            cluster.remove_node(node, allow_graceful=False)
            killed.append(name)
            return


def ancestors(pid: int) -> list[int]:
    """The processes above a process."""
    found = []
    while pid > 1:
        status = Path(f"/proc/{pid}/status").read_text()
        pid = int(status.split("PPid:")[1].split()[0])
        found.append(pid)
    return found


def main(study: str, out: Path) -> None:
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
    for _ in range(2):
        cluster.add_node(num_cpus=1)
    cluster.wait_for_nodes()
    mark, killed = out.with_name("mark"), list[str]()
    engine = Standing(mark, cluster.address, memory=2e8)
    threading.Thread(target=kill_node_at_work, args=(cluster, mark, killed), daemon=True).start()
    results = sweep(Study.from_toml(study), out, engine, How(checkpoint_every=0), retries=0)
    cluster.shutdown()
    sys.stdout.write(json.dumps({"killed": killed, "results": len(results)}) + "\n")


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
