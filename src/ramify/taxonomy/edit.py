"""Trees with one class renamed, merged, moved, added or removed. A tree itself never changes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ramify.errors import RamifyError
from ramify.taxonomy.tree import Taxonomy

Path = tuple[str, ...]


def renamed(tree: Taxonomy, level: int, name: str, new: str) -> Taxonomy:
    """A class under another name."""
    tree.index(level, name)
    return _changed(tree, lambda path: _put(path, level, new) if _has(path, level, name) else path)


def moved(tree: Taxonomy, level: int, name: str, parent: str) -> Taxonomy:
    """A class, with all below it, under another parent; the one it leaves stays, if only as a leaf."""
    if level == 1:
        raise RamifyError(f"{name!r} stands at level 1, which has no parents; move labels of finer levels")
    tree.index(level, name)
    above = ancestry(tree, level - 1, parent)
    return _changed(
        tree, lambda path: above + path[level - 1 :] if _has(path, level, name) else path, level - 1
    )


def merged(tree: Taxonomy, level: int, names: Sequence[str], into: str) -> Taxonomy:
    """Classes of one level as one, with the children of all of them, where the first of `names` stands.

    Parents that lose their last child stay, as leaves.
    """
    above = (*ancestry(tree, level, names[0])[:-1], into)
    for name in names:
        tree.index(level, name)
    ours = set(names)
    return _changed(
        tree,
        lambda path: above + path[level:] if len(path) >= level and path[level - 1] in ours else path,
        level - 1,
    )


def joined(tree: Taxonomy, level: int, name: str, beside: str) -> Taxonomy:
    """Another class beside one that is there, under the same parent."""
    path = (*ancestry(tree, level, beside)[:-1], name)
    rows, attributes = _rows(tree)
    return _built(tree, [*rows, path], {key: (*values, "") for key, values in attributes.items()})


def removed(tree: Taxonomy, level: int, name: str) -> Taxonomy:
    """Without a class that has none below it; its parent stays, if only as a leaf."""
    below = {path[level] for path in _rows(tree)[0] if _has(path, level, name) and len(path) > level}
    if below:
        names = ", ".join(sorted(below)[:3]) + (", …" if len(below) > 3 else "")
        raise RamifyError(
            f"{name!r} has labels below it in the taxonomy ({names}); forget or move these first"
        )
    tree.index(level, name)
    return _changed(tree, lambda path: () if _has(path, level, name) else path, level - 1)


def ancestry(tree: Taxonomy, level: int, name: str) -> Path:
    """The names from level 1 down to a class."""
    index = tree.index(level, name)
    return tuple(tree.names(h)[int(tree.up(level, h)[index])] for h in range(1, level + 1))


def _has(path: Path, level: int, name: str) -> bool:
    return len(path) >= level and path[level - 1] == name


def _put(path: Path, level: int, name: str) -> Path:
    return (*path[: level - 1], name, *path[level:])


def _rows(tree: Taxonomy) -> tuple[list[Path], dict[str, tuple[str, ...]]]:
    return [tree.path(leaf) for leaf in range(tree.leaves)], dict(tree.leaf_attributes)


def _changed(tree: Taxonomy, change: Callable[[Path], Path], leaves: int = 0) -> Taxonomy:
    """With each leaf's path changed. What stood above a changed one, `leaves` levels deep, stays."""
    rows, attributes = _rows(tree)
    paths = [change(path) for path in rows]
    for place, (before, after) in enumerate(list(zip(rows, paths, strict=True))):
        left = before[:leaves]
        if left and after[:leaves] != left and not any(path[:leaves] == left for path in paths):
            if after:
                paths.append(left)
                attributes = {key: (*values, "") for key, values in attributes.items()}
            else:
                paths[place] = left
    return _built(tree, paths, attributes)


def _built(before: Taxonomy, rows: list[Path], attributes: dict[str, tuple[str, ...]]) -> Taxonomy:
    """The tree of these rows, of which equal and empty ones are left out; its levels are told as before."""
    first: dict[Path, int] = {}
    for place, path in enumerate(rows):
        if path:
            first.setdefault(path, place)
    if not first:
        raise RamifyError("no label would be left in the taxonomy")
    kept = list(first.values())
    tree = Taxonomy.from_rows(
        [rows[i] for i in kept], {key: [values[i] for i in kept] for key, values in attributes.items()}
    )
    return tree.numbered_as(before)
