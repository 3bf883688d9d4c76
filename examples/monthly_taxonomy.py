"""Grow a product taxonomy month by month: coarse labels first, finer ones as the business learns them.

    python monthly_taxonomy.py                                         # the built-in garden: 4 levels
    python monthly_taxonomy.py --images cars64 --taxonomy stanford-cars --size 64

Each month brings new images, labelled one level finer than the month before. The model takes each image once,
is saved, and is loaded again for the next month. Prints the accuracy at every level after each month, and the
label tree that the model has worked out by itself.
"""

from __future__ import annotations

import argparse
from contextlib import suppress
from pathlib import Path

import numpy as np

import ramify


def main() -> None:
    """Teach, save, load, ask; month after month."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--images", default="garden", help="a dataset's name, or a folder of class folders")
    parser.add_argument("--taxonomy", help="the tree of a flat folder: a file or a name")
    parser.add_argument("--size", type=int, default=32, help="side of the images")
    parser.add_argument("--method", default="pl-fms")
    parser.add_argument("--per-month", type=int, default=1200, help="images a month")
    parser.add_argument("--test", type=int, default=500, help="images to test on")
    parser.add_argument("--model", type=Path, default=Path("product-model"), help="folder of the model")
    options = parser.parse_args()

    dataset = ramify.load_dataset(options.images, image_size=options.size, taxonomy=options.taxonomy)
    tree, rng = dataset.taxonomy, np.random.default_rng(0)
    arrivals = rng.permutation(len(dataset.train))
    asked = rng.permutation(len(dataset.test))[: options.test]
    learner = ramify.Learner(options.method, image_size=options.size, memory_size=500)
    for level in range(1, tree.depth + 1):
        month = arrivals[(level - 1) * options.per_month : level * options.per_month]
        labels = np.array(tree.names(level))[tree.leaf_to(level)[dataset.train.leaves[month]]]
        learner.partial_fit(dataset.train.images[month], labels, level)
        learner.save(options.model)
        learner = ramify.Learner.load(options.model)  # the next month, in another process
        answer = learner.predict(dataset.test.images[asked])
        print(f"month {level}: {len(month)} images labelled with {len(set(labels))} classes of level {level}")
        for known in answer.levels:
            truth = np.array(tree.names(known))[tree.leaf_to(known)[dataset.test.leaves[asked]]]
            print(f"  level {known}: {np.mean(np.array(answer.labels[known]) == truth):.0%} right")
    found = learner.hierarchy()
    right = [
        found.names(h - 1)[found.parent(h, found.index(h, name))] == tree.names(h - 1)[tree.parent(h, i)]
        for h in range(2, found.depth + 1)
        for i, name in enumerate(tree.names(h))
        if name in found.names(h)
    ]
    print(f"parents that the model has worked out by itself: {sum(right)} of {len(right)} right")


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):  # Ctrl-C ends it
        main()
