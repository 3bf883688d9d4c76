"""`ramify report`: runs as one HTML file."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from ramify.cli.parser import Parser


def main(argv: list[str]) -> int:
    """Run `ramify report`."""
    args = _parser().parse_args(argv)

    from ramify.reports.data import load_runs
    from ramify.reports.write import write_figures, write_report

    runs = load_runs(args.runs)
    first = Path(args.runs[0])
    write_report(runs, args.out or first / "report.html", title=args.title, data_dir=args.data_dir)
    sys.stderr.write(f"report: {args.out or first / 'report.html'}\n")
    if args.figures:
        names = write_figures(runs, args.figures, args.format)
        sys.stderr.write(f"{len(names)} figures are in {args.figures}\n")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="ramify report", description="Make one self-contained HTML file of one or more runs."
    )
    parser.add_argument(
        "runs", nargs="+", metavar="RUN", help="folders of runs, or folders with runs below them"
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
