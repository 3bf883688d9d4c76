"""The classes that a learner has met, in order of first sight: labels and levels, no tree."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, ClassVar

import numpy as np

from ramify.arrays import Ints
from ramify.errors import RamifyError
from ramify.state import Stateful

Pair = tuple[int, Any]  # level and label


class Classes(Stateful):
    """Numbers every (level, label) pair when it is first seen; a number never changes.

    A class that has ended (merged into another, or forgotten) keeps its number, at level 0 and without label.

    >>> classes = Classes()
    >>> classes.meet(1, "animal", when=0), classes.meet(2, "dog", when=5), classes.meet(1, "animal", when=9)
    (0, 1, 0)
    >>> classes.of_level(2).tolist(), classes.first_seen.tolist()
    ([1], [0, 5])
    """

    _state: ClassVar[tuple[str, ...]] = ("labels", "level_of", "first_seen", "seen")

    def __init__(self) -> None:
        self.labels: list[Any] = []  # class -> label as the user gave it
        self.level_of: Ints = np.empty(0, np.int64)
        self.first_seen: Ints = np.empty(0, np.int64)  # T_c of eq. 4: stream samples seen before the class
        self.seen: Ints = np.empty(0, np.int64)  # stream samples with the class's label so far
        self._number: dict[tuple[int, Any], int] = {}
        self._of_level: dict[int, Ints] = {}

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def levels(self) -> list[int]:
        """The levels met so far, coarsest first."""
        return sorted(self._of_level)

    def of_level(self, level: int) -> Ints:
        """The classes of one level, in order of first sight."""
        return self._of_level.get(level, np.empty(0, np.int64))

    def find(self, level: int, label: Any) -> int | None:
        """The class's number, or None if it has not been met."""
        return self._number.get((level, label))

    def meet(self, level: int, label: Any, when: int) -> int:
        """The class's number; a class met for the first time gets the next one."""
        known = self._number.get((level, label))
        if known is not None:
            return known
        if level < 1:
            raise RamifyError(f"level {level} was given; levels count from 1, the coarsest")
        self._number[level, label] = len(self.labels)
        self.labels.append(label)
        self.level_of = np.append(self.level_of, level)
        self.first_seen = np.append(self.first_seen, when)
        self.seen = np.append(self.seen, 0)
        self._of_level[level] = np.append(self.of_level(level), len(self.labels) - 1)
        return len(self.labels) - 1

    def __iter__(self) -> Iterator[tuple[int, int, Any]]:
        """Number, level and label of every class, those that have ended left out."""
        levels = zip(self.level_of.tolist(), self.labels, strict=True)
        return ((number, level, label) for number, (level, label) in enumerate(levels) if level)

    def by_level(self, numbers: Iterable[int]) -> dict[int, Any]:
        """The labels of some classes by their level."""
        return {int(self.level_of[cls]): self.labels[cls] for cls in numbers}

    def rename(self, cls: int, label: Any) -> None:
        """Give a class another label."""
        del self._number[int(self.level_of[cls]), self.labels[cls]]
        self.labels[cls] = label
        self._number[int(self.level_of[cls]), label] = cls

    def begin_again(self, cls: int, level: int, label: Any, first_seen: int, seen: int) -> None:
        """A class that has ended is there again."""
        self.labels[cls] = label
        self.level_of = self.level_of.copy()
        self.level_of[cls], self.first_seen[cls], self.seen[cls] = level, first_seen, seen
        self._index()

    def end(self, cls: int) -> None:
        """The class is no more."""
        self.labels[cls] = None
        self.level_of = self.level_of.copy()  # others know by the array whether it has changed
        self.level_of[cls] = self.first_seen[cls] = self.seen[cls] = 0
        self._index()

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from `state`."""
        super().restore(state)
        self._index()

    def _index(self) -> None:
        self._number = {(level, label): number for number, level, label in self}
        levels = np.unique(self.level_of[self.level_of > 0]).tolist()
        self._of_level = {level: np.flatnonzero(self.level_of == level) for level in levels}


def check_labels(labels: Sequence[Sequence[Pair]], count: int) -> None:
    """Refuse what is not a list of (level, label) pairs for each sample, at different levels."""
    if len(labels) != count:
        raise RamifyError(
            f"{count} samples and {len(labels)} lists of labels were given; each sample needs one"
        )
    for pairs in labels:
        levels = [level for level, _ in pairs]
        wrong = [h for h in levels if not isinstance(h, int | np.integer) or isinstance(h, bool) or h < 1]
        if wrong:
            raise RamifyError(f"level {wrong[0]!r} was given; levels are whole numbers from 1, the coarsest")
        if len(set(levels)) < len(levels):
            raise RamifyError(f"a sample has two labels at one level, {pairs}; give one a level")
