"""`ramify soak`: kill a run at random moments and see that it comes out the same."""

from __future__ import annotations

import dataclasses
import json
import sys
import tempfile
from pathlib import Path

from ramify.cli.parser import Parser
from ramify.errors import RamifyError


def main(argv: list[str]) -> int:
    """Run `ramify soak`."""
    parser = Parser(
        prog="ramify soak",
        description="Run a method twice, once left alone, once killed (SIGKILL) and "
        "continued again and again; compare records, result and weights. Exit code 1 if they differ.",
    )
    parser.add_argument("--method", default="pl-fms", help="default: pl-fms")
    parser.add_argument("--preset", default="quick", help="default: quick")
    parser.add_argument("--dataset", default="garden", help="default: garden")
    parser.add_argument("--limit", type=int, help="only the first so many samples of the stream")
    parser.add_argument("--kills", type=int, default=50, help="default: 50")
    parser.add_argument("--seed", type=int, default=0, help="sets the moments of the kills (default: 0)")
    parser.add_argument(
        "--checkpoint-every", type=float, default=1.0, metavar="SECONDS", help="default: 1 second"
    )
    parser.add_argument("--data-dir", help="where datasets live")
    parser.add_argument("--out", type=Path, help="a folder for both runs (default: a temporary one)")
    args = parser.parse_args(argv)

    from ramify.methods import find_method
    from ramify.runs.config import Config
    from ramify.runs.presets import resolve
    from ramify.runs.soak import soak
    from ramify.typed import from_dict

    if args.kills < 0:
        raise RamifyError(f"kills is {args.kills}; it must be 0 or more")
    find_method(args.method)
    config = resolve(args.preset, args.method, args.dataset, Config.setup)
    config = from_dict(Config, {"limit": args.limit}, "limit", config)
    with tempfile.TemporaryDirectory() as temporary:
        outcome = soak(
            config,
            args.out or Path(temporary),
            args.kills,
            seed=args.seed,
            checkpoint_every=args.checkpoint_every,
            data_dir=args.data_dir,
        )
    json.dump(dataclasses.asdict(outcome), sys.stdout, indent=1)
    differ = outcome.differences
    sys.stderr.write(
        f"{args.method}: {len(outcome.kills)} kills, continued {len(outcome.resumed)} times; "
        + (f"{len(differ)} differences: {', '.join(differ[:5])}\n" if differ else "the same to the bit\n")
    )
    return 1 if differ else 0
