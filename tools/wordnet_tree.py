"""The label tree that WordNet has above some of its nouns, as a CSV of leaves.

    python tools/wordnet_tree.py WORDNET/data.noun wnids.txt > src/ramify/taxonomy/trees/tiny-imagenet.csv

`data.noun` is that of WordNet 3.0, whose offsets ImageNet's ids are (`n02123394`). A class goes up by its
first hypernym. Left out are classes with one child, which tell nothing apart, and the topmost ones, which
name no kind of thing.
"""

from __future__ import annotations

import argparse
import csv
import sys
from collections import Counter, defaultdict
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple, TextIO

ABSTRACT = {"entity", "physical_entity", "object", "whole", "matter"}


class Synset(NamedTuple):
    """The words of a noun, most frequent first, and the id of its first hypernym (None: the root)."""

    words: tuple[str, ...]
    above: str | None


def read_nouns(path: Path) -> dict[str, Synset]:
    """All nouns of a WordNet database (the format is `man 5 wndb`), by id."""
    nouns = {}
    for line in path.read_text(encoding="latin-1").splitlines():
        if line.startswith(" "):
            continue  # the licence
        cells = line.split(" | ")[0].split()
        count = int(cells[3], 16)
        pointers = cells[5 + 2 * count :]
        above = [pointers[i + 1] for i in range(0, len(pointers), 4) if pointers[i] in ("@", "@i")]
        words = tuple(cells[4 + 2 * i] for i in range(count))
        nouns[f"n{cells[0]}"] = Synset(words, f"n{above[0]}" if above else None)
    return nouns


def tree_rows(nouns: dict[str, Synset], leaves: Sequence[str]) -> list[list[str]]:
    """The names from the coarsest class down to each leaf."""
    paths = [_path(nouns, leaf) for leaf in leaves]
    children = defaultdict(set)
    for path in paths:
        for upper, lower in pairwise(path):
            children[upper].add(lower)
    kept = [
        [i for i in path[:-1] if len(children[i]) > 1 and nouns[i].words[0] not in ABSTRACT] + path[-1:]
        for path in paths
    ]
    return [[_name(nouns, kept, level, i) for level, i in enumerate(path)] for path in kept]


def _path(nouns: dict[str, Synset], leaf: str) -> list[str]:
    path = [leaf]
    while (above := nouns[path[0]].above) is not None:
        path.insert(0, above)
    return path


def _name(nouns: dict[str, Synset], paths: Sequence[Sequence[str]], level: int, which: str) -> str:
    """Its first word; all of them where another class of the level has the same first word."""
    words = nouns[which].words
    first = Counter(nouns[i].words[0] for i in {path[level] for path in paths if len(path) > level})
    return (words[0] if first[words[0]] == 1 else ", ".join(words)).replace("_", " ")


def write(rows: Sequence[Sequence[str]], leaves: Sequence[str], file: TextIO) -> None:
    """One row a leaf, empty below its end, and its id."""
    depth = max(map(len, rows))
    table = csv.writer(file, lineterminator="\n")
    table.writerow([*(f"level{level}" for level in range(1, depth + 1)), "wnid"])
    for row, leaf in zip(rows, leaves, strict=True):
        table.writerow([*row, *[""] * (depth - len(row)), leaf])


def main(argv: Sequence[str] | None = None) -> None:
    """Print the tree."""
    parser = argparse.ArgumentParser(description="The tree that WordNet has above some nouns, as CSV.")
    parser.add_argument("nouns", type=Path, help="data.noun of WordNet 3.0")
    parser.add_argument("leaves", type=Path, help="a file with an id (n02123394) a line")
    args = parser.parse_args(argv)
    leaves = args.leaves.read_text(encoding="utf-8").split()
    write(tree_rows(read_nouns(args.nouns), leaves), leaves, sys.stdout)


if __name__ == "__main__":
    main()
