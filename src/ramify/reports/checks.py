"""What the files of a run may say, given its tree: whatever is drawn lies within these bounds."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from ramify.arrays import Array
from ramify.errors import RamifyError
from ramify.evaluation.anytime import Record
from ramify.evaluation.own import ALL
from ramify.runs.config import Config
from ramify.runs.result import Result
from ramify.taxonomy import Taxonomy, builtin_trees, read_taxonomy
from ramify.taxonomy.levels import tree_levels

PARTS: dict[str, type] = {
    "dataset": dict,
    "versions": dict,
    "command": list,
    "code": dict,
}  # of config.json, where given


def check_facts(facts: Mapping[str, Any], where: str) -> None:
    """The parts of config.json that reports use."""
    stream = facts.get("stream")
    tasks = stream.get("tasks") if isinstance(stream, dict) else None
    sizes = [task.get("samples") if isinstance(task, dict) else None for task in _listed(tasks)]
    if not sizes or any(type(size) is not int or size < 1 for size in sizes):
        raise RamifyError(f"{where}: no usable 'stream': it must have tasks, each of 1 sample or more")
    for name, kind in PARTS.items():
        if not isinstance(facts.get(name, kind()), kind):
            raise RamifyError(f"{where}: no usable {name!r}: it must be a {kind.__name__}")
    if not isinstance(facts.get("preset"), str | None):
        raise RamifyError(f"{where}: no usable 'preset': it must be a name")


def moved_tree(tree: Taxonomy, facts: Mapping[str, Any], where: str) -> Taxonomy:
    """The tree after the moves that a stream's facts tell of, if any."""
    moves = facts["stream"].get("moves", [])
    rows = [tuple(move) if isinstance(move, list) else () for move in _listed(moves)]
    if not isinstance(moves, list) or any(len(row) != 4 or {*map(type, row)} != {int} for row in rows):
        raise RamifyError(
            f"{where}: no usable 'stream.moves': each has a task, a level, a class and a parent"
        )
    try:
        return tree.moved(row[1:] for row in sorted(rows, key=lambda row: row[0])) if rows else tree
    except RamifyError as error:
        raise RamifyError(f"{where}: {error}") from None


def told_tree(tree: Taxonomy, facts: Mapping[str, Any], config: Config, where: str) -> Taxonomy:
    """The tree of a stream, its levels told as those of the dataset's tree that they are.

    Older runs have not written which; where the tree is known by the dataset's name, they are found there.
    """
    levels, depth = facts["stream"].get("levels"), facts["stream"].get("depth", tree.depth)
    if type(depth) is not int:
        raise RamifyError(f"{where}: no usable 'stream.depth': it must be a whole number")
    if levels is None:
        return tree.numbered(_found(tree, config))
    if not isinstance(levels, list) or {*map(type, levels)} != {int} or len(levels) != tree.depth:
        raise RamifyError(
            f"{where}: no usable 'stream.levels': it must have a number for each level of the tree"
        )
    return tree.numbered(levels)


def _found(tree: Taxonomy, config: Config) -> tuple[int, ...]:
    plain = tuple(range(1, tree.depth + 1))
    if config.taxonomy is not None or config.dataset not in builtin_trees():
        return plain
    whole = read_taxonomy(config.dataset)
    last = tuple(range(whole.depth - tree.depth + 1, whole.depth + 1))
    return last if last[0] > 0 and whole.restrict(last) == tree else plain


def check_record(record: Record, tree: Taxonomy, where: str) -> None:
    """One any-time evaluation, whose values are within their bounds already."""
    for name in ("accuracy", "classes_seen", "memory", "memory_classes"):
        _levels(where, name, getattr(record, name), tree)
    _own(where, record.metrics, tree)
    _deeper(where, record.tree_levels, tree)
    if not record.accuracy.keys() <= record.classes_seen.keys():
        raise RamifyError(f"{where}: classes_seen lacks a level of accuracy; both must have the same")
    for level, stored in record.memory_classes.items():
        size = tree.sizes[int(level) - 1]
        if len(stored) != size or min(stored) < 0:
            raise RamifyError(
                f"{where}: memory_classes.{level} has {len(stored)} counts; it must have {size}, 0 or more"
            )


def check_result(result: Result, tree: Taxonomy, where: str) -> None:
    """The figures of a finished run, likewise."""
    for name in ("final_accuracy", "auc", "average_accuracy", "forgetting", "balanced_accuracy", "aurc"):
        _levels(where, name, getattr(result, name), tree)
    _own(where, result.metrics, tree)
    _deeper(where, result.tree_levels, tree)
    severity = result.mistake_severity
    if severity.keys() != {"mistakes", "all"}:
        raise RamifyError(f"{where}: mistake_severity must have 'mistakes' and 'all', and nothing else")
    for name, value in severity.items():
        if value is not None and not 0 <= value <= tree.depth:
            raise RamifyError(f"{where}: {name} is {value}; it must be within 0..{tree.depth}")


def check_classes(classes: Array, name: str, least: int, tree: Taxonomy, where: str) -> None:
    """Classes at every level of the tree, [n, levels], from `least` on."""
    if classes.dtype.kind not in "iu" or classes.ndim != 2 or classes.shape[1] != tree.depth:
        raise RamifyError(
            f"{where}: {name} is {classes.dtype} {classes.shape}; it must be whole numbers [n, {tree.depth}]"
        )
    if len(classes) and ((classes < least).any() or (classes >= np.array(tree.sizes)).any()):
        raise RamifyError(f"{where}: {name} has classes that the tree {tree.sizes} does not have")


def check_class_accuracy(shares: Array, level: int, tree: Taxonomy, where: str) -> None:
    """The accuracy of each class of a level at each task's end, [tasks, classes], nan for not yet seen."""
    size = tree.sizes[level - 1]
    if shares.dtype.kind != "f" or shares.ndim != 2 or not len(shares) or shares.shape[1] != size:
        raise RamifyError(
            f"{where}: accuracy.{level} is {shares.dtype} {shares.shape}; it must be floats [tasks, {size}]"
        )
    known = shares[~np.isnan(shares)]
    if ((known < 0) | (known > 1)).any():
        raise RamifyError(f"{where}: accuracy.{level} has values outside 0..1")


def check_probability(values: Array, predictions: Array, where: str) -> None:
    """The probability of each answer, [n, levels]."""
    given = predictions >= 0
    if values.dtype.kind != "f" or values.shape != predictions.shape:
        raise RamifyError(
            f"{where}: probability is {values.dtype} {values.shape}; it must be floats {predictions.shape}"
        )
    if not ((values[given] >= 0) & (values[given] <= 1)).all():
        raise RamifyError(f"{where}: probability has answers outside 0..1")


def check_nearest(images: Array, nearest: Array, count: int, tree: Taxonomy, where: str) -> None:
    """Test images [m], and of each the nearest stored samples [m, k, 3]: image, level, class; -1 for none."""
    kinds = images.dtype.kind + nearest.dtype.kind
    if kinds != "ii" or nearest.ndim != 3 or nearest.shape[::2] != (*images.shape, 3):
        raise RamifyError(
            f"{where}: mistakes {images.shape} and nearest {nearest.shape}; they must be whole numbers [m] "
            "and [m, k, 3]"
        )
    level, cls = nearest[nearest[..., 0] >= 0].T[1:]
    if not (((images >= 0) & (images < count)).all() and ((level >= 1) & (level <= tree.depth)).all()):
        raise RamifyError(f"{where}: mistakes has images or nearest has levels that are not there")
    if not ((cls >= 0) & (cls < np.array(tree.sizes)[level - 1])).all():
        raise RamifyError(f"{where}: nearest has classes that the tree {tree.sizes} does not have")


def _listed(values: Any) -> Iterable[Any]:
    return values if isinstance(values, list) else ()


def _own(where: str, metrics: Mapping[str, Mapping[str, float]], tree: Taxonomy) -> None:
    for name, values in metrics.items():
        _levels(where, f"metrics.{name:.40}", {key: v for key, v in values.items() if key != ALL}, tree)
        if not all(map(math.isfinite, values.values())):
            raise RamifyError(f"{where}: metrics.{name:.40} has a value that is not a finite number")


def _deeper(where: str, told: Mapping[str, int], tree: Taxonomy) -> None:
    """Older files tell no levels of the dataset's tree."""
    known = tree_levels(tree.level_numbers)
    if told and told != known:
        raise RamifyError(f"{where}: tree_levels is {dict(told)}; its config gives {known or 'none'}")


def _levels(where: str, name: str, values: Mapping[str, Any], tree: Taxonomy) -> None:
    strange = [level for level in values if level not in map(str, range(1, tree.depth + 1))]
    if strange:
        raise RamifyError(f"{where}: {name} has level {strange[0]!r:.20}; the tree has 1 to {tree.depth}")
