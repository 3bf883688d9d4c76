"""`ramify import`: the runs of an archive as folders."""

from __future__ import annotations

from pathlib import Path

from ramify.cli.logs import tell
from ramify.cli.parser import Parser


def main(argv: list[str]) -> int:
    """Run `ramify import`."""
    parser = Parser(
        prog="ramify import",
        description="Write the runs of an archive as the folders that they were; folders that are there "
        "already stay as they are. `ramify sweep STUDY --out DIR` then does those that are missing.",
    )
    parser.add_argument("archive", type=Path, metavar="ARCHIVE", help="such as results/study.jsonl")
    parser.add_argument("--out", type=Path, help="folder for them (default: runs/NAME of the archive)")
    args = parser.parse_args(argv)

    from ramify.sweeps.archive import unpack

    out = args.out or Path("runs", args.archive.stem)
    written, there = unpack(args.archive, out)
    tell(f"{out}: {written} runs written, {there} were there already")
    return 0
