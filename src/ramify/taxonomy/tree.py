"""The label tree: levels 1 (coarsest) to H (the leaves), and integer maps between them."""

from __future__ import annotations

import difflib
import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from ramify.errors import RamifyError
from ramify.taxonomy.rows import IntArray, Where, index_rows
from ramify.typed import shown


class Taxonomy:
    """An immutable tree of classes in which all leaves are equally deep.

    At each level the classes are the integers 0..n-1, in order of first appearance among the leaves. A name
    is unique within its level; the same word may stand at two levels. The root above level 1 is not a class.

        >>> tree = Taxonomy.from_rows([("plant", "rose"), ("animal", "cat"), ("animal", "dog")])
        >>> tree.sizes, tree.names(1), tree.leaf_to(1).tolist()
        ((2, 3), ('plant', 'animal'), [0, 1, 1])
    """

    def __init__(
        self,
        names: tuple[tuple[str, ...], ...],
        classes: IntArray,
        leaf_attributes: Mapping[str, tuple[str, ...]],
    ) -> None:
        self._names = names
        self._classes = classes  # [depth, leaves]: the class of each leaf at each level
        self._classes.flags.writeable = False
        self.leaf_attributes = dict(leaf_attributes)

    @classmethod
    def from_rows(
        cls,
        rows: Sequence[Sequence[str]],
        leaf_attributes: Mapping[str, Sequence[str]] | None = None,
        *,
        pad: bool = False,
        where: Where = lambda i: f"row {i + 1}",
    ) -> Taxonomy:
        """The tree of one row of names a leaf, coarse to fine; `pad` repeats shallow leaves downwards."""
        names, classes = index_rows(rows, pad, where)
        attributes = {key: tuple(values) for key, values in (leaf_attributes or {}).items()}
        for key, values in attributes.items():
            if len(values) != len(rows):
                raise RamifyError(f"leaf attribute {key!r} has {len(values)} values for {len(rows)} leaves")
        return cls(names, classes, attributes)

    @property
    def depth(self) -> int:
        """The number of levels H."""
        return len(self._names)

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """The number of classes at each level, coarse to fine."""
        return tuple(len(level) for level in self._names)

    @property
    def nodes(self) -> int:
        """The number of classes over all levels, without the root."""
        return sum(self.sizes)

    @property
    def leaves(self) -> int:
        """The number of classes at the deepest level."""
        return self.sizes[-1]

    @cached_property
    def leaf_levels(self) -> IntArray:
        """The level at which each leaf ends."""
        return (self._classes >= 0).sum(0)

    @property
    def branching_factor(self) -> float:
        """Mean number of children of the inner nodes, the root among them."""
        return self.nodes / (self.nodes - self.leaves + 1)

    @cached_property
    def mean_leaf_distance(self) -> float:
        """Mean number of edges between two distinct leaves (0 for a single leaf)."""
        same = sum(int((np.bincount(row) ** 2).sum()) for row in self._classes)
        pairs = self.leaves * (self.leaves - 1)
        return 2 * (self.depth * self.leaves**2 - same) / pairs if pairs else 0.0

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 over the names and their order; leaf attributes do not count."""
        content = json.dumps([self._names, self._classes.tolist()], separators=(",", ":"))
        return hashlib.sha256(content.encode()).hexdigest()

    def names(self, level: int) -> tuple[str, ...]:
        """The names of the classes at `level`."""
        return self._names[self._row(level)]

    def index(self, level: int, name: str) -> int:
        """The class called `name` at `level`."""
        index = self._indices[self._row(level)].get(name)
        if index is None:
            near = difflib.get_close_matches(name, self.names(level), n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"it has {', '.join(self.names(level)[:5])}, …"
            raise RamifyError(f"no class {name!r} at level {level}; {hint}")
        return index

    def leaf_to(self, level: int) -> IntArray:
        """The map leaf → class at `level`, an array over the leaves (read-only, not copied)."""
        row: IntArray = self._classes[self._row(level)]
        return row

    def up(self, from_level: int, to_level: int) -> IntArray:
        """The map class at `from_level` → its ancestor at `to_level`."""
        if self._row(to_level) > self._row(from_level):
            raise RamifyError(
                f"level {to_level} is not above level {from_level}: a class has one ancestor, not one heir"
            )
        first_leaves = np.unique(self.leaf_to(from_level), return_index=True)[1]
        return self.leaf_to(to_level)[first_leaves]

    def parent(self, level: int, index: int) -> int:
        """The parent, at `level - 1`, of a class at `level`."""
        if level == 1:
            raise RamifyError("classes of level 1 have no parent class: only the root is above them")
        return int(self.up(level, level - 1)[self._checked(level, index)])

    def children(self, level: int, index: int) -> IntArray:
        """The children, at `level + 1`, of a class at `level`."""
        return np.flatnonzero(self.up(level + 1, level) == self._checked(level, index))

    def leaves_below(self, level: int, index: int) -> IntArray:
        """The leaves whose ancestor at `level` is the class `index`."""
        return np.flatnonzero(self.leaf_to(level) == self._checked(level, index))

    def path(self, leaf: int) -> tuple[str, ...]:
        """The names from level 1 down to the leaf."""
        column = self._classes[:, self._checked(self.depth, leaf)]
        return tuple(names[i] for names, i in zip(self._names, column, strict=True))

    def lca_height(self, a: npt.ArrayLike, b: npt.ArrayLike) -> IntArray:
        """Height of the lowest common ancestor of leaves `a` and `b`: 0 = same leaf, H = only the root."""
        for leaves in (np.asarray(a), np.asarray(b)):
            if leaves.size and leaves.dtype.kind not in "iu":
                raise RamifyError(f"leaves are {leaves.dtype}: give their numbers, 0 to {self.leaves - 1}")
            if leaves.size and not 0 <= leaves.min() <= leaves.max() < self.leaves:
                raise RamifyError(
                    f"leaves run from {leaves.min()} to {leaves.max()}: the tree has 0 to {self.leaves - 1}"
                )
        # Two leaves that share a class at one level share it at all coarser ones.
        differs = self._classes.T[np.asarray(a)] != self._classes.T[np.asarray(b)]
        return np.asarray(differs.sum(axis=-1, dtype=np.int64))

    def lca(self, a: npt.ArrayLike, b: npt.ArrayLike) -> tuple[IntArray, IntArray]:
        """Level and class of the lowest common ancestor of leaves; the root is level 0, class -1."""
        level = self.depth - self.lca_height(a, b)
        index = np.where(level > 0, self._classes[level - 1, np.broadcast_to(np.asarray(a), level.shape)], -1)
        return level, index

    def order(self, level: int) -> IntArray:
        """The classes of `level` in depth-first order, so that relatives stand together."""
        return np.lexsort([self.up(level, above) for above in range(self._row(level) + 1, 0, -1)])

    def restrict(self, levels: Sequence[int]) -> Taxonomy:
        """The tree of these levels alone, renumbered from 1; the last of them becomes the leaves."""
        chosen = tuple(self._row(level) + 1 for level in levels) if isinstance(levels, Iterable) else ()
        if not chosen or any(a >= b for a, b in pairwise(chosen)):
            raise RamifyError(f"levels {shown(levels)} must be a list of one or more, in rising order")
        classes = np.stack([self.up(chosen[-1], level) for level in chosen])
        attributes = self.leaf_attributes if chosen[-1] == self.depth else {}
        return Taxonomy(tuple(self.names(level) for level in chosen), classes, attributes)

    @cached_property
    def _indices(self) -> list[dict[str, int]]:
        return [{name: i for i, name in enumerate(level)} for level in self._names]

    def _row(self, level: int) -> int:
        if not isinstance(level, int | np.integer) or not 1 <= level <= self.depth:
            raise RamifyError(f"no level {shown(level)}: this tree has levels 1 to {self.depth}")
        return level - 1

    def _checked(self, level: int, index: int) -> int:
        size = len(self.names(level))
        if not isinstance(index, int | np.integer) or not 0 <= index < size:
            raise RamifyError(f"no class {shown(index)} at level {level}: it has 0 to {size - 1}")
        return index

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Taxonomy) and self.fingerprint == other.fingerprint

    def __hash__(self) -> int:
        return hash(self.fingerprint)

    def __repr__(self) -> str:
        return f"Taxonomy({'/'.join(map(str, self.sizes))})"
