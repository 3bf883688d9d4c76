"""The parts of a report, as markup."""

from __future__ import annotations

import base64
import gzip
from collections.abc import Callable, Sequence
from typing import Any

from ramify.datasets import Dataset, Split
from ramify.methods import GROUPS, METHODS
from ramify.plural import counted
from ramify.reports.data import RunData
from ramify.reports.figures.anytime import anytime_panels
from ramify.reports.figures.compute import CAPTION, compute_panels
from ramify.reports.figures.confusion import confusion_panels
from ramify.reports.figures.hierarchy import hierarchy_panels
from ramify.reports.figures.memory import memory_panels
from ramify.reports.figures.panel import Panel, sample
from ramify.reports.figures.sureness import OF_RUNS, series_sureness
from ramify.reports.figures.tree import tree_panel
from ramify.reports.markup import Markup, el, join
from ramify.reports.measures import METRICS, SCALARS
from ramify.reports.mistakes import Mistake, thumbnail, worst_mistakes
from ramify.reports.palette import Style
from ramify.reports.render import figure, sigmas
from ramify.reports.series import Scenario, Series, differing
from ramify.reports.tables import BELOW, Cell, Table, measured, scenario_table
from ramify.reports.words import Progress, mixed_code, scale
from ramify.sweeps.words import duration
from ramify.taxonomy import Taxonomy

Datasets = Callable[[RunData], Dataset | None]


def switches(series: Sequence[tuple[str, str, Style]]) -> Markup:
    """A checkbox for each method."""
    boxes = [
        el(
            "label",
            el(
                "input",
                type="checkbox",
                checked=True,
                data_toggle=key,
                id=f"toggle-{key}",
                autocomplete="off",
            ),
            el("svg", sample(style, 1, 6), viewBox="0 0 28 12", aria_hidden="true"),
            el("span", name),
        )
        for key, name, style in series
    ]
    return el("fieldset", el("legend", "Methods shown"), *boxes, class_="toggles")


def scenario(part: Scenario, number: int, datasets: Datasets | None, live: bool) -> Markup:
    """One kind of stream: tables, curves, details, settings, runs."""
    blocks: list[Markup | None] = [el("h2", part.title), el("p", scale(part.runs), class_="faint")]
    if mixed := mixed_code(part.runs):
        blocks.append(el("p", mixed, class_="warn"))
    if live:
        blocks.append(runs_section(part, live, number))
    blocks += [tables_section(part), curves_section(part), details_section(part, number, datasets)]
    blocks += [settings_section(part)]
    if not live:
        blocks.append(runs_section(part, live, number))
    return el("section", *blocks)


def tables_section(part: Scenario) -> Markup | None:
    """Final accuracy in the open; the other figures a click away."""
    if not any(series.results() for series in part.series):
        return None
    keys = [series.key for series in part.series]
    own = dict.fromkeys(name for run in part.runs if run.result for name in run.result.metrics)
    first, *others = [scenario_table(part, metric) for metric in (*METRICS, *own)]
    filled = [table for table in others if any(cell.ours for row in table.rows for cell in row.cells)]
    more = [join([el("p", table.caption, class_="faint"), table_html(table, keys)]) for table in filled]
    return join(
        [
            el("h3", "Final accuracy"),
            table_html(first, keys),
            el("p", first.caption, class_="faint"),
            el("ul", *(el("li", note) for note in first.notes), class_="notes") if first.notes else None,
            el(
                "details",
                el("summary", "Balanced and any-time accuracy, forgetting, consistency, cost"),
                *more,
                _scalars(part),
            ),
        ]
    )


def table_html(table: Table, keys: Sequence[str]) -> Markup:
    """A table whose rows follow the switches."""
    head = el("tr", el("th", "method"), *(el("th", " ".join(c), scope="col") for c in table.columns))
    rows = [
        el("tr", el("th", row.label, scope="row"), *map(_cell, row.cells), data_series=key)
        for key, row in zip(keys, table.rows, strict=True)
    ]
    return _scrolled(head, rows)


def _scrolled(head: Markup, rows: Sequence[Markup]) -> Markup:
    return el("div", el("table", el("thead", head), el("tbody", *rows)), class_="scroll")


def _cell(cell: Cell) -> Markup:
    text = figure(cell.ours) + BELOW * cell.below
    shown = {1: el("b", text), 2: el("u", text)}.get(cell.place, text)
    paper = el("small", f"paper {figure(cell.paper)}") if cell.paper else None
    apart = el("small", sigmas(cell)) if cell.sigmas is not None else None
    return el("td", shown, paper, apart, class_="n")


def _scalars(part: Scenario) -> Markup:
    head = el("tr", el("th", "method"), *(el("th", name) for name, _ in SCALARS.values()))
    rows = [
        el(
            "tr",
            el("th", series.label, scope="row"),
            *(el("td", figure(measured(series.runs, name)), class_="n") for name in SCALARS),
            data_series=series.key,
        )
        for series in part.series
    ]
    return _scrolled(head, rows)


def panels(found: Sequence[Panel | None], title: str, text: str = "", wide: bool = False) -> Markup | None:
    """Panels under a heading; nothing where there are none."""
    drawn = [panel.svg() for panel in found if panel is not None]
    if not drawn:
        return None
    columns = {3: " three", 4: " four", 5: " three", 6: " three"}.get(len(drawn), "")
    grid = el("div", *drawn, class_="scroll wide" if wide else f"panels{columns}")
    sign = (
        el("p", "Wider than this page: scroll sideways for the rest.", class_="more-sign") if wide else None
    )
    return join([el("h3", title), el("p", text, class_="faint") if text else None, sign, grid])


def curves_section(part: Scenario) -> Markup:
    """Any-time accuracy and cost."""
    curves = anytime_panels(part)
    if not curves:
        return el("p", "No evaluation yet.", class_="faint")
    text = (
        "Mean over seeds, ± one standard deviation as a band; dotted lines: ends of tasks. "
        "Point at a curve, or focus it and use the arrow keys, for its values."
    )
    return join(
        [
            panels(curves, "Any-time accuracy", text),
            panels(compute_panels(part), "Accuracy against compute", CAPTION),
        ]
    )


def details_section(part: Scenario, number: int, datasets: Datasets | None) -> Markup | None:
    """What each method keeps, knows, mixes up and has worked out, one at a time."""
    found = {series: content for series in part.series if (content := _detail(series, datasets))}
    if not found:
        return None
    group = f"g{number}"
    options = [el("option", series.label, value=series.key) for series in found]
    chooser = el("select", *options, data_choose=group, id=f"choose-{group}", autocomplete="off")
    label = el("label", "Method: ", chooser)
    bodies: list[Markup] = []
    for series, content in found.items():
        whole = join([el("h3", series.label) if len(found) > 1 else None, content])
        plain = not bodies  # the others are packed: together they can be several megabytes
        body = whole if plain else None
        packed = None if plain else pack(whole)
        bodies.append(el("div", body, data_detail=series.key, data_group=group, data_packed=packed))
    several = [el("h3", "One method in detail"), el("p", label)] if len(found) > 1 else []
    return join([*several, *bodies])


def pack(markup: Markup) -> str:
    """Markup compressed, as text; the page unpacks it when it is asked for."""
    return base64.b64encode(gzip.compress(markup.encode(), 9, mtime=0)).decode()


def _detail(series: Series, datasets: Datasets | None) -> Markup:
    seeds = len(series.runs)
    over = f", over {seeds} seeds" if seeds > 1 else ""
    return join(
        [
            panels([tree_panel(series)], f"The tree: what is known{over}", wide=True),
            panels(
                hierarchy_panels(series),
                "The hierarchy in the answers",
                "The parent that is most often answered together with each child, from answers alone. "
                "Dashed: not its parent. A ring: a child that is never answered.",
            ),
            panels(
                confusion_panels(series),
                f"Confusion{over}",
                "Rows: truth, columns: answers, in tree order; squares: classes below one class of level 1.",
            ),
            panels(series_sureness(series), f"Answers that know when to stop{over}", OF_RUNS),
            panels(memory_panels(series), f"Memory{over}"),
            mistakes_section(series, datasets),
        ]
    )


def mistakes_section(series: Series, datasets: Datasets | None) -> Markup | None:
    """Images of the worst mistakes with their paths in the tree."""
    found = worst_mistakes(series)
    if not found:
        return None
    dataset = datasets(series.results()[0]) if datasets else None
    tree = series.runs[0].tree
    items = [el("li", _picture(mistake, dataset), _paths(mistake, dataset, tree)) for mistake in found]
    text = "Answers that lie farthest from the truth in the tree, one a class, of the first seed."
    if dataset is None or dataset.of_features:
        text += " The images are not at hand, so only their numbers are shown."
    return join(
        [el("h3", "Worst mistakes"), el("p", text, class_="faint"), el("ul", *items, class_="mistakes")]
    )


def _picture(mistake: Mistake, dataset: Dataset | None) -> Markup:
    if dataset is None or dataset.of_features or mistake.image >= len(dataset.test):
        return el("span", f"#{mistake.image}", class_="faint")
    return _image(dataset.test, mistake.image, f"test image {mistake.image}")


def _image(split: Split, number: int, name: str) -> Markup:
    return el("img", src=thumbnail(split.images[number]), alt=name, title=name, width=72, height=72)


def _nearest(mistake: Mistake, dataset: Dataset | None) -> Markup:
    """The stored images most like it, under what they were taught as."""
    if dataset is None or dataset.of_features:
        return join([])
    like = [(i, name) for i, name in mistake.nearest if i < len(dataset.train)]
    if not like:  # none is stored, or the file names images that are not there
        return join([])
    told = ", ".join(name for _, name in like)
    pictures = [_image(dataset.train, i, f"training image {i}, taught as {name}") for i, name in like]
    return join([el("div", f"most like what it stored as {told}:", class_="faint"), el("div", *pictures)])


def _paths(mistake: Mistake, dataset: Dataset | None, tree: Taxonomy) -> Markup:
    names = () if dataset is None else dataset.test.names
    file = names[mistake.image] if mistake.image < len(names) else None
    levels = [tree.level_name(h).removeprefix("level ") for h in range(1, tree.depth + 1)]
    heads = ", ".join(f"{h}: {name or 'none'}" for h, name in zip(levels, mistake.levels, strict=True))
    return el(
        "div",
        el("div", " › ".join(mistake.truth)),
        el("div", "taken for " + (" › ".join(mistake.answer) or "nothing"), class_="wrong"),
        el("div", f"answers by level: {heads}", class_="faint"),
        join([] if file is None else [el("div", file, class_="faint")]),
        _nearest(mistake, dataset),
    )


def settings_section(part: Scenario) -> Markup | None:
    """The settings in which runs differ, beside the seed."""
    apart = differing(series.runs[0].config.own() for series in part.series)
    apart = {name: _of_readers(name, values, part.series) for name, values in apart.items()}
    apart = {name: values for name, values in apart.items() if name not in ("method", "seed") and any(values)}
    if not apart:
        return None
    head = el("tr", el("th", "setting"), *(el("th", s.label, data_series=s.key) for s in part.series))
    rows = [
        el(
            "tr",
            el("th", name, scope="row"),
            *(_setting(v, s) for v, s in zip(values, part.series, strict=True)),
        )
        for name, values in apart.items()
    ]
    table = _scrolled(head, rows)
    return join([el("h3", "Settings that differ"), table])


def _of_readers(name: str, values: Sequence[Any], series: Sequence[Series]) -> list[str | None]:
    """As text, of a method's own setting for those alone that have it.

    Code of one's own is given those of all methods. It is said to have one that was not left as it is.
    """
    table = name.partition(".")[0]
    own = {repr(value) for value, one in zip(values, series, strict=True) if one.method not in METHODS}

    def has(method: str) -> bool:
        return table not in GROUPS or (
            table in METHODS[method].settings if method in METHODS else len(own) > 1
        )

    pairs = zip(values, series, strict=True)
    return [str(value) if value is not None and has(one.method) else None for value, one in pairs]


def _setting(value: str | None, series: Series) -> Markup:
    return el("td", "–" if value is None else value, data_series=series.key)


def runs_section(part: Scenario, live: bool, number: int) -> Markup:
    """Every run with its state and its exact command."""
    items = [
        el("div", *_run(run, series.label, f"command-{number}-{i}"), class_="run", data_series=series.key)
        for i, (series, run) in enumerate((s, r) for s in part.series for r in s.runs)
    ]
    return join([el("h3", "Runs"), el("div", *items, class_="runs")])


def _run(run: RunData, name: str, key: str) -> list[Markup]:
    progress = Progress.of(run)
    if run.result is not None:
        state = f"finished: {counted(run.result.updates, 'update')} in {duration(run.result.seconds)}"
    elif run.failure is not None:
        state = f"failed at {progress.done:,} of {progress.total:,} samples: {run.failure}"
    elif progress.speed is None:
        state = f"begun {run.facts.get('started', '')}, no evaluation yet"
    else:
        left = duration(progress.left or 0)
        state = (
            f"{progress.done:,} of {progress.total:,} samples, {progress.speed:.1f} samples/s, {left} left"
        )
    bar = None
    if run.result is None:
        bar = el(
            "progress", value=progress.done, max=progress.total, aria_label=f"{name}, seed {run.config.seed}"
        )
    facts = ", ".join(f"{k} {v}" for k, v in run.facts.get("versions", {}).items())
    return [
        el("div", el("b", f"{name}, seed {run.config.seed}"), f" · {state}"),
        el("div", bar) if bar else join([]),
        el(
            "details",
            el("summary", "command and circumstances"),
            el("div", el("code", run.command)),
            el("div", f"folder {run.path}", class_="faint"),
            el(
                "div",
                f"started {run.facts.get('started')}, commit {run.facts.get('commit')}, {facts}",
                class_="faint",
            ),
            id=key,
        ),
    ]
