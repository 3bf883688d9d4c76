"""A stream as a picture: along x its arrivals, down y the classes of each level in tree order."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby, pairwise

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw, ImageFont

from ramify.streams.stream import Stream
from ramify.taxonomy import IntArray, Taxonomy

Colors = npt.NDArray[np.float64]

LEFT, PLOT, RIGHT, TOP, BOTTOM = 330, 1240, 40, 128, 112
HEADING, GAP, ROW, LEVEL_HEIGHT, TEXT = 34, 14, 20, 520, 17
INK, FAINT, LINE = (38, 42, 50), (118, 124, 134), (190, 194, 202)
BAND = 246  # grey of an empty row


@dataclass(frozen=True)
class Block:
    """One level's rows in the picture."""

    level: int  # of the stream, from 1
    top: int
    row: int  # height of one class
    order: IntArray  # classes from top to bottom

    @property
    def bottom(self) -> int:
        """The y just below the last row."""
        return self.top + self.row * len(self.order)


def draw_stream(stream: Stream, tree: Taxonomy, title: str) -> Image.Image:
    """Draw which classes arrive when. `tree` is the dataset's whole tree, its level 1 gives the colours."""
    blocks, y = [], TOP
    for level, deep in enumerate(stream.levels, start=1):
        order = tree.order(deep)
        row = int(np.clip(LEVEL_HEIGHT // len(order), 1, ROW))
        blocks.append(Block(level, y + HEADING, row, order))
        y = blocks[-1].bottom + GAP
    pixels = np.full((y + BOTTOM, LEFT + PLOT + RIGHT, 3), 255, np.uint8)
    palette = _palette(tree)
    for block in blocks:
        pixels[block.top : block.bottom, LEFT : LEFT + PLOT] = _arrivals(stream, tree, block, palette)
    image = Image.fromarray(pixels)
    draw = ImageDraw.Draw(image)
    for block in blocks:
        _label_rows(draw, block, stream, tree, palette)
    _axes(draw, stream, y)
    _text(draw, (40, 30), title, size=28)
    facts = f"{len(stream):,} arrivals of {len(np.unique(stream.image)):,} images in {stream.tasks} tasks"
    _text(draw, (40, 66), facts, FAINT)
    _legend(draw, tree, palette, y + 74)
    return image


def _arrivals(stream: Stream, tree: Taxonomy, block: Block, palette: Colors) -> npt.NDArray[np.uint8]:
    """The pixels of one level: the denser a class arrives, the stronger its colour."""
    at = np.flatnonzero(stream.level == block.level)
    bins = _bins(stream, at)
    counts = np.zeros((len(block.order), bins[-1] + 1))
    np.add.at(counts, (np.argsort(block.order)[stream.label[at]], bins[at * PLOT // len(stream)]), 1)
    density = counts / np.bincount(bins)
    dense = np.quantile(density[density > 0], 0.8) if len(at) else 1.0
    strength = np.where(density > 0, np.clip(0.25 + 0.75 * density / dense, 0, 1), 0)[:, bins, None]
    ink = palette[tree.up(stream.levels[block.level - 1], 1)][block.order][:, None]
    rows = (BAND + (ink - BAND) * strength).astype(np.uint8).repeat(block.row, axis=0)
    if block.row > 3:
        rows[:: block.row] = 255
    return rows


def _bins(stream: Stream, at: IntArray) -> IntArray:
    """The bin of each column of pixels: wide enough for about two arrivals of a class, never across tasks."""
    classes, tasks = len(np.unique(stream.label[at])), len(np.unique(stream.task[at]))
    width = int(np.clip(2 * PLOT * classes // (len(stream) * tasks or 1), 2, 8))
    starts = stream.task_starts * PLOT // len(stream)
    columns = np.arange(PLOT)
    task = np.searchsorted(starts, columns, side="right") - 1
    return np.unique(task * PLOT + (columns - starts[task]) // width, return_inverse=True)[1]


def _label_rows(
    draw: ImageDraw.ImageDraw, block: Block, stream: Stream, tree: Taxonomy, palette: Colors
) -> None:
    """Head the level, and name its classes or, where rows are thin, ancestors of theirs."""
    deep = stream.levels[block.level - 1]
    place = f" (tree level {deep})" if deep != block.level else ""
    _text(
        draw, (40, block.top - 16), f"level {block.level}{place}: {len(block.order):,} classes", anchor="lm"
    )
    for shown in range(deep, 0, -1):
        ancestors = tree.up(deep, shown)[block.order]
        runs = [(int(index), len(list(run))) for index, run in groupby(ancestors)]
        if shown == 1 or np.median([size for _, size in runs]) * block.row >= ROW - 2:
            break
    y, free = block.top, block.top - ROW
    for index, size in runs:
        height = size * block.row
        color = tuple(palette[tree.up(shown, 1)[index]].astype(int))
        draw.rectangle((LEFT - 9, y + (height > 3), LEFT - 5, y + height - 1), fill=color)
        middle = y + height // 2
        if middle >= free:
            free = middle + ROW - 4
            name = _fitted(draw, tree.names(shown)[index], LEFT - 16 - 40)
            _text(draw, (LEFT - 16, middle), name, FAINT, anchor="rm")
        y += height


def _axes(draw: ImageDraw.ImageDraw, stream: Stream, bottom: int) -> None:
    """Task boundaries and names above, sample counts below."""
    bounds = [*stream.task_starts.tolist(), len(stream)]
    for task, (start, end) in enumerate(pairwise(bounds)):
        x0, x1 = (LEFT + position * PLOT // len(stream) for position in (start, end))
        for x in (x0, x1):
            draw.line((x, TOP + 6, x, bottom - GAP + 6), fill=LINE)
        for name in (f"task {task + 1}", str(task + 1)):
            if draw.textlength(name, _font()) < x1 - x0 - 6:
                _text(draw, ((x0 + x1) // 2, TOP - 8), name, anchor="mm")
                break
    y = bottom - GAP + 8
    for position in range(0, len(stream) + 1, _tick(len(stream))):
        x = LEFT + position * PLOT // len(stream)
        draw.line((x, y, x, y + 6), fill=FAINT)
        _text(draw, (x, y + 20), f"{position:,}", FAINT, anchor="mm")
    _text(draw, (LEFT + PLOT // 2, y + 46), "samples seen", FAINT, anchor="mm")


def _legend(draw: ImageDraw.ImageDraw, tree: Taxonomy, palette: Colors, y: int) -> None:
    x = LEFT
    for index in tree.order(1).tolist():
        name = _fitted(draw, tree.names(1)[index], 220)
        width = 26 + draw.textlength(name, _font()) + 26
        if x + width > LEFT + PLOT + RIGHT:
            _text(draw, (x, y), "…", anchor="lm")
            break
        draw.rectangle((x, y - 7, x + 14, y + 7), fill=tuple(palette[index].astype(int)))
        _text(draw, (x + 24, y), name, anchor="lm")
        x += int(width)


def _palette(tree: Taxonomy) -> Colors:
    """One colour for each class of level 1: equally light and vivid hues (OKLCH), in tree order."""
    hue = 2 * np.pi * ((np.arange(tree.sizes[0]) + 0.1) / max(tree.sizes[0], 3) + 0.38)
    lightness = np.where(np.arange(tree.sizes[0]) % 2, 0.68, 0.55)
    a, b = 0.13 * np.cos(hue), 0.13 * np.sin(hue)
    to_cone = np.array([[1, 0.39634, 0.21580], [1, -0.10556, -0.06385], [1, -0.08948, -1.29149]])
    to_rgb = np.array(
        [[4.07674, -3.30771, 0.23097], [-1.26844, 2.60976, -0.34132], [-0.0042, -0.70342, 1.70761]]
    )
    linear = np.clip((np.stack((lightness, a, b), axis=1) @ to_cone.T) ** 3 @ to_rgb.T, 0, 1)
    srgb = np.where(linear <= 0.0031308, 12.92 * linear, 1.055 * linear ** (1 / 2.4) - 0.055)
    colors: Colors = np.empty_like(srgb)
    colors[tree.order(1)] = 255 * srgb
    return colors


def _tick(length: int) -> int:
    """The step of 1, 2 or 5 times a power of ten that gives at most ten ticks."""
    power: int = 10 ** max(len(str(length)) - 2, 0)
    return power * next(step for step in (1, 2, 5, 10) if length <= 10 * step * power)


def _font(size: int = TEXT) -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    return ImageFont.load_default(size)


def _text(
    draw: ImageDraw.ImageDraw,
    at: tuple[float, float],
    text: str,
    fill: tuple[int, int, int] = INK,
    size: int = TEXT,
    anchor: str = "la",
) -> None:
    draw.text(at, text, fill=fill, font=_font(size), anchor=anchor)


def _fitted(draw: ImageDraw.ImageDraw, text: str, width: int) -> str:
    if draw.textlength(text, _font()) <= width:
        return text
    while text and draw.textlength(text + "…", _font()) > width:
        text = text[:-1]
    return text + "…"
