"""Writing label trees, in the forms that `read_taxonomy` reads."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path

from ramify.errors import RamifyError
from ramify.files import write_atomic
from ramify.taxonomy.tree import Taxonomy

Nested = dict[str, "Nested | int"]


def to_nested(tree: Taxonomy) -> Nested:
    """The tree as nested dicts whose leaves are their indices.

    A leaf at a class that others go on from stands among them under an empty name.
    """
    nested: Nested = {}
    for leaf in range(tree.leaves):
        *above, name = (*tree.path(leaf), "") if tree.leaf_open[leaf] else tree.path(leaf)
        inner = nested
        for step in above:
            below = inner.setdefault(step, {})
            assert isinstance(below, dict)
            inner = below
        inner[name] = leaf
    return nested


def to_csv(tree: Taxonomy) -> str:
    """CSV text with one row a leaf, and the leaf attributes as further columns."""
    header = [*(f"level{level}" for level in range(1, tree.depth + 1)), *tree.leaf_attributes]
    attributes = (
        zip(*tree.leaf_attributes.values(), strict=True) if tree.leaf_attributes else [()] * tree.leaves
    )
    rows = (
        (*tree.path(leaf), *[""] * int(tree.depth - tree.leaf_levels[leaf])) for leaf in range(tree.leaves)
    )
    return _csv([header, *((*row, *extra) for row, extra in zip(rows, attributes, strict=True))])


def to_edges(tree: Taxonomy) -> str:
    """CSV text with one row an edge: the level of the child, its parent (empty at level 1), its name."""
    _refuse_open(tree, "an edge list", "write a CSV of leaves (.csv) or nested JSON (.json) instead")
    rows = {
        (level, parent, child): None  # in order of the leaves, which readers number as they come
        for leaf in range(tree.leaves)
        for level, (parent, child) in enumerate(pairwise(("", *tree.path(leaf))), 1)
    }
    return _csv([("level", "parent", "child"), *rows])


def write_taxonomy(tree: Taxonomy, path: Path) -> None:
    """Write the tree to `path`: nested JSON (.json), an edge list (.edges.csv) or a CSV of leaves (.csv)."""
    if path.suffix == ".json":
        text = json.dumps(to_nested(tree), indent=1, ensure_ascii=False) + "\n"
    elif path.suffix == ".csv":
        text = to_edges(tree) if path.name.endswith(".edges.csv") else to_csv(tree)
    else:
        raise RamifyError(
            f"cannot write a tree to {path.name!r}: the name must end in .csv, .edges.csv or .json"
        )
    write_atomic(path, text)


def write_folders(tree: Taxonomy, root: Path) -> None:
    """Make one folder a class, nested. Read back, the leaves are numbered in order of name."""
    _refuse_open(tree, "a tree of folders", "write a .csv or .json instead")
    for level in range(1, tree.depth + 1):
        for name in tree.names(level):
            if "/" in name or "\\" in name or name.startswith((".", "__")):
                raise RamifyError(f"{name!r} cannot be the name of a class folder: rename it in the tree")
    for leaf in range(tree.leaves):
        root.joinpath(*tree.path(leaf)).mkdir(parents=True, exist_ok=True)


def _refuse_open(tree: Taxonomy, form: str, instead: str) -> None:
    if tree.leaf_open.any():
        name = tree.leaf_names[int(tree.leaf_open.argmax())]
        raise RamifyError(f"{form} cannot say that {name!r} is a leaf and has classes below it: {instead}")


def _csv(rows: Iterable[Iterable[object]]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()
