"""`ramify reproduce`: a table or a figure of the paper, with the paper's figures beside ours."""

from __future__ import annotations

import argparse
import difflib
from pathlib import Path
from typing import TYPE_CHECKING

from ramify.cli.logs import tell
from ramify.cli.parser import Parser
from ramify.cli.studying import add_options, carry_out, print_or_deliver, run_values
from ramify.errors import RamifyError

if TYPE_CHECKING:
    from ramify.sweeps.experiments import Reproduction

TABLES = ("text", "markdown", "latex", "csv")
FIGURES = ("svg", "png")


def main(argv: list[str]) -> int:
    """Run `ramify reproduce`."""
    args = _parser().parse_args(argv)

    from ramify.sweeps.experiments import ARTEFACTS, Reproduction

    if args.artefact not in ARTEFACTS:
        near = difflib.get_close_matches(args.artefact, ARTEFACTS, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(ARTEFACTS)}"
        raise RamifyError(f"the paper has no {args.artefact!r}; {hint}")
    artefact = ARTEFACTS[args.artefact]
    form = args.format or ("text" if artefact.is_table else "svg")
    if form not in (TABLES if artefact.is_table else FIGURES):
        choice = ", ".join(TABLES if artefact.is_table else FIGURES)
        raise RamifyError(f"{args.artefact} cannot be had as {form}; choose {choice}")
    chosen = Reproduction(artefact, args.preset, args.seeds, args.dataset or (), run_values(args))
    out = args.out or _published(args)
    if not carry_out(chosen.study, args, out):
        return 0
    if artefact.is_table:
        _table(chosen, out, form, args.to)
    else:
        from ramify.reports.reproduced import reproduced_figure
        from ramify.sweeps.archive import folder_beside

        path = args.to or folder_beside(out) / f"{artefact.name}.{form}"
        reproduced_figure(chosen, out).save(path)
        tell(f"written: {path}")
    return 0


def _published(args: argparse.Namespace) -> Path:
    """results/PRESET.jsonl, where the project has published runs: it is read, nothing is run.

    Elsewhere, and with a preset of one's own, a folder for new runs.
    """
    results = Path("results", f"{args.preset}.jsonl")
    if args.preset.endswith(".toml") or not any(results.parent.glob("*.jsonl")):
        return Path("runs/reproduce")
    args.no_run = not args.plan
    there = f"from the finished runs in {results}" if results.is_file() else f"there is no {results} so far"
    tell(f"{there}; --out FOLDER to run anew")
    return results


def _table(chosen: Reproduction, out: Path, form: str, to: Path | None) -> None:
    from ramify.reports.reproduced import finished_runs, reproduced_table

    runs = finished_runs(chosen, out)
    print_or_deliver(reproduced_table(chosen, out), form, to, runs)
    missing = {run.name: run.config for run in chosen.study}
    for run in runs:
        missing.pop(run.path.name, None)
    if missing:
        methods = ", ".join(dict.fromkeys(config.method for config in missing.values()))
        told = f"{len(missing)} of {len(chosen.study)} runs are not in {out} ({methods})"
        tell(f"{told}; with --plan they are listed, with --out FOLDER they are done")


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="ramify reproduce",
        description="Do the runs that a table or a figure of the paper needs, and print it with the paper's "
        "figures beside ours. Runs that are finished are reused, unfinished ones continued. Without --out, "
        "where results/ holds published runs, it is made of these alone and says which are missing.",
    )
    parser.add_argument("artefact", help="table1 to table6, fig4, fig5, fig7, fig8, fig9 or fig10")
    parser.add_argument(
        "--dataset",
        action="append",
        help="only this dataset (may be repeated); another than the paper's takes the place of its first",
    )
    parser.add_argument("--format", choices=(*TABLES, *FIGURES), help="default: text, or svg for a figure")
    add_options(parser)
    return parser
