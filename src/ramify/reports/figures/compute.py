"""Accuracy against what it cost."""

from __future__ import annotations

import numpy as np

from ramify.reports.data import finished
from ramify.reports.figures.axes import Axes, count
from ramify.reports.figures.panel import Panel, fit, label, marker, text_width
from ramify.reports.markup import Markup, el, join, number
from ramify.reports.render import figure
from ramify.reports.series import Scenario, Series
from ramify.reports.statistics import Figure
from ramify.reports.tables import measured

WIDTH, HEIGHT = 340.0, 228.0
CAPTION = (
    "Cost: forward passes through the network (training, importance and votes), a backward pass counted as "
    "two; evaluation is left out."
)


def cost(series: Series) -> Figure | None:
    """Forward passes of one image, or their like, over the finished runs."""
    work = {
        run.config.seed: float(result.images_forward + result.images_memory + 2 * result.images_backward)
        for run, result in finished(series.runs)
    }
    return Figure.over_seeds(work) if work else None


def compute_panels(scenario: Scenario) -> list[Panel]:
    """One panel for each level."""
    panels = []
    for level in range(1, scenario.tree.depth + 1):
        points = [
            (series, price, accuracy)
            for series in scenario.series
            if (price := cost(series)) and (accuracy := measured(series.runs, "final_accuracy", level))
        ]
        if points:
            panels.append(_panel(scenario.tree.level_name(level), points))
    return panels


def _panel(level: str, points: list[tuple[Series, Figure, Figure]]) -> Panel:
    top = min(100.0, 1.12 * max(a.mean + (a.std or 0) for _, _, a in points))
    most = max(1.0, 1.35 * max(price.mean for _, price, _ in points))  # a run may end before any update
    axes = Axes((0, most), (0, max(top, 5.0)), 34, 40, WIDTH - 10, HEIGHT - 36)
    parts: list[Markup] = [
        label(0, 13, level, class_="b"),
        axes.frame("images through the network", "final accuracy (%)"),
    ]
    places = [(axes.x(price.mean), axes.y(accuracy.mean)) for _, price, accuracy in points]
    taken = [(x - 4, y, x + 4) for x, y in places]
    for (series, price, accuracy), (x, y) in zip(points, places, strict=True):
        mark = [marker(series.style, x, y, 4.0)]
        if accuracy.std:
            ends = [axes.y(np.clip(accuracy.mean + sign * accuracy.std, 0, top)) for sign in (-1, 1)]
            line = el("path", d=f"M{x:.1f} {ends[0]:.1f}V{ends[1]:.1f}", class_=f"line s{series.style.color}")
            mark.insert(0, line)
        name = _label(series, x, y, axes, taken)
        tip = f"{series.label}: {figure(accuracy)}% for {count(price.mean)} images"
        parts.append(el("g", join([*mark, name]), data_series=series.key, data_tip=tip))
    return Panel(f"Accuracy against compute, {level}", WIDTH, HEIGHT, join(parts), {"kind": "tips"})


ROW = 12.0  # height of a label


def _label(series: Series, x: float, y: float, axes: Axes, taken: list[tuple[float, float, float]]) -> Markup:
    """The name beside its marker, or as near as there is room, with a line to it."""
    name = fit(series.label, 0.45 * WIDTH, 11)
    width = text_width(name, 11)
    steps = sorted((k * ROW / 2 for k in range(-40, 41)), key=abs)
    places = [
        (start, y + step, end)
        for step in steps
        for start, end in ((x + 8, x + 6), (x - 8 - width, x - 6), (x + 26, x + 24), (x - 26 - width, x - 24))
        if start >= 0 and start + width <= WIDTH and axes.top <= y + step <= axes.bottom
    ]
    places.sort(key=lambda place: place[0] < axes.left)  # there stand the numbers of the axis
    free = (
        place
        for place in places
        if not any(
            abs(place[1] - b) < ROW and place[0] < r and place[0] + width > left for left, b, r in taken
        )
    )
    start, row, end = next(free, places[0])
    taken.append((start, row, start + width))
    text = label(start, row + 4, name, class_="t")
    if row == y and abs(end - x) < 10:
        return text
    line = f"M{number(x)} {number(y)}L{number(end)} {number(row)}"
    return join([el("path", d=line, class_=f"s{series.style.color}", stroke_width=0.7, fill="none"), text])
