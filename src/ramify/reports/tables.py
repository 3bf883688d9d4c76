"""Tables: mean ± std over seeds for each level, the paper beside ours, and what a test allows to say."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from ramify.evaluation.own import ALL
from ramify.methods import METHODS
from ramify.plural import counted
from ramify.reports.data import RunData, finished
from ramify.reports.measures import METRICS, Measure, find_measure
from ramify.reports.paper import paper_figure
from ramify.reports.series import Scenario
from ramify.reports.statistics import ALPHA, LEAST_SEEDS, Comparison, Figure, gap, holm, paired
from ramify.reports.words import mixed_code

BELOW = "↓"  # behind a figure below the floor
TEST = "Best against second: paired t-test over seeds, p after Holm's correction for all columns."


Heading = tuple[str, ...]
"""Of a column, from the outermost in, such as ("single-label", "cifar100", "level 1")."""


@dataclass(frozen=True)
class Cell:
    """A cell: ours, the paper's, and its place in the column (1 best, 2 second, 0 neither)."""

    ours: Figure | None = None
    paper: Figure | None = None
    place: int = 0
    below: bool = False
    """Whether ours is below the best floor of the column."""

    @property
    def sigmas(self) -> float | None:
        """Ours minus the paper's, in standard deviations."""
        return gap(self.ours, self.paper) if self.ours and self.paper else None


@dataclass(frozen=True)
class TableRow:
    """A method and its cells, one a column."""

    label: str
    cells: tuple[Cell, ...]


@dataclass(frozen=True)
class Table:
    """A table with its caption and the notes below it."""

    title: str
    columns: tuple[Heading, ...]
    rows: tuple[TableRow, ...]
    caption: str = ""
    notes: tuple[str, ...] = field(default=())

    @property
    def has_paper(self) -> bool:
        """Whether any cell has a figure of the paper beside it."""
        return any(cell.paper for row in self.rows for cell in row.cells)


def build_table(
    title: str,
    columns: Sequence[Heading],
    ours: Mapping[str, Sequence[Figure | None]],
    paper: Mapping[str, Sequence[Figure | None]] | None = None,
    caption: str = "",
    lower_is_better: bool = False,
    methods: Mapping[str, str] | None = None,
) -> Table:
    """A table of rows (label → one figure a column). The places follow the unrounded means.

    With `methods` (label → name) floors and ceilings are marked as such and have no place, and figures below
    the best floor of a column are marked.
    """
    theirs = paper or {}
    bounds = {label: bound for label, name in (methods or {}).items() if (bound := bound_of(name))}
    rivals = {label: figures for label, figures in ours.items() if label not in bounds}
    if len(rivals) < 2:  # nothing else to compare
        rivals = dict(ours)
    places = [
        _places([f[i] if label in rivals else None for label, f in ours.items()], lower_is_better)
        for i in range(len(columns))
    ]
    low = [-math.inf] * len(columns) if lower_is_better else floors(ours, methods or {})
    rows = tuple(
        TableRow(
            f"{label} ({bounds[label]})" if label in bounds else label,
            tuple(
                Cell(
                    figure,
                    theirs.get(label, [None] * len(columns))[i],
                    places[i][r],
                    label not in bounds and figure is not None and figure.mean < low[i],
                )
                for i, figure in enumerate(figures)
            ),
        )
        for r, (label, figures) in enumerate(ours.items())
    )
    notes = () if lower_is_better else verdicts(columns, rivals)
    if any(cell.below for row in rows for cell in row.cells):
        named = ", ".join(label for label, bound in bounds.items() if bound == "floor")
        notes = (f"{BELOW} below the floor ({named}): nothing was gained by what it cost.", *notes)
    counts = {len(f.seeds) for figures in ours.values() for f in figures if f is not None and f.seeds}
    if len(counts) > 1:
        notes = (f"Not all figures are over as many seeds ({min(counts)} to {max(counts)}).", *notes)
    return Table(title, tuple(columns), rows, caption, notes)


def bound_of(method: str) -> str | None:
    """Whether a method is a floor or a ceiling that others are held against."""
    return METHODS[method].bound if method in METHODS else None


def floors(ours: Mapping[str, Sequence[Figure | None]], methods: Mapping[str, str]) -> list[float]:
    """The best floor of each column; minus infinity where there is none."""
    rows = [figures for label, figures in ours.items() if bound_of(methods.get(label, "")) == "floor"]
    columns = len(next(iter(ours.values()), ()))
    return [max([f.mean for row in rows if (f := row[i])], default=-math.inf) for i in range(columns)]


def verdicts(columns: Sequence[Heading], ours: Mapping[str, Sequence[Figure | None]]) -> tuple[str, ...]:
    """For each column, whether the best is better than the second beyond the noise of the seeds."""
    found: list[tuple[str, str, str, Comparison]] = []
    for i, column in enumerate(columns):
        ranked = sorted(
            ((label, f) for label, figures in ours.items() if (f := figures[i]) is not None and f.seeds),
            key=lambda pair: -pair[1].mean,
        )
        if len(ranked) < 2:
            continue
        (best, a), (second, b) = ranked[:2]
        comparison = paired(a.seeds or {}, b.seeds or {})
        if comparison is not None:
            found.append((" ".join(column), best, second, comparison))
    tested = [c.p for *_, c in found if c.p is not None]
    corrected = iter(holm(tested))
    notes = [
        _verdict(where, best, second, c, None if c.p is None else next(corrected))
        for where, best, second, c in found
    ]
    if found and not tested:
        return (f"Best and second share fewer than {LEAST_SEEDS} seeds: no test, no difference is a win.",)
    return (TEST, *notes) if notes else ()


def _verdict(where: str, best: str, second: str, comparison: Comparison, p: float | None) -> str:
    lead = f"{where}: {best} {comparison.difference:+.1f} over {second}"
    if p is None:
        return f"{lead}, {counted(comparison.seeds, 'seed')} in common: too few for a test"
    won = p < ALPHA and comparison.difference > 0
    return f"{lead}, {comparison.seeds} seeds, p = {p:.2g}: {'a win' if won else 'inside the noise'}"


def _places(figures: Sequence[Figure | None], lower_is_better: bool) -> list[int]:
    """1 for the best, 2 for the second, 0 for the others; equal means share a place."""
    sign = -1 if lower_is_better else 1
    ranked = sorted({sign * figure.mean for figure in figures if figure}, reverse=True)
    return [ranked.index(sign * f.mean) + 1 if f and sign * f.mean in ranked[:2] else 0 for f in figures]


def measured(runs: Iterable[RunData], measure: Measure | str, level: int | str = ALL) -> Figure | None:
    """A measure, or the one of this name, at one level (or of all) over the finished ones of these runs."""
    chosen = find_measure(measure) if isinstance(measure, str) else measure
    found = {run.config.seed: chosen.values(run, result) for run, result in finished(runs)}
    values = {seed: by_level[str(level)] for seed, by_level in found.items() if str(level) in by_level}
    return Figure.over_seeds(values) if values else None


def scenario_table(scenario: Scenario, metric: str = "final_accuracy", note: str = "") -> Table:
    """The table of one scenario; final accuracies have the paper's beside them, where it has them."""
    measure = find_measure(metric, scenario.runs)
    levels = range(1, scenario.tree.depth + 1)
    keys = [str(level) for level in levels]
    found = [[measured(s.runs, measure, key) for key in (*keys, ALL)] for s in scenario.series]
    kept = [i for i in range(len(keys)) if metric in METRICS or any(row[i] for row in found)]
    kept += [len(keys)] if any(row[-1] for row in found) or not kept else []
    columns = [(scenario.tree.level_name(i + 1) if i < len(keys) else measure.name,) for i in kept]
    ours = {s.label: [row[i] for i in kept] for s, row in zip(scenario.series, found, strict=True)}
    paper: dict[str, list[Figure | None]] = {}
    if metric == "final_accuracy":
        for series in scenario.series:
            config = series.runs[0].config
            if not any((config.limit, config.per_class, config.imbalance, config.stream)):
                where = (config.setup, config.labels, config.dataset, config.method)
                paper[series.label] = [paper_figure(*where, level) for level in levels]
    doc = f"{measure.caption} {note}".rstrip()
    methods = {series.label: series.method for series in scenario.series}
    return build_table(scenario.title, columns, ours, paper, doc, measure.lower_is_better, methods)


def with_code_note(table: Table, runs: Sequence[RunData]) -> Table:
    """The table with a note first where its runs are not all of one code."""
    note = mixed_code(runs)
    return table if note is None else replace(table, notes=(note, *table.notes))
