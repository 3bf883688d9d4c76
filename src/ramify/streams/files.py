"""Streams on disk: one safetensors file, or a CSV of your own."""

from __future__ import annotations

import json
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from ramify.errors import RamifyError
from ramify.files import check_format, write_atomic
from ramify.streams.moves import Move
from ramify.streams.stream import Stream
from ramify.taxonomy import Taxonomy
from ramify.taxonomy.read import read_table, read_text
from ramify.typed import from_dict

FORMAT = "ramify-stream"
VERSION = 1
_ARRAYS = {"image": np.int32, "level": np.uint8, "label": np.int32, "task_starts": np.int32}


@dataclass(frozen=True)
class Facts:
    """What the metadata say of a stream, beside its arrays; the fields are those of `Stream`."""

    setup: str
    seed: int
    levels: tuple[int, ...]
    classes: tuple[int, ...]
    taxonomy: str
    images: int
    settings: dict[str, Any]
    moves: tuple[tuple[int, int, int, int], ...] = ()


def save_stream(stream: Stream, path: Path) -> None:
    """Write a stream: four small integer arrays, and the rest as JSON in the file's metadata."""
    from safetensors.numpy import save

    arrays = {name: getattr(stream, name).astype(dtype) for name, dtype in _ARRAYS.items()}
    facts = {field.name: getattr(stream, field.name) for field in fields(Facts)}
    if not stream.moves:
        del facts["moves"]
    # One key only: safetensors does not keep the order of several, and equal streams should be equal files.
    write_atomic(path, save(arrays, {FORMAT: json.dumps({"version": VERSION, **facts})}))


def load_stream(path: Path) -> Stream:
    """Read and validate a stream that `save_stream` wrote."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="np") as file:
            facts = read_facts((file.metadata() or {}).get(FORMAT), path)
            if sorted(file.keys()) != sorted(_ARRAYS):
                raise RamifyError(
                    f"{path} holds {sorted(file.keys())}, expected {sorted(_ARRAYS)}: not a stream"
                )
            arrays = {name: file.get_tensor(name) for name in _ARRAYS}
    except (SafetensorError, OSError, TypeError, ValueError) as error:
        raise RamifyError(f"cannot read a stream from {path}: {error}") from error
    for name, dtype in _ARRAYS.items():
        if arrays[name].dtype != dtype or arrays[name].ndim != 1:
            found = f"{arrays[name].dtype} of {arrays[name].ndim} dimensions"
            raise RamifyError(
                f"{path}: {name} is {found}, expected a list of {np.dtype(dtype)}: the file is damaged"
            )
    starts, length = arrays.pop("task_starts").astype(np.int64), len(arrays["image"])
    if not len(starts) or starts[0] != 0 or (np.diff(starts, append=length) <= 0).any():
        raise RamifyError(f"{path}: the task starts do not rise from 0 to the end: the file is damaged")
    task = np.repeat(np.arange(len(starts)), np.diff(starts, append=length))
    try:
        return Stream(**arrays, task=task, **(vars(facts) | {"moves": tuple(Move(*m) for m in facts.moves)}))
    except RamifyError as error:
        raise RamifyError(f"{path} is damaged: {error}") from error


def read_facts(text: str | None, path: Path) -> Facts:
    """The metadata of a stream's file."""
    try:
        facts = json.loads(text or "null")
    except (ValueError, RecursionError):
        facts = None
    if not isinstance(facts, dict):
        raise RamifyError(f"{path} is no ramify stream: its metadata has no readable {FORMAT!r}")
    check_format(facts.pop("version", None), path, VERSION)
    return from_dict(Facts, facts, f"{path} is damaged")


def read_csv(path: Path, taxonomy: Taxonomy, images: int) -> Stream:
    """Read a stream from CSV columns `image,level,label[,task]`, one row an arrival.

    `image` is an index among the training images, `level` a level of the dataset's tree (or of each leaf, -1
    its own, -2 its parent's), `label` a class name or index of that level (a name wins), `task` counts 0, 1,
    2, … The stream uses the levels that occur.
    """
    header, rows, lines = read_table(read_text(path), path.name)
    if not {"image", "level", "label"} <= set(header) <= {"image", "level", "label", "task"}:
        raise RamifyError(
            f"{path.name} line 1: columns {','.join(header)!r}, expected image,level,label[,task]"
        )
    if not rows:
        raise RamifyError(f"{path.name} has no rows below its header: expected one row an arrival")
    columns = {name: header.index(name) for name in header}
    table = np.zeros((4, len(rows)), np.int64)  # image, level, label, task
    table[1] = [
        _level(row[columns["level"]], taxonomy.depth, f"{path.name} line {line}")
        for row, line in zip(rows, lines, strict=True)
    ]
    levels, renumbered = np.unique(table[1], return_inverse=True)
    if levels[0] < 0 < levels[-1]:
        raise RamifyError(f"{path.name}: levels {levels.tolist()}: count all from 1, or all from -1")
    tree = taxonomy.restrict(levels.tolist())
    index = {int(h): {name: i for i, name in enumerate(tree.names(k))} for k, h in enumerate(levels, 1)}
    for i, (row, line) in enumerate(zip(rows, lines, strict=True)):
        where = f"{path.name} line {line}"
        table[0, i] = _number(row[columns["image"]], 0, images, "image", where)
        level = int(table[1, i])
        names, text = index[level], row[columns["label"]]
        known = names.get(text)
        table[2, i] = (
            _number(text, 0, len(names), f"label at level {level}", where) if known is None else known
        )
        if "task" in columns:
            table[3, i] = _number(row[columns["task"]], 0, len(rows), "task", where)
    steps = np.diff(table[3], prepend=0)
    jumps = np.flatnonzero((steps < 0) | (steps > np.minimum(np.arange(len(rows)), 1)))
    if len(jumps):
        raise RamifyError(f"{path.name} line {lines[jumps[0]]}: number the tasks 0, 1, 2, … in order")
    return Stream(
        image=table[0],
        level=renumbered + 1,
        label=table[2],
        task=table[3],
        setup="csv",
        seed=0,
        levels=taxonomy.chosen(levels.tolist()),
        classes=tree.sizes,
        taxonomy=taxonomy.fingerprint,
        images=images,
    )


def _level(text: str, depth: int, where: str) -> int:
    """A level of a tree, or one below 0, counted from the end of a leaf."""
    sign = -1 if text.startswith("-") else 1
    return sign * _number(text.removeprefix("-"), 1, depth + 1, "level", where)


def _number(text: str, low: int, high: int, name: str, where: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) < 16 and low <= int(text) < high):
        raise RamifyError(f"{where}: {name} {text!r}: expected a number from {low} to {high - 1}")
    return int(text)
