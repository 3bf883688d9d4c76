"""A label tree on the terminal, folded where it is large."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from rich.text import Text
from rich.tree import Tree

from ramify.plural import counted
from ramify.taxonomy.tree import Taxonomy

FULL_LINES = 60
FOLDED_NAMES = 6


def render(tree: Taxonomy, title: str, everything: bool = False, sizes: Sequence[int] | None = None) -> Tree:
    """The tree with the number of leaves below each class that has classes below it.

    Levels are drawn from the top down while they fit in 60 lines; the classes of the next level are folded
    into their parent's line, and a level 1 that is itself longer is cut. `everything` folds nothing. `sizes`
    are the numbers of classes to tell, where not all names of the tree are classes.
    """
    shown = tree.depth
    while not everything and shown > 1 and sum(tree.sizes[:shown]) > FULL_LINES:
        shown -= 1
    told = "/".join(map(str, sizes or tree.sizes))
    heading = Text(title, style="bold").append(
        f"  {counted(tree.depth, 'level')} of {told} {'class' if told == '1' else 'classes'}",
        style="not bold",
    )
    root = Tree(heading, guide_style="dim")
    branches: dict[int, Tree] = {}
    for level in range(1, shown + 1):
        above, branches = branches, {}
        row, names, order = tree.leaf_to(level), tree.names(level), tree.order(level).tolist()
        counts = np.bincount(row[row >= 0], minlength=len(names)).tolist()
        parents = None if level == 1 else tree.up(level, level - 1).tolist()
        children = _children(tree, level)
        for i in order if level > 1 or everything else order[:FULL_LINES]:
            label = Text(names[i], no_wrap=True, overflow="ellipsis")
            if children[i]:
                label.append(f"  {counts[i]}", style="cyan")
            if level == shown and children[i]:
                first = [tree.names(level + 1)[child] for child in children[i][:FOLDED_NAMES]]
                more = ["…"] if len(children[i]) > len(first) else []
                label.append(f"  {', '.join(first + more)}", style="dim")
            branches[i] = (root if parents is None else above[parents[i]]).add(label)
    if len(root.children) < tree.sizes[0]:
        root.add(Text(f"… {tree.sizes[0] - len(root.children)} more", style="dim"))
    return root


def _children(tree: Taxonomy, level: int) -> list[list[int]]:
    """The children of each class of a level."""
    found: list[list[int]] = [[] for _ in tree.names(level)]
    if level < tree.depth:
        for child, parent in enumerate(tree.up(level + 1, level).tolist()):
            found[parent].append(child)
    return found


def statistics(tree: Taxonomy) -> str:
    """Nodes, leaves, branching factor and mean leaf distance in one line; in another where leaves end."""
    ends = leaf_ends(tree)
    return (
        f"{tree.nodes} nodes, {tree.leaves} leaves, branching factor {tree.branching_factor:.2f}, "
        f"mean leaf distance {tree.mean_leaf_distance:.2f}" + (f"\nof the leaves {ends}" if ends else "")
    )


def leaf_ends(tree: Taxonomy) -> str:
    """`2 end at level 1, 3 at level 2`; empty where all end at the deepest level."""
    if tree.even:
        return ""
    levels, counts = np.unique(tree.leaf_levels, return_counts=True)
    told = [f"{count:,} at level {level}" for level, count in zip(levels, counts, strict=True)]
    told[0] = told[0].replace(" at", " end at" if counts[0] > 1 else " ends at")
    opened = int(tree.leaf_open.sum())
    return ", ".join(told) + (f"; {opened:,} of them at a class that others go on from" if opened else "")
