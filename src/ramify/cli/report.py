"""`ramify report`: runs as one HTML file."""

from __future__ import annotations

import argparse
from pathlib import Path

from ramify.cli.logs import tell
from ramify.cli.parser import Parser
from ramify.plural import counted


def main(argv: list[str]) -> int:
    """Run `ramify report`."""
    args = _parser().parse_args(argv)

    from ramify.reports.data import read_runs
    from ramify.reports.write import write_figures, write_report
    from ramify.sweeps.archive import folder_beside

    runs = read_runs(args.runs)
    out = args.out or folder_beside(Path(args.runs[0])) / "report.html"
    write_report(runs, out, title=args.title, data_dir=args.data_dir)
    tell(f"report: {out}")
    if args.figures:
        names = write_figures(runs, args.figures, args.format)
        tell(f"{args.figures} has {counted(len(names), 'figure')}")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="ramify report", description="Make one self-contained HTML file of one or more runs."
    )
    parser.add_argument(
        "runs",
        nargs="+",
        metavar="RUN",
        help="folders of runs, folders with runs below them, or archives of runs",
    )
    parser.add_argument("--out", type=Path, metavar="HTML", help="default: report.html in the first folder")
    parser.add_argument("--title", default="ramify report", help="heading of the report")
    parser.add_argument(
        "--data-dir", help="where datasets live, for images of mistakes (default: RAMIFY_DATA)"
    )
    parser.add_argument(
        "--figures", type=Path, metavar="DIR", help="write every figure as a file of its own, too"
    )
    parser.add_argument(
        "--format", choices=("svg", "png"), default="svg", help="of those files (default: svg)"
    )
    return parser
