"""Labels from other programs: as the manifest that `ramify learn` takes, with the tree beside it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ramify.datasets.splits import ClassPath
from ramify.errors import RamifyError
from ramify.files import write_atomic
from ramify.reports.export import csv_text
from ramify.taxonomy import Taxonomy
from ramify.taxonomy.write import to_csv


@dataclass(frozen=True)
class Brought:
    """What another program knows of images."""

    rows: list[tuple[str, dict[int, str]]]
    """The path of each image, and its labels by level; level 0: it is not known, the tree has to tell it."""
    left_out: Counter[str] = field(default_factory=Counter)
    """How many are not among them, by the reason."""

    def tree(self) -> Taxonomy | None:
        """Of the labels, where each image has a whole path; None where they are not one tree."""
        paths = {tuple(labels[h] for h in sorted(labels)) for _, labels in self.rows}
        whole = all(sorted(labels) == list(range(1, len(labels) + 1)) for _, labels in self.rows)
        if not paths or not whole:
            return None
        leaves = [path for path in paths if not any(path == other[: len(path)] != other for other in paths)]
        try:
            return Taxonomy.from_rows(sorted(leaves))
        except RamifyError:  # a label stands under two parents
            return None


def write_manifest(brought: Brought, path: Path) -> Path | None:
    """Write the rows as CSV, and the tree beside it, where they tell one; its path."""
    levels = sorted({level for _, labels in brought.rows for level in labels})
    names = {level: f"level{level}" if level else "label" for level in levels}
    rows = [
        {"path": image} | {names[level]: labels.get(level, "") for level in levels}
        for image, labels in brought.rows
    ]
    write_atomic(path, csv_text(rows))
    tree = brought.tree()
    if tree is None:
        return None
    beside = path.with_name(f"{path.stem}-tree.csv")
    write_atomic(beside, to_csv(tree))
    return beside


# A name stands once within a level of our trees. Elsewhere it may stand below two parents («other»): it
# then carries its parent's name, `cars/other`, which `plain_names` takes off again.


def unique_names(paths: Iterable[ClassPath]) -> dict[ClassPath, ClassPath]:
    """For each path one with names that stand once within their level."""
    steps = {path[:level] for path in paths for level in range(1, len(path) + 1)}
    found: dict[ClassPath, ClassPath] = {(): ()}
    for level in range(1, max(map(len, steps), default=0) + 1):
        own = sorted(step for step in steps if len(step) == level)
        prefix = {step: f"{found[step[:-1]][-1]}/" if level > 1 else "" for step in own}
        names = {step: step[-1] for step in own}
        told = {step for step in own if level > 1 and step[-1].startswith(prefix[step])}
        told |= _alike(names)
        while told:  # one that carries its parent's name may be the plain name of another
            names |= {step: prefix[step] + step[-1] for step in told}
            told = _alike(names) - {step for step in own if names[step] != step[-1]}
            if not told and (twice := _alike(names)):
                raise RamifyError(
                    f"{names[twice.pop()]!r} stands twice at level {level}; rename one of the two"
                )
        found |= {step: (*found[step[:-1]], names[step]) for step in own}
    del found[()]
    return found


def _alike(names: Mapping[ClassPath, str]) -> set[ClassPath]:
    """Those whose name is also another's."""
    counts = Counter(names.values())
    return {step for step, name in names.items() if counts[name] > 1}


def plain_names(path: Sequence[str]) -> list[str]:
    """The names as the other program has them: the inverse of `unique_names`."""
    return [name.removeprefix(f"{path[level - 1]}/") if level else name for level, name in enumerate(path)]
