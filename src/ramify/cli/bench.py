"""`ramify bench`: what the methods cost beside the bare training loop."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ramify.cli.parser import Parser
from ramify.console import screen

if TYPE_CHECKING:
    from rich.console import Console


def main(argv: list[str]) -> int:
    """Measure, print a table, write a JSON file."""
    parser = Parser(
        "ramify bench",
        description="Measure what the methods cost beside the bare training loop on this machine.",
    )
    parser.add_argument(
        "--quick",
        action="store_true",
        help="only the methods of the paper and ours, larger images and features, in about four minutes",
    )
    parser.add_argument(
        "--profile",
        action="store_true",
        help="instead: where the time of one update goes, part by part, on a small network and on ResNet34",
    )
    parser.add_argument("--json", action="store_true", help="print the figures as JSON on stdout")
    parser.add_argument("--out", default="bench.json", help="file for the figures (default: %(default)s)")
    options = parser.parse_args(argv)

    from ramify.bench.table import Measured, run_bench
    from ramify.files import json_text, write_atomic

    console = screen(stderr=options.json)

    def show(row: Measured) -> None:
        bar = "" if row.bar is None else f"{'≤' if row.at_most else '≥'} {row.bar:g}"
        verdict = {None: "", True: "[green]holds[/]", False: "[red]missed[/]"}[row.holds]
        console.print(f"{row.name:<66}{row.value:>9.3g} {row.unit:<3}{bar:>8}  {verdict}")

    report = _profile(console, options.quick) if options.profile else run_bench(options.quick, show)
    text = json_text(report)
    write_atomic(Path(options.out), text)
    if options.json:
        sys.stdout.write(text)
    else:
        console.print(f"figures are in {options.out}")
    return 0


def _profile(console: Console, quick: bool) -> dict[str, Any]:
    """Both tables, each as soon as it is known."""
    import torch

    from ramify.bench.profile import NETWORKS, profile_network, profile_table

    torch.set_num_threads(1)  # parts are told apart by the time of one thread
    report: dict[str, Any] = {"profile": {}}
    for network in NETWORKS:
        report["profile"][network] = found = profile_network(network, 3 if quick else 15)
        console.print(profile_table(network, found), markup=False, highlight=False, soft_wrap=True)
        console.print()
    return report
