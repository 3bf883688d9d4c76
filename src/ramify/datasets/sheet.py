"""A contact sheet: a few images of every class, a row a leaf, with the levels above as bands at the left."""

from __future__ import annotations

import colorsys
import math

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from ramify.arrays import Ints, Pixels
from ramify.datasets.dataset import Dataset

THUMB, BAND, NAME, GAP = 64, 22, 138, 14
PER_LEAF = 8
INK, PAPER = (40, 42, 46), (255, 255, 255)


def contact_sheet(dataset: Dataset) -> Image.Image:
    """The first training images of each leaf, leaves in the order of the tree."""
    tree = dataset.taxonomy
    order = tree.leaf_order()
    row = THUMB + 2
    font = ImageFont.load_default(13)
    label = 12 + min(NAME, math.ceil(max(font.getlength(_plain(name)) for name in tree.leaf_names)))
    width = (tree.depth - 1) * BAND + label + PER_LEAF * row + GAP
    columns = max(1, round(math.sqrt(len(order) * row * 1.4 / width)))
    rows = math.ceil(len(order) / columns)
    sheet = Image.new("RGB", (columns * width + GAP, rows * row + 2 * GAP), PAPER)
    for column in range(columns):
        leaves = order[column * rows : (column + 1) * rows]
        left = GAP + column * width
        for level in range(1, tree.depth):
            _bands(sheet, dataset, level, leaves, left + (level - 1) * BAND, row)
        for position, leaf in enumerate(leaves):
            place = (left + (tree.depth - 1) * BAND, GAP + position * row)
            _leaf(sheet, dataset, int(leaf), place, label)
    return sheet


def _leaf(sheet: Image.Image, dataset: Dataset, leaf: int, place: tuple[int, int], label: int) -> None:
    left, top = place
    name = dataset.taxonomy.leaf_names[leaf]
    lines = _wrap(_plain(name), label - 12, THUMB // 16)
    font = ImageFont.load_default(13)
    offset = (THUMB - 16 * len(lines)) // 2
    for number, line in enumerate(lines):
        ImageDraw.Draw(sheet).text((left + 6, top + offset + 16 * number), line, INK, font)
    for number, index in enumerate(np.flatnonzero(dataset.train.leaves == leaf)[:PER_LEAF]):
        sheet.paste(_thumb(dataset.train.images[index]), (left + label + number * (THUMB + 2), top))


def _thumb(pixels: Pixels) -> Image.Image:
    image = Image.fromarray(np.ascontiguousarray(pixels.transpose(1, 2, 0)))
    small = THUMB % image.width == 0
    return image.resize((THUMB, THUMB), Image.Resampling.NEAREST if small else Image.Resampling.LANCZOS)


def _bands(sheet: Image.Image, dataset: Dataset, level: int, leaves: Ints, left: int, row: int) -> None:
    """One upright band for each run of leaves that share a class at `level`."""
    tree = dataset.taxonomy
    classes = tree.leaf_to(level)[leaves]
    starts = np.flatnonzero(np.diff(classes, prepend=-2))
    for start, end in zip(starts, [*starts[1:], len(classes)], strict=True):
        index = int(classes[start])
        if index < 0:  # these leaves end above
            continue
        rank = int(np.flatnonzero(tree.order(level) == index)[0])
        band = Image.new("RGB", ((end - start) * row - 2, BAND - 2), _pastel(rank / tree.sizes[level - 1]))
        font = ImageFont.load_default(13)
        text = _wrap(_plain(tree.names(level)[index]), band.width - 8, 1)[0]
        pen = ImageDraw.Draw(band)
        pen.text(((band.width - pen.textlength(text, font)) / 2, 2), text, INK, font)
        sheet.paste(band.rotate(90, expand=True), (left, GAP + int(start) * row))


def _plain(name: str) -> str:
    return name.replace("_", " ")


def _wrap(text: str, width: int, limit: int) -> list[str]:
    """Break a name into at most `limit` lines that fit; what does not fit ends in an ellipsis."""
    font = ImageFont.load_default(13)
    lines = [""]
    for word in text.split():
        longer = f"{lines[-1]} {word}".strip()
        if font.getlength(longer) <= width or len(lines) == limit or not lines[-1]:
            lines[-1] = longer
        else:
            lines.append(word)
    return [_clip(line, width, font) for line in lines]


def _clip(line: str, width: int, font: ImageFont.FreeTypeFont | ImageFont.ImageFont) -> str:
    if font.getlength(line) <= width:
        return line
    while line and font.getlength(line + "…") > width:
        line = line[:-1]
    return line + "…"


def _pastel(hue: float) -> tuple[int, int, int]:
    red, green, blue = colorsys.hls_to_rgb(hue, 0.84, 0.55)
    return round(red * 255), round(green * 255), round(blue * 255)
