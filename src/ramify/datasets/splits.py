"""From a list of labelled images to a tree and two splits."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ramify.datasets.cache import Contents, RawImages
from ramify.errors import RamifyError
from ramify.taxonomy import Taxonomy

Labels = tuple[str, ...]
"""The names of an image's class, coarse to fine."""

HELD_OUT_PERCENT = 20
SPLIT_SEED = 0
PARTS = {
    **dict.fromkeys(("train", "training"), "train"),
    **dict.fromkeys(("test", "testing"), "test"),
    **dict.fromkeys(("val", "valid", "validation", "dev"), "validation"),
}


@dataclass(frozen=True)
class Partition:
    """The images of each split, and how they came to be."""

    train: NDArray[np.int64]
    test: NDArray[np.int64]
    note: str


def resplit(leaves: NDArray[np.int64], percents: Sequence[int], seed: int) -> NDArray[np.int64]:
    """Deal the images of each class to parts of these shares, at random; returns the part of each image.

    Shares are rounded down in favour of the later parts, but the first part has an image of every class.
    """
    order = np.random.default_rng(seed).permutation(len(leaves))
    order = order[np.argsort(leaves[order], kind="stable")]
    counts = np.bincount(leaves)
    starts = np.concatenate([[0], np.cumsum(counts)[:-1]])
    rank, size = np.arange(len(leaves)) - starts[leaves[order]], counts[leaves[order]]
    parts = np.zeros(len(leaves), dtype=np.int64)
    for percent in np.cumsum(percents)[:-1]:
        parts[order] += rank >= np.maximum(1, size * percent // 100)
    return parts


def partition(names: Sequence[str] | None, leaves: NDArray[np.int64], where: str) -> Partition:
    """Split by the given names of parts; without any, or with training images alone, hold a share out."""
    parts = None if names is None else np.array([PARTS.get(name.strip().lower(), name) for name in names])
    known = set() if parts is None else set(parts.tolist())
    strange = sorted(known - set(PARTS.values()))
    if strange:
        raise RamifyError(
            f"{where}: the split {strange[0]!r} is not known: expected train, test or validation"
        )
    if parts is None or known == {"train"}:
        held = resplit(leaves, (100 - HELD_OUT_PERCENT, HELD_OUT_PERCENT), SPLIT_SEED)
        note = f"no test images given: {HELD_OUT_PERCENT}% of each class are held out, seed {SPLIT_SEED}"
        return Partition(np.flatnonzero(held == 0), np.flatnonzero(held == 1), note)
    test = "test" if "test" in known else "validation"
    note = "" if test == "test" else "no test images given: the validation images are used for testing"
    return Partition(np.flatnonzero(parts == "train"), np.flatnonzero(parts == test), note)


def distinct(rows: Sequence[Labels]) -> list[Labels]:
    """Add its parent in brackets to a name that stands below several: genera of two kingdoms share names.

    >>> distinct([("Muscicapidae", "Oenanthe"), ("Apiaceae", "Oenanthe"), ("Apiaceae", "Daucus")])[1:]
    [('Apiaceae', 'Oenanthe (Apiaceae)'), ('Apiaceae', 'Daucus')]
    """
    depth = max(map(len, rows), default=0)
    rows = list(rows)
    for level in range(1, depth):
        parents: dict[str, set[str]] = defaultdict(set)
        for row in rows:
            if len(row) > level:
                parents[row[level]].add(row[level - 1])
        shared = {name for name, above in parents.items() if len(above) > 1}
        rows = [
            (*row[:level], f"{row[level]} ({row[level - 1]})", *row[level + 1 :])
            if len(row) > level and row[level] in shared
            else row
            for row in rows
        ]
    return rows


def assemble(
    labels: Sequence[Labels],
    parts: Sequence[str] | None,
    images: Callable[[NDArray[np.int64], NDArray[np.int64]], RawImages],
    where: str,
    pad: bool = False,
) -> Contents:
    """The contents of labelled images; `images(chosen, leaves)` makes a split of the chosen ones.

    `pad` repeats classes that are less deep than others downwards.
    """
    if not labels:
        raise RamifyError(f"{where}: there are no images")
    rows = sorted(set(labels))
    tree = Taxonomy.from_rows(rows, pad=pad, where=lambda i: f"{where}: class {'/'.join(rows[i])}")
    number = {row: leaf for leaf, row in enumerate(rows)}
    leaves = np.array([number[label] for label in labels], dtype=np.int64)
    cut = partition(parts, leaves, where)
    train, test = (images(chosen, leaves[chosen]) for chosen in (cut.train, cut.test))
    return Contents(tree, train, test, notes=(cut.note,) if cut.note else ())
