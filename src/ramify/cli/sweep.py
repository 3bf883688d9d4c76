"""`ramify sweep`: all runs of a study."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from ramify.cli.parser import Parser
from ramify.errors import RamifyError

if TYPE_CHECKING:
    from ramify.sweeps.engines import Engine


def parser() -> argparse.ArgumentParser:
    """The options of `ramify sweep`."""
    options = Parser(
        prog="ramify sweep",
        description="Do the runs of a study that are not finished yet. Ctrl-C stops it at any time: the "
        "same command goes on where it was.",
    )
    add = options.add_argument
    add("study", help="TOML file with preset, [fixed], [axes] and perhaps [[block]]s")
    add("--out", help="folder of the study; default: runs/NAME")
    add("--engine", choices=("local", "ray", "slurm"), default="local", help="where to run (default: local)")
    add("--workers", type=int, help="runs at a time; default: as many as there are cores for")
    add("--threads", type=int, default=1, help="CPU threads of each run (default: 1)")
    add("--retries", type=int, default=1, help="how often to try a failed run again (default: 1)")
    add("--plan", action="store_true", help="print the runs, their time and memory here; run nothing")
    add("--data-dir", help="where datasets live; default $RAMIFY_DATA or the user's cache")
    add("--device", choices=("auto", "cpu", "cuda", "mps"), default="auto")
    add("--checkpoint-every", type=float, default=300.0, metavar="SECONDS", help="default: 300")
    add("--store", metavar="URL", help="ray: where runs are kept if the nodes do not share --out (fsspec)")
    add("--address", default="auto", help="ray: HOST:PORT of the cluster (default: the one of this machine)")
    add("--gpus", type=float, default=0.0, help="ray: GPUs of each run, a fraction shares one (default: 0)")
    add("--memory", type=float, default=1.0, metavar="GB", help="ray, slurm: memory of each run (default: 1)")
    add("--hours", type=float, default=24.0, help="slurm: time limit of a job (default: 24); it is requeued")
    add("--partition", help="slurm: partition of the jobs")
    return options


def main(argv: list[str]) -> int:
    """Entry point."""
    args = parser().parse_args(argv)
    if args.threads < 1 or (args.workers is not None and args.workers < 1):
        raise RamifyError(f"--threads is {args.threads} and --workers {args.workers}; they start at 1")
    from ramify.sweeps.jobs import How
    from ramify.sweeps.plan import print_plan
    from ramify.sweeps.study import Study
    from ramify.sweeps.sweep import sweep

    study = Study.from_toml(args.study)
    out = args.out or f"runs/{study.name}"
    how = How(args.data_dir, args.device, args.threads, args.checkpoint_every, args.store)
    if args.plan:
        print_plan(study, out, how, args.workers)
    else:
        sweep(study, out, _engine(args, out), how, retries=args.retries)
    return 0


def _engine(args: argparse.Namespace, out: str) -> Engine:
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
