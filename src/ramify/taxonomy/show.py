"""A label tree on the terminal, folded where it is large."""

from __future__ import annotations

from rich.text import Text
from rich.tree import Tree

from ramify.taxonomy.tree import Taxonomy

FULL_LINES = 60
FOLDED_NAMES = 6


def render(tree: Taxonomy, title: str, everything: bool = False) -> Tree:
    """The tree with the number of leaves below each class.

    Levels are drawn from the top down while they fit in 60 lines; the classes of the next level are folded
    into their parent's line, and a level 1 that is itself longer is cut. `everything` folds nothing.
    """
    shown = tree.depth
    while not everything and shown > 1 and sum(tree.sizes[:shown]) > FULL_LINES:
        shown -= 1
    heading = Text(title, style="bold").append(
        f"  {tree.depth} level{'s' if tree.depth > 1 else ''} of {'/'.join(map(str, tree.sizes))} classes",
        style="not bold",
    )
    root = Tree(heading, guide_style="dim")
    branches: dict[int, Tree] = {}
    for level in range(1, shown + 1):
        above, branches = branches, {}
        counts = [len(tree.leaves_below(level, i)) for i in range(tree.sizes[level - 1])]
        order = tree.order(level).tolist()
        drawn = order if level > 1 or everything else order[:FULL_LINES]
        for i in drawn:
            label = Text(tree.names(level)[i], no_wrap=True, overflow="ellipsis")
            if level < tree.depth:
                label.append(f"  {counts[i]}", style="cyan")
            if level == shown < tree.depth:
                children = tree.children(level, i)
                first = [tree.names(level + 1)[child] for child in children[:FOLDED_NAMES]]
                more = ["…"] if len(children) > len(first) else []
                label.append(f"  {', '.join(first + more)}", style="dim")
            branches[i] = (root if level == 1 else above[tree.parent(level, i)]).add(label)
    if len(root.children) < tree.sizes[0]:
        root.add(Text(f"… {tree.sizes[0] - len(root.children)} more", style="dim"))
    return root


def statistics(tree: Taxonomy) -> str:
    """Nodes, leaves, branching factor and mean leaf distance in one line."""
    return (
        f"{tree.nodes} nodes, {tree.leaves} leaves, branching factor {tree.branching_factor:.2f}, "
        f"mean leaf distance {tree.mean_leaf_distance:.2f}"
    )
