"""`ramify demo`: learn the built-in images with three methods and compare them."""

from __future__ import annotations

import sys
import time

from ramify.cli.parser import Parser

METHODS = ("er", "clib", "pl-fms")


def main(argv: list[str]) -> int:
    """Run the methods one after the other and print their table."""
    parser = Parser(
        "ramify demo", description="Learn the built-in images, level after level, with ER, CLIB and PL-FMS."
    )
    parser.add_argument("--out", default="runs/demo", help="folder for the results (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="default: %(default)s")
    options = parser.parse_args(argv)

    from rich.console import Console
    from rich.table import Table

    from ramify.cli.run import execute, parse

    console = Console()
    console.print(
        "The garden: 48 kinds of plants, drawn by code. Each image arrives once; the labels branch from 2\n"
        "to 4, 12 and 48 classes; at the end the model must answer at every level. Three methods, one pass.\n"
    )
    start = time.perf_counter()
    results = {}
    for method in METHODS:
        chosen = ["--method", method, "--dataset", "garden", "--setup", "multiple-depth", "--preset", "quick"]
        where = ["--seed", str(options.seed), "--out", f"{options.out}/{method}", "--force"]
        results[method] = execute(parse([*chosen, *where]))
    levels = list(results[METHODS[0]].final_accuracy)
    table = Table(title="Final accuracy (%) at each level, coarse to fine", box=None, title_justify="left")
    table.add_column("method")
    for level in levels:
        table.add_column(f"level {level}", justify="right")
    table.add_column("on one path", justify="right")
    for method, result in results.items():
        accuracies = [f"{100 * result.final_accuracy[level]:.1f}" for level in levels]
        table.add_row(method, *accuracies, f"{100 * result.consistency:.1f}")
    console.print()
    console.print(table)
    seconds = time.perf_counter() - start
    sys.stdout.write(f"\n{seconds:.0f} s. One seed: differences of a few points are chance.\n")
    sys.stdout.write(f"Records, models and reports are in {options.out}/.\n")
    return 0
