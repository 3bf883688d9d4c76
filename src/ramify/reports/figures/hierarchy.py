"""The hierarchy that a model has worked out by itself: the parent that its answers tie each child to."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ramify.arrays import Floats, Ints, Mask
from ramify.reports.figures.panel import Panel, fit, label
from ramify.reports.markup import Markup, el, join
from ramify.reports.series import Series

WIDTH = 340.0
MOST_CHILDREN = 250


@dataclass(frozen=True)
class AnswerTies:
    """For each child class: the parent most often answered with it (-1 for none), and how often (a share)."""

    parent: Ints
    share: Floats
    right: Mask

    @property
    def answered(self) -> int:
        """Children that occur among the answers."""
        return int((self.parent >= 0).sum())


def ties(series: Series, level: int) -> AnswerTies | None:
    """Ties of the classes of `level` to those of the level above, from answers alone; no truth is used."""
    tree = series.runs[0].tree
    counts = np.zeros((tree.sizes[level - 1], tree.sizes[level - 2]), np.int64)
    for run in series.results():
        if run.answers is not None and run.tree == tree:  # where classes moved, other seeds have others
            child, parent = run.answers.predictions[:, level - 1], run.answers.predictions[:, level - 2]
            both = (child >= 0) & (parent >= 0)
            np.add.at(counts, (child[both], parent[both]), 1)
    if not counts.any():
        return None
    total = counts.sum(1)
    parent = np.where(total > 0, counts.argmax(1), -1)
    share = counts.max(1) / np.maximum(total, 1)
    return AnswerTies(parent, share, parent == tree.up(level, level - 1))


def hierarchy_panels(series: Series) -> list[Panel]:
    """One panel for each pair of neighbouring levels that is not too fine to draw."""
    tree = series.runs[0].tree
    levels = [h for h in range(2, tree.depth + 1) if tree.sizes[h - 1] <= MOST_CHILDREN]
    found = {level: ties(series, level) for level in levels}
    return [_panel(series, level, tied) for level, tied in found.items() if tied is not None]


def _panel(series: Series, level: int, tied: AnswerTies) -> Panel:
    tree = series.runs[0].tree
    children, parents = tree.order(level), tree.order(level - 1)
    row = float(np.clip(900 / len(children), 10, 18))
    top, name_width = 40.0, 104.0
    height = max(len(children), len(parents)) * row
    child_y = {int(c): top + (i + 0.5) * height / len(children) for i, c in enumerate(children)}
    parent_y = {int(p): top + (i + 0.5) * height / len(parents) for i, p in enumerate(parents)}
    title = f"{tree.level_name(level - 1)} → {tree.level_name(level)}"
    summary = f"{int(tied.right.sum())} of {len(children)} children tied to their true parent"
    parts: list[Markup] = [label(0, 13, title, class_="b"), label(0, 28, summary, class_="t faint")]
    for index, y in parent_y.items():
        parts.append(_name(tree.names(level - 1)[index], name_width - 6, y, row, "end", name_width))
    for index, y in child_y.items():
        parts.append(_name(tree.names(level)[index], name_width - 6, y, row, None, WIDTH))
        parts.append(_tie(series, level, tied, index, parent_y, y, (name_width, WIDTH - name_width)))
    return Panel(f"Hierarchy in the answers, {title}", WIDTH, top + height + 6, join(parts), {"kind": "tips"})


def _name(name: str, room: float, y: float, row: float, anchor: str | None, edge: float) -> Markup:
    size = 11 if row >= 12 else 9
    x = edge - 4 if anchor == "end" else edge - room
    return label(x, y + size * 0.36, fit(name, room, size), anchor, class_="t" if size == 11 else "t9")


def _tie(
    series: Series,
    level: int,
    tied: AnswerTies,
    child: int,
    parent_y: dict[int, float],
    y: float,
    ends: tuple[float, float],
) -> Markup:
    tree = series.runs[0].tree
    name, parent = tree.names(level)[child], int(tied.parent[child])
    left, right = ends
    if parent < 0:
        return el("circle", cx=right, cy=y, r=2.5, class_="frame", data_tip=f"{name}: never answered")
    start, middle = parent_y[parent], (left + right) / 2
    truth = tree.names(level - 1)[tree.parent(level, child)]
    tip = f"{name}: with {tree.names(level - 1)[parent]} in {100 * tied.share[child]:.0f}% of its answers"
    if not tied.right[child]:
        tip += f"; its parent is {truth}"
    width = f"{0.6 + 1.8 * tied.share[child]:.1f}"
    d = f"M{left:.0f} {start:.1f}C{middle:.0f} {start:.1f} {middle:.0f} {y:.1f} {right:.0f} {y:.1f}"
    return el("path", d=d, class_="tie" if tied.right[child] else "miss", stroke_width=width, data_tip=tip)
