"""The tree with the accuracy of every node: what is known now, and what was known and is lost."""

from __future__ import annotations

import numpy as np

from ramify.arrays import Floats
from ramify.reports.figures.panel import Panel, fit, label
from ramify.reports.markup import Markup, el, join
from ramify.reports.series import Series

WIDTH = 1080.0
MOST_NODES = 250  # a level with more classes is left out: its cells would be thinner than a line


def node_accuracy(series: Series, level: int) -> tuple[Floats, Floats] | None:
    """Last accuracy and best one at a task's end, for each class, averaged over seeds; nan for not seen."""
    tables = [
        answers.class_accuracy[level]
        for run in series.results()
        if (answers := run.answers) is not None and level in answers.class_accuracy
    ]
    if not tables:
        return None
    last = np.stack([table[-1] for table in tables])
    best = np.stack([np.nan_to_num(table, nan=-1).max(0) for table in tables])
    best = np.where(best < 0, np.nan, best)
    return _mean(last), _mean(best)


def _mean(values: Floats) -> Floats:
    known = ~np.isnan(values)
    return np.where(known.any(0), np.nan_to_num(values).sum(0) / np.maximum(known.sum(0), 1), np.nan)


def tree_panel(series: Series) -> Panel | None:
    """Columns from coarse to fine; a node is as high as its leaves and filled as far as it is right.

    Right of a leaf that ends above the last column there is nothing.
    """
    tree = series.runs[0].tree
    found = {
        h: figures for h in range(1, tree.depth + 1) if (figures := node_accuracy(series, h)) is not None
    }
    shown = [h for h in found if tree.restrict(range(1, h + 1)).leaves <= MOST_NODES]
    if not shown:
        return None
    deepest = shown[-1]
    drawn = tree.restrict(range(1, deepest + 1))
    size = drawn.leaves
    row = float(np.clip(1500 / size, 6.0, 16.0))
    top = 22.0
    column = WIDTH / len(shown)
    parts: list[Markup] = []
    place = np.empty(size, np.int64)
    place[drawn.leaf_order()] = np.arange(size)
    for i, level in enumerate(shown):
        parts.append(label(i * column, 12, tree.level_name(level), class_="b"))
        above = drawn.leaf_to(level)
        last, best = found[level]
        for node, name in enumerate(tree.names(level)):
            rows = place[above == node]
            y, height = top + rows.min() * row, len(rows) * row
            cell = (i * column, y, column - 3, height - 1)
            parts.append(_node(cell, name, float(last[node]), float(best[node])))
    finest = max(found)
    hidden = f"; {tree.level_name(finest)} is too fine to draw" if deepest < finest else ""
    y = top + size * row + 16
    parts.append(_key(y, hidden))
    return Panel(f"Accuracy of each node, {series.label}", WIDTH, y + 8, join(parts), {"kind": "tips"})


def _node(cell: tuple[float, float, float, float], name: str, last: float, best: float) -> Markup:
    x, y, width, height = cell
    box = {"y": y, "height": max(height, 0.6)}
    parts = [el("rect", x=x, width=width, class_="empty", **box)]
    if not np.isnan(last):
        parts.append(el("rect", x=x, width=width * last, class_="kept", **box))
        if best - last > 0.005:
            parts.append(el("rect", x=x + width * last, width=width * (best - last), class_="lost", **box))
    size = 11 if height >= 14 else 9
    if height >= size - 2:
        figure = "" if np.isnan(last) else f"{100 * last:.0f}"
        room = width - 8 - 9 - 5 * len(figure)
        shown = fit(name, room, size)
        base = y + min(height / 2, 40) + size * 0.36
        style = "t" if size == 11 else "t9"
        if shown:
            parts.append(label(x + 4, base, shown, class_=style))
            parts.append(label(x + width - 3, base, figure, "end", class_=style))
    tip = f"{name}: not seen" if np.isnan(last) else f"{name}: {100 * last:.1f}% now, best {100 * best:.1f}%"
    return el("g", join(parts), data_tip=tip)


def _key(y: float, hidden: str) -> Markup:
    """What the colours mean."""
    return join(
        [
            el("rect", x=0.0, y=y - 9, width=14.0, height=10.0, class_="kept"),
            label(19, y, "right now (%)", class_="t faint"),
            el("rect", x=104.0, y=y - 9, width=14.0, height=10.0, class_="lost"),
            label(
                123, y, f"was right at the end of an earlier task, now forgotten{hidden}", class_="t faint"
            ),
        ]
    )
