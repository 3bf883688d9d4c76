"""fgvc-aircraft: FGVC-Aircraft 2013b, by manufacturer, family and variant."""

from __future__ import annotations

from pathlib import Path

from ramify.datasets.cache import Contents, Origin
from ramify.datasets.fetch import Download, Publisher
from ramify.datasets.listing import FileImages, stamps
from ramify.datasets.lists import inside, look_up, read_map
from ramify.datasets.registry import Source
from ramify.datasets.splits import ClassPath, assemble

FOLDER = "fgvc-aircraft-2013b"
LEVELS = ("manufacturer", "family", "variant")
PARTS = {"trainval": "train", "test": "test"}
BANNER = 20
"""Rows at the bottom of each image that name its photographer: the publisher asks to remove them."""
PUBLISHER = Publisher(
    "https://www.robots.ox.ac.uk/~vgg/data/fgvc-aircraft/",
    "non-commercial research only; the photographs are their authors'",
    (
        Download(
            "https://www.robots.ox.ac.uk/~vgg/data/fgvc-aircraft/archives/fgvc-aircraft-2013b.tar.gz",
            "d4acdd33327262359767eeaa97a4f732",
            FOLDER,
        ),
    ),
    "2.75 GB",
)


def find(root: Path) -> Origin:
    """The lists and images below `root/fgvc-aircraft-2013b/data`."""
    folder = root / FOLDER / "data"
    lists = [_list(level, part) for part in PARTS for level in LEVELS]
    PUBLISHER.check("fgvc-aircraft", root, *(folder / name for name in (*lists, "images")))
    key = {"lists": stamps(folder, lists), "banner": BANNER}
    return Origin("fgvc-aircraft", key, lambda: _contents(folder))


def _contents(folder: Path) -> Contents:
    """Training images are the publisher's `trainval`; the tree is what its lists say of each image."""
    labels: list[ClassPath] = []
    parts: list[str] = []
    paths: list[str] = []
    for part, name in PARTS.items():
        tables = {level: read_map(folder / _list(level, part)) for level in LEVELS}
        for image in tables["variant"]:
            labels.append(tuple(look_up(tables[a], image, folder / _list(a, part)) for a in LEVELS))
            parts.append(name)
            paths.append(inside(f"images/{image}.jpg", folder))
    return assemble(labels, parts, FileImages.chosen(folder, paths, BANNER), str(folder))


def _list(level: str, part: str) -> str:
    return f"images_{level}_{part}.txt"


SOURCE = Source(
    "fgvc-aircraft",
    "FGVC-Aircraft, 10,000 photographs in 30 manufacturers, 70 families and 100 variants",
    find,
    PUBLISHER.fetch,
    counts=(30, 70, 100),
    images=(6_667, 3_333),
    publisher=PUBLISHER,
)
