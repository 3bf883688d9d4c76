"""Sorting runs: those on one kind of stream belong together; those that differ in the seed are one line."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from ramify.methods.clib import FlexibleSettings
from ramify.reports.data import RunData
from ramify.reports.palette import KNOWN, Style, styles
from ramify.runs.config import SETUP_GROUPS, STREAM, Config
from ramify.sweeps.experiments import display_name
from ramify.taxonomy import Taxonomy
from ramify.typed import flat, to_dict


@dataclass(frozen=True, eq=False)
class Series:
    """Runs of one method with one set of settings, over seeds."""

    key: str  # the same for one label in all scenarios of a report, safe in markup
    label: str
    runs: tuple[RunData, ...]  # in order of seed
    style: Style

    @property
    def method(self) -> str:
        """The method's name."""
        return self.runs[0].config.method

    def results(self) -> tuple[RunData, ...]:
        """The finished runs."""
        return tuple(run for run in self.runs if run.result is not None)


@dataclass(frozen=True, eq=False)
class Scenario:
    """Series on one kind of stream: same dataset, setup and length, so their curves share axes."""

    title: str
    series: tuple[Series, ...]

    @property
    def tree(self) -> Taxonomy:
        """The tree of the stream's levels."""
        return self.series[0].runs[0].tree

    @property
    def task_ends(self) -> tuple[int, ...]:
        """Samples at the end of each task; of the first seed, where tasks differ in size."""
        return self.series[0].runs[0].task_ends

    @property
    def runs(self) -> list[RunData]:
        """All runs."""
        return [run for series in self.series for run in series.runs]


def scenarios(runs: Iterable[RunData]) -> list[Scenario]:
    """Group runs. Of two with one config (a run that was repeated) the finished, then the newest, counts."""
    newest: dict[str, RunData] = {}
    for run in sorted(runs, key=lambda run: (run.result is not None, str(run.facts.get("started", "")))):
        newest[run.config.own().digest()] = run
    kept = sorted(newest.values(), key=lambda run: _order(run.config))
    by_stream: dict[str, list[RunData]] = {}
    for run in kept:
        by_stream.setdefault(repr(stream_settings(run)), []).append(run)
    shared = styles([run.config.method for run in kept])
    groups, keys = list(by_stream.values()), dict[str, str]()
    return [
        Scenario(title, _series(group, shared, keys))
        for title, group in zip(_titles(groups), groups, strict=True)
    ]


def differing(configs: Iterable[Config]) -> dict[str, list[Any]]:
    """The settings, with dotted names, in which configs differ, and the value of each config."""
    tables = [flat(to_dict(config)) for config in configs]
    return {
        name: [table.get(name) for table in tables]
        for name in dict.fromkeys(name for table in tables for name in table)
        if any(table.get(name) != tables[0].get(name) for table in tables)
    }


def describe(config: Config) -> str:
    """The stream of a config in words."""
    words = [config.dataset, config.stream or config.setup]
    if config.setup == "single-depth" and not config.stream:
        words.append(f"{config.labels}-label")
    if config.imbalance and not config.stream:
        words.append(f"long-tailed {config.imbalance:g} to 1")
    return ", ".join(words)


def stream_settings(run: RunData) -> tuple[Any, ...]:
    """What the stream depends on, beside the seed."""
    moves = run.facts["stream"].get("moves")  # then the last tree depends on the seed; the names do not
    tree = tuple(map(run.tree.names, range(1, run.tree.depth + 1))) if moves else run.tree.fingerprint
    return (*(getattr(run.config, name, None) for name in (*STREAM, *SETUP_GROUPS)), tree)


def _titles(groups: list[list[RunData]]) -> list[str]:
    configs = [group[0].config for group in groups]
    plain = [describe(config) for config in configs]
    apart = differing(replace(c, method="", seed=0) for c in configs)
    extra = {name: values for name, values in apart.items() if name in STREAM[3:]}
    return [
        ", ".join(
            [title, *(f"{name} {values[i]}" for name, values in extra.items() if values[i] is not None)]
        )
        if plain.count(title) > 1
        else title
        for i, title in enumerate(plain)
    ]


def _series(runs: list[RunData], shared: dict[str, Style], keys: dict[str, str]) -> tuple[Series, ...]:
    by_config: dict[str, list[RunData]] = {}
    for run in runs:
        by_config.setdefault(replace(run.config.own(), seed=0).digest(), []).append(run)
    by_method: dict[str, list[list[RunData]]] = {}
    for group in by_config.values():
        by_method.setdefault(group[0].config.method, []).append(group)
    found: list[Series] = []
    for method, variants in by_method.items():
        apart = differing(replace(variant[0].config.own(), seed=0) for variant in variants)
        for i, variant in enumerate(variants):
            settings = ", ".join(f"{name} {values[i]}" for name, values in apart.items())
            label = display_name(method) + (f" ({settings})" if settings else "")
            key = keys.setdefault(label, f"m{len(keys)}")
            found.append(Series(key, label, tuple(variant), shared[method].variant(i)))
    return tuple(found)


def _order(config: Config) -> tuple[Any, ...]:
    place = list(KNOWN).index(config.method) if config.method in KNOWN else len(KNOWN)
    return (
        config.dataset,
        config.setup,
        config.labels,
        place,
        config.method,
        str(config[FlexibleSettings].T).zfill(12),
        config.seed,
    )
