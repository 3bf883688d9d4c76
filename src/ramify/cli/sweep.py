"""`ramify sweep`: all runs of a study."""

from __future__ import annotations

import argparse

from ramify.cli.parser import Parser


def parser() -> argparse.ArgumentParser:
    """The options of `ramify sweep`."""
    options = Parser(
        prog="ramify sweep",
        description="Do the runs of a study that are not finished yet. Ctrl-C stops it at any time: the "
        "same command goes on where it was.",
    )
    options.add_argument("study", help="TOML file with preset, [fixed], [axes] and perhaps [[block]]s")
    options.add_argument("--out", help="folder of the study; default: runs/NAME")
    options.add_argument("--engine", choices=("local", "ray", "slurm"), default="local", help="where to run")
    options.add_argument("--workers", type=int, help="runs at a time; default: one for each core")
    options.add_argument("--threads", type=int, default=1, help="CPU threads of each run (default: 1)")
    options.add_argument(
        "--retries", type=int, default=1, help="how often to try a failed run again (default: 1)"
    )
    options.add_argument(
        "--plan", action="store_true", help="print the runs, their time and memory; run nothing"
    )
    options.add_argument("--data-dir", help="where datasets live; default $RAMIFY_DATA or the user's cache")
    options.add_argument("--device", choices=("auto", "cpu", "cuda", "mps"), default="auto")
    options.add_argument("--checkpoint-every", type=float, default=300.0, metavar="SECONDS")
    return options


def main(argv: list[str]) -> int:
    """Entry point."""
    args = parser().parse_args(argv)
    from ramify.sweeps.jobs import How
    from ramify.sweeps.local import Local
    from ramify.sweeps.plan import print_plan
    from ramify.sweeps.study import Study
    from ramify.sweeps.sweep import sweep

    study = Study.from_toml(args.study)
    out = args.out or f"runs/{study.name}"
    how = How(args.data_dir, args.device, args.threads, args.checkpoint_every)
    if args.plan:
        print_plan(study, out, how, args.workers)
    else:
        sweep(study, out, Local(args.workers, args.threads), how, retries=args.retries)
    return 0
