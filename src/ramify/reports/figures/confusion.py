"""What is taken for what: one map a level, in tree order, so that mistakes among relatives stand together."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from ramify.arrays import Floats, Ints
from ramify.reports.figures.heat import heat_hover, heat_image
from ramify.reports.figures.panel import Panel, fit, label, text_width
from ramify.reports.markup import Markup, el, join, number
from ramify.reports.series import Series

WIDTH = 340.0
DOWN = 80.0  # longest name of a column
NAMED = 24  # classes up to which each row has its name


def confusion(series: Series, level: int) -> Floats | None:
    """Share of the images of each class (row) with each answer (column), over all seeds, in tree order."""
    tree = series.runs[0].tree
    size = tree.sizes[level - 1]
    counts = np.zeros((size, size))
    for run in series.results():
        answers = run.answers
        if answers is not None:
            predicted, truth = answers.predictions[:, level - 1], answers.truth[:, level - 1]
            answered = (predicted >= 0) & (truth >= 0)
            np.add.at(counts, (truth[answered], predicted[answered]), 1)
    if not counts.any():
        return None
    shares = counts / np.maximum(counts.sum(1, keepdims=True), 1)
    order = tree.order(level)
    return np.asarray(shares[np.ix_(order, order)])


def confusion_panels(series: Series) -> list[Panel]:
    """One panel for each level that has answers."""
    depth = series.runs[0].tree.depth
    found = {level: confusion(series, level) for level in range(1, depth + 1)}
    return [_panel(series, level, shares) for level, shares in found.items() if shares is not None]


def _panel(series: Series, level: int, shares: Floats) -> Panel:
    tree = series.runs[0].tree
    names = [tree.names(level)[i] for i in tree.order(level)]
    top = 22.0
    named = len(names) <= NAMED
    widest = max(text_width(name, 11) for name in names)
    left = min(110.0, widest + 8) if named else 18.0
    side = min(WIDTH - left, 300.0)
    cell = side / len(names)
    parts: list[Markup] = [
        label(0, 13, tree.level_name(level), class_="b"),
        el("rect", x=left, y=top, width=side, height=side, class_="empty"),
        heat_image(shares, left, top, side, side),
    ]
    if level > 1:
        parts.append(_families(tree.up(level, 1)[tree.order(level)], left, top, cell))
    if named:
        size = 11 if cell >= 12 else 9
        for i, name in enumerate(names):
            text = fit(name, left - 6, size)
            y = top + (i + 0.5) * cell + size * 0.36
            parts.append(label(left - 5, y, text, "end", class_="t" if size == 11 else "t9"))
    else:
        parts.append(
            el(
                "text",
                "truth",
                class_="t faint",
                text_anchor="middle",
                transform=f"translate(10 {top + side / 2:g}) rotate(-90)",
            )
        )
    below = top + side + 5
    if named:
        size = 11 if cell >= 12 else 9
        names_below = [fit(name, DOWN, size) for name in names]
        for i, text in enumerate(names_below):
            x = left + (i + 0.5) * cell + size * 0.36
            turned = f"translate({number(x)} {number(below)}) rotate(-90)"
            style = "t" if size == 11 else "t9"
            parts.append(el("text", text, class_=style, text_anchor="end", transform=turned))
        below += max(text_width(text, size) for text in names_below)
    parts.append(label(left + side / 2, below + 12, "answer", "middle", class_="t faint"))
    parts.append(_scale(left, below + 22, side))
    hover = heat_hover([[top, top + side, 0, len(names)]], (names, names), (left, left + side), 100, "%")
    return Panel(
        f"Confusion at {tree.level_name(level)}, {series.label}", WIDTH, below + 40, join(parts), hover
    )


def _scale(left: float, y: float, side: float) -> Markup:
    """What the colours mean: the share of a class's images."""
    width = side - 62
    return join(
        [
            label(left, y + 8, "0 %", class_="t faint"),
            el("rect", x=left + 26, y=y, width=width, height=9, class_="empty"),
            heat_image(np.linspace(0, 1, 64)[None], left + 26, y, width, 9),
            label(left + side, y + 8, "100 %", "end", class_="t faint"),
        ]
    )


def _families(ancestor: Ints, left: float, top: float, cell: float) -> Markup:
    """Squares around the classes below each class of level 1."""
    edges = [0, *(np.flatnonzero(np.diff(ancestor)) + 1).tolist(), len(ancestor)]
    squares = [
        el(
            "rect",
            x=left + a * cell,
            y=top + a * cell,
            width=(b - a) * cell,
            height=(b - a) * cell,
            class_="frame",
        )
        for a, b in pairwise(edges)
    ]
    return join(squares)
