"""`ramify data`: list, get, check and show datasets."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from ramify.cli.parser import Parser, add_leniency
from ramify.errors import RamifyError
from ramify.plural import counted

if TYPE_CHECKING:
    from ramify.datasets import Dataset


def main(argv: list[str]) -> int:
    """Run `ramify data ...`."""
    args = _parser().parse_args(argv)
    actions = {"list": _list, "get": _get, "check": _check, "show": _show}
    actions[args.action](args)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = Parser(prog="ramify data", description="List, get, check and show datasets.")
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    place = Parser(add_help=False)
    place.add_argument(
        "--data-dir", type=Path, help="where datasets live (default: RAMIFY_DATA, else the user's cache)"
    )
    one = Parser(add_help=False, parents=[place])
    one.add_argument("name", metavar="NAME", help="a dataset's name, or the path of your own")
    one.add_argument(
        "--size",
        "--image-size",
        type=int,
        help="side of the square images, in pixels (default: the dataset's own)",
    )
    one.add_argument("--taxonomy", help="a tree to lay over the classes: a file or a built-in name")
    add_leniency(one)
    actions.add_parser("list", parents=[place], help="the known datasets, and which are present")
    actions.add_parser("get", parents=[one], help="download a dataset and decode its images")
    actions.add_parser("check", parents=[one], help="verify checksums, counts and tree")
    show = actions.add_parser("show", parents=[one], help="draw a contact sheet in the order of the tree")
    show.add_argument("--out", type=Path, help="the PNG file (default: NAME.png)")
    return parser


def _load(args: argparse.Namespace) -> Dataset:
    from ramify.datasets import load_dataset

    return load_dataset(
        args.name,
        args.data_dir,
        image_size=args.size,
        taxonomy=args.taxonomy,
        skip_broken=args.skip_broken,
        any_counts=args.any_counts,
        pad=args.pad,
        thorough=args.action in ("get", "check"),
    )


def _list(args: argparse.Namespace) -> None:
    from ramify.datasets import SOURCES, data_root, is_present

    root = data_root(args.data_dir)
    print(f"datasets below {root}:")
    for source in SOURCES.values():
        print(f"  {source.name:<20}{'present' if is_present(source, root) else 'absent':<9}{source.summary}")
    print("`ramify data get NAME` gets one or says how; a folder, .csv or .parquet of your own is a NAME,")
    print("too, and so is hf:PATH?levels=COARSE,…,FINE, a Hugging Face dataset on disk")


def _get(args: argparse.Namespace) -> None:
    from ramify.datasets import SOURCES, data_root

    source, root = SOURCES.get(args.name), data_root(args.data_dir)
    if source is not None and source.publisher is not None:
        print(f"{source.name}: {source.publisher.page}; licence: {source.publisher.licence}")
    if source is not None and source.get is not None:
        source.get(root, True)
    print(_summary(_load(args)))


def _check(args: argparse.Namespace) -> None:
    import numpy as np

    from ramify.datasets import SOURCES
    from ramify.taxonomy.show import leaf_ends

    dataset = _load(args)
    print(_summary(dataset))
    tree, source = dataset.taxonomy, SOURCES.get(args.name)
    what, ends = "features" if dataset.of_features else "images", leaf_ends(tree)
    print(
        f"tree: {counted(tree.nodes, 'class', 'classes')} in {counted(tree.depth, 'level')}, "
        + " / ".join(map(str, tree.sizes))
        + (f"; of {tree.leaves} leaves {ends}" if ends else "")
    )
    for title, split in (("train", dataset.train), ("test", dataset.test)):
        counts = np.bincount(split.leaves, minlength=tree.leaves)
        print(f"{title}: {counts.min()} to {counts.max()} {what} a leaf")
    found = (len(dataset.train), len(dataset.test))
    if source is not None and source.images not in (None, found):
        print(f"note: published are {source.images[0]:,} train and {source.images[1]:,} test images")
    for note in dataset.notes:
        print(f"note: {note}")
    if source is not None and source.publisher is not None:
        print(f"source: {source.publisher.page}; licence: {source.publisher.licence}")
    dataset.verify()
    kept = "features" if dataset.of_features else "decoded images"
    print(f"{kept}: checksums right; fingerprint {dataset.fingerprint[:16]}")


def _show(args: argparse.Namespace) -> None:
    from ramify.datasets.sheet import contact_sheet
    from ramify.files import beside

    dataset = _load(args)
    if dataset.of_features:
        raise RamifyError(f"{args.name} holds features, not images: there is nothing to be seen")
    out = args.out or Path(f"{dataset.name}.png")
    with beside(out) as temporary:
        contact_sheet(dataset).save(temporary, format="PNG")
    print(f"{out}: {dataset.taxonomy.leaves} classes of {dataset.name}, in the order of the tree")


def _summary(dataset: Dataset) -> str:
    size = dataset.image_size
    if dataset.of_features:
        counts = f"{len(dataset.train):,} train and {len(dataset.test):,} test"
        return f"{dataset.name}: {counts} features of {size:,} values"
    return (
        f"{dataset.name}: {len(dataset.train):,} train and {len(dataset.test):,} test images of {size}×{size}"
    )
