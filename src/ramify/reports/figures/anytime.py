"""Any-time accuracy of each level, its spread over seeds and the ends of tasks (figures 4, 5, 7 to 10)."""

from __future__ import annotations

import json
from collections.abc import Sequence

import numpy as np

from ramify.plural import counted
from ramify.reports.figures.axes import Axes
from ramify.reports.figures.panel import Drawing, Panel, fit, label, marker
from ramify.reports.markup import Markup, el, join, number
from ramify.reports.palette import DASHES
from ramify.reports.series import Scenario, Series

WIDTH, HEIGHT = 340.0, 228.0
Points = list[tuple[int, float, float | None]]  # samples, mean, std


def anytime_points(series: Series, level: int) -> Points:
    """Mean and spread of the accuracy (%) over the seeds that have an evaluation at each moment."""
    values: dict[int, list[float]] = {}
    for run in series.runs:
        for record in run.records:
            if str(level) in record.accuracy:
                values.setdefault(record.samples, []).append(100 * record.accuracy[str(level)])
    return [
        (samples, float(np.mean(found)), float(np.std(found, ddof=1)) if len(found) > 1 else None)
        for samples, found in sorted(values.items())
    ]


def anytime_panels(scenario: Scenario, prefix: str = "") -> list[Panel]:
    """One panel a level, of those that have been evaluated."""
    levels = sorted({int(h) for run in scenario.runs for record in run.records for h in record.accuracy})
    return [_panel(scenario, level, prefix) for level in levels]


def anytime_figure(title: str, parts: Sequence[Scenario], caption: str = "") -> Drawing:
    """Panels of all scenarios under one legend."""
    several = len(parts) > 1
    common = set.intersection(*({*s.title.split(", ")} for s in parts)) if several else set()
    names = [", ".join(word for word in s.title.split(", ") if word not in common) for s in parts]
    panels = [
        p for s, name in zip(parts, names, strict=True) for p in anytime_panels(s, f"{name}: " * several)
    ]
    legend = {series.label: series.style for scenario in parts for series in scenario.series}
    columns = parts[0].tree.depth if several else 3
    return Drawing(
        title, tuple(panels), caption, tuple((style, name) for name, style in legend.items()), columns
    )


def _panel(scenario: Scenario, level: int, prefix: str) -> Panel:
    lines = {series: anytime_points(series, level) for series in scenario.series}
    values = [mean + (std or 0) for points in lines.values() for _, mean, std in points]
    top = min(100.0, max(10.0, 5 * np.ceil(1.04 * max(values, default=100.0) / 5)))
    axes = Axes((0, scenario.task_ends[-1]), (0, float(top)), 34, 40, WIDTH - 10, HEIGHT - 36)
    size = counted(scenario.tree.sizes[level - 1], "class", "classes")
    name = f"{prefix}{scenario.tree.level_name(level, size)}"
    ends = [axes.x(end) for end in scenario.task_ends[:-1]]
    tasks = [
        el("path", d=f"M{number(x)} {number(axes.top)}V{number(axes.bottom)}", class_="task") for x in ends
    ]
    drawn = [_line(axes, series, points) for series, points in lines.items() if points]
    body = join(
        [
            label(0, 13, fit(name, 0.93 * WIDTH, 12), class_="b"),
            axes.frame("samples seen", "accuracy (%)"),
            *tasks,
            el("g", *drawn, class_="many" if len(drawn) > 5 else None),
        ]
    )
    return Panel(f"Any-time accuracy, {name}", WIDTH, HEIGHT, body, axes.hover())


def _line(axes: Axes, series: Series, points: Points) -> Markup:
    """Band, line, and markers far enough apart to be told."""
    style = series.style
    spread = [(x, mean, std) for x, mean, std in points if std is not None]
    parts: list[Markup] = []
    if len(spread) > 1:
        high = axes.y_range[1]
        upper = [(float(x), min(mean + std, high)) for x, mean, std in spread]
        lower = [(float(x), max(mean - std, 0.0)) for x, mean, std in reversed(spread)]
        parts.append(el("path", d=axes.path(upper + lower) + "z", class_=f"band f{style.color}"))
    drawn = axes.path([(x, mean) for x, mean, _ in points])
    parts.append(
        el("path", d=drawn, class_=f"line s{style.color}", stroke_dasharray=DASHES[style.dash] or None)
    )
    step = max(1, round(len(points) / 6))
    shown = points[step - 1 :: step] if len(points) >= step else points
    parts += [marker(style, axes.x(x), axes.y(mean)) for x, mean, _ in shown]
    data = json.dumps([[x, round(mean, 2), std if std is None else round(std, 2)] for x, mean, std in points])
    return el(
        "g", join(parts), data_series=series.key, data_label=series.label, data_points=data.replace(" ", "")
    )
