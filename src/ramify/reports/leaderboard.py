"""The leaderboard: every method on every stream and scale that runs were published of, as a Markdown page."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ramify.errors import RamifyError
from ramify.methods import METHODS
from ramify.reports.data import RunData, finished
from ramify.reports.figures.compute import cost
from ramify.reports.render import escaped, figure, pipe
from ramify.reports.series import Scenario, Series, scenarios
from ramify.reports.statistics import ALPHA, Figure, holm, paired
from ramify.reports.tables import bound_of, floors, measured
from ramify.reports.words import mixed_code, scale
from ramify.runs.config import SETUP_GROUPS, STREAM
from ramify.runs.presets import resolve
from ramify.sweeps.experiments import display_name
from ramify.taxonomy import Taxonomy
from ramify.typed import flat, to_dict

ENOUGH = 3  # seeds to lead by, where there are rows with as many
HEAD = """# Leaderboard

Every method on every setup, dataset and scale of the runs in `results/`, made by
`ramify leaderboard results/ --out docs/leaderboard.md`. Only rows of one table can be compared.

- Final accuracy (%) at each level, and A_AUC, the mean of the any-time accuracies over the levels;
  mean ± standard deviation over seeds. A heading has the number of classes and, where a setup uses some
  levels of a deeper tree, the level's number there.
- **Bold**: the best of a column; where some rows have three seeds or more, the best of those.
  <u>Underlined</u>: not told apart from it (paired t-test over three seeds or more, Holm's correction over
  the table, p ≥ 0.05). Neither: worse, or too few seeds for a test.
- *floor* and *ceiling* are what methods are held against, *told* is given the true path of every sample: they
  compete with none. ↓ is below the best floor of its column.
- Compute: images through the network in millions, a backward pass counted as two; evaluation is left out.
- In brackets: settings other than the preset's today, and all of those that a method of one's own has.
  A click on a heading sorts.

Your own: `ramify publish RUNS results/NAME.jsonl`, `ramify leaderboard --check results/NAME.jsonl`,
the command above, and a pull request.
"""

SAID = {*STREAM, "method", "seed", "image_size", "updates_per_sample", "memory_size", "precision"}
SAID |= {"eval_at", "eval_every", "eval_images"}  # of these settings a row says nothing
ELSEWHERE = {*SETUP_GROUPS, "network"}  # told of the whole table


@dataclass(frozen=True)
class Judged:
    """A figure and what is said of it."""

    figure: Figure | None
    best: bool = False
    tied: bool = False
    below: bool = False

    def __str__(self) -> str:
        text = figure(self.figure)
        text = f"**{text}**" if self.best else f"<u>{text}</u>" if self.tied else text
        return f"{text} ↓" if self.below else text


def leaderboard(runs: Sequence[RunData]) -> str:
    """The page of all finished runs."""
    done = [run for run in runs if run.result is not None]
    if not done:
        raise RamifyError("no run is finished: there is nothing to put on a leaderboard")
    parts = [HEAD]
    for scenario in scenarios(done):
        parts.append(f"## {escaped(scenario.title)}\n")
        parts += [board(scenario.tree, group) for group in _by_scale(scenario)]
    return "\n".join(parts)


def board(tree: Taxonomy, group: Sequence[Series]) -> str:
    """One table: the series of one stream and one scale."""
    keys = [*range(1, tree.depth + 1), None]
    found = {series: [_figure(series, key) for key in keys] for series in group}
    cells = _judged(found)
    levels = (tree.level_name(h, str(n)) for h, n in enumerate(tree.sizes, 1))
    heads = ["method", "seeds", *levels, "A_AUC", "compute (M)"]
    lines = [pipe(heads), pipe(["---", *["---:"] * (len(heads) - 1)])]
    precisions: dict[str, set[str]] = {}
    for series in group:
        precisions.setdefault(_label(series), set()).add(series.runs[0].config.precision)
    for series in sorted(group, key=lambda one: -_mean(found[one][-1])):
        price = cost(series)
        work = "–" if price is None else f"{price.mean / 1e6:.2f}"
        label = _label(series)
        if len(precisions[label]) > 1:  # elsewhere it says on which machine the runs were made
            label += f", {series.runs[0].config.precision}"
        name = escaped(label) + (f" *{apart}*" if (apart := _apart(series)) else "")
        lines.append(pipe([name, str(len(series.runs)), *map(str, cells[series]), work]))
    runs = [run for series in group for run in series.runs]
    told = " ".join(filter(None, [scale(runs), escaped(mixed_code(runs) or "")]))
    return "\n".join([f"{told}\n", *lines, ""])


def _judged(found: dict[Series, list[Figure | None]]) -> dict[Series, list[Judged]]:
    """Who leads each column, whom a test cannot tell from it, and who is below the floor."""
    rivals = [series for series in found if _apart(series) is None]
    best: list[float] = []  # means that are equal lead together
    tests: dict[tuple[Series, int], float] = {}
    for i in range(len(next(iter(found.values())))):
        there = [series for series in rivals if found[series][i]]
        tried = [series for series in there if len(_seeds(found[series][i])) >= ENOUGH]
        leader = max(tried or there, key=lambda s: _mean(found[s][i]), default=None)
        best.append(math.inf if leader is None else _mean(found[leader][i]))
        for series in there:
            if leader is None or series is leader:
                continue
            compared = paired(_seeds(found[leader][i]), _seeds(found[series][i]))
            if compared is not None and compared.p is not None:
                tests[series, i] = compared.p
    corrected = dict(zip(tests, holm(list(tests.values())), strict=True))
    low = floors(
        {series.label: figures for series, figures in found.items()}, {s.label: s.method for s in found}
    )
    return {
        series: [
            Judged(
                one,
                _apart(series) is None and one is not None and one.mean == best[i],
                corrected.get((series, i), 0.0) >= ALPHA,
                bound_of(series.method) is None and one is not None and one.mean < low[i],
            )
            for i, one in enumerate(figures)
        ]
        for series, figures in found.items()
    }


def _figure(series: Series, level: int | None) -> Figure | None:
    """The final accuracy at a level; for None the any-time accuracy, the mean over levels."""
    if level is not None:
        return measured(series.runs, "final_accuracy", level)
    values = {
        run.config.seed: 100 * math.fsum(result.auc.values()) / len(result.auc)
        for run, result in finished(series.runs)
        if result.auc
    }
    return Figure.over_seeds(values) if values else None


def _by_scale(scenario: Scenario) -> Iterator[list[Series]]:
    groups: dict[str, list[Series]] = {}
    for series in scenario.series:
        groups.setdefault(repr(_scale(series)), []).append(series)
    yield from groups.values()


def _scale(series: Series) -> tuple[Any, ...]:
    """What makes runs comparable beside the stream: preset, network, updates, size of images and memory."""
    run = series.runs[0]
    config = run.config
    network = {name: value for name, value in flat(to_dict(config.network)).items() if name != "lr_factor"}
    return (
        run.facts.get("preset"),
        network,
        config.updates_per_sample,
        config.image_size,
        config.memory_size,
    )


def _label(series: Series) -> str:
    """The method, and the settings in which it is not as the preset has it now.

    The defaults of one's own code are not known here, for it is not imported: all of its settings are told.
    """
    run = series.runs[0]
    config, preset = run.config, run.facts.get("preset")
    name = display_name(config.method)
    if not isinstance(preset, str):
        return series.label
    try:
        usual = flat(
            to_dict(resolve(preset, config.method, config.dataset, config.setup, type(config)).own())
        )
    except RamifyError:  # a preset of one's own that is not here
        return series.label
    apart = [
        f"{key} {value:g}" if isinstance(value, float) else f"{key} {value}"
        for key, value in flat(to_dict(config.own())).items()
        if usual.get(key, value) != value and key not in SAID and key.partition(".")[0] not in ELSEWHERE
    ]
    return f"{name} ({', '.join(apart)})" if apart else name


def _apart(series: Series) -> str | None:
    """Why a method does not compete with the others, if it does not."""
    told = series.method in METHODS and METHODS[series.method].told_paths
    return bound_of(series.method) or ("told" if told else None)


def _mean(one: Figure | None) -> float:
    return -math.inf if one is None else one.mean


def _seeds(one: Figure | None) -> dict[int, float]:
    return dict(one.seeds or {}) if one is not None else {}
