"""garden, the built-in dataset: 6,000 pictures of plants, drawn by code, in 2, 4, 12 and 48 classes."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ramify.datasets.arrays import ArrayImages
from ramify.datasets.cache import Contents, Origin
from ramify.datasets.garden.draw import SIZE, draw
from ramify.datasets.garden.plants import GENERA
from ramify.datasets.registry import Source
from ramify.taxonomy import Taxonomy

TRAIN, TEST = 100, 25
VERSION = 1
"""Part of the cache's key: raise it whenever a pixel changes."""

ROWS = [(genus.kind, genus.form, genus.name, species) for genus in GENERA for species in genus.species]


def find(root: Path) -> Origin:
    """Nothing to find: the pictures are drawn when they are first needed."""
    return Origin("garden", {"version": VERSION}, contents)


def contents() -> Contents:
    """Draw all pictures: of each species the first 100 are for training, 25 for testing."""
    pictures = np.stack([draw(leaf, TRAIN + TEST) for leaf in range(len(ROWS))])
    train, test = (
        ArrayImages(part.reshape(-1, 3, SIZE, SIZE), np.arange(len(ROWS)).repeat(part.shape[1]))
        for part in (pictures[:, :TRAIN], pictures[:, TRAIN:])
    )
    return Contents(Taxonomy.from_rows(ROWS), train, test)


SOURCE = Source(
    "garden",
    "built in: 6,000 drawn plants of 32×32 in 4 levels",
    find,
    image_size=SIZE,
    counts=(2, 4, 12, 48),
    images=(4_800, 1_200),
)
