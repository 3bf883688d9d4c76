"""Where the runs of a study are done: options of every command that does many."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from ramify.errors import RamifyError

if TYPE_CHECKING:
    from ramify.sweeps.engines import Engine
    from ramify.sweeps.jobs import How


def add_engine_options(parser: argparse.ArgumentParser) -> None:
    """Options that say where, and with how much of the machine."""
    parser.add_argument(
        "--rerun", choices=("changed",), help="run finished runs again whose code has changed since"
    )
    add = parser.add_argument_group("where to run").add_argument
    add("--engine", choices=("local", "ray", "slurm"), default="local", help="default: local")
    add("--workers", type=int, help="runs at a time; default: as many as there are cores for")
    add("--threads", type=int, default=1, help="CPU threads of each run (default: 1)")
    add("--retries", type=int, default=1, help="how often to try a failed run again (default: 1)")
    add("--data-dir", help="where datasets live; default $RAMIFY_DATA or the user's cache")
    add("--device", choices=("auto", "cpu", "cuda", "mps"), default="auto")
    add("--checkpoint-every", type=float, default=300.0, metavar="SECONDS", help="default: 300")
    add("--store", metavar="URL", help="ray: where runs are kept if the nodes do not share --out (fsspec)")
    add("--address", default="auto", help="ray: HOST:PORT of the cluster (default: the one of this machine)")
    add("--gpus", type=float, default=0.0, help="ray: GPUs of each run, a fraction shares one (default: 0)")
    add("--memory", type=float, default=1.0, metavar="GB", help="ray, slurm: memory of each run (default: 1)")
    add("--hours", type=float, default=24.0, help="slurm: time limit of a job (default: 24); it is requeued")
    add("--partition", help="slurm: partition of the jobs")


def chosen_how(args: argparse.Namespace) -> How:
    """With what each run is done."""
    from ramify.sweeps.jobs import How

    if args.threads < 1 or (args.workers is not None and args.workers < 1):
        raise RamifyError(f"--threads is {args.threads} and --workers {args.workers}; they start at 1")
    return How(args.data_dir, args.device, args.threads, args.checkpoint_every, args.store)


def chosen_engine(args: argparse.Namespace, out: str | Path) -> Engine:
    """What does the runs."""
    if args.engine == "ray":
        from ramify.sweeps.cluster import Ray

        return Ray(args.address, args.workers, args.threads, args.gpus, args.memory * 1e9)
    if args.engine == "slurm":
        from ramify.sweeps.slurm import Slurm

        limits = {"mem_gb": args.memory, "timeout_min": round(60 * args.hours)}
        where = {"slurm_partition": args.partition} if args.partition else {}
        return Slurm(out, args.workers, args.threads, **limits, **where)
    from ramify.sweeps.local import Local

    return Local(args.workers, args.threads)
