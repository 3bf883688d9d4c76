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


def kill_node_at_work(cluster: Cluster, out: Path, killed: list[str]) -> None:
    """Wait for a run that has written a checkpoint, and kill the node that it is on."""
    while not (begun := [p.parent for p in out.glob("*/checkpoint-*.sha256")]):
        time.sleep(0.05)
    holder = int((begun[0] / ".lock").read_text())
    for node in cluster.worker_nodes:
        raylet = node.all_processes["raylet"][0].process.pid
        if raylet in ancestors(holder):
            cluster.remove_node(node, allow_graceful=False)
            killed.append(begun[0].name)
            return


def ancestors(pid: int) -> list[int]:
    """The processes above a process."""
    found = []
    while pid > 1:
        status = Path(f"/proc/{pid}/status").read_text()
        pid = int(status.split("PPid:")[1].split()[0])
        found.append(pid)
    return found


def main(study: str, out: Path, store: str | None) -> None:
    start = time.monotonic()
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
    for _ in range(2):
        cluster.add_node(num_cpus=1)
    cluster.wait_for_nodes()
    engine, up = Ray(cluster.address, memory=2e8), time.monotonic() - start
    killed: list[str] = []
    if store is None:
        threading.Thread(target=kill_node_at_work, args=(cluster, out, killed), daemon=True).start()
    how = How(checkpoint_every=0.2, store=store)
    results = sweep(Study.from_toml(study), out, engine, how, retries=0)
    seconds = time.monotonic() - start - up
    cluster.shutdown()
    said = {"killed": killed, "results": len(results), "start_up": up, "seconds": seconds}
    sys.stdout.write(json.dumps(said) + "\n")


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3] if len(sys.argv) > 3 else None)
