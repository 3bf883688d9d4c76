"""A stream: which image arrives when, with which label at which level."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ramify.arrays import Ints
from ramify.errors import RamifyError
from ramify.streams.moves import Eras, Move

if TYPE_CHECKING:
    from ramify.datasets import Dataset


CHUNK = 2**20  # arrivals at a time


@dataclass(frozen=True, eq=False)
class Stream:
    """Arrivals in order. A learner sees image, level and label; tasks and the tree are for the record only.

    Levels count 1..H over the levels the stream uses: `dataset.taxonomy.restrict(stream.levels)`. An image
    arrives at levels that its leaf has, and not at all if that is none of them.
    """

    image: Ints  # index among the training images
    level: Ints  # 1 = coarsest
    label: Ints  # class within its level
    task: Ints  # from 0, contiguous
    setup: str
    seed: int
    levels: tuple[int, ...]  # levels of the dataset's tree; below 0 counted from the end of each leaf
    classes: tuple[int, ...]  # number of classes at each of these levels
    taxonomy: str  # fingerprint of the dataset's whole tree
    images: int  # number of training images of the dataset
    settings: Mapping[str, Any] = field(default_factory=dict)
    moves: tuple[Move, ...] = ()  # classes that go to another parent on the way

    def __post_init__(self) -> None:
        for name in ("image", "level", "label", "task"):
            array = np.asarray(getattr(self, name))
            if array.ndim != 1 or array.dtype.kind not in "iu":
                raise RamifyError(
                    f"stream: {name} must be a list of integers, found {array.dtype}{array.shape}"
                )
            if array.dtype != np.int64 or array.flags.writeable:  # nobody else may change it
                array = array.astype(np.int64)
                array.flags.writeable = False
            object.__setattr__(self, name, array)
        self._validate()

    def _validate(self) -> None:
        lengths = {name: len(getattr(self, name)) for name in ("image", "level", "label", "task")}
        if len(set(lengths.values())) > 1 or not len(self):
            raise RamifyError(f"stream: expected arrays of one length above 0, found {lengths}")
        if len(self.levels) != len(self.classes) or not _rising(self.levels) or min(self.classes) < 1:
            raise RamifyError(f"stream: levels {self.levels} do not fit class counts {self.classes}")
        _within("image", self.image, np.int64(self.images))
        _within("level", self.level - 1, np.int64(len(self.levels)), shown=self.level)
        _within("label", self.label, np.asarray(self.classes)[self.level - 1])
        if self.task[0] != 0 or not np.isin(np.diff(self.task), (0, 1)).all():
            raise RamifyError("stream: tasks must be numbered 0, 1, 2, … in the order of the stream")
        self._check_moves()

    def _check_moves(self) -> None:
        for move in self.moves:
            fits = 1 <= move.task < self.tasks and 2 <= move.level <= len(self.levels)
            if not fits or not (
                0 <= move.child < self.classes[move.level - 1]
                and 0 <= move.parent < self.classes[move.level - 2]
            ):
                raise RamifyError(
                    f"stream: {move} does not fit {self.tasks} tasks and class counts {self.classes}"
                )

    def __len__(self) -> int:
        return len(self.image)

    @property
    def tasks(self) -> int:
        """The number of tasks."""
        return int(self.task[-1]) + 1

    @cached_property
    def task_starts(self) -> Ints:
        """Position of the first arrival of each task."""
        return np.searchsorted(self.task, np.arange(self.tasks))

    @cached_property
    def first_seen(self) -> Ints:
        """Positions at which a class, of any level, arrives for the first time; rising."""
        offsets = np.concatenate(([0], np.cumsum(self.classes)))
        return np.sort(np.unique(offsets[self.level - 1] + self.label, return_index=True)[1])

    def summary(self) -> list[dict[str, Any]]:
        """For each task its samples, its levels and how many classes it is the first to show."""
        new = np.bincount(self.task[self.first_seen], minlength=self.tasks)
        bounds = [*self.task_starts.tolist(), len(self)]
        return [
            {
                "samples": bounds[t + 1] - bounds[t],
                "levels": np.unique(self.level[bounds[t] : bounds[t + 1]]).tolist(),
                "new_classes": int(new[t]),
            }
            for t in range(self.tasks)
        ]

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 over all arrivals, the levels and the tree."""
        digest = hashlib.sha256(json.dumps([self.levels, self.classes, self.taxonomy, self.images]).encode())
        for array in (self.image, self.level, self.label, self.task):
            for start in range(0, len(array), CHUNK):
                digest.update(array[start : start + CHUNK].astype("<i8").tobytes())
        return digest.hexdigest()

    def check(self, dataset: Dataset) -> None:
        """Refuse, naming the difference, if the stream was not made for this dataset."""
        tree, leaves = dataset.taxonomy, dataset.train.leaves
        if tree.fingerprint != self.taxonomy:
            raise RamifyError(
                f"the stream was made for another tree than that of {dataset.name!r}: its levels "
                f"{list(self.levels)} have {list(self.classes)} classes, the dataset's tree has "
                f"{list(tree.sizes)}; build it anew for this dataset"
            )
        if len(leaves) != self.images:
            raise RamifyError(
                f"the stream is over {self.images} images, {dataset.name!r} has {len(leaves)}: build it anew"
            )
        eras = Eras.of(tree, self.levels, self.moves)
        wrong = np.flatnonzero(labels_of(eras, leaves[self.image], self.level, self.task) != self.label)
        if len(wrong):
            at = wrong[0]
            name = tree.restrict(self.levels).names(int(self.level[at]))[self.label[at]]
            raise RamifyError(
                f"{len(wrong)} labels of the stream are not those of {dataset.name!r}: image "
                f"{self.image[at]}, at position {at}, is no {name!r}; build it anew for this dataset"
            )

    def save(self, path: str | Path) -> None:
        """Write the stream to one file (safetensors), whole or not at all."""
        from ramify.streams.files import save_stream

        save_stream(self, Path(path))

    @classmethod
    def load(cls, path: str | Path) -> Stream:
        """Read a stream that `save` wrote; anything else is refused."""
        from ramify.streams.files import load_stream

        return load_stream(Path(path))

    @classmethod
    def from_csv(cls, path: str | Path, dataset: Dataset) -> Stream:
        """Read your own stream: columns `image,level,label[,task]`; see `ramify.streams.files.read_csv`."""
        from ramify.streams.files import read_csv

        return read_csv(Path(path), dataset.taxonomy, len(dataset.train.leaves))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stream) and all(
            np.array_equal(getattr(self, f.name), getattr(other, f.name)) for f in fields(self)
        )

    __hash__ = None  # type: ignore[assignment]


def labels_of(eras: Eras, leaves: Ints, level: Ints, task: Ints) -> Ints:
    """The class of each leaf of the dataset's tree at its stream level, in its task; -1 for none."""
    labels: Ints = (
        eras.paths[0][leaves, level - 1]
        if len(eras.paths) == 1
        else np.stack(eras.paths)[eras.at(task), leaves, level - 1]
    )
    return labels


def renumbered(levels: Sequence[int], depth: int) -> str:
    """How a stream counts the levels of the tree that it uses, in words; empty where it is as the tree does.

    >>> renumbered((2, 3), 3), renumbered((1, 2, 3), 3), renumbered((1, 2), 3)
    ("levels 2, 3 of the tree's 3 are used, and counted as 1, 2", '', "levels 1, 2 of the tree's 3 are used")
    """
    if list(levels) == list(range(1, depth + 1)):
        return ""
    one, numbering = len(levels) == 1, list(range(1, len(levels) + 1))
    anew = f", and counted as {', '.join(map(str, numbering))}"
    if levels[0] < 0:
        last = f"the last {len(levels)} levels of each leaf are used{anew}"
        return "the leaves are used, of whatever level, as one" if one else last
    numbers = ", ".join(map(str, levels))
    used = f"level{'s' * (not one)} {numbers} of the tree's {depth} {'is' if one else 'are'} used"
    return used if list(levels) == numbering else used + anew


def _rising(levels: Sequence[int]) -> bool:
    one_way = len(levels) > 0 and (levels[0] >= 1 or levels[-1] <= -1)
    return one_way and all(a < b for a, b in pairwise(levels))


def _within(name: str, values: Ints, limits: Any, shown: Ints | None = None) -> None:
    wrong = np.flatnonzero((values < 0) | (values >= limits))
    if len(wrong):
        found = (values if shown is None else shown)[wrong[0]]
        raise RamifyError(f"stream: {name} {found} at position {wrong[0]} is out of range")


def told_levels(facts: Mapping[str, Any]) -> str:
    """Which levels of its tree a run uses and how it counts them, as its config.json says; empty: all."""
    stream = facts.get("stream")
    if not isinstance(stream, dict) or not {"levels", "depth"} <= stream.keys():
        return ""  # of an older run
    return renumbered(stream["levels"], stream["depth"])
