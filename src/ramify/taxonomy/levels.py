"""How levels are told of a tree that is made of some levels of a deeper one."""

from __future__ import annotations

from collections.abc import Sequence


def in_tree(level: int, counted: int) -> str:
    """Where a level stands in the deeper tree, in words for behind it; empty where both count alike.

    >>> in_tree(1, 1), in_tree(1, 3), in_tree(1, -2), in_tree(2, -1)
    ('', ' (tree level 3)', ' (parents of the leaves)', ' (the leaves)')
    """
    if counted < 0:
        above = {-1: "the leaves", -2: "parents of the leaves"}
        return f" ({above.get(counted, f'{-1 - counted} levels above the leaves')})"
    return "" if level == counted else f" (tree level {counted})"


def tree_levels(numbers: Sequence[int]) -> dict[str, int]:
    """By level its number in the deeper tree, for records and results; empty where both count alike.

    >>> tree_levels((3, 4)), tree_levels((1, 2))
    ({'1': 3, '2': 4}, {})
    """
    plain = list(numbers) == list(range(1, len(numbers) + 1))
    return {} if plain else {str(level): int(number) for level, number in enumerate(numbers, 1)}
