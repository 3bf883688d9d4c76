"""`ramify stream show`: the tasks of a stream, and a picture of which classes arrive when."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from ramify.cli.parser import Parser
from ramify.errors import RamifyError

if TYPE_CHECKING:
    from rich.table import Table

    from ramify.streams import Stream


def main(argv: list[str]) -> int:
    """Run `ramify stream`."""
    args = _parser().parse_args(argv)
    if args.out is not None and args.out.suffix not in (".svg", ".png"):
        raise RamifyError(f"--out {args.out} ends in neither .svg nor .png; choose one of them")

    from ramify.datasets import load_dataset
    from ramify.streams import build_stream

    dataset = load_dataset(args.dataset, data_dir=args.data_dir, progress=not args.json)
    stream = build_stream(
        args.setup,
        dataset.train.leaves,
        dataset.taxonomy,
        args.seed,
        labels=args.labels,
        tasks=args.tasks,
        n=args.n,
        m=args.m,
        levels=args.levels,
    )
    title = f"{dataset.name}, {args.setup}{' (dual)' * (args.labels == 'dual')}, seed {args.seed}"
    if args.json:
        facts = {"dataset": dataset.name, "setup": args.setup, "seed": args.seed, "settings": stream.settings}
        json.dump({**facts, "tree_levels": stream.levels, "tasks": stream.summary()}, sys.stdout, indent=1)
        sys.stdout.write("\n")
    else:
        from rich.console import Console

        Console(highlight=False).print(_table(stream, title))
    if args.out or not args.json:
        from ramify.reports.figures.stream import stream_figure

        out = args.out or Path(f"stream-{dataset.name}-{args.setup}-seed{args.seed}.svg".replace("/", "-"))
        stream_figure(stream, dataset.taxonomy, title).save(out)
        sys.stderr.write(f"picture: {out}\n")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = Parser(prog="ramify stream", description="Show which classes arrive when.")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    show = commands.add_parser("show", help="print the tasks of a stream and draw it")
    show.add_argument("--dataset", required=True, help="a dataset's name, or the path of your own")
    show.add_argument(
        "--setup", required=True, help="single-depth, multiple-depth, disjoint, blurry or i-blurry"
    )
    show.add_argument("--seed", type=int, default=0, help="sets the order and the split (default: 0)")
    show.add_argument("--labels", default="single", help="single or dual, for single-depth (default: single)")
    show.add_argument("--tasks", type=int, help="number of tasks (default: the paper's)")
    show.add_argument("--levels", type=_levels, help="levels of the tree to use, such as 4,5")
    show.add_argument(
        "--n", type=float, help="i-blurry: per cent of the classes that are disjoint (default: 50)"
    )
    show.add_argument("--m", type=float, help="i-blurry: per cent of the images that stray (default: 10)")
    show.add_argument("--data-dir", type=Path, help="where datasets live (default: RAMIFY_DATA)")
    show.add_argument("--json", action="store_true", help="print data; draw only with --out")
    show.add_argument("--out", type=Path, metavar="FILE", help="the picture's file, .svg or .png")
    return parser


def _levels(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r}: expected numbers such as 4,5") from None


def _table(stream: Stream, title: str) -> Table:
    from rich.table import Table

    table = Table(title=title, title_justify="left")
    for column in ("task", "samples", "level", "new classes"):
        table.add_column(column, justify="right")
    for number, task in enumerate(stream.summary(), start=1):
        level = ", ".join(
            str(h) if h == (deep := stream.levels[h - 1]) else f"{h} (tree level {deep})"
            for h in task["levels"]
        )
        table.add_row(str(number), f"{task['samples']:,}", level, str(task["new_classes"]))
    return table
