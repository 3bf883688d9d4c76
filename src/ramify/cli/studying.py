"""What `ramify reproduce` and `ramify compare` share: options, planning, running."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ramify.errors import RamifyError

if TYPE_CHECKING:
    from ramify.sweeps.jobs import How
    from ramify.sweeps.local import Local
    from ramify.sweeps.study import Study, StudyRun


def add_options(parser: argparse.ArgumentParser) -> None:
    """Options of both commands."""
    parser.add_argument(
        "--preset", default="small", help="paper, small, quick or a TOML file (default: small)"
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
    parser.add_argument("--workers", type=int, help="runs at a time (default: one for each core)")
    parser.add_argument("--threads", type=int, default=1, help="CPU threads of each run (default: 1)")
    parser.add_argument("--data-dir", help="where datasets live (default: RAMIFY_DATA)")
    parser.add_argument("--device", choices=("auto", "cpu", "cuda", "mps"), default="auto")


def settings(pairs: list[str]) -> dict[str, Any]:
    """FIELD=VALUE pairs as config values; a value is JSON where it can be read so, else a text."""
    import json

    values: dict[str, Any] = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals or not name:
            raise RamifyError(f"--set {pair!r}: expected FIELD=VALUE, such as network.width=0.25")
        try:
            values[name] = json.loads(text)
        except ValueError:
            values[name] = text
    return values


def carry_out(study: Study, args: argparse.Namespace, out: Path) -> bool:
    """Print the plan (and return False), or do the runs that are missing, unless told not to."""
    if args.plan:
        print_plan(study, args, out)
        return False
    if not args.no_run:
        from ramify.sweeps.sweep import sweep

        sweep(study, out, _engine(args), how(args), shared=True)
    return True


def print_plan(study: Study, args: argparse.Namespace, out: Path) -> None:
    """The runs, which of them are finished, and how long the others will take on this machine."""
    from rich.console import Console
    from rich.table import Table

    from ramify.reports.words import duration
    from ramify.sweeps.folder import StudyFolder
    from ramify.sweeps.plan import wall_seconds

    folder = StudyFolder(out)
    missing = [run for run in study if folder.result(run) is None]
    seconds, notes = _estimate(missing, args)
    table = Table("run", "dataset", "time", box=None, pad_edge=False)
    for run in study:
        time = "finished" if run not in missing else "?"
        table.add_row(
            run.name, run.config.dataset, duration(seconds[run.name]) if run.name in seconds else time
        )
    console = Console(width=None if sys.stdout.isatty() else 120, highlight=False)
    console.print(table)
    workers = _engine(args).places
    total, wall = sum(seconds.values()), wall_seconds(list(seconds.values()), workers)
    console.print(
        f"{len(study)} runs, {len(study) - len(missing)} finished in {out}. The others: {duration(total)} of "
        f"computing, {duration(wall)} with {workers} at a time (from a few timed updates; nothing was run)."
    )
    for note in notes:
        console.print(note, markup=False)


def _estimate(runs: Sequence[StudyRun], args: argparse.Namespace) -> tuple[dict[str, float], list[str]]:
    """Seconds of each run, by name, and why some have none: a dataset that is not at hand."""
    from ramify.sweeps.engines import Watcher
    from ramify.sweeps.plan import plan

    seconds: dict[str, float] = {}
    notes: list[str] = []
    for dataset in dict.fromkeys(run.config.dataset for run in runs):
        chosen = [run for run in runs if run.config.dataset == dataset]
        try:
            estimates = plan(chosen, how(args), _engine(args), Watcher())
        except RamifyError as error:
            notes.append(f"{dataset}: no estimate for {len(chosen)} runs: {error}")
        else:
            seconds |= {estimate.run.name: estimate.seconds for estimate in estimates}
    return seconds, notes


def _engine(args: argparse.Namespace) -> Local:
    from ramify.sweeps.local import Local

    return Local(args.workers, args.threads)


def how(args: argparse.Namespace) -> How:
    """Where and with what the runs are done."""
    from ramify.sweeps.jobs import How

    return How(args.data_dir, args.device, args.threads)


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
