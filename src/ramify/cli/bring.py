"""`ramify import`: an archive of runs as folders, or the labels of another program as a manifest."""

from __future__ import annotations

import argparse
import difflib
from pathlib import Path

from ramify.cli.logs import tell
from ramify.cli.parser import Parser
from ramify.errors import RamifyError
from ramify.plural import counted

KINDS = ("labelstudio", "fiftyone", "archive")


def main(argv: list[str]) -> int:
    """Run `ramify import`."""
    args = _parser().parse_args(argv)
    kind, source = _kind(args.source)
    if kind == "archive":
        return _archive(source, args.out)
    return _labels(kind, source, args)


def _parser() -> Parser:
    parser = Parser(
        prog="ramify import",
        usage="ramify import [labelstudio | fiftyone | archive] SOURCE [--out PATH] [--field NAME] "
        "[--control NAME]",
        description="Bring in what other programs wrote. labelstudio: an export in JSON; fiftyone: a folder "
        "of the type FiftyOneImageClassificationDataset. Both become a manifest for `ramify learn` (and a "
        "dataset for `ramify run`), with the tree of the labels beside it; `ramify predict --as` writes "
        "answers back. archive, which may be left out: runs that `ramify publish` put into one file, as the "
        "folders that they were; folders that are there stay, and `ramify sweep STUDY --out DIR` then does "
        "those that are missing.",
    )
    add = parser.add_argument
    add("source", nargs="+", metavar="SOURCE", help="what it is (an archive, if left out), and where")
    add(
        "--out",
        type=Path,
        help="the manifest (default: SOURCE.csv, of FiftyOne labels.csv in its folder), or the folder for "
        "the runs (default: runs/NAME of the archive)",
    )
    add("--field", metavar="NAME", help="labelstudio: where the data have the image, if that is not clear")
    add("--control", metavar="NAME", help="labelstudio: the Taxonomy control, if there are several")
    return parser


def _kind(words: list[str]) -> tuple[str, Path]:
    """What is to be imported, and from where."""
    if len(words) == 1:
        return "archive", Path(words[0])
    kind, *rest = words
    if kind not in KINDS:
        near = difflib.get_close_matches(kind, KINDS, n=1)
        hint = f"did you mean {near[0]}?" if near else f"it is one of {', '.join(KINDS)}"
        raise RamifyError(f"ramify import knows no {kind!r}; {hint}")
    if len(rest) > 1:
        raise RamifyError(f"{len(rest)} sources were given; import one at a time")
    return kind, Path(rest[0])


def _archive(source: Path, out: Path | None) -> int:
    from ramify.sweeps.archive import unpack

    out = out or Path("runs", source.stem)
    written, there = unpack(source, out)
    tell(f"{out}: {counted(written, 'run')} written, {there} there already")
    return 0


def _labels(kind: str, source: Path, args: argparse.Namespace) -> int:
    from ramify.learner import fiftyone, labelstudio
    from ramify.learner.exchange import write_manifest

    if kind == "labelstudio":
        out = args.out or source.with_suffix(".csv")
        found = labelstudio.brought(labelstudio.read_tasks(source), args.field, args.control)
    else:
        out = args.out or source / "labels.csv"
        found = fiftyone.brought(source, out.parent)
    told = "".join(f"; {count:,} {reason}" for reason, count in found.left_out.most_common())
    if not found.rows:
        raise RamifyError(f"{source} has no labelled image{told}")
    tree = write_manifest(found, out)
    tell(f"{out}: {len(found.rows):,} labelled images{told}")
    where = "" if tree is None else f"--taxonomy {tree} "
    tell(f"teach them with `ramify learn {out} {where}--images DIR --out MODEL`")
    return 0
