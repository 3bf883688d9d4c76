"""A stream as users write their own: a CSV."""

from __future__ import annotations

import csv
from pathlib import Path

from ramify.streams import Stream
from ramify.taxonomy import Taxonomy


def write_csv(stream: Stream, path: Path, taxonomy: Taxonomy) -> None:
    """With class names; it has no moves."""
    tree = taxonomy.restrict(stream.levels)
    names = [tree.names(level) for level in range(1, tree.depth + 1)]
    arrivals = zip(stream.image, stream.level, stream.label, stream.task, strict=True)
    rows = [(image, stream.levels[h - 1], names[h - 1][label], task) for image, h, label, task in arrivals]
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([("image", "level", "label", "task"), *rows])
