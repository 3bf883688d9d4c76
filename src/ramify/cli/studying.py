"""What `ramify reproduce` and `ramify compare` share: options, planning, running."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from ramify.cli.engines import add_engine_options, chosen_engine, chosen_how
from ramify.cli.parser import add_leniency

if TYPE_CHECKING:
    from ramify.sweeps.study import Study


def add_options(parser: argparse.ArgumentParser) -> None:
    """Options of both commands."""
    parser.add_argument(
        "--preset", default="small", help="paper, small, study, quick or a TOML file (default: small)"
    )
    parser.add_argument("--seeds", type=_seeds, default=(0, 1, 2), metavar="0,1,2", help="default: 0,1,2")
    parser.add_argument("--out", type=Path, help="folder of the runs; finished ones found there are reused")
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="FIELD=VALUE",
        help="a setting of all runs over the preset's, such as network.width=0.25",
    )
    parser.add_argument("--plan", action="store_true", help="print the runs and their time; run nothing")
    parser.add_argument("--no-run", action="store_true", help="make do with the runs that are finished")
    parser.add_argument("--to", type=Path, metavar="FILE", help="write there instead of printing")
    add_leniency(parser)
    add_engine_options(parser)


def carry_out(study: Study, args: argparse.Namespace, out: Path) -> bool:
    """Print the plan (and return False), or do the runs that are missing, unless told not to."""
    if args.plan:
        from ramify.sweeps.plan import print_plan

        print_plan(study, out, chosen_how(args), args.workers)
        return False
    if not args.no_run:
        from ramify.sweeps.sweep import sweep

        sweep(study, out, chosen_engine(args, out), chosen_how(args), shared=True, retries=args.retries)
    return True


def deliver(text: str, to: Path | None) -> None:
    """Print, or write to a file."""
    if to is None:
        sys.stdout.write(text)
        return
    from ramify.files import write_atomic

    write_atomic(to, text)
    sys.stderr.write(f"written: {to}\n")


def _seeds(text: str) -> tuple[int, ...]:
    parts = text.split(",")
    if not all(part.strip().isdecimal() for part in parts) or len(set(parts)) < len(parts):
        raise argparse.ArgumentTypeError(f"{text!r}: expected different numbers such as 0,1,2")
    return tuple(int(part) for part in parts)
