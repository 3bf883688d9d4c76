"""A stream as a figure: along x its arrivals, down y the classes of each level in tree order."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby, pairwise

import numpy as np

from ramify.arrays import Floats, Ints
from ramify.reports.figures.axes import ticks
from ramify.reports.figures.heat import tinted_image
from ramify.reports.figures.panel import Drawing, Panel, fit, label, text_width
from ramify.reports.markup import Markup, el, join, number
from ramify.reports.palette import hues
from ramify.streams import Stream
from ramify.streams.moves import Eras
from ramify.taxonomy import Taxonomy
from ramify.taxonomy.levels import in_tree

LEFT, PLOT, RIGHT, TOP = 190, 760, 26, 18
HEADING, GAP, ROW, LEVEL_HEIGHT, TEXT = 22.0, 10.0, 13.0, 340.0, 11
COLUMNS = 2 * PLOT  # of the images, so that they are sharp at twice the size, too


@dataclass(frozen=True)
class Block:
    """One level's rows in the figure."""

    level: int  # of the stream, from 1
    deep: int  # the same, as the tree counts
    top: float
    row: float  # height of one class
    order: Ints  # classes from top to bottom

    @property
    def bottom(self) -> float:
        """The y just below the last row."""
        return self.top + self.row * len(self.order)


def stream_figure(stream: Stream, tree: Taxonomy, title: str) -> Drawing:
    """Draw which classes arrive when. `tree` is the dataset's whole tree, its level 1 gives the colours.

    Of levels that count from the end of each leaf, the first gives them. A class that moves to another branch
    changes its colour.
    """
    eras = Eras.of(tree, stream.levels, stream.moves)
    blocks, y = [], float(TOP)
    if stream.levels[0] < 0:
        tree = tree.restrict(stream.levels)
    for level, counted in enumerate(stream.levels, start=1):
        deep = level if counted < 0 else counted
        order = tree.order(deep)
        row = float(np.clip(LEVEL_HEIGHT / len(order), 0.5, ROW))
        blocks.append(Block(level, deep, y + HEADING, row, order))
        y = blocks[-1].bottom + GAP
    colors = _colors(tree)
    top = [colors[index] for index in tree.up(blocks[0].deep, 1).tolist()]  # of the stream's coarsest classes
    parts = []
    for block in blocks:
        inks = [[top[c] for c in one.up(block.level, 1)[block.order].tolist()] for one in eras.trees]
        parts += [*_level(stream, block, eras, inks), _names(block, stream, tree, colors)]
    parts += [_axes(stream, y - GAP), _legend(tree, colors, y + 46)]
    facts = f"{len(stream):,} arrivals of {len(np.unique(stream.image)):,} images in {stream.tasks} tasks"
    return Drawing(title, (Panel(title, LEFT + PLOT + RIGHT, y + 56, join(parts)),), facts)


def _level(stream: Stream, block: Block, eras: Eras, inks: list[list[str]]) -> list[Markup]:
    """The arrivals at one level, in the colours of each era."""
    y, height = block.top, block.bottom - block.top
    parts = [el("rect", class_="empty", x=float(LEFT), y=y, width=float(PLOT), height=height)]
    strength = _strength(stream, block)
    starts = (stream.task_starts[eras.starts] * COLUMNS // len(stream)).tolist()
    for ink, (start, end) in zip(inks, pairwise([*starts, COLUMNS]), strict=True):
        x, width = LEFT + start * PLOT / COLUMNS, (end - start) * PLOT / COLUMNS
        parts.append(tinted_image(strength[:, start:end], ink, x, y, width, height))
    if block.row > 3:  # thin lines between the rows
        lines = "".join(
            f"M{LEFT} {number(block.top + i * block.row)}h{PLOT}" for i in range(1, len(block.order))
        )
        parts.append(el("path", d=lines, class_="between"))
    return parts


def _strength(stream: Stream, block: Block) -> Floats:
    """How strong the colour of each class is, column by column: the denser it arrives, the stronger."""
    at = np.flatnonzero(stream.level == block.level)
    bins = _bins(stream, at)
    counts = np.zeros((len(block.order), bins[-1] + 1))
    starts = stream.task_starts * COLUMNS // len(stream)
    ends, task = np.append(starts[1:], COLUMNS), stream.task[at]
    columns = np.minimum(at * COLUMNS // len(stream), np.maximum(ends[task] - 1, starts[task]))
    np.add.at(counts, (np.argsort(block.order)[stream.label[at]], bins[columns]), 1)
    density = counts / np.bincount(bins)
    dense = np.quantile(density[density > 0], 0.8) if len(at) else 1.0
    return np.where(density > 0, np.clip(0.25 + 0.75 * density / dense, 0, 1), 0)[:, bins]


def _bins(stream: Stream, at: Ints) -> Ints:
    """The bin of each column: wide enough for about two arrivals of a class, never across tasks."""
    classes, tasks = len(np.unique(stream.label[at])), len(np.unique(stream.task[at]))
    width = int(np.clip(2 * COLUMNS * classes // (len(stream) * tasks or 1), 2, 10))
    starts = stream.task_starts * COLUMNS // len(stream)
    columns = np.arange(COLUMNS)
    task = np.searchsorted(starts, columns, side="right") - 1
    return np.unique(task * COLUMNS + (columns - starts[task]) // width, return_inverse=True)[1]


def _names(block: Block, stream: Stream, tree: Taxonomy, colors: list[str]) -> Markup:
    """Head the level, and name its classes or, where rows are thin, ancestors of theirs."""
    deep, place = block.deep, in_tree(block.level, stream.levels[block.level - 1])
    parts = [label(0, block.top - 7, f"level {block.level}{place}: {len(block.order):,} classes", class_="b")]
    for shown in range(deep, 0, -1):
        ancestors = tree.up(deep, shown)[block.order]
        runs = [(int(index), len(list(run))) for index, run in groupby(ancestors)]
        if shown == 1 or np.median([size for _, size in runs]) * block.row >= ROW - 1:
            break
    y, free = block.top, block.top - ROW
    for index, size in runs:
        height, gap = size * block.row, 1.0 if size * block.row > 3 else 0.0
        color = colors[int(tree.up(shown, 1)[index])]
        parts.append(el("rect", x=LEFT - 6.0, y=y + gap / 2, width=3.0, height=height - gap, fill=color))
        middle = y + height / 2
        if middle >= free:
            free = middle + ROW - 2
            name = fit(tree.names(shown)[index], LEFT - 14, TEXT)
            parts.append(label(LEFT - 11, middle + 4, name, "end", class_="t faint"))
        y += height
    return join(parts)


def _axes(stream: Stream, bottom: float) -> Markup:
    """Task boundaries and names above, sample counts below."""
    parts = []
    bounds = [*stream.task_starts.tolist(), len(stream)]
    for task, (start, end) in enumerate(pairwise(bounds)):
        x0, x1 = _x(stream, start), _x(stream, end)
        for name in (f"task {task + 1}", str(task + 1)):
            if text_width(name, TEXT) < x1 - x0 - 4:
                parts.append(label((x0 + x1) / 2, TOP - 7, name, "middle"))
                break
    lines = "".join(f"M{number(_x(stream, at))} {TOP}V{number(bottom + 4)}" for at in bounds)
    parts.append(el("path", d=lines, class_="grid"))
    for value in ticks(0, len(stream), most=11):
        x = _x(stream, value)
        parts.append(el("path", d=f"M{number(x)} {number(bottom + 4)}v4", class_="grid"))
        parts.append(label(x, bottom + 19, f"{value:,.0f}", "middle", class_="t faint"))
    parts.append(label(LEFT + PLOT / 2, bottom + 34, "samples seen", "middle", class_="t faint"))
    return join(parts)


def _x(stream: Stream, position: float) -> float:
    return LEFT + position * PLOT / len(stream)


def _legend(tree: Taxonomy, colors: list[str], y: float) -> Markup:
    """The classes of level 1, as many as there is room for."""
    parts, x = [], float(LEFT)
    for index in tree.order(1).tolist():
        name = fit(tree.names(1)[index], 150, TEXT)
        width = 15 + text_width(name, TEXT) + 16
        if x + width > LEFT + PLOT + RIGHT:
            parts.append(label(x, y, "…"))
            break
        parts.append(el("rect", x=x, y=y - 9, width=10.0, height=10.0, fill=colors[index]))
        parts.append(label(x + 15, y, name))
        x += width
    return join(parts)


def _colors(tree: Taxonomy) -> list[str]:
    """One colour for each class of level 1, neighbours in the order of the tree apart."""
    found = dict(zip(tree.order(1).tolist(), hues(tree.sizes[0]), strict=True))
    return [found[index] for index in range(tree.sizes[0])]
