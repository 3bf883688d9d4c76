"""The label tree: levels 1 (coarsest) to H (the finest), and integer maps between them."""

from __future__ import annotations

import difflib
import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from ramify.arrays import Ints, Mask
from ramify.errors import RamifyError
from ramify.plural import counted
from ramify.taxonomy.cut import cut
from ramify.taxonomy.levels import in_tree
from ramify.taxonomy.rows import Where, index_rows
from ramify.typed import shown


class Taxonomy:
    """An immutable tree of classes whose leaves may end at different levels.

    At each level the classes are the integers 0..n-1, in order of first appearance among the leaves, before
    any have `moved`. A name is unique within its level; the same word may stand at two levels. The root above
    level 1 is not a class.

    A leaf is what a sample can be: a path of classes from level 1 to its end, below which it has none (-1 in
    all maps). It may end at a class that others go on from: a sample of which no more than that is known.

        >>> tree = Taxonomy.from_rows([("plant",), ("animal", "cat"), ("animal", "dog"), ("animal",)])
        >>> tree.sizes, tree.leaves, tree.leaf_levels.tolist()
        ((2, 2), 4, [1, 2, 2, 1])
        >>> tree.leaf_to(1).tolist(), tree.leaf_to(2).tolist()
        ([0, 1, 1, 1], [-1, 0, 1, -1])
    """

    def __init__(
        self,
        names: tuple[tuple[str, ...], ...],
        classes: Ints,
        leaf_attributes: Mapping[str, tuple[str, ...]],
        level_numbers: Sequence[int] | None = None,
    ) -> None:
        self._names = names
        self.level_numbers = tuple(level_numbers or range(1, len(names) + 1))
        self._classes = classes  # [depth, leaves]: the class of each leaf at each level, -1 below its end
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

    def level_name(self, level: int, about: str = "") -> str:
        """What a level is called: by its number here and, where that is another, in the tree it is of.

        `about` is put in the brackets behind that.

        >>> tree = Taxonomy.from_rows([("plant", "fruit", "apple"), ("animal", "mammal", "dog")])
        >>> tree.level_name(2), tree.restrict((2, 3)).numbered((2, 3)).level_name(2)
        ('level 2', 'level 2 (tree level 3)')
        """
        place = in_tree(level, self.level_numbers[self._row(level)]).strip(" ()")
        inside = "; ".join(filter(None, (place, about)))
        return f"level {level} ({inside})" if inside else f"level {level}"

    def numbered(self, numbers: Sequence[int]) -> Taxonomy:
        """The same tree, told as these levels of a deeper one; below 0, counted from the end of each leaf."""
        given = tuple(numbers) if isinstance(numbers, Sequence) else ()
        if len(given) != self.depth or not all(isinstance(number, int | np.integer) for number in given):
            expected = f"a whole number for each of {counted(self.depth, 'level')}"
            raise RamifyError(f"numbers of levels are {shown(numbers)}; expected {expected}")
        return Taxonomy(self._names, self._classes, self.leaf_attributes, given)

    def numbered_as(self, other: Taxonomy) -> Taxonomy:
        """The same tree, its levels told as those of the one that it comes from, if it is as deep."""
        return self.numbered(other.level_numbers) if other.depth == self.depth else self

    @property
    def nodes(self) -> int:
        """The number of classes over all levels, without the root."""
        return sum(self.sizes)

    @property
    def leaves(self) -> int:
        """The number of leaves, at whatever level they end."""
        return int(self._classes.shape[1])

    @cached_property
    def leaf_levels(self) -> Ints:
        """The level at which each leaf ends."""
        return np.asarray((self._classes >= 0).sum(0, dtype=np.int64))

    @cached_property
    def leaf_names(self) -> tuple[str, ...]:
        """The name of the class at which each leaf ends; it may occur again at another level."""
        rows = self.leaf_levels - 1
        ends = zip(rows.tolist(), self._classes[rows, range(self.leaves)].tolist(), strict=True)
        return tuple(self._names[row][index] for row, index in ends)

    @cached_property
    def leaf_open(self) -> Mask:
        """Whether each leaf ends at a class that others go on from."""
        found = np.zeros(self.leaves, bool)
        for level, (row, below) in enumerate(pairwise(self._classes), 1):
            here = self.leaf_levels == level
            found[here] = np.isin(row[here], row[below >= 0])
        return found

    @cached_property
    def even(self) -> bool:
        """Whether all leaves end at the deepest level; leaf i is then class i of that level."""
        return bool((self._classes >= 0).all())

    @cached_property
    def branching_factor(self) -> float:
        """Mean number of children of the inner nodes, the root among them."""
        inner = sum(len(np.unique(above[below >= 0])) for above, below in pairwise(self._classes))
        return self.nodes / (inner + 1)

    @cached_property
    def mean_leaf_distance(self) -> float:
        """Mean number of edges between two distinct leaves (0 for a single leaf)."""
        same = sum(int((np.bincount(row[row >= 0]) ** 2).sum()) for row in self._classes)
        pairs = self.leaves * (self.leaves - 1)
        return 2 * (int(self.leaf_levels.sum()) * self.leaves - same) / pairs if pairs else 0.0

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
            more = ", …" if len(self.names(level)) > 5 else ""
            hint = (
                f"did you mean {near[0]!r}?" if near else f"it has {', '.join(self.names(level)[:5])}{more}"
            )
            raise RamifyError(f"no class {name!r} at level {level}; {hint}")
        return index

    def leaf_to(self, level: int) -> Ints:
        """The map leaf → class at `level`, -1 for one that ends above (read-only, not copied)."""
        row: Ints = self._classes[self._row(level)]
        return row

    def up(self, from_level: int, to_level: int) -> Ints:
        """The map class at `from_level` → its ancestor at `to_level`; there is one at every coarser level."""
        if self._row(to_level) > self._row(from_level):
            raise RamifyError(
                f"level {to_level} is not above level {from_level}: a class has one ancestor, not one heir"
            )
        return self.leaf_to(to_level)[self._first_leaves[self._row(from_level)]]

    def paths(self, level: int) -> Ints:
        """[class at `level`, levels] → the class itself and its ancestors, -1 below it."""
        found = np.full((len(self.names(level)), self.depth), -1, np.int64)
        found[:, :level] = self._classes[:level, self._first_leaves[self._row(level)]].T
        return found

    def heights(self, level: int) -> Ints:
        """The map class at `level` → the number of levels from it down to its deepest leaf."""
        row = self.leaf_to(level)
        found = np.zeros(len(self.names(level)), np.int64)
        np.maximum.at(found, row[row >= 0], self.leaf_levels[row >= 0] - level)
        return found

    def parent(self, level: int, index: int) -> int:
        """The parent, at `level - 1`, of a class at `level`."""
        if level == 1:
            raise RamifyError("classes of level 1 have no parent class: only the root is above them")
        return int(self.up(level, level - 1)[self._checked(level, index)])

    def children(self, level: int, index: int) -> Ints:
        """The children, at `level + 1`, of a class at `level`."""
        return np.flatnonzero(self.up(level + 1, level) == self._checked(level, index))

    def leaves_below(self, level: int, index: int) -> Ints:
        """The leaves whose ancestor at `level` is the class `index`."""
        return np.flatnonzero(self.leaf_to(level) == self._checked(level, index))

    def path(self, leaf: int) -> tuple[str, ...]:
        """The names from level 1 down to the leaf's end."""
        self._leaf_numbers(leaf)
        column = self._classes[: self.leaf_levels[leaf], leaf]
        return tuple(names[i] for names, i in zip(self._names, column, strict=False))

    def lca_height(self, a: npt.ArrayLike, b: npt.ArrayLike) -> Ints:
        """Height of the lowest common ancestor of leaves: from it down to its deepest leaf, 0 = same leaf.

        Only the root in common is H. Where all leaves are equally deep this is their distance to it.
        """
        first, second = self._leaf_numbers(a), self._leaf_numbers(b)
        return self.height_between(self._classes.T[first], self._classes.T[second])

    def height_between(self, a: Ints, b: Ints) -> Ints:
        """`lca_height` of classes given by their paths [..., levels], -1 below each, as in `paths`."""
        # Two classes that share an ancestor at one level share it at all coarser ones.
        shared = ((a == b) & (a >= 0)).sum(axis=-1, dtype=np.int64)
        found = np.full(shared.shape, self.depth, np.int64)
        paths = np.broadcast_to(a, (*shared.shape, self.depth))
        for level in range(1, self.depth + 1):
            here = shared == level
            found[here] = self.heights(level)[paths[here, level - 1]]
        return np.where((a == b).all(axis=-1), 0, found)

    def order(self, level: int) -> Ints:
        """The classes of `level` in depth-first order, so that relatives stand together."""
        return np.lexsort([self.up(level, above) for above in range(self._row(level) + 1, 0, -1)])

    def leaf_order(self) -> Ints:
        """The leaves in depth-first order; one that ends at a class comes before those that go on from it."""
        return np.lexsort(self._classes[::-1])

    def restrict(self, levels: Sequence[int]) -> Taxonomy:
        """The tree of these levels alone, renumbered from 1, each leaf cut to those of them that it has.

        Levels below 0 count from the end of each leaf, -1 being its own: `restrict((-2, -1))` has all leaves,
        and their parents above them. A leaf with fewer levels than that has its first ones.
        """
        names, classes, place = cut(self._names, self._classes, self.chosen(levels))
        whole = np.array_equal(place, np.arange(self.leaves))
        return Taxonomy(names, classes, self.leaf_attributes if whole and self._ends(levels) else {})

    def moved(self, moves: Iterable[tuple[int, int, int]]) -> Taxonomy:
        """The tree after moves (level, class, new parent), one after the other.

        The classes keep their numbers, and what is below one moves with it. A parent that would be left with
        nothing below it is refused.

            >>> tree = Taxonomy.from_rows([("fruit", "apple"), ("fruit", "tomato"), ("vegetable", "leek")])
            >>> tree.moved([(2, 1, 1)]).path(1)
            ('vegetable', 'tomato')
        """
        classes = self._classes.copy()
        for level, index, parent in moves:
            if level == 1:
                raise RamifyError("classes of level 1 have no parent class: only the root is above them")
            mine = classes[self._row(level)] == self._checked(level, index)
            there = classes[level - 2] == self._checked(level - 1, parent)
            old = classes[level - 2] == classes[level - 2, mine][0]
            if not (old & ~mine).any():
                name = self.names(level)[index]
                raise RamifyError(f"{name!r} cannot move: its parent would have nothing left below it")
            classes[: level - 1, mine] = classes[: level - 1, there][:, :1]
        return Taxonomy(self._names, classes, self.leaf_attributes, self.level_numbers)

    def leaf_in(self, levels: Sequence[int]) -> Ints:
        """The map leaf → leaf of `restrict(levels)`, -1 for one that has none of these levels."""
        return cut(self._names, self._classes, self.chosen(levels))[2]

    def chosen(self, levels: Sequence[int]) -> tuple[int, ...]:
        """Levels to `restrict` to, checked; those below 0 count from 1 where all leaves are equally deep."""
        given = tuple(levels) if isinstance(levels, Iterable) else ()
        if not given or not all(isinstance(level, int | np.integer) for level in given):
            raise RamifyError(f"levels {shown(levels)} must be a list of one or more, in rising order")
        last = all(level < 0 for level in given)
        for level in given:
            self._row(-level if last else level)
        if any(a >= b for a, b in pairwise(given)):
            raise RamifyError(f"levels {shown(levels)} must be a list of one or more, in rising order")
        return tuple(self.depth + 1 + level for level in given) if last and self.even else given

    def _ends(self, levels: Sequence[int]) -> bool:
        """Whether the leaves' own ends are among the levels."""
        return levels[-1] in (-1, self.depth)

    @cached_property
    def _first_leaves(self) -> list[Ints]:
        """At each level the first leaf of each class."""
        found = []
        for row in self._classes:
            classes, first = np.unique(row, return_index=True)
            found.append(first[classes >= 0])
        return found

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

    def _leaf_numbers(self, leaves: npt.ArrayLike) -> Ints:
        found = np.asarray(leaves)
        if found.size and found.dtype.kind not in "iu":
            raise RamifyError(f"leaves are {found.dtype}: give their numbers, 0 to {self.leaves - 1}")
        if found.size and not 0 <= found.min() <= found.max() < self.leaves:
            raise RamifyError(
                f"leaves run from {found.min()} to {found.max()}: the tree has 0 to {self.leaves - 1}"
            )
        return found

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Taxonomy) and self.fingerprint == other.fingerprint

    def __hash__(self) -> int:
        return hash(self.fingerprint)

    def __repr__(self) -> str:
        return f"Taxonomy({'/'.join(map(str, self.sizes))})"
