"""`ramify compare`: methods of your choice on one stream, over seeds."""

from __future__ import annotations

import argparse
from pathlib import Path

from ramify.cli.logs import tell, warn
from ramify.cli.parser import Parser
from ramify.cli.studying import add_options, carry_out, print_or_deliver, run_values


def main(argv: list[str]) -> int:
    """Run `ramify compare`."""
    args = _parser().parse_args(argv)

    from ramify.plural import some
    from ramify.reports.data import load_run
    from ramify.reports.measures import find_measure
    from ramify.reports.series import scenarios
    from ramify.reports.tables import scenario_table, with_code_note
    from ramify.reports.words import scale
    from ramify.reports.write import write_report
    from ramify.sweeps.archive import folder_beside, open_runs
    from ramify.sweeps.study import Study

    fixed = {
        "dataset": args.dataset,
        "setup": args.setup,
        "single_depth.labels": args.labels,
        **run_values(args),
    }
    axes = {"method": args.methods.split(","), "seed": list(args.seeds)}
    study = Study.of("compare", axes, fixed, args.preset)
    if args.metric not in _recorded(study.runs[0].config.metrics):
        find_measure(args.metric)  # a mistake is told before anything runs
    out = args.out or Path("runs/compare")
    if not carry_out(study, args, out):
        return 0
    there = open_runs(out)
    finished = [run for run in study if (there / run.name / "result.json").is_file()]
    if not finished:
        warn(f"no run of this comparison is finished below {out}")
        return 1
    if missing := [run.name for run in study if run not in finished]:
        warn(f"not finished, so not in the table: {some(missing)}")
    runs = [load_run(there / run.name) for run in finished]
    for scenario in scenarios(runs):
        table = with_code_note(scenario_table(scenario, args.metric, scale(scenario.runs)), scenario.runs)
        print_or_deliver(table, args.format, args.to, scenario.runs)
    report = folder_beside(out) / "report.html"
    write_report(runs, report, "ramify compare", args.data_dir)
    tell(f"report: {report}")
    return 0


def _recorded(metrics: tuple[str, ...] | None) -> set[str]:
    """The names under which metrics of one's own are recorded."""
    from ramify.evaluation.own import find_metrics

    return {one.name for one in find_metrics(metrics or ())}


def _parser() -> argparse.ArgumentParser:
    from ramify.streams import SETUPS

    parser = Parser(
        prog="ramify compare",
        description="Do the runs of several methods on one stream, and print their table with a paired test. "
        "Runs that are finished are reused, unfinished ones continued.",
    )
    parser.add_argument(
        "--methods", required=True, metavar="er,clib,pl-fms", help="names, with commas between"
    )
    parser.add_argument("--dataset", default="garden", help="a dataset's name, or the path of your own")
    parser.add_argument(
        "--setup", default="multiple-depth", help=f"{', '.join(SETUPS)}, or package.module:name for your own"
    )
    parser.add_argument("--labels", choices=("single", "dual"), default="single", help="for single-depth")
    parser.add_argument(
        "--metric",
        default="final_accuracy",
        metavar="NAME",
        help="what to compare (default: final_accuracy): balanced_accuracy, auc, average_accuracy, "
        "forgetting, aurc, consistency, path_accuracy, finest_accuracy, aauc, fauc, jaccard, hops, "
        "severity, fpa, tice, wap, hp_micro, hr_micro, hf1_micro (or _macro), updates, seconds, "
        "peak_memory, decoded.WAY (heads, path, crm, up, joint; path-true, … "
        "through the dataset's tree), or package.module:name for your own",
    )
    parser.add_argument("--format", choices=("text", "markdown", "latex", "csv"), default="text")
    add_options(parser)
    return parser
