"""`ramify resume`: continue a run that was stopped."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from ramify.cli.logs import tell
from ramify.cli.parser import Parser
from ramify.errors import RamifyError


def main(argv: list[str]) -> int:
    """Run `ramify resume`."""
    parser = Parser(
        prog="ramify resume",
        description="Continue a run in its folder, exactly as if it had never stopped.",
        epilog="What is left out is as the run was begun.",
    )
    parser.add_argument("folder", metavar="DIR", type=Path, help="the run's folder")
    parser.add_argument("--data-dir", help="where datasets live")
    parser.add_argument("--device", choices=("auto", "cpu", "cuda", "mps"), help="where to compute")
    parser.add_argument("--threads", type=int, help="CPU threads; another number may change the last digits")
    parser.add_argument(
        "--checkpoint-every", type=float, metavar="SECONDS", help="seconds between checkpoints"
    )
    parser.add_argument("--json", action="store_true", help="print result.json last on stdout")
    parser.add_argument("--own-code", action="store_true", help="let the run import your method or network")
    args = parser.parse_args(argv)

    from ramify.cli.progress import RunProgress
    from ramify.reports.write import report_run
    from ramify.runs.checkpoint import EVERY
    from ramify.runs.config import read_config
    from ramify.runs.execute import run_config
    from ramify.runs.folder import RunFolder

    folder = RunFolder(args.folder)
    about, named = folder.about(), folder.named_code()
    if named and not args.own_code:
        raise RamifyError(f"{args.folder} names code to import, {named!r}; if you trust it, add --own-code")
    execution = about["execution"]
    with RunProgress() as progress:
        result = run_config(
            read_config(about["config"], f"{args.folder}/config.json", args.own_code),
            args.folder,
            resume=True,
            device=args.device or about["device"],
            threads=args.threads,
            data_dir=args.data_dir or execution.get("data_dir"),
            checkpoint_every=execution.get("checkpoint_every", EVERY)
            if args.checkpoint_every is None
            else args.checkpoint_every,
            watch=progress.show,
        )
    report_run(args.folder, args.data_dir or execution.get("data_dir"))
    tell(f"results are in {args.folder}, with report.html to look at")
    if args.json:
        sys.stdout.write(json.dumps(result.to_dict()) + "\n")
    return 0
