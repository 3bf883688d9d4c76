"""`ramify sweep`: all runs of a study."""

from __future__ import annotations

import argparse

from ramify.cli.engines import add_engine_options, chosen_engine, chosen_how
from ramify.cli.logs import tell
from ramify.cli.parser import Parser


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
    add("--plan", action="store_true", help="print the runs, their time and memory here; run nothing")
    add_engine_options(options)
    return options


def main(argv: list[str]) -> int:
    """Entry point."""
    args = parser().parse_args(argv)
    from ramify.sweeps.plan import print_plan
    from ramify.sweeps.study import Study
    from ramify.sweeps.sweep import sweep

    study = Study.from_toml(args.study)
    out = args.out or f"runs/{study.name}"
    how = chosen_how(args)
    if args.plan:
        print_plan(study, out, how, args.workers, args.rerun)
    else:
        sweep(study, out, chosen_engine(args, out), how, retries=args.retries, rerun=args.rerun)
        tell(f"tables and curves: ramify report {out}")
    return 0
