"""`ramify export`: records and results as CSV or Parquet."""

from __future__ import annotations

from pathlib import Path

from ramify.cli.logs import tell
from ramify.cli.parser import Parser


def main(argv: list[str]) -> int:
    """Run `ramify export`."""
    parser = Parser(
        prog="ramify export",
        description="Write the records (one row an evaluation and level) and results of runs as tables.",
    )
    parser.add_argument(
        "runs",
        nargs="+",
        metavar="DIR",
        help="folders of runs, folders with runs below them, or archives of runs",
    )
    parser.add_argument("--to", choices=("csv", "parquet"), default="csv", help="default: csv")
    parser.add_argument("--out", type=Path, help="folder for the tables (default: the first DIR)")
    args = parser.parse_args(argv)

    from ramify.reports.data import read_runs
    from ramify.reports.export import export
    from ramify.sweeps.archive import folder_beside

    out = args.out or folder_beside(Path(args.runs[0]))
    for path in export(read_runs(args.runs), out, args.to):
        tell(f"written: {path}")
    return 0
