"""Nested forms of a tree: dicts, JSON, and class folders within class folders."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

from ramify.errors import RamifyError
from ramify.pixels import SUFFIXES
from ramify.taxonomy.tree import Taxonomy

Leaf = tuple[tuple[str, ...], int | None]  # its path, and its index if the tree states one


def from_nested(nested: object, pad: bool = False, name: str = "the tree") -> Taxonomy:
    """The tree of nested dicts: `{"animal": {"cat": 0, "dog": 1}}`.

    A leaf's value is its index, or None; the leaves of one parent may also be a list of names. Without
    indices the leaves are numbered as they stand.
    """
    try:
        leaves = list(_walk(nested, (), (), name))
    except RecursionError:
        raise RamifyError(f"{name} is nested too deeply to be a label tree") from None
    indices = [index for _, index in leaves]
    if any(index is not None for index in indices):
        if sorted(-1 if index is None else index for index in indices) != list(range(len(leaves))):
            raise RamifyError(
                f"{name}: leaf indices must be 0 to {len(leaves) - 1}, each once, or null everywhere"
            )
        leaves.sort(key=lambda leaf: leaf[1] or 0)
    rows = [path for path, _ in leaves]
    return Taxonomy.from_rows(rows, pad=pad, where=lambda i: f"{name} at {'/'.join(rows[i])}")


def _walk(node: object, path: tuple[str, ...], above: tuple[int, ...], name: str) -> Iterator[Leaf]:
    where = f"{name} at {'/'.join(path)}" if path else name
    if id(node) in above:
        raise RamifyError(f"{where}: the dict contains itself, a cycle: give each class a dict of its own")
    if isinstance(node, Mapping | list) and not all(isinstance(key, str) for key in node):
        raise RamifyError(f"{where}: expected class names as text, found {list(node)[:3]}")
    if isinstance(node, Mapping) and node:
        for key, below in node.items():
            yield from _walk(below, (*path, key), (*above, id(node)), name)
    elif isinstance(node, list) and node:
        yield from (((*path, key), None) for key in node)
    elif not path:
        raise RamifyError(f"{name} is empty or no dict: expected nested class names")
    elif node is None or isinstance(node, Mapping | list):
        yield path, None
    elif isinstance(node, int) and not isinstance(node, bool):
        yield path, node
    else:
        raise RamifyError(
            f"{where}: found {node!r}, expected a dict, a list of names, a leaf's index or null"
        )


def parse_json(text: str, name: str, pad: bool = False) -> Taxonomy:
    """The tree of nested JSON objects, as `from_nested` reads them."""

    def unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
        found = dict(pairs)
        if len(found) < len(pairs):
            keys = [key for key, _ in pairs]
            twice = next(key for i, key in enumerate(keys) if key in keys[:i])
            raise RamifyError(f"{name}: {twice!r} stands twice below one parent: remove one of the two")
        return found

    try:
        nested = json.loads(text, object_pairs_hook=unique)
    except ValueError as error:
        raise RamifyError(f"{name} is not valid JSON: {error}") from error
    except RecursionError:
        raise RamifyError(f"{name} is nested too deeply to be a label tree") from None
    return from_nested(nested, pad, name)


def read_folders(root: Path, pad: bool = False) -> Taxonomy:
    """The tree of nested class folders, in order of name: a folder without folders in it is a leaf.

    So is one that has images beside its folders: of these no more is known than its own name.
    Folders whose name starts with a dot or two underscores are passed over.
    """
    try:
        rows = list(_walk_folders(root, (), (root.resolve(),)))
    except OSError as error:
        raise RamifyError(f"cannot read the folder {error.filename}: {error.strerror}") from error
    if rows == [()]:
        raise RamifyError(f"{root} has no folders in it: expected one folder a class, nested coarse to fine")
    return Taxonomy.from_rows(rows, pad=pad, where=lambda i: f"folder {'/'.join(rows[i])}")


def _walk_folders(folder: Path, path: tuple[str, ...], above: tuple[Path, ...]) -> Iterator[tuple[str, ...]]:
    entries = [entry for entry in folder.iterdir() if not entry.name.startswith((".", "__"))]
    names = sorted(entry.name for entry in entries if entry.is_dir())
    if not names or (path and any(entry.suffix.lower() in SUFFIXES for entry in entries)):
        yield path
    for name in names:
        below = (folder / name).resolve()
        if below in above:
            raise RamifyError(f"folder {folder / name} links to a folder above it, a cycle: remove the link")
        yield from _walk_folders(folder / name, (*path, name), (*above, below))
