"""Which levels stay in memory, without a network: docs/study.md.

A multiple-depth stream over the tree of CIFAR-100 passes through the memories of CLIB and of PL.
Pseudo-labels are perfect and losses are noise around a trend, so what is left are the rules: who may make
room, how H is tracked (every stream batch), and at which H a newcomer starts.

python tools/composition.py [--memory 2000] [--per-class 500] [--updates 3]
"""

from __future__ import annotations

import argparse
import sys

import numpy as np
import torch

from ramify.classes import Classes
from ramify.memory import Column, Forward, LeastImportant, PseudoLabel, Sample, Sweep, Workbench
from ramify.memory.workbench import Examination
from ramify.networks import FeatureInputs, Heads, Model, Targets
from ramify.randomness import Generators
from ramify.streams import build_stream
from ramify.taxonomy import read_taxonomy

STREAM_BATCH, BATCH = 8, 16
NOTHING = torch.zeros(0)
VALUE = torch.zeros(1)
RULES = {  # policy, and a newcomer's H
    "CLIB": ("clib", "mean of its class"),
    "PL": ("pl", "mean of its class"),
    "PL, newcomers at 0": ("pl", "0"),
    "PL, H drawn once": ("pl", "drawn"),
}


class Start(Sweep):
    """The published importance, but for the value at which a newcomer starts; one that is drawn stays."""

    def __init__(self, period: int, start: str, rng: np.random.Generator) -> None:
        super().__init__(period)
        self.start, self.rng = start, rng

    def admit(self, bench: Workbench, slot: int) -> None:
        """Give the newcomer its first H."""
        super().admit(bench, slot)
        if self.start != "mean of its class":
            bench.memory["importance"][slot] = self.rng.random() if self.start == "drawn" else 0.0

    def refresh(self, bench: Workbench) -> None:
        """Take new losses."""
        if self.start != "drawn":
            super().refresh(bench)


class Simulated(Workbench):
    """A memory without a network: losses are noise around `loss`, and nothing is predicted."""

    def __init__(self, memory_size: int, keep: LeastImportant, levels: int, rng: np.random.Generator) -> None:
        self.keep, self.depth, self.noise, self.loss = keep, levels, rng, 0.0
        generators, inputs = Generators(0), FeatureInputs(1)
        columns = {"inputs": Column(inputs.dtype, inputs.shape), **keep.columns}
        model = Model(torch.nn.Identity(), Heads(1, generators["heads"]))
        super().__init__(model, Classes(), inputs, memory_size, columns, generators, torch.device("cpu"))

    def examine(self, slots: np.ndarray) -> Examination:
        """Noise."""
        return Examination(slots, self.loss + self.noise.normal(0, 1, len(slots)), self.silence(len(slots)))

    def silence(self, count: int) -> np.ndarray:
        """No prediction at any level: samples vote with the classes that they carry."""
        return np.full((count, self.depth), -1)

    def train(self) -> None:
        """An update on a batch of the memory."""
        batch = self.memory.batch(self.memory.sample(BATCH, self.noise))
        silent = torch.full((len(batch), len(self.classes)), torch.nan)  # no votes come from such logits
        forward = Forward(
            batch, NOTHING, NOTHING, silent, Targets.of(batch.labels), self.levels, loss=NOTHING
        )
        self.keep.learned(self, forward)


def shares(policy: str, start: str, trend: float, args: argparse.Namespace) -> list[int]:
    """Stored samples of each level at the end; `trend`: mean change of the loss between two refreshes."""
    tree, rng = read_taxonomy("cifar100"), np.random.default_rng(args.seed)
    leaves = np.repeat(np.arange(tree.leaves), args.per_class)
    stream = build_stream("multiple-depth", leaves, tree, args.seed)
    to_level = [tree.leaf_to(h) for h in range(1, tree.depth + 1)]
    period = max(1, round(STREAM_BATCH * args.updates))
    importance = Start(period, start, rng)
    keep = PseudoLabel(importance, exact=False) if policy == "pl" else LeastImportant(importance)
    bench = Simulated(args.memory, keep, tree.depth, rng)
    memory, classes = bench.memory, bench.classes
    for i in range(len(stream)):
        path = [leaf_to[leaves[stream.image[i]]] for leaf_to in to_level]
        bench.readings.fetch()  # what waits speaks of the classes so far
        cls = classes.meet(int(stream.level[i]), int(stream.label[i]), i)
        known = [classes.find(h, int(c)) for h, c in enumerate(path, 1)]
        keep.offer(bench, Sample(VALUE, tuple(c for c in known if c is not None), cls))
        if (i + 1) % STREAM_BATCH == 0:
            bench.loss += trend
            for _ in range(period):
                bench.train()
    return np.bincount(classes.level_of[memory.classes[: memory.size]], minlength=tree.depth + 1)[1:].tolist()


def main() -> int:
    """Print the shares."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--memory", type=int, default=2000)
    parser.add_argument("--per-class", type=int, default=500)
    parser.add_argument("--updates", type=float, default=3.0, help="updates a sample")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    print("rule                 loss a refresh   images of levels 1 to 5")
    for name, (policy, start) in RULES.items():
        for trend in (-0.1, 0.0, 0.1):
            print(f"{name:<21}{trend:>+14.1f}   {shares(policy, start, trend, args)}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
