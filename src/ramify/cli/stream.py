"""`ramify stream`: the setups; the tasks of a stream, and a picture of which classes arrive when."""

from __future__ import annotations

import argparse
import ast
import inspect
import json
import re
import sys
import textwrap
from collections.abc import Iterable
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ramify.cli.logs import tell
from ramify.cli.parser import Parser, add_leniency, lenient
from ramify.console import screen
from ramify.errors import RamifyError
from ramify.plural import some

if TYPE_CHECKING:
    from rich.table import Table

    from ramify.streams import Setup, Stream
    from ramify.taxonomy import Taxonomy


def main(argv: list[str]) -> int:
    """Run `ramify stream`."""
    args = _parser(argv).parse_args(argv)
    if args.command == "list":
        return _list()
    if args.out is not None and args.out.suffix not in (".svg", ".png"):
        raise RamifyError(f"--out {args.out} ends in neither .svg nor .png; choose one of them")
    return _show(args)


def _list() -> int:
    from rich.table import Table

    from ramify.streams import SETUPS

    table = Table("setup", "levels", "settings", "what arrives", box=None, pad_edge=False)
    for setup in SETUPS.values():
        defaults = {} if setup.settings is None else vars(setup.own(None))
        settings = ", ".join(f"{name} = {value}" for name, value in defaults.items())
        table.add_row(setup.name, str(setup.levels or "all"), settings, setup.doc)
    screen(highlight=False).print(table)
    return 0


def _show(args: argparse.Namespace) -> int:
    from ramify.datasets import load_dataset
    from ramify.streams import build_stream

    given = {"taxonomy": args.taxonomy, "image_size": args.image_size, **lenient(args)}
    dataset = load_dataset(args.dataset, data_dir=args.data_dir, progress=not args.json, **given)
    stream = build_stream(
        args.setup,
        dataset.train.leaves,
        dataset.taxonomy,
        args.seed,
        settings=args.settings,
        tasks=args.tasks,
        levels=args.levels,
        imbalance=args.imbalance,
    )
    dual = stream.settings.get("labels") == "dual"
    title = f"{dataset.name}, {args.setup}{' (dual)' * dual}, seed {args.seed}"
    if args.json:
        facts = {"dataset": dataset.name, "setup": args.setup, "seed": args.seed, "settings": stream.settings}
        facts |= {"tree_levels": stream.levels, "tasks": stream.summary(), "moves": stream.moves}
        json.dump(facts, sys.stdout, indent=1)
        sys.stdout.write("\n")
    else:
        console = screen(highlight=False)
        console.print(_table(stream, title))
        for line in _moves(stream, dataset.taxonomy):
            console.print(line)
    if args.out or not args.json:
        from ramify.reports.figures.stream import stream_figure

        out = args.out or Path(_file_name(dataset.name, args))
        stream_figure(stream, dataset.taxonomy, title).save(out)
        tell(f"picture: {out}")
    return 0


def _file_name(dataset: str, args: argparse.Namespace) -> str:
    """Of the picture: all that was given is in it, so that two streams have two pictures."""
    given = {name: getattr(args, name) for name in ("tasks", "levels", "imbalance")} | (args.settings or {})
    words = [f"{name} {value}" for name, value in given.items() if value is not None]
    name = "-".join(["stream", dataset, args.setup, *words, f"seed{args.seed}"])
    return re.sub(r"[/:\\\s,\[\]()']+", "-", name).replace("--", "-") + ".svg"


def _parser(argv: list[str]) -> argparse.ArgumentParser:
    from ramify.streams import SETUPS, find_setup

    # The chosen setup may be one's own, with options of its own.
    first = Parser(prog="ramify stream", add_help=False, allow_abbrev=False)
    first.add_argument("--setup")
    chosen = first.parse_known_args(argv)[0].setup
    setups = dict.fromkeys(SETUPS.values()) | ({find_setup(chosen): None} if chosen else {})

    parser = Parser(prog="ramify stream", description="Show which classes arrive when.")
    commands = parser.add_subparsers(metavar="COMMAND", required=True, dest="command")
    commands.add_parser("list", help="the setups, and what can be set about them")
    show = commands.add_parser("show", help="print the tasks of a stream and draw it")
    show.add_argument("--dataset", required=True, help="a dataset's name, or the path of your own")
    show.add_argument(
        "--setup", required=True, help=f"{', '.join(SETUPS)}, or package.module:name for your own"
    )
    show.add_argument("--taxonomy", help="a tree to lay over the classes: a file or a built-in name")
    show.add_argument("--image-size", type=int, help="side of the images (default: the dataset's own)")
    add_leniency(show)
    show.add_argument("--seed", type=int, default=0, help="sets the order and the split (default: 0)")
    show.add_argument("--tasks", type=int, help="number of tasks (default: the paper's)")
    show.add_argument(
        "--levels",
        type=int,
        nargs="+",
        help="levels of the tree to use, such as 4 5, or -2 -1 from the end of each leaf",
    )
    show.add_argument(
        "--imbalance", type=float, help="images of the most frequent class for one of the least frequent"
    )
    show.add_argument("--data-dir", type=Path, help="where datasets live (default: RAMIFY_DATA)")
    show.add_argument("--json", action="store_true", help="print data; draw only with --out")
    show.add_argument("--out", type=Path, metavar="FILE", help="the picture's file, .svg or .png")
    show.set_defaults(settings={})
    _add_settings(show, setups)
    return parser


def _add_settings(parser: argparse.ArgumentParser, setups: Iterable[Setup]) -> None:
    """An option for each setting of these setups; those of one name share it."""
    helps: dict[str, list[str]] = {}
    for setup in setups:
        if setup.settings is not None:
            docs = _field_docs(setup.settings)
            for name, default in vars(setup.own(None)).items():
                told = f"{setup.name}: {docs.get(name, '')} (default: {default})"
                helps.setdefault(name, []).append(told)
    for name, texts in helps.items():
        option = f"--{name.replace('_', '-')}"
        try:
            parser.add_argument(option, action=_Setting, metavar=name.upper(), help="; ".join(texts))
        except argparse.ArgumentError:
            raise RamifyError(
                f"a setup has a setting {name!r}, but {option} means something else here: rename it"
            ) from None


class _Setting(argparse.Action):
    """Collects the setup's settings; a value is JSON where it can be read so, else a text."""

    def __call__(self, parser: Any, namespace: argparse.Namespace, text: Any, option: Any = None) -> None:
        value = text
        with suppress(ValueError, RecursionError):
            value = json.loads(text)
        namespace.settings = {**namespace.settings, self.dest: value}


def _field_docs(cls: type[Any]) -> dict[str, str]:
    """The text under each field of a dataclass, where its source is at hand."""
    try:
        body = ast.parse(textwrap.dedent(inspect.getsource(cls))).body[0]
    except (OSError, TypeError, SyntaxError):
        return {}
    docs = {}
    for field, after in pairwise(getattr(body, "body", ())):
        match field, after:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                docs[name] = text.rstrip(".").replace("%", "%%")
    return docs


def _moves(stream: Stream, taxonomy: Taxonomy) -> list[str]:
    """Which classes move to another parent when, the first of each task by name."""
    from ramify.streams.moves import Eras

    eras = Eras.of(taxonomy, stream.levels, stream.moves)
    lines = []
    for start, before in zip(eras.starts[1:].tolist(), eras.trees, strict=False):
        here = [move for move in stream.moves if move.task == start]
        told = [
            f"{before.names(level)[child]} from {before.names(level - 1)[before.parent(level, child)]} to "
            f"{before.names(level - 1)[parent]}"
            for _, level, child, parent in here
        ]
        lines.append(f"with task {start + 1} move: {some(told)}")
    return lines


def _table(stream: Stream, title: str) -> Table:
    from rich.table import Table

    from ramify.taxonomy.levels import in_tree

    table = Table(title=title, title_justify="left")
    for column in ("task", "samples", "level", "new classes"):
        table.add_column(column, justify="right")
    for number, task in enumerate(stream.summary(), start=1):
        level = ", ".join(f"{h}{in_tree(h, stream.levels[h - 1])}" for h in task["levels"])
        table.add_row(str(number), f"{task['samples']:,}", level, str(task["new_classes"]))
    return table
