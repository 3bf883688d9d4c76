"""The paper's tables and figures again: the finished runs of an artefact, laid out as the paper does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from ramify.errors import RamifyError
from ramify.reports.data import RunData, load_run
from ramify.reports.figures.anytime import anytime_figure
from ramify.reports.figures.panel import Drawing
from ramify.reports.paper import Place, paper_results
from ramify.reports.series import scenarios
from ramify.reports.statistics import Figure
from ramify.reports.tables import Table, build_table, measured, with_code_note
from ramify.reports.words import mixed_code, scale
from ramify.sweeps.archive import open_runs
from ramify.sweeps.experiments import Artefact, Condition, Reproduction

Loaded = Mapping[tuple[Condition, str], Sequence[RunData]]
"""The finished runs of each cell."""


def reproduced_table(chosen: Reproduction, folder: Path) -> Table:
    """The table in the paper's shape, from the runs below a folder or in an archive that are finished."""
    loaded = _load(chosen, folder)
    columns, where = [], []
    for condition in chosen.conditions:
        for level in _levels(condition, loaded):
            flat = condition.setup in ("disjoint", "blurry", "i-blurry")
            columns.append((*condition.heading, *(() if flat else (_level_name(condition, loaded, level),))))
            where.append((condition, level))
    labels = [line.label for line in chosen.artefact.lines]
    ours = {
        label: [measured(loaded[c, label], "final_accuracy", level) for c, level in where] for label in labels
    }
    paper = {label: [_paper(chosen.artefact, c, label, level) for c, level in where] for label in labels}
    runs = [run for cell in loaded.values() for run in cell]
    datasets = ", ".join(dict.fromkeys(condition.dataset for condition in chosen.conditions))
    caption = f"Accuracy (%) at the end of the stream on {datasets}, mean ± standard deviation over seeds. "
    caption += scale(runs) if runs else "No run is finished."
    return with_code_note(build_table(chosen.artefact.title, columns, ours, paper, caption), runs)


def reproduced_figure(chosen: Reproduction, folder: Path) -> Drawing:
    """The curves, from the runs below a folder or in an archive that are finished."""
    runs = finished_runs(chosen, folder)
    if not runs:
        raise RamifyError(f"no run of {chosen.artefact.name} is finished below {folder}: leave out --no-run")
    caption = " ".join(filter(None, [scale(runs), mixed_code(runs)]))
    return anytime_figure(chosen.artefact.title, scenarios(runs), caption)


def finished_runs(chosen: Reproduction, folder: Path) -> list[RunData]:
    """The runs below a folder or in an archive that it is made of."""
    return [run for cell in _load(chosen, folder).values() for run in cell]


def _load(chosen: Reproduction, folder: Path) -> Loaded:
    there = open_runs(folder)
    return {
        cell: [load_run(there / r.name) for r in runs if (there / r.name / "result.json").is_file()]
        for cell, runs in chosen.cells.items()
    }


def _paper(artefact: Artefact, condition: Condition, label: str, level: int) -> Figure | None:
    table = int(artefact.name[5:])
    labels = condition.labels if condition.setup in ("single-depth", "multiple-depth") else ""
    return paper_results().get(Place(table, condition.setup, labels, condition.dataset, label, level))


def _level_name(condition: Condition, loaded: Loaded, level: int) -> str:
    """As the paper counts it and, where a run has told it, as the dataset's tree does."""
    trees = [run.tree for (c, _), runs in loaded.items() if c == condition for run in runs]
    return next((tree.level_name(level) for tree in trees if level <= tree.depth), f"level {level}")


def _levels(condition: Condition, loaded: Loaded) -> range:
    depths = [run.tree.depth for (c, _), runs in loaded.items() if c == condition for run in runs]
    where = (condition.setup, condition.dataset)
    depths += [c.level for c in paper_results() if (c.setup, c.dataset) == where]
    return range(1, max(depths, default=1) + 1)
