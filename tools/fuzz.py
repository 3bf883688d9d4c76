"""Fuzz every reader for a while: python tools/fuzz.py --seconds 600 [--target NAME] [--seed N]."""

from __future__ import annotations

import argparse
import resource
import sys
import time
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, seed, settings

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
from fuzzing import TARGETS, refused

ROUND = 100
MEMORY = 4 << 30  # bytes of address space: a reader that wants more for made-up input is a crash


def main() -> int:
    """Go round the targets with fresh seeds until the time is over; a crash ends it with its input."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=600.0, help="default: 600")
    parser.add_argument("--target", choices=tuple(TARGETS), help="default: all")
    parser.add_argument("--seed", type=int, default=0, help="of the first round; default: 0")
    args = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    chosen = [args.target] if args.target else list(TARGETS)
    end, number = time.monotonic() + args.seconds, args.seed
    counts = {name: [0, 0] for name in chosen}  # read, refused
    while time.monotonic() < end:
        for name in chosen:
            _round(name, number, counts[name])
        number += 1
        print(f"seed {number - 1}: {end - time.monotonic():.0f} s to go", file=sys.stderr, flush=True)
    for name, (read, turned_away) in counts.items():
        print(f"{name:<20}{read:>10,} read{turned_away:>10,} refused, no crash")
    return 0


def _round(name: str, number: int, count: list[int]) -> None:
    strategy, read = TARGETS[name]

    @seed(number)
    @settings(max_examples=ROUND, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(strategy())
    def attempt(value: Any) -> None:
        count[refused(read, value) is not None] += 1

    attempt()


if __name__ == "__main__":
    sys.exit(main())
