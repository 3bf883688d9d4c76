"""The paper's experiments: which runs each of its tables and figures is made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ramify.methods.clib import FlexibleSettings
from ramify.runs.presets import resolve
from ramify.sweeps.study import Study, StudyRun

NAMES = {
    "er": "ER",
    "ewc++": "EWC++",
    "bic": "BiC",
    "mir": "MIR",
    "rm": "RM",
    "gdumb": "GDumb",
    "clib": "CLIB",
    "fms": "FMS",
    "pl": "PL",
    "pl-fms": "PL-FMS",
    "canopy": "Canopy",
    "pl-fms-t": "PL-FMS-T",
    "er-ace": "ER-ACE",
    "er-las": "ER-LAS",
    "der++": "DER++",
    "ncm": "NCM",
    "slda": "SLDA",
    "ranpac": "RanPAC",
    "randumb": "RanDumb",
    "oracle": "Oracle",
}


def display_name(method: str) -> str:
    """A method's name as papers print it."""
    return NAMES.get(method, method)


@dataclass(frozen=True)
class Condition:
    """A kind of stream that methods are compared on, as the config names it, and its heading in the table."""

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
    conditions: tuple[Condition, ...]
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


def _single(labels: str, *datasets: str) -> tuple[Condition, ...]:
    return tuple(Condition(d, "single-depth", labels, (f"{labels}-label", d)) for d in datasets)


CIFAR, CARS, IMAGENET, INATURALIST = "cifar100", "stanford-cars", "imagenet-hier100", "inaturalist19"
ALL = _lines("er", "ewc++", "bic", "mir", "rm", "gdumb", "clib", "pl-fms")
DEEP = _lines("er", "ewc++", "bic", "rm", "clib", "pl-fms")
THREE = (
    Condition(CIFAR, "multiple-depth", heading=("multiple-depth",)),
    Condition(CIFAR, "single-depth", "single", ("single-label",)),
    Condition(CIFAR, "single-depth", "dual", ("dual-label",)),
)
FLAT = tuple(Condition(CIFAR, setup, heading=(setup,)) for setup in ("disjoint", "blurry", "i-blurry"))
ABLATION = (Line("PL-FMS", "pl-fms"), Line("PL-FMS w/o PL", "fms"), Line("PL-FMS w/o FMS", "pl"))
PERIODS = tuple(Line(f"T={t}", "pl-fms", t / 5000) for t in (500, 1500, 5000, 15000, 50000))


def _deep(*datasets: str) -> tuple[Condition, ...]:
    return tuple(Condition(d, "multiple-depth", heading=(d,)) for d in datasets)


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
    """An artefact at a chosen scale, and the runs of each of its cells."""

    def __init__(
        self,
        artefact: Artefact,
        preset: str = "paper",
        seeds: Sequence[int] = (0, 1, 2),
        datasets: Sequence[str] = (),
        fixed: Mapping[str, Any] | None = None,
    ) -> None:
        self.artefact, self.preset = artefact, preset
        self.conditions = _chosen(artefact, datasets)
        self.cells: dict[tuple[Condition, str], tuple[StudyRun, ...]] = {}
        for condition in self.conditions:
            for line in artefact.lines:
                where = {"dataset": condition.dataset, "setup": condition.setup}
                where["single_depth.labels"] = condition.labels
                settings = {**(fixed or {}), **where, "method": line.method}
                if line.period != 1:
                    config = resolve(preset, line.method, condition.dataset, condition.setup)
                    default = config[FlexibleSettings].T
                    settings["fms.T"] = line.period * settings.get("fms.T", default)
                cell = Study.of(artefact.name, {"seed": list(seeds)}, settings, preset)
                self.cells[condition, line.label] = cell.runs

    @property
    def study(self) -> Study:
        """All its runs, as one study."""
        runs = {run.name: run for cell in self.cells.values() for run in cell}
        return Study(self.artefact.name, tuple(runs.values()))


def _chosen(artefact: Artefact, datasets: Sequence[str]) -> tuple[Condition, ...]:
    """The conditions on these datasets; one that the paper does not use takes the place of the paper's."""
    if not datasets:
        return artefact.conditions
    known = {condition.dataset for condition in artefact.conditions}
    kept = tuple(condition for condition in artefact.conditions if condition.dataset in datasets)
    first = artefact.conditions[0].dataset
    others = tuple(
        Condition(
            dataset,
            condition.setup,
            condition.labels,
            tuple(dataset if word == first else word for word in condition.heading),
        )
        for dataset in datasets
        if dataset not in known
        for condition in artefact.conditions
        if condition.dataset == first
    )
    return kept + others
