"""omniglot: 1,623 handwritten characters of 50 alphabets, each drawn by 20 people."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

from ramify.datasets.cache import Contents, Origin
from ramify.datasets.fetch import Download, Publisher
from ramify.datasets.listing import FileImages, image_files, stamps
from ramify.datasets.places import first_there
from ramify.datasets.registry import Source
from ramify.datasets.splits import assemble
from ramify.errors import RamifyError

FOLDERS = ("omniglot", "omniglot-py")  # the second is torchvision's
PARTS = ("images_background", "images_evaluation")
TRAIN_DRAWERS = 15
"""Of each character, drawings 1 to 15 are for training and 16 to 20 for testing."""
INK = 0.078  # share of black pixels
URL = "https://github.com/brendenlake/omniglot/raw/master/python/"
PUBLISHER = Publisher(
    "https://github.com/brendenlake/omniglot",
    "MIT",
    (
        Download(f"{URL}images_background.zip", "68d2efa1b9178cc56df9314c21c6e718", PARTS[0]),
        Download(f"{URL}images_evaluation.zip", "6b91aef0f799c5bb55b94e3f2daec811", PARTS[1]),
    ),
    "16 MB",
)


def get(root: Path, progress: bool) -> None:
    """Download both official archives, check and unpack them."""
    PUBLISHER.fetch(first_there(root, FOLDERS), progress)


def find(root: Path) -> Origin:
    """The alphabets of both archives, in one tree."""
    folder = first_there(root, FOLDERS)
    PUBLISHER.check("omniglot", root, *(folder / part for part in PARTS))
    files = [(part, *path) for part in PARTS for path in image_files(folder / part)]
    paths = ["/".join(path) for path in files]
    key = {"files": stamps(folder, paths), "drawers": TRAIN_DRAWERS}
    return Origin("omniglot", key, lambda: _contents(folder, files))


def _contents(folder: Path, files: list[tuple[str, ...]]) -> Contents:
    for path in files:
        if len(path) != 4:
            raise RamifyError(f"{folder / Path(*path)}: expected PART/ALPHABET/CHARACTER/IMAGE.png")
    paths = ["/".join(path) for path in files]
    found = assemble(
        [(alphabet, f"{alphabet} {character}") for _, alphabet, character, _ in files],
        ["train" if _drawer(folder, path) <= TRAIN_DRAWERS else "test" for path in paths],
        FileImages.chosen(folder, paths),
        str(folder),
    )
    note = (
        f"split by drawer: of each character's 20 drawings, 1 to {TRAIN_DRAWERS} train and the others test; "
        "the alphabets of background and evaluation are both learned"
    )
    return replace(found, notes=(note,))


def _drawer(folder: Path, path: str) -> int:
    """`0709_17.png` is by the 17th of those who drew this alphabet."""
    number = re.search(r"_(\d+)\.\w+$", path)
    if not number:
        raise RamifyError(f"{folder / path}: the name does not end in the number of its drawer, _01 to _20")
    return int(number[1])


SOURCE = Source(
    "omniglot",
    "Omniglot, 32,460 drawings of 1,623 characters in 50 alphabets",
    find,
    get,
    image_size=28,
    mean=(1 - INK,) * 3,
    std=((INK * (1 - INK)) ** 0.5,) * 3,
    counts=(50, 1_623),
    images=(24_345, 8_115),
    publisher=PUBLISHER,
)
