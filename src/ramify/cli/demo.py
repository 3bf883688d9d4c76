"""`ramify demo`: learn the built-in images with three methods and compare them."""

from __future__ import annotations

import sys

from ramify.cli.parser import Parser

INTRODUCTION = """\
The garden: 48 kinds of plants, drawn by code. Each image arrives once; the labels branch from 2 to 4, 12
and 48 classes, and at the end the model must answer at every level. Three methods, one pass each.
"""


def main(argv: list[str]) -> int:
    """A comparison with everything chosen."""
    parser = Parser(prog="ramify demo", description="Learn the built-in images with ER, PL-FMS and Canopy.")
    parser.add_argument("--out", default="runs/demo", help="folder for the results (default: %(default)s)")
    parser.add_argument("--seeds", default="0", help="such as 0,1,2 (default: %(default)s)")
    options = parser.parse_args(argv)

    from ramify.cli import compare

    sys.stdout.write(INTRODUCTION)
    sys.stdout.flush()
    chosen = ["--methods", "er,pl-fms,canopy", "--dataset", "garden", "--setup", "multiple-depth"]
    code = compare.main([*chosen, "--preset", "quick", "--seeds", options.seeds, "--out", options.out])
    sys.stdout.write(f"\nRuns, models and the report (report.html, for a browser) are in {options.out}/.\n")
    return code
