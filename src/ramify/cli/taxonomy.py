"""`ramify taxonomy show`: a label tree on the terminal."""

from __future__ import annotations

from ramify.cli.parser import Parser
from ramify.console import screen


def main(argv: list[str]) -> int:
    """Run `ramify taxonomy`."""
    parser = Parser(prog="ramify taxonomy", description="Show a label tree.")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    show = commands.add_parser("show", help="print a tree with the number of leaves below each class")
    show.add_argument(
        "tree",
        metavar="FILE|NAME",
        help="a CSV of leaves or edges, nested JSON, a folder of class folders, a built-in tree (cifar100, "
        "cifar100-2, stanford-cars, imagenet-hier100, cub200, tiny-imagenet), or a dataset that is present",
    )
    show.add_argument("--data-dir", help="where datasets live (default: RAMIFY_DATA, else the user's cache)")
    show.add_argument("--all", action="store_true", help="fold nothing")
    show.add_argument("--pad", action="store_true", help="repeat leaves that are less deep downwards")
    args = parser.parse_args(argv)

    from ramify.datasets import SOURCES, dataset_tree
    from ramify.datasets.hf import PREFIX
    from ramify.taxonomy import builtin_trees, read_taxonomy
    from ramify.taxonomy.show import render, statistics

    named = args.tree not in builtin_trees() and (args.tree in SOURCES or args.tree.startswith(PREFIX))
    if named:
        tree = dataset_tree(args.tree, args.data_dir, args.pad)
    else:
        tree = read_taxonomy(args.tree, pad=args.pad)
    console = screen(highlight=False)
    console.print(render(tree, args.tree, args.all))
    console.print(statistics(tree), soft_wrap=True)
    return 0
