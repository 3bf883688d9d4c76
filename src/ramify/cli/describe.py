"""`ramify describe`: what a saved model knows."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ramify.cli.answers import run_levels, tree_levels_of
from ramify.cli.logs import tell
from ramify.cli.parser import Parser, add_own_code
from ramify.console import screen
from ramify.plural import counted

if TYPE_CHECKING:
    from rich.table import Table

    from ramify.learner import Learner
    from ramify.learner.labels import Label
    from ramify.taxonomy import Taxonomy

LOG_LINES = 10
WEAKEST = 5


def main(argv: list[str]) -> int:
    """Run `ramify describe`."""
    parser = Parser(
        prog="ramify describe",
        description="Levels, labels, memory, accuracy log and the label tree that the model has worked out.",
    )
    parser.add_argument(
        "model", metavar="MODEL", type=Path, help="a folder written by `ramify learn`, or a run's"
    )
    parser.add_argument("--all", action="store_true", help="fold nothing in the tree")
    parser.add_argument("--json", action="store_true", help="print JSON, with all of the tree")
    parser.add_argument(
        "--figure",
        metavar="FILE",
        type=Path,
        help="draw what is gained by not always answering, as .svg or .png: risk-coverage of each level, "
        "accuracy against depth",
    )
    add_own_code(parser)
    args = parser.parse_args(argv)

    from ramify.files import json_text
    from ramify.learner import Learner

    learner = Learner.load(args.model, network=args.network, own_code=args.own_code)
    if args.figure is not None:
        _draw(learner, args.figure)
    if args.json:
        sys.stdout.write(json_text(_facts(learner)))
    else:
        _print(learner, args.model, args.all)
    return 0


def _draw(learner: Learner, path: Path) -> None:
    from ramify.errors import RamifyError
    from ramify.learner.trust import trust_drawing

    if path.suffix not in (".svg", ".png"):
        raise RamifyError(f"--figure {path} ends in neither .svg nor .png; choose one of them")
    trust_drawing(learner._trainer).save(path)
    tell(f"the figure is in {path}")


def _print(learner: Learner, model: Path, everything: bool) -> None:
    from ramify.learner.manifest import accuracy_log
    from ramify.learner.relabel import remembers
    from ramify.taxonomy.show import render

    console, held = screen(highlight=False), remembers(learner._trainer)
    params = learner.get_params()
    if not learner.levels:
        console.print("It has not learned anything yet.")
        return
    if not learner.samples and learner.taxonomy is not None:
        begins = "; taught on, its memory begins empty" if held else ""
        console.print(
            f"the network of a run on {_takes(learner)}{begins}. "
            f"{model / 'report.html'} tells how it learned",
            soft_wrap=True,
        )
        if told := run_levels(model):
            console.print(told, soft_wrap=True)
        console.print(render(learner.taxonomy, "Its label tree", everything))
        return
    size = counted(params["memory_size"], "image")
    memory = f"memory for {size}" if held else "no memory: it stores no images"
    console.print(
        f"{_name(params['method'])} on {_takes(learner)}: {counted(learner.samples, 'sample')}, "
        f"{counted(learner.updates, 'update')}, {memory}",
        soft_wrap=True,
    )
    console.print(_levels(learner, held))
    if entries := accuracy_log(learner):
        console.print("Right before learning, %:")
        console.print(_log(entries))
    if any(told.answers for told in learner.calibration().values()):
        console.print("Right before learning by the probability that was given, % (answers):")
        console.print(_calibration(learner))
    tree = learner.hierarchy()
    title = "The tree that the model's answers make"
    console.print(render(tree, title, everything, [len(learner.labels(h)) for h in learner.levels]))
    for child, parent, support in _ties(tree)[:WEAKEST]:
        console.print(
            f"weakly tied: {child} to {parent} ({support:.0%} of the answers about it)", soft_wrap=True
        )


def _takes(learner: Learner) -> str:
    params = learner.get_params()
    if params["features"] is not None:
        return f"features of {params['features']:,} values"
    return f"images of {params['image_size']} pixels"


def _facts(learner: Learner) -> dict[str, Any]:
    """The same as plain values; `found_tree` has a row for each path."""
    from ramify.learner.manifest import accuracy_log
    from ramify.learner.relabel import remembers

    params, stored = learner.get_params(), learner.memory_counts(every=True)
    facts: dict[str, Any] = {
        "method": _name(params["method"]),
        "image_size": params["image_size"],
        "features": params["features"],
        "memory_size": params["memory_size"] if remembers(learner._trainer) else 0,
        "samples": learner.samples,
        "updates": learner.updates,
        "levels": {
            str(h): {
                "labels": [str(label) for label in learner.labels(h)],
                "stored": list(stored[h].values()),
            }
            for h in learner.levels
        },
        "log": accuracy_log(learner),
        "calibration": {str(h): asdict(told) for h, told in learner.calibration().items()},
        "taxonomy": None,
        "tree_levels": tree_levels_of(learner),
        "found_tree": [],
        "weak_ties": [],
    }
    if learner.taxonomy is not None:
        facts["taxonomy"] = [learner.taxonomy.path(leaf) for leaf in range(learner.taxonomy.leaves)]
    if learner.samples:
        tree = learner.hierarchy()
        facts["found_tree"] = [tree.path(leaf) for leaf in range(tree.leaves)]
        facts["weak_ties"] = [
            {"child": child, "parent": parent, "support": support} for child, parent, support in _ties(tree)
        ]
    return facts


def _levels(learner: Learner, held: bool) -> Table:
    from rich.table import Table

    columns = ("stored images", "fewest") if held else ("samples", "fewest")
    tree = learner.taxonomy
    table = Table("level", "labels", *columns, box=None, pad_edge=False)
    for level, counts in (learner.memory_counts(every=True) if held else _seen(learner)).items():
        least = min(counts, key=lambda label: counts[label])
        name = tree.level_name(level) if tree is not None and level <= tree.depth else str(level)
        table.add_row(
            name.removeprefix("level "),
            str(len(counts)),
            str(sum(counts.values())),
            f"{least} {counts[least]}",
        )
    return table


def _seen(learner: Learner) -> dict[int, dict[Label, int]]:
    """How many samples of each label were learned, by level."""
    classes = learner._trainer.classes
    return {h: {classes.labels[c]: int(classes.seen[c]) for c in classes.of_level(h)} for h in classes.levels}


def _log(entries: list[dict[str, dict[str, float]]]) -> Table:
    from rich.table import Table

    levels = sorted({level for entry in entries for level in entry["accuracy"]}, key=int)
    columns = ("samples", *(f"level {level}" for level in levels))
    table = Table(*columns, box=None, pad_edge=False)
    for entry in entries[-LOG_LINES:]:
        cells = (entry["accuracy"].get(level) for level in levels)
        table.add_row(f"{entry['samples']:,}", *("" if v is None else f"{100 * v:.1f}" for v in cells))
    return table


def _ties(tree: Taxonomy) -> list[tuple[str, str, float]]:
    """Child, known parent and support of ties that less than nine in ten answers speak for, weakest first."""
    found = set()
    for level in range(2, tree.depth + 1):
        for leaf, text in enumerate(tree.leaf_attributes[f"support{level}"]):
            path = tree.path(leaf)
            if text and 0 < float(text) < 0.9:
                found.add((path[level - 1], path[level - 2], float(text)))
    return sorted(found, key=lambda tie: tie[2])


def _name(method: Any) -> str:
    from ramify.learner.saving import method_name

    return method_name(method)


def _calibration(learner: Learner) -> Table:
    """The reliability curve of each level, its calibration error, and how many new labels were noticed."""
    from rich.table import Table

    from ramify.evaluation.calibration import BINS

    levels = learner.calibration()
    table = Table("probability", box=None, pad_edge=False)
    for level in levels:
        table.add_column(f"level {level}", justify="right")
    for b in range(BINS):
        bins = [[x for x in told.reliability if _bin(x.probability) == b] for told in levels.values()]
        if any(bins):
            cells = [_share(x[0].accuracy, f" ({x[0].count:,})") if x else "" for x in bins]
            table.add_row(f"{b / BINS:.1f} to {(b + 1) / BINS:.1f}", *cells)
    table.add_row("all", *(_share(told.accuracy, f" ({told.answers:,})") for told in levels.values()))
    table.add_row("ECE", *(_share(told.ece) for told in levels.values()))
    if any(told.new for told in levels.values()):
        noticed = (_share(told.noticed, f" ({told.new:,})") for told in levels.values())
        table.add_row("new labels noticed", *noticed)
    return table


def _bin(probability: float) -> int:
    from ramify.evaluation.calibration import BINS

    return min(int(probability * BINS), BINS - 1)


def _share(value: float | None, more: str = "") -> str:
    return "" if value is None else f"{100 * value:.1f}{more}"
