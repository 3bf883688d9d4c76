"""What merging labels costs: labels taught apart and then merged, beside labels taught as one from the start.

python tools/merging.py garden --level 4 --pairs 8 --samples 2400
python tools/merging.py FOLDER --size 64 --level 2 --pairs 30 --samples 4000

Both learners take the same images in the same order. The pairs are drawn among labels with one parent
(`--unlike`: with different ones). Printed are the accuracies at the level on the test images, merged labels
being the truth: of all of them, and of those of the pairs.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np

from ramify import Learner, Taxonomy, load_dataset


def pairs_of(
    tree: Taxonomy, level: int, count: int, unlike: bool, rng: np.random.Generator
) -> list[tuple[int, int]]:
    """Disjoint pairs of classes of a level."""
    above = np.zeros(tree.sizes[level - 1], int) if level == 1 else tree.up(level, level - 1)
    free, found = rng.permutation(tree.sizes[level - 1]).tolist(), list[tuple[int, int]]()
    while free and len(found) < count:
        one = free.pop()
        mates = [other for other in free if (above[other] != above[one]) == unlike]
        if mates:
            free.remove(mates[0])
            found.append((one, mates[0]))
    return found


def main() -> None:
    """Teach both and compare."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("dataset")
    parser.add_argument("--size", type=int)
    parser.add_argument("--taxonomy")
    parser.add_argument("--level", type=int, default=2)
    parser.add_argument("--pairs", type=int, default=6)
    parser.add_argument("--unlike", action="store_true")
    parser.add_argument("--samples", type=int, default=2000)
    parser.add_argument("--test", type=int, default=100_000, help="test images at most")
    parser.add_argument("--width", type=float, default=0.25)
    parser.add_argument("--method", default="er")
    parser.add_argument("--updates", type=float, default=1.0)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    args = parser.parse_args()
    data = load_dataset(args.dataset, image_size=args.size, taxonomy=args.taxonomy)
    for seed in args.seeds:
        one_seed(args, data, seed)


def one_seed(args, data, seed: int) -> None:  # type: ignore[no-untyped-def]
    """One line of the table."""
    rng = np.random.default_rng(seed)
    tree, names = data.taxonomy, data.taxonomy.names(args.level)
    to_class = tree.leaf_to(args.level)
    rows = np.sort(rng.permutation(len(data.train.leaves))[: args.samples])
    rng.shuffle(rows)
    tests = np.sort(rng.permutation(len(data.test.leaves))[: args.test])
    pairs = pairs_of(tree, args.level, args.pairs, args.unlike, rng)
    into = {names[b]: names[a] for a, b in pairs}
    both = {name for pair in into.items() for name in pair}
    labels = [names[c] for c in to_class[data.train.leaves[rows]]]
    truth = np.array([into.get(n, n) for n in (names[c] for c in to_class[data.test.leaves[tests]])])
    ours = np.array([name in both for name in truth])
    network = {"name": "resnet18", "width": args.width}
    kind = {"image_size": data.train.images.shape[-1], "network": network, "seed": seed, "device": "cpu"}
    kind["updates_per_sample"] = args.updates
    apart = Learner(args.method, **kind).partial_fit(data.train.images[rows], labels, args.level)
    together = Learner(args.method, **kind)
    together.partial_fit(data.train.images[rows], [into.get(n, n) for n in labels], args.level)

    def score(learner: Learner) -> tuple[float, float]:
        parts = np.array_split(tests, max(1, len(tests) // 256))
        said = np.concatenate([learner.predict(data.test.images[p]).labels[args.level] for p in parts])
        said = np.array([into.get(n, n) for n in said])
        return 100 * float((said == truth).mean()), 100 * float((said == truth)[ours].mean())

    lines = {"taught as one": score(together), "taught apart, answers read as one": score(apart)}
    for a, b in pairs:
        apart.merge(args.level, [names[a], names[b]])
    lines["taught apart, then merged"] = score(apart)
    for name, (every, paired) in lines.items():
        sys.stdout.write(f"{Path(args.dataset).name} seed {seed}  {name:<35}{every:6.1f}{paired:6.1f}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
