"""What sweeps cost and gain on this machine."""

from __future__ import annotations

import json
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from time import perf_counter
from typing import Any

from ramify.runs.folder import RunFolder
from ramify.sweeps import How, Study, sweep
from ramify.sweeps.folder import StudyFolder
from ramify.sweeps.local import Local
from ramify.typed import to_dict


def equal_runs(count: int, limit: int = 320) -> Study:
    """So many quick runs that differ in their seed alone."""
    return Study.of("bench", {"seed": list(range(count))}, {"method": "er", "limit": limit}, preset="quick")


def timed_sweep(study: Study, workers: int, threads: int) -> tuple[float, float]:
    """Seconds of a whole sweep into a new folder, and of the runs in it, added up."""
    with tempfile.TemporaryDirectory() as folder:
        start = perf_counter()
        results = sweep(
            study, Path(folder) / "out", Local(workers, threads), How(threads=threads), quiet=True
        )
        return perf_counter() - start, sum(result.seconds for result in results.values())


def two_workers(trials: int = 3, runs: int = 8) -> dict[str, float]:
    """Two workers of one thread against one worker of two threads; bar: a ratio of at most 0.6."""
    study = equal_runs(runs)
    timed_sweep(equal_runs(2, limit=32), 2, 1)  # start the server that workers are forked from
    pairs = [(timed_sweep(study, 2, 1)[0], timed_sweep(study, 1, 2)[0]) for _ in range(trials)]
    return {
        "ratio": statistics.median(two / one for two, one in pairs),
        "two_workers_seconds": statistics.median(two for two, _ in pairs),
        "one_worker_seconds": statistics.median(one for _, one in pairs),
    }


def overhead(trials: int = 3, runs: int = 6) -> dict[str, float]:
    """Seconds of a run in a sweep that are neither training nor evaluation; bar: at most 1."""
    study = equal_runs(runs, limit=32)
    timed_sweep(equal_runs(1, limit=16), 1, 1)
    spent = [timed_sweep(study, 1, 1) for _ in range(trials)]
    return {"seconds": statistics.median((wall - inside) / runs for wall, inside in spent)}


def ray_overhead(runs: int = 4) -> dict[str, float]:
    """The same on a Ray cluster of one worker, after a first run has started it up; bar: at most 3."""
    from ray.cluster_utils import Cluster

    from ramify.sweeps.cluster import Ray

    cluster: Any = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    try:
        with tempfile.TemporaryDirectory() as folder:
            sweep(equal_runs(1, limit=16), Path(folder) / "first", Ray(cluster.address), quiet=True)
            start = perf_counter()
            done = sweep(equal_runs(runs, 32), Path(folder) / "out", Ray(cluster.address), quiet=True)
            spent = perf_counter() - start
    finally:
        cluster.shutdown()
    return {"seconds": (spent - sum(result.seconds for result in done.values())) / runs}


def no_op(trials: int = 3, runs: int = 90) -> dict[str, float]:
    """Seconds of `ramify sweep` on a study of which all runs are finished; bar: at most 3."""
    with tempfile.TemporaryDirectory() as place:
        out, toml = StudyFolder(Path(place) / "out"), Path(place) / "study.toml"
        sweep(equal_runs(1, limit=32), out.path, Local(1), quiet=True)
        toml.write_text(
            f'preset = "quick"\n[fixed]\nmethod = "er"\nlimit = 32\n[axes]\nseed = {list(range(runs))}\n'
        )
        study = Study.from_toml(toml)
        for run in study.runs[1:]:  # the same run under all names
            shutil.copytree(out.of(study.runs[0]), out.of(run))
            about = RunFolder(out.of(run)).about()
            about["config"] = to_dict(run.config)
            (out.of(run) / "config.json").write_text(json.dumps(about))
        out.write(study)
        command = [sys.executable, "-c", "import sys; from ramify.cli import main; sys.exit(main())"]
        times = []
        for _ in range(trials):
            start = perf_counter()
            subprocess.run(
                [*command, "sweep", str(toml), "--out", str(out.path)], check=True, stderr=subprocess.DEVNULL
            )
            times.append(perf_counter() - start)
    return {"seconds": statistics.median(times)}
