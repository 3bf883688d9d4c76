"""The paper's tables and figures: which runs each of them needs, and how their results are laid out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ramify.errors import RamifyError
from ramify.methods.clib import FlexibleSettings
from ramify.reports.data import RunData, load_run
from ramify.reports.figures.anytime import anytime_figure
from ramify.reports.figures.panel import Drawing
from ramify.reports.paper import Cell, display_name, paper_results
from ramify.reports.series import scenarios
from ramify.reports.statistics import Figure
from ramify.reports.tables import Column, Table, build_table
from ramify.reports.words import scale
from ramify.runs.presets import resolve
from ramify.sweeps.study import Study, StudyRun


@dataclass(frozen=True)
class Stream:
    """A kind of stream, as the config names it, and its heading in the table."""

    dataset: str
    setup: str
    labels: str = "single"
    heading: tuple[str, ...] = ()


@dataclass(frozen=True)
class Line:
    """A row of a table or a curve of a figure: the paper's name for it, and what is run."""

    label: str
    method: str
    period: float = 1.0
    """Factor on the preset's T, which is scaled to its streams as 5,000 is to the paper's."""


@dataclass(frozen=True)
class Artefact:
    """A table or a figure of the paper."""

    name: str
    about: str
    streams: tuple[Stream, ...]
    lines: tuple[Line, ...]

    @property
    def is_table(self) -> bool:
        """Whether it is a table; else it is a figure of curves."""
        return self.name.startswith("table")

    @property
    def title(self) -> str:
        """Table 1 of the paper: …"""
        kind, number = ("Table", self.name[5:]) if self.is_table else ("Figure", self.name[3:])
        return f"{kind} {number} of the paper: {self.about}"


def _lines(*methods: str) -> tuple[Line, ...]:
    return tuple(Line(display_name(method), method) for method in methods)


def _single(labels: str, *datasets: str) -> tuple[Stream, ...]:
    return tuple(Stream(d, "single-depth", labels, (f"{labels}-label", d)) for d in datasets)


CIFAR, CARS, IMAGENET, INATURALIST = "cifar100", "stanford-cars", "imagenet-hier100", "inaturalist19"
ALL = _lines("er", "ewc++", "bic", "mir", "rm", "gdumb", "clib", "pl-fms")
DEEP = _lines("er", "ewc++", "bic", "rm", "clib", "pl-fms")
THREE = (
    Stream(CIFAR, "multiple-depth", heading=("multiple-depth",)),
    Stream(CIFAR, "single-depth", "single", ("single-label",)),
    Stream(CIFAR, "single-depth", "dual", ("dual-label",)),
)
FLAT = tuple(Stream(CIFAR, setup, heading=(setup,)) for setup in ("disjoint", "blurry", "i-blurry"))
ABLATION = (Line("PL-FMS", "pl-fms"), Line("PL-FMS w/o PL", "fms"), Line("PL-FMS w/o FMS", "pl"))
PERIODS = tuple(Line(f"T={t}", "pl-fms", t / 5000) for t in (500, 1500, 5000, 15000, 50000))


def _deep(*datasets: str) -> tuple[Stream, ...]:
    return tuple(Stream(d, "multiple-depth", heading=(d,)) for d in datasets)


ARTEFACTS = {
    artefact.name: artefact
    for artefact in (
        Artefact(
            "table1",
            "single-depth streams",
            _single("single", CIFAR, IMAGENET, CARS) + _single("dual", CIFAR, IMAGENET, CARS),
            ALL,
        ),
        Artefact("table2", "multiple-depth streams", _deep(CIFAR, INATURALIST), DEEP),
        Artefact(
            "table3",
            "disjoint, blurry and i-Blurry streams",
            FLAT,
            _lines("er", "ewc++", "mir", "rm", "gdumb", "clib", "fms"),
        ),
        Artefact("table4", "PL-FMS without one of its parts", THREE, ABLATION),
        Artefact("table5", "with the true hierarchy", _deep(CIFAR), _lines("oracle", "pl-fms-t", "pl-fms")),
        Artefact("table6", "the period T of flexible memory sampling", THREE, PERIODS),
        Artefact("fig4", "any-time accuracy, single-label", _single("single", CIFAR, CARS), ALL),
        Artefact("fig5", "any-time accuracy, multiple-depth", _deep(CIFAR), DEEP),
        Artefact("fig7", "any-time accuracy, single-label", _single("single", IMAGENET), ALL),
        Artefact("fig8", "any-time accuracy, dual-label", _single("dual", CIFAR, IMAGENET, CARS), ALL),
        Artefact(
            "fig9",
            "any-time accuracy, multiple-depth",
            _deep(INATURALIST),
            _lines("er", "ewc++", "bic", "mir", "rm", "clib", "pl-fms"),
        ),
        Artefact("fig10", "any-time accuracy, multiple-depth, with MIR and GDumb", _deep(CIFAR), ALL),
    )
}


class Reproduction:
    """An artefact at a chosen scale: its runs, and what is made of them."""

    def __init__(
        self,
        artefact: Artefact,
        preset: str = "paper",
        seeds: Sequence[int] = (0, 1, 2),
        datasets: Sequence[str] = (),
        fixed: Mapping[str, Any] | None = None,
    ) -> None:
        self.artefact, self.preset = artefact, preset
        self.streams = _chosen(artefact, datasets)
        self.cells: dict[tuple[Stream, str], tuple[StudyRun, ...]] = {}
        for stream in self.streams:
            for line in artefact.lines:
                where = {
                    "dataset": stream.dataset,
                    "setup": stream.setup,
                    "single_depth.labels": stream.labels,
                }
                settings = {**(fixed or {}), **where, "method": line.method}
                if line.period != 1:
                    default = resolve(preset, line.method, stream.dataset, stream.setup)[FlexibleSettings].T
                    settings["fms.T"] = line.period * settings.get("fms.T", default)
                cell = Study.of(artefact.name, {"seed": list(seeds)}, settings, preset)
                self.cells[stream, line.label] = cell.runs

    @property
    def study(self) -> Study:
        """All its runs, as one study."""
        runs = {run.name: run for cell in self.cells.values() for run in cell}
        return Study(self.artefact.name, tuple(runs.values()))

    def load(self, folder: Path) -> dict[tuple[Stream, str], list[RunData]]:
        """The finished runs below a folder, cell by cell."""
        return {
            cell: [load_run(folder / r.name) for r in runs if (folder / r.name / "result.json").exists()]
            for cell, runs in self.cells.items()
        }

    def table(self, folder: Path) -> Table:
        """The table in the paper's shape, from the runs that are finished."""
        loaded = self.load(folder)
        columns, where = [], []
        for stream in self.streams:
            for level in self._levels(stream, loaded):
                flat = stream.setup in ("disjoint", "blurry", "i-blurry")
                columns.append(Column((*stream.heading, *(() if flat else (f"H={level}",)))))
                where.append((stream, level))
        labels = [line.label for line in self.artefact.lines]
        ours = {label: [_figure(loaded[s, label], level) for s, level in where] for label in labels}
        paper = {label: [self._paper(s, label, level) for s, level in where] for label in labels}
        runs = [run for cell in loaded.values() for run in cell]
        datasets = ", ".join(dict.fromkeys(stream.dataset for stream in self.streams))
        caption = (
            f"Accuracy (%) at the end of the stream on {datasets}, mean ± standard deviation over seeds. "
        )
        caption += scale(runs) if runs else "No run is finished."
        return build_table(self.artefact.title, columns, ours, paper, caption)

    def figure(self, folder: Path) -> Drawing:
        """The curves, from the runs that are finished."""
        runs = [run for cell in self.load(folder).values() for run in cell]
        if not runs:
            raise RamifyError(
                f"no run of {self.artefact.name} is finished below {folder}: leave out --no-run"
            )
        return anytime_figure(self.artefact.title, scenarios(runs), scale(runs))

    def _paper(self, stream: Stream, label: str, level: int) -> Figure | None:
        table = int(self.artefact.name[5:])
        labels = stream.labels if stream.setup in ("single-depth", "multiple-depth") else ""
        return paper_results().get(Cell(table, stream.setup, labels, stream.dataset, label, level))

    def _levels(self, stream: Stream, loaded: Mapping[tuple[Stream, str], list[RunData]]) -> range:
        depths = [run.tree.depth for (s, _), runs in loaded.items() if s == stream for run in runs]
        where = (stream.setup, stream.dataset)
        depths += [c.level for c in paper_results() if (c.setup, c.dataset) == where]
        return range(1, max(depths, default=1) + 1)


def _chosen(artefact: Artefact, datasets: Sequence[str]) -> tuple[Stream, ...]:
    """The streams on these datasets; one that the paper does not use takes the place of the paper's."""
    if not datasets:
        return artefact.streams
    known = {stream.dataset for stream in artefact.streams}
    kept = tuple(stream for stream in artefact.streams if stream.dataset in datasets)
    first = artefact.streams[0].dataset
    others = tuple(
        Stream(
            dataset,
            stream.setup,
            stream.labels,
            tuple(dataset if word == first else word for word in stream.heading),
        )
        for dataset in datasets
        if dataset not in known
        for stream in artefact.streams
        if stream.dataset == first
    )
    return kept + others


def _figure(runs: Sequence[RunData], level: int) -> Figure | None:
    values = {
        run.config.seed: 100 * run.result.final_accuracy[str(level)]
        for run in runs
        if run.result is not None and str(level) in run.result.final_accuracy
    }
    return Figure.over_seeds(values) if values else None
