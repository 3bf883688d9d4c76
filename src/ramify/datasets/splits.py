"""From a list of labelled images to a tree and two splits."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ramify.arrays import Ints
from ramify.datasets.cache import SPLITS, Contents, MakeSplit
from ramify.errors import RamifyError
from ramify.taxonomy import Taxonomy

ClassPath = tuple[str, ...]
"""The names of an image's class, coarse to fine."""

HELD_OUT_PERCENT = 20
SPLIT_SEED = 0
PARTS = {
    **dict.fromkeys(("train", "training"), "train"),
    **dict.fromkeys(("test", "testing"), "test"),
    **dict.fromkeys(("val", "valid", "validation", "dev"), "validation"),
}


@dataclass(frozen=True)
class Division:
    """The tree of labelled images; which of them are in each split, and their leaves; how that came to be."""

    taxonomy: Taxonomy
    rows: Mapping[str, Ints]
    leaves: Mapping[str, Ints]
    notes: tuple[str, ...]


def resplit(leaves: Ints, percents: Sequence[int], seed: int) -> Ints:
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


def partition(names: Sequence[str] | None, leaves: Ints, where: str) -> tuple[dict[str, Ints], str]:
    """The images of each split by the given names of parts, and a note on how that came to be.

    Without names, or with training images alone, a share is held out.
    """
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
        return {"train": np.flatnonzero(held == 0), "test": np.flatnonzero(held == 1)}, note
    test = "test" if "test" in known else "validation"
    note = "" if test == "test" else "no test images given: the validation images are used for testing"
    return {"train": np.flatnonzero(parts == "train"), "test": np.flatnonzero(parts == test)}, note


def distinct(rows: Sequence[ClassPath]) -> list[ClassPath]:
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


def divide(
    labels: Sequence[ClassPath], parts: Sequence[str] | None, where: str, pad: bool = False
) -> Division:
    """The tree and the splits of labelled images; `pad` repeats classes that end above others downwards."""
    if not labels:
        raise RamifyError(f"{where}: there are no images")
    paths = sorted(set(labels))
    tree = Taxonomy.from_rows(paths, pad=pad, where=lambda i: f"{where}: class {'/'.join(paths[i])}")
    number = {path: leaf for leaf, path in enumerate(paths)}
    leaves = np.array([number[label] for label in labels], dtype=np.int64)
    rows, note = partition(parts, leaves, where)
    return Division(tree, rows, {split: leaves[found] for split, found in rows.items()}, (note,) * bool(note))


def assemble(
    labels: Sequence[ClassPath], parts: Sequence[str] | None, images: MakeSplit, where: str, pad: bool = False
) -> Contents:
    """The contents of labelled images, divided; `images(rows, leaves)` makes a split of the chosen ones."""
    cut = divide(labels, parts, where, pad)
    train, test = (images(cut.rows[split], cut.leaves[split]) for split in SPLITS)
    return Contents(cut.taxonomy, train, test, notes=cut.notes)
