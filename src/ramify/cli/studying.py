"""What `ramify reproduce` and `ramify compare` share: options, planning, running."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ramify.cli.engines import add_engine_options, chosen_engine, chosen_how
from ramify.cli.logs import tell, warn
from ramify.cli.parser import add_leniency, lenient, set_values
from ramify.console import screen

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ramify.reports.data import RunData
    from ramify.reports.tables import Table
    from ramify.sweeps.study import Study


# Options of `ramify run` that all runs of a comparison may share, by their names in the config.
RUN_OPTIONS: dict[str, tuple[type, str]] = {
    "taxonomy": (str, "tree for a dataset that does not bring one: a file or a name"),
    "image_size": (int, "side of the images"),
    "stream": (str, "a stream of your own (CSV or a saved stream), in place of the setup"),
    "tasks": (int, "number of tasks, where the setup leaves a choice"),
    "levels": (int, "levels of the dataset's tree to use"),
    "per_class": (int, "use only the first so many training images of each leaf"),
    "imbalance": (float, "images of the most frequent class for one of the least frequent"),
    "limit": (int, "use only the first so many samples of the stream"),
    "memory_size": (int, "images kept for rehearsal"),
    "eval_every": (int, "samples between any-time evaluations"),
    "eval_images": (int, "test images of the periodic evaluations"),
    "eval_at": (str, "any-time or task-ends"),
    "decode": (str, "how answers are read: heads, path, crm, up, joint"),
    "metrics": (str, "metrics of your own to record, package.module:name"),
    "precision": (str, "fp32, bf16 or auto"),
}


def add_options(parser: argparse.ArgumentParser) -> None:
    """Options of both commands."""
    parser.add_argument(
        "--preset",
        default="small",
        help="paper, small, study, quick, pretrained or a TOML file (default: small)",
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
    stream = parser.add_argument_group("what is learned, as `ramify run` takes it (default: the preset's)")
    for name, (kind, text) in RUN_OPTIONS.items():
        many = {"nargs": "+"} if name in ("levels", "metrics") else {}
        stream.add_argument(f"--{name.replace('_', '-')}", type=kind, help=text, **many)  # type: ignore[arg-type]
    parser.add_argument("--plan", action="store_true", help="print the runs and their time; run nothing")
    parser.add_argument("--no-run", action="store_true", help="make do with the runs that are finished")
    parser.add_argument("--to", type=Path, metavar="FILE", help="write there instead of printing")
    add_leniency(parser)
    add_engine_options(parser)


def run_values(args: argparse.Namespace) -> dict[str, Any]:
    """The settings of all runs that the command line gives, `--set` last."""
    given = {name: getattr(args, name) for name in RUN_OPTIONS if getattr(args, name) is not None}
    return given | lenient(args) | set_values(args.set)


def carry_out(study: Study, args: argparse.Namespace, out: Path) -> bool:
    """Print the plan (and return False), or do the runs that are missing, unless told not to."""
    if args.plan:
        from ramify.sweeps.plan import print_plan

        print_plan(study, out, chosen_how(args), args.workers, args.rerun)
        return False
    if not args.no_run:
        from ramify.sweeps.sweep import sweep

        sweep(
            study,
            out,
            chosen_engine(args, out),
            chosen_how(args),
            shared=True,
            retries=args.retries,
            rerun=args.rerun,
        )
    return True


def print_or_deliver(table: Table, form: str, to: Path | None, runs: Sequence[RunData]) -> None:
    """A table to the terminal, or to a file; a CSV has no notes, so what must be said goes to stderr."""
    from ramify.reports.render import FORMATS, print_table
    from ramify.reports.words import mixed_code

    if form == "text" and to is None and sys.stdout.isatty():
        print_table(table, screen())
        return
    deliver(FORMATS[form](table), to)
    if form == "csv" and (note := mixed_code(runs)):
        warn(note)


def deliver(text: str, to: Path | None) -> None:
    """Print, or write to a file."""
    if to is None:
        sys.stdout.write(text)
        return
    from ramify.files import write_atomic

    write_atomic(to, text)
    tell(f"written: {to}")


def _seeds(text: str) -> tuple[int, ...]:
    parts = text.split(",")
    if not all(part.strip().isdecimal() for part in parts) or len(set(parts)) < len(parts):
        raise argparse.ArgumentTypeError(f"{text!r}: expected different numbers such as 0,1,2")
    return tuple(int(part) for part in parts)
