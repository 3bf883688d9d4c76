"""Reports and figures as files."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from ramify.datasets import Dataset
from ramify.files import write_atomic
from ramify.reports.data import RunData, load_run
from ramify.reports.figures.anytime import anytime_figure
from ramify.reports.figures.compute import CAPTION, compute_panels
from ramify.reports.figures.confusion import confusion_panels
from ramify.reports.figures.hierarchy import hierarchy_panels
from ramify.reports.figures.memory import memory_panels
from ramify.reports.figures.panel import Drawing, Panel
from ramify.reports.figures.sureness import series_sureness
from ramify.reports.figures.tree import tree_panel
from ramify.reports.html import report_html
from ramify.reports.mistakes import images_of
from ramify.reports.series import Scenario, scenarios
from ramify.reports.words import scale
from ramify.sweeps.experiments import display_name


def write_report(
    runs: Sequence[RunData], path: Path, title: str = "ramify report", data_dir: str | None = None
) -> None:
    """Write the HTML report of runs."""
    by_fingerprint: dict[str, Dataset | None] = {}

    def find(run: RunData) -> Dataset | None:
        key = str(run.facts.get("dataset", {}).get("fingerprint"))
        if key not in by_fingerprint:
            by_fingerprint[key] = images_of(run, data_dir)
        return by_fingerprint[key]

    write_atomic(path, report_html(runs, title, find))


def report_run(folder: Path, data_dir: str | None = None) -> None:
    """Write report.html into the folder of a run that has just ended."""
    run = load_run(folder)
    names = dict.fromkeys([display_name(run.config.method), folder.name])  # a folder may be called as it
    write_report([run], folder / "report.html", ", ".join(names), data_dir)


def write_figures(runs: Sequence[RunData], folder: Path, kind: str = "svg") -> list[Path]:
    """Write every figure of runs as a file of its own."""
    paths = []
    for scenario in scenarios(runs):
        for name, drawing in drawings(scenario):
            path = folder / f"{_slug(scenario.title)}-{_slug(name)}.{kind}"
            drawing.save(path)
            paths.append(path)
    return paths


def drawings(scenario: Scenario) -> Iterator[tuple[str, Drawing]]:
    """The figures of a scenario, those that have something to show."""
    caption = scale(scenario.runs)
    anytime = anytime_figure(f"Any-time accuracy, {scenario.title}", [scenario], caption)
    legend = anytime.legend
    if anytime.panels:
        yield "anytime", anytime
    cost = tuple(compute_panels(scenario))
    if cost:
        yield (
            "compute",
            Drawing(f"Accuracy against compute, {scenario.title}", cost, f"{CAPTION} {caption}", legend),
        )
    for series in scenario.series:
        tree = tree_panel(series)
        groups: list[tuple[str, str, Sequence[Panel]]] = [
            ("tree", "What is known", [tree] if tree else []),
            ("hierarchy", "The hierarchy in the answers", hierarchy_panels(series)),
            ("confusion", "Confusion", confusion_panels(series)),
            ("sureness", "Answers that know when to stop", series_sureness(series)),
            ("memory", "Memory", memory_panels(series)),
        ]
        for name, title, found in groups:
            if found:
                whole = Drawing(f"{title}: {series.label}, {scenario.title}", tuple(found), caption)
                yield f"{name}-{series.label}", whole


def _slug(text: str) -> str:
    return re.sub(r"[^a-z0-9+.]+", "-", text.lower()).strip("-.") or "figure"
