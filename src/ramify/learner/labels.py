"""What users give as labels and levels."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Any

import numpy as np
from torch import Tensor

from ramify.classes import Classes
from ramify.errors import RamifyError
from ramify.taxonomy import Taxonomy
from ramify.typed import shown

Label = str | int
Levels = int | Sequence[int] | None

DEEPEST = 100


def as_labels(labels: Iterable[Any], classes: Classes) -> list[Label]:
    """Labels as Python strings or integers; a learner knows labels of one of the two kinds only."""
    given = _plain("labels", labels)
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise RamifyError(f"labels is {shown(labels)}; give a list with one label an image")
    values = [_plain("a label", v.squeeze()) if isinstance(v, np.generic | Tensor) else v for v in given]
    kinds = {type(value) for value in (*values, *classes.labels[:1])}
    if wrong := kinds - {str, int}:
        raise RamifyError(f"a label is of type {wrong.pop().__name__}; labels must be strings or integers")
    if len(kinds) > 1:
        raise RamifyError("labels are strings and integers; use one kind, for 1 and '1' would be two labels")
    for value in set(values):
        if isinstance(value, str) and (value.strip() != value or not value or not value.isprintable()):
            raise RamifyError(f"label {value!r} is empty, or has spaces at its ends or control characters")
    return values


def as_levels(level: Levels, labels: list[Label], tree: Taxonomy | None) -> list[int]:
    """The level of each label; where it is left out, the one at which the tree has the label.

    Labels of a learner that was given a tree must stand in it.
    """
    if level is None:
        if tree is None:
            raise RamifyError("level is missing; give level=1 (coarsest), 2, …, or Learner(taxonomy=…)")
        return [_level_in(tree, label) for label in labels]
    given = _plain("level", level)
    one = isinstance(given, str) or not isinstance(given, Iterable)
    levels = [given] * len(labels) if one else list(given)
    if len(levels) != len(labels):
        raise RamifyError(f"{len(levels)} levels for {len(labels)} labels; give one level, or one a label")
    for value in levels:
        whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
        if not whole or not 1 <= value <= DEEPEST:
            raise RamifyError(
                f"level {shown(value)} was given; levels count from 1, the coarsest, to {DEEPEST}"
            )
    found = [int(value) for value in levels]
    if tree is not None:
        for value, label in zip(found, labels, strict=True):
            tree.index(value, str(label))
    return found


def as_pairs(
    labels: Iterable[Any], level: Levels, classes: Classes, tree: Taxonomy | None
) -> list[list[tuple[int, Label]]]:
    """The (level, label) pairs of each image, finest first, from what users give.

    A label with its level, a table {level: label} of several, or None where an image has none.
    """
    given = _plain("labels", labels)
    several = isinstance(given, list | tuple) and any(v is None or isinstance(v, Mapping) for v in given)
    if not several:
        names = as_labels(labels, classes)
        levels = as_levels(level, names, tree)
        return [[pair] for pair in zip(levels, names, strict=True)]
    found = []
    for index, value in enumerate(given):
        if not isinstance(value, Mapping):
            names = [] if value is None else as_labels([value], classes)
            own = level[index] if isinstance(level, list | tuple) and len(level) == len(given) else level
            levels = as_levels(own, names, tree) if names else []
        else:
            names = as_labels(list(value.values()), classes)
            levels = as_levels(list(value), names, tree)
        found.append(sorted(zip(levels, names, strict=True), reverse=True))
    return found


def _plain(name: str, given: Any) -> Any:
    """What arrays and tensors hold, as Python values; what has no order of its own is refused."""
    if isinstance(given, Set | Mapping) or (isinstance(given, Tensor) and given.is_meta):
        kind = "a tensor without values" if isinstance(given, Tensor) else f"a {type(given).__name__}"
        raise RamifyError(f"{name} is {kind}; give a list with one for each image")
    return given.tolist() if isinstance(given, np.ndarray | np.generic | Tensor) else given


def _level_in(tree: Taxonomy, label: Label) -> int:
    found = [h for h in range(1, tree.depth + 1) if str(label) in tree.names(h)]
    if len(found) == 1:
        return found[0]
    if not found:
        names = [name for h in range(1, tree.depth + 1) for name in tree.names(h)]
        near = difflib.get_close_matches(str(label), names, n=1)
        hint = f"did you mean {near[0]!r}?" if near else "add it there, or give another label"
        raise RamifyError(f"label {label!r} is not in the taxonomy; {hint}")
    raise RamifyError(f"label {label!r} stands at levels {found} of the taxonomy; say which with level=")
