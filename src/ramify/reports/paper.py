"""The paper's own figures: its tables 1 to 6, as printed."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import cache
from importlib import resources

from ramify.reports.statistics import Figure
from ramify.sweeps.experiments import display_name


@dataclass(frozen=True)
class Place:
    """Where a figure stands in the paper."""

    table: int
    setup: str
    labels: str  # "single", "dual", or "" where the setup has no such choice
    dataset: str
    row: str  # the paper's name of the method or setting
    level: int


@cache
def paper_results() -> dict[Place, Figure]:
    """All 276 figures of the paper's tables, in per cent."""
    text = (resources.files("ramify.reports") / "paper_results.csv").read_text("utf-8")
    return {
        Place(
            int(row["table"]),
            row["setup"],
            row["labels"].removesuffix("-label"),
            row["dataset"],
            row["method"],
            int(row["level"]),
        ): Figure(float(row["accuracy"]), float(row["std"]) if row["std"] else None)
        for row in csv.DictReader(text.splitlines())
    }


def paper_figure(setup: str, labels: str, dataset: str, method: str, level: int) -> Figure | None:
    """The paper's figure for a method (our name) on a stream, from the first table that has it."""
    wanted = (setup, labels if setup in ("single-depth", "multiple-depth") else "", dataset, level)
    rows = {display_name(method), *ALIASES.get(method, ())}
    for cell, figure in paper_results().items():
        if (cell.setup, cell.labels, cell.dataset, cell.level) == wanted and cell.row in rows:
            return figure
    return None


ALIASES = {"fms": ("PL-FMS w/o PL",), "pl": ("PL-FMS w/o FMS",)}
