"""What users give as labels and levels."""

from __future__ import annotations

import difflib
import logging
from collections.abc import Iterable, Mapping, Sequence, Set
from itertools import islice, pairwise
from typing import Any

import numpy as np
from torch import Tensor

from ramify.classes import Classes
from ramify.datasets.load import plain
from ramify.errors import RamifyError
from ramify.learner.stated import Stated
from ramify.plural import counted, some
from ramify.taxonomy import Taxonomy
from ramify.taxonomy.edit import ancestry
from ramify.typed import shown

log = logging.getLogger("ramify")

Label = str | int
Levels = int | Sequence[int] | None

DEEPEST = 100
SEVERAL = (Mapping, tuple, list)


def as_labels(labels: Iterable[Any], classes: Classes) -> list[Label]:
    """Labels as Python strings or integers; a learner knows labels of one of the two kinds only."""
    given = _plain("labels", labels)
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise RamifyError(f"labels is {shown(labels)}; give a list with one label an image")
    values = [_plain("a label", v.squeeze()) if isinstance(v, np.generic | Tensor) else v for v in given]
    kinds = {type(value) for value in (*values, *(label for _, _, label in islice(classes, 1)))}
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
    _refuse_uneven(len(levels), len(labels))
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

    A label with its level, a path from level 1 down, a table {level: label} of several, or None where an
    image has none. With a tree, the labels of an image must lie on one path.
    """
    given = _plain("labels", labels)
    rows = given if isinstance(given, str) or not isinstance(given, Iterable) else list(given)
    if not isinstance(rows, list) or not any(v is None or isinstance(v, SEVERAL) for v in rows):
        names = as_labels(rows, classes)
        return [[pair] for pair in zip(as_levels(level, names, tree), names, strict=True)]
    own = _plain("level", level)
    if isinstance(own, str) or not isinstance(own, Iterable):
        own = [own] * len(rows)
    own = list(own)
    _refuse_uneven(len(own), len(rows))
    pairs = [_pairs(value, h) for value, h in zip(rows, own, strict=True)]
    every = iter(as_labels([name for own_pairs in pairs for _, name in own_pairs], classes))  # of one kind
    found = []
    for own_pairs in pairs:
        names, given_levels = list(islice(every, len(own_pairs))), [h for h, _ in own_pairs]
        levels = as_levels(None if any(h is None for h in given_levels) else given_levels, names, tree)
        found.append(sorted(zip(levels, names, strict=True), reverse=True))
        if tree is not None:
            refuse_off_path(found[-1], tree)
    return found


def with_above(labels: Mapping[int, Label], tree: Taxonomy | None) -> dict[int, Label]:
    """Labels by level, with those above the finest that the tree has; what was given stays as it is."""
    if tree is None:
        return dict(labels)
    finest = max((h for h in labels if 0 < h <= tree.depth and str(labels[h]) in tree.names(h)), default=0)
    if not finest:
        return dict(labels)
    kind = type(labels[finest])
    return {h: kind(name) for h, name in enumerate(ancestry(tree, finest, str(labels[finest])), 1)} | dict(
        labels
    )


def refuse_unequal(images: int, labels: int) -> None:
    """Refuse images without a label, and labels without an image."""
    if images != labels:
        raise RamifyError(
            f"{counted(images, 'image')} and {counted(labels, 'label')} were given; each image needs "
            "one label"
        )


def refuse_missing(tree: Taxonomy, classes: Classes) -> None:
    """Refuse a tree that lacks classes that were met: they were renamed or removed in it, or moved."""
    known = [set(tree.names(h)) for h in range(1, tree.depth + 1)]
    missing = [
        f"{label!r} (level {level})"
        for _, level, label in classes
        if level > tree.depth or str(label) not in known[level - 1]
    ]
    if missing:
        raise RamifyError(
            f"the tree lacks {len(missing)} of the classes that the model has learned: "
            f"{some(missing)}; put them back under these names (a tree may grow, and "
            "classes may get other parents), rename them in the model (`ramify edit MODEL rename`), or begin "
            "a new model"
        )


def warn_lookalikes(pairs: list[list[tuple[int, Label]]], classes: Classes) -> None:
    """Warn of a label that is new and differs from a known one in nothing but case, spaces or punctuation.

    So, too, of a name that another level has, unless an image has it at both. Once each, for afterwards it is
    known. Only without a tree: a tree says what is a label.
    """
    fresh = {pair: None for own in pairs for pair in own if classes.find(*pair) is None}
    if not fresh:
        return
    known = {(level, _plainly(label)): label for _, level, label in classes}
    for level, label in fresh:
        like = known.setdefault((level, _plainly(label)), label)
        if like != label:
            log.warning(
                "label %r at level %d is new beside %r: two classes; if it is one, mend the label or give a "
                "taxonomy",
                label,
                level,
                like,
            )
    _warn_of_levels(pairs, fresh, classes)


def _warn_of_levels(
    pairs: list[list[tuple[int, Label]]], fresh: Iterable[tuple[int, Label]], classes: Classes
) -> None:
    both = {label for own in pairs for _, label in own if [name for _, name in own].count(label) > 1}
    levels = {label: level for _, level, label in classes}
    for level, label in fresh:
        other = levels.setdefault(label, level)
        if other != level and isinstance(label, str) and label not in both:
            log.warning(
                "label %r is new at level %d, and level %d has it: two classes; if it is one, mend the level",
                label,
                level,
                other,
            )


def warn_of_second_parents(pairs: list[list[tuple[int, Label]]], classes: Classes, stated: Stated) -> None:
    """Warn of a label that comes with another parent than so far: once, for afterwards both are known."""
    parents: dict[tuple[int, Label], set[tuple[int, Label]]] = {}
    for below, above in {pair: None for own in pairs for pair in pairwise(own)}:
        number = classes.find(*below)
        known = () if number is None else stated.parents(classes, number)
        so_far = parents.setdefault(below, {(int(classes.level_of[c]), classes.labels[c]) for c in known})
        if so_far and above not in so_far and above[0] in {level for level, _ in so_far}:
            log.warning(
                "label %r at level %d comes under %r, and came under %r: a name stands once within a level, "
                "so it is one class; if it is two, rename one",
                below[1],
                below[0],
                above[1],
                min(label for level, label in so_far if level == above[0]),
            )
        so_far.add(above)


def _plainly(label: Label) -> Label:
    return plain(label) or label if isinstance(label, str) else label


def _pairs(value: Any, level: Any) -> list[tuple[Any, Any]]:
    """The levels and labels of one image as they were given."""
    if value is None:
        return []
    if isinstance(value, tuple | list):
        if level is not None:
            raise RamifyError(
                f"label {shown(value)} is a path from level 1 down; leave level out, or give one label"
            )
        return [(h, name) for h, name in enumerate(value, 1) if name is not None]
    return list(value.items()) if isinstance(value, Mapping) else [(level, value)]


def refuse_off_path(pairs: Sequence[tuple[int, Label]], tree: Taxonomy) -> None:
    """Refuse labels of one image, finest first, of which one is not above the other in the tree."""
    for (level, label), (above, ancestor) in pairwise(pairs):
        up = tree.names(above)[int(tree.up(level, above)[tree.index(level, str(label))])]
        if up != str(ancestor):
            raise RamifyError(
                f"an image has the labels {ancestor!r} (level {above}) and {label!r} (level {level}), which "
                f"the taxonomy has under {up!r}; mend one of them, or move the label"
            )


def _refuse_uneven(levels: int, labels: int) -> None:
    if levels != labels:
        raise RamifyError(
            f"{counted(levels, 'level')} for {counted(labels, 'label')}; give one level, or one a label"
        )


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
        hint = (
            f"did you mean {near[0]!r}? A new one is added to the tree first"
            if near
            else "add it there, or give another label"
        )
        raise RamifyError(f"label {label!r} is not in the taxonomy; {hint}")
    raise RamifyError(f"label {label!r} stands at levels {found} of the taxonomy; say which with level=")
