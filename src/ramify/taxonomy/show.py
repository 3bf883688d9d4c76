"""A label tree on the terminal, folded where it is large."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from rich.text import Text
from rich.tree import Tree

from ramify.taxonomy.tree import Taxonomy

FULL_LINES = 60
FOLDED_NAMES = 6


def render(
    tree: Taxonomy, title: str, everything: bool = False, real: Sequence[Collection[str]] | None = None
) -> Tree:
    """The tree with the number of leaves below each class.

    Levels are drawn from the top down while they fit in 60 lines; the classes of the next level are folded
    into their parent's line, and a level 1 that is itself longer is cut. `everything` folds nothing. `real`
    says which names of each level are classes, where the tree repeats those without children downwards.
    """
    shown = tree.depth
    sizes = tree.sizes if real is None else tuple(map(len, real))
    repeated = [set[int]()] * tree.depth if real is None else _repeated(tree, real)
    while not everything and shown > 1 and sum(sizes[:shown]) > FULL_LINES:
        shown -= 1
    heading = Text(title, style="bold").append(
        f"  {tree.depth} level{'s' if tree.depth > 1 else ''} of {'/'.join(map(str, sizes))} classes",
        style="not bold",
    )
    root = Tree(heading, guide_style="dim")
    branches: dict[int, Tree] = {}
    for level in range(1, shown + 1):
        above, branches = branches, {}
        counts = [len(tree.leaves_below(level, i)) for i in range(tree.sizes[level - 1])]
        order = [i for i in tree.order(level).tolist() if i not in repeated[level - 1]]
        drawn = order if level > 1 or everything else order[:FULL_LINES]
        for i in drawn:
            label = Text(tree.names(level)[i], no_wrap=True, overflow="ellipsis")
            below = [] if level == tree.depth else tree.children(level, i).tolist()
            children = [child for child in below if child not in repeated[level]]
            if children:
                label.append(f"  {counts[i]}", style="cyan")
            if level == shown and children:
                first = [tree.names(level + 1)[child] for child in children[:FOLDED_NAMES]]
                more = ["…"] if len(children) > len(first) else []
                label.append(f"  {', '.join(first + more)}", style="dim")
            branches[i] = (root if level == 1 else above[tree.parent(level, i)]).add(label)
    if len(root.children) < tree.sizes[0]:
        root.add(Text(f"… {tree.sizes[0] - len(root.children)} more", style="dim"))
    return root


def _repeated(tree: Taxonomy, real: Sequence[Collection[str]]) -> list[set[int]]:
    """The entries of each level that only stand for a class above them: neither a class nor above one."""
    found, kept = list[set[int]](), set[int]()
    for level in range(tree.depth, 0, -1):
        above = set() if level == tree.depth else set(tree.up(level + 1, level)[sorted(kept)].tolist())
        kept = above | {i for i, name in enumerate(tree.names(level)) if name in real[level - 1]}
        found.insert(0, set(range(tree.sizes[level - 1])) - kept)
    return found


def statistics(tree: Taxonomy) -> str:
    """Nodes, leaves, branching factor and mean leaf distance in one line."""
    return (
        f"{tree.nodes} nodes, {tree.leaves} leaves, branching factor {tree.branching_factor:.2f}, "
        f"mean leaf distance {tree.mean_leaf_distance:.2f}"
    )
