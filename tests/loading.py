"""Many samples through memory, stream and metrics without a network: used by the tests and tools/load.py."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from ramify.arrays import AnyInts, Ints
from ramify.classes import Classes
from ramify.datasets import Dataset, Split
from ramify.evaluation import metrics
from ramify.memory import Column, Forward, Policy, Sample, Workbench
from ramify.memory.workbench import Examination
from ramify.methods import Settings, find_method
from ramify.methods.clib import ImportanceSettings, PseudoLabelSettings
from ramify.networks import Heads, ImageInputs, Model, Targets
from ramify.randomness import Generators
from ramify.runs.checkpoint import Checkpoints
from ramify.runs.folder import RunFolder
from ramify.runs.run import Run
from ramify.streams import build_stream
from ramify.taxonomy import Taxonomy
from tiny_runs import tiny

Table = Ints
SEVEN = (3, 4, 9, 34, 57, 72, 1010)  # iNaturalist-19's levels: 1,189 classes
PARTS = 50
TEST = 2000  # images of an evaluation
STORED = torch.zeros((16, 3, 8, 8), dtype=torch.uint8)
SETTINGS = Settings(
    memory_size=2000, importance=ImportanceSettings("sweep", 24), pl=PseudoLabelSettings(exact=False)
)


@dataclass(frozen=True)
class Load:
    """CPU seconds a sample and resident bytes in each fiftieth of the stream."""

    samples: int
    seconds: list[float]
    resident: list[int]

    @property
    def bytes_per_million(self) -> float:
        """Growth of the resident memory over the second half: the slope of a fitted line."""
        half = len(self.resident) // 2
        steps = np.arange(half) * self.samples / PARTS / 1e6
        return float(np.polyfit(steps, self.resident[-half:], 1)[0])

    @property
    def slowdown(self) -> float:
        """Median time of a sample in the last fifth over that in the second fifth, when memories are full."""
        fifth = PARTS // 5
        return float(np.median(self.seconds[-fifth:]) / np.median(self.seconds[fifth : 2 * fifth]))


def deep_tree(sizes: tuple[int, ...] = SEVEN) -> Taxonomy:
    """A tree of these sizes, children spread evenly."""
    index = np.arange(sizes[-1])
    columns = []
    for level in range(len(sizes), 0, -1):
        columns.append([f"{level}-{i}" for i in index])
        index = index * sizes[max(level - 2, 0)] // sizes[level - 1]
    return Taxonomy.from_rows(list(zip(*columns[::-1], strict=True)))


def deep_dataset(per_leaf: int = 7) -> Dataset:
    """Noise in 1,189 classes of 7 levels."""
    tree, rng = deep_tree(), np.random.default_rng(0)
    train, test = (np.repeat(np.arange(tree.leaves), count) for count in (per_leaf, 1))
    splits = [Split(rng.integers(0, 256, (len(s), 3, 8, 8), np.uint8), s) for s in (train, test)]
    return Dataset("deep", *splits, tree, (0.5,) * 3, (0.2,) * 3, "made up")


class Kept(Workbench):
    """A method's memory, fed and examined without a network."""

    def __init__(self, method: str, classes: Classes, draw: np.random.Generator) -> None:
        self.draw, rng, inputs = draw, Generators(0), ImageInputs(8)
        self.keep: Policy = find_method(method)(SETTINGS, rng).keep
        columns = {"inputs": Column(inputs.dtype, inputs.shape), **self.keep.columns}
        model = Model(torch.nn.Identity(), Heads(1, rng["heads"]))
        super().__init__(model, classes, inputs, SETTINGS.memory_size, columns, rng, torch.device("cpu"))

    def examine(self, slots: AnyInts) -> Examination:
        """Made-up losses and predictions."""
        return Examination(slots, self.draw.random(len(slots)), self.predict(len(slots)))

    def predict(self, count: int) -> Table:
        """A random class of every level, -1 where it has none."""
        found = np.full((count, max(self.classes.levels)), -1)
        for level in self.classes.levels:
            rows = self.classes.of_level(level)
            found[:, level - 1] = rows[self.draw.integers(len(rows), size=count)]
        return found

    def train(self) -> None:
        """An update on 16 stored samples."""
        batch, nothing = self.memory.batch(self.memory.sample(16, self.draw)), torch.zeros(0)
        targets = Targets.of(batch.labels)
        logits = torch.from_numpy(self.draw.random((len(batch), len(self.classes)), np.float32))
        forward = Forward(batch, nothing, nothing, logits, targets, self.levels, torch.ones(()))
        self.keep.learned(self, forward)


def push(samples: int, evaluations: int = PARTS) -> Load:
    """Send a multiple-depth stream of 1,189 classes through three memories, and evaluate on the way."""
    tree, draw = deep_tree(), np.random.default_rng(0)
    stream = build_stream("multiple-depth", np.arange(samples) % tree.leaves, tree, 0)
    order = draw.permutation(samples)  # all classes from the start, so that time can only grow with the load
    classes = Classes()
    kept = [Kept(method, classes, draw) for method in ("er", "gdumb", "pl-fms")]
    truth = np.stack([tree.leaf_to(h)[np.arange(TEST) % tree.leaves] for h in range(1, tree.depth + 1)], 1)
    seconds, resident = [], []
    for part in range(PARTS):
        first, last = part * samples // PARTS, (part + 1) * samples // PARTS
        start = time.process_time()
        for i in range(first, last):
            at = order[i]
            kept[-1].readings.fetch()  # what waits speaks of the classes so far
            cls = classes.meet(int(stream.level[at]), int(stream.label[at]), i)
            for one in kept if i % 10 == 0 else kept[:2]:  # PL looks at its candidates: it gets every tenth
                one.keep.offer(one, Sample(STORED[i % 16], (cls,), cls))
            if i % 160 == 0:
                kept[-1].train()
        for _ in range(evaluations // PARTS):
            evaluate(truth, tree, draw)
        seconds.append((time.process_time() - start) / (last - first))
        resident.append(resident_bytes())
    return Load(samples, seconds, resident)


def evaluate(truth: Table, tree: Taxonomy, draw: np.random.Generator) -> None:
    """All figures of made-up answers, a tenth of them wrong."""
    answers = np.where(draw.random(len(truth))[:, None] < 0.9, truth, draw.permutation(truth))
    for level, size in enumerate(tree.sizes, 1):
        seen = np.ones(size, bool)
        metrics.level_accuracy(answers[:, level - 1], truth[:, level - 1], seen)
        metrics.class_accuracy(answers[:, level - 1], truth[:, level - 1], seen)
    metrics.consistency(answers, tree)
    metrics.mistake_severity(answers, truth, tree)


def resident_bytes() -> int:
    """What this process holds in RAM now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def deep_run(out: Path, evaluations: int) -> Run:
    """A run of 1,189 classes and 7 levels with about so many evaluations."""
    dataset = deep_dataset()
    every = max(1, len(dataset.train) // evaluations)
    config = tiny(
        per_class=None,
        levels=None,
        memory_size=2000,
        eval_every=every,
        eval_images=50,
        updates_per_sample=0.02,
    )
    run, folder = Run(config, dataset, "cpu"), RunFolder(out)
    with folder.locked():
        folder.begin(run, None, {"data_dir": None, "checkpoint_every": 300.0})
        run.go(folder, Checkpoints(folder).after_part)
    return run
