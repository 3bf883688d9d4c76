"""`ramify leaderboard`: one page of all published runs, and the check of those that are to be added."""

from __future__ import annotations

import sys
from pathlib import Path

from ramify.cli.logs import tell
from ramify.cli.parser import Parser
from ramify.cli.studying import deliver
from ramify.errors import RamifyError
from ramify.plural import counted


def main(argv: list[str]) -> int:
    """Run `ramify leaderboard`."""
    parser = Parser(
        prog="ramify leaderboard",
        description="Make one Markdown page of runs: every method, setup, dataset and scale, with ± over "
        "seeds and paired tests. With --check, say in one line each what cannot be right about runs.",
    )
    parser.add_argument("runs", nargs="+", metavar="PATH", help="folders of runs, or archives")
    parser.add_argument("--out", type=Path, metavar="FILE", help="write there instead of printing")
    parser.add_argument(
        "--check", action="store_true", help="check config, stream, records, result and cost; make no page"
    )
    parser.add_argument("--data-dir", help="where datasets live, to make streams anew (default: RAMIFY_DATA)")
    args = parser.parse_args(argv)

    from ramify.reports.data import find_runs, read_runs

    if not args.check:
        from ramify.reports.leaderboard import leaderboard

        deliver(leaderboard(read_runs(args.runs)), args.out)
        return 0
    from ramify.reports.verify import check_runs

    found = find_runs(args.runs)
    if not found:
        raise RamifyError(f"no run below {', '.join(args.runs)}: give folders of runs, or archives")
    _, wrong = check_runs(found, args.data_dir)
    for line in wrong:
        sys.stdout.write(f"{line}\n")
    told = counted(len(wrong), "problem") if wrong else "all is as it should be"
    tell(f"{counted(len(found), 'run')}: {told}")
    return 1 if wrong else 0
