"""What is in memory over the stream: by level, and by class."""

from __future__ import annotations

import json
from itertools import pairwise

import numpy as np

from ramify.arrays import Floats
from ramify.reports.figures.axes import Axes, count
from ramify.reports.figures.heat import heat_hover, heat_image
from ramify.reports.figures.panel import Panel, fit, label, text_width
from ramify.reports.markup import Markup, el, join
from ramify.reports.series import Series

WIDTH, HEIGHT = 340.0, 228.0
ROW = 13.0  # height of a label
STACK = (0, 4, 2, 3, 1, 7, 5, 8)  # colours of the levels, neighbours far apart


def memory_counts(series: Series) -> tuple[list[int], list[Floats]]:
    """Moments, and for each level the mean number of stored images, [classes, moments], over seeds."""
    tree = series.runs[0].tree
    moments = sorted({record.samples for run in series.runs for record in run.records})
    totals = [np.zeros((size, len(moments))) for size in tree.sizes]
    runs = np.zeros(len(moments))
    for run in series.runs:
        for record in run.records:
            at = moments.index(record.samples)
            runs[at] += 1
            for level, counts in record.memory_classes.items():
                totals[int(level) - 1][:, at] += counts
    return moments, [total / np.maximum(runs, 1) for total in totals]


def memory_panels(series: Series) -> list[Panel]:
    """Stacked areas by level, and a heat map by class in tree order."""
    moments, counts = memory_counts(series)
    if len(moments) < 2 or not any(level.any() for level in counts):  # an area needs two
        return []
    return [_by_level(series, moments, counts), _by_class(series, moments, counts)]


def _level_names(series: Series) -> tuple[list[str], float]:
    """What the levels are called, and room for that beside a figure."""
    tree = series.runs[0].tree
    names = [tree.level_name(level) for level in range(1, tree.depth + 1)]
    return names, min(120.0, max(58.0, *(text_width(name, 11) + 4 for name in names)))


def _by_level(series: Series, moments: list[int], counts: list[Floats]) -> Panel:
    sums = np.stack([level.sum(0) for level in counts])
    stacked = np.vstack([np.zeros(len(moments)), np.cumsum(sums, 0)])
    names, room = _level_names(series)
    right = WIDTH - room
    axes = Axes(
        (0, series.runs[0].samples), (0, 1.02 * float(stacked[-1].max())), 40, 40, right - 4, HEIGHT - 36
    )
    parts = [label(0, 13, "Stored images by level", class_="b"), axes.frame("samples seen", "images")]
    for level, (low, high) in enumerate(pairwise(stacked), 1):
        if not sums[level - 1].any():
            continue
        upper = [(float(x), float(y)) for x, y in zip(moments, high, strict=True)]
        lower = [(float(x), float(y)) for x, y in zip(moments, low, strict=True)][::-1]
        points = json.dumps(
            [[x, round(float(y), 1), None] for x, y in zip(moments, sums[level - 1], strict=True)]
        )
        area = el(
            "path",
            d=axes.path(upper + lower) + "z",
            class_=f"f{STACK[(level - 1) % len(STACK)]}",
            opacity=".8",
        )
        parts.append(
            el("g", area, data_label=names[level - 1], data_points=points.replace(" ", ""), data_plain=True)
        )
    middles = _apart(
        [axes.y(float(a + b) / 2) for a, b in zip(stacked[:-1, -1], stacked[1:, -1], strict=True)], -ROW
    )
    for level, y in enumerate(middles, 1):
        if sums[level - 1].any():
            parts.append(label(right, y + 4, fit(names[level - 1], room, 11), class_="t"))
    return Panel("Stored images by level", WIDTH, HEIGHT, join(parts), axes.hover() | {"unit": "images"})


def _apart(positions: list[float], step: float) -> list[float]:
    """Move labels apart by a step, upwards (below 0) or downwards, keeping their order."""
    moved: list[float] = []
    for y in positions:
        beyond = min if step < 0 else max
        moved.append(beyond(y, moved[-1] + step) if moved else y)
    return moved


def _by_class(series: Series, moments: list[int], counts: list[Floats]) -> Panel:
    tree = series.runs[0].tree
    levels = [h for h in range(1, tree.depth + 1) if counts[h - 1].any()]
    rows = np.concatenate([counts[h - 1][tree.order(h)] for h in levels])
    names = [f"{tree.level_name(h)}: {tree.names(h)[i]}" for h in levels for i in tree.order(h)]
    most = float(rows.max())
    heads, room = _level_names(series)
    left, top = room + 4, 24.0
    row = float(np.clip(420 / len(rows), 0.8, 14))
    gap, height = 4.0, 0.0
    parts: list[Markup] = [label(0, 13, "Stored images by class, in tree order", class_="b")]
    at, blocks = 0, []
    for h in levels:
        size = tree.sizes[h - 1]
        y = top + height
        parts.append(el("rect", x=left, y=y, width=WIDTH - left, height=size * row, class_="empty"))
        parts.append(heat_image(rows[at : at + size] / most, left, y, WIDTH - left, size * row))
        blocks.append([round(y, 1), round(y + size * row, 1), at, size])
        at, height = at + size, height + size * row + gap
    places = _apart([max(30.0, (b[0] + b[1]) / 2) for b in blocks], ROW)
    for h, y in zip(levels, places, strict=True):
        parts.append(label(left - 6, y + 4, fit(heads[h - 1], room, 11), "end", class_="t faint"))
    bottom = max(top + height, places[-1] + 8)
    ends = f"{count(moments[0])} to {count(moments[-1])} samples seen; darkest: {most:.0f} images"
    parts.append(label(left, bottom + 12, ends, class_="t faint"))
    columns = [f"{m:,} samples" for m in moments]
    hover = heat_hover(blocks, (names, columns), (left, WIDTH), round(most, 3), "images")
    return Panel("Stored images by class", WIDTH, bottom + 20, join(parts), hover)
