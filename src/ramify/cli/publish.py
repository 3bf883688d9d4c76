"""`ramify publish`: finished runs into one file."""

from __future__ import annotations

from pathlib import Path

from ramify.cli.logs import tell
from ramify.cli.parser import Parser


def main(argv: list[str]) -> int:
    """Run `ramify publish`."""
    parser = Parser(
        prog="ramify publish",
        description="Add the finished runs of a folder to an archive, one file of JSON Lines with a line for "
        "each run, without weights, answers and the folders of this machine. What is in it already stays.",
    )
    parser.add_argument(
        "runs", type=Path, metavar="DIR", help="folder of a sweep or a comparison, or of a run"
    )
    parser.add_argument("to", type=Path, metavar="ARCHIVE", help="such as results/NAME.jsonl")
    args = parser.parse_args(argv)

    from ramify.sweeps.archive import publish

    new, replaced = publish(args.runs, args.to)
    tell(f"{args.to}: {new} new runs, {replaced} replaced")
    return 0
