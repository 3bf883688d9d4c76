"""A learner in the middle of its stream, on made-up images, and the bare loop it is measured against."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from time import perf_counter

import numpy as np
import torch
import torch.nn.functional as F

from ramify.methods import METHODS, Engine, Settings
from ramify.networks import build_backbone, feature_size

MEAN, STD = (0.5071, 0.4867, 0.4408), (0.2675, 0.2565, 0.2761)
CLASSES = (2, 4, 8, 20, 100)  # CIFAR-100's levels


@dataclass(frozen=True)
class Workload:
    """One line of the benchmark: a method, its settings and the classes of each level."""

    method: str
    settings: Settings
    classes: tuple[int, ...] = CLASSES
    image_size: int = 32

    def engine(self) -> MidStream:
        """The learner with a full memory and all classes met."""
        return MidStream(self)


class MidStream:
    """A learner whose memory is full and that knows all classes; `learn` goes on with its stream."""

    def __init__(self, work: Workload) -> None:
        self.rng = np.random.default_rng(0)
        count, size = work.settings.memory_size, work.image_size
        self.images = self.rng.integers(0, 256, (max(2000, count), 3, size, size), np.uint8)
        self.levels = self.rng.integers(1, len(work.classes) + 1, len(self.images))
        self.paths = self.rng.integers(0, work.classes, (len(self.images), len(work.classes)))
        self.labels = self.paths[np.arange(len(self.images)), self.levels - 1]
        self.position = 0
        period = work.settings.importance_period(max(1, work.settings.batch_size // 2))  # not that of idling
        importance = replace(work.settings.importance, period=period)
        idle = replace(work.settings, updates_per_sample=1e-9, importance=importance)
        self.engine = Engine(METHODS[work.method], idle, size, MEAN, STD)
        for level, classes in enumerate(work.classes, 1):
            for label in range(classes):
                self.observe(np.array([self.rng.integers(len(self.images))]), [label], [level])
        while not self.engine.memory.full:
            self.learn(min(512, count))
        self.engine.flush()
        self.engine.settings = work.settings
        self.engine.credit = 0.0

    def observe(
        self, rows: np.ndarray[tuple[int], np.dtype[np.int64]], labels: list[int], levels: list[int]
    ) -> None:
        """Hand over some images, as a run does."""
        paths = self.paths[rows].tolist() if self.engine.recipe.told_paths else None
        self.engine.observe(torch.from_numpy(self.images[rows]), labels, levels, paths)

    def learn(self, samples: int) -> None:
        """Go on with the stream."""
        rows = np.arange(self.position, self.position + samples) % len(self.images)
        self.observe(rows, self.labels[rows].tolist(), self.levels[rows].tolist())
        self.position += samples

    def updates(self, count: int) -> float:
        """Seconds an update, over about `count` of them."""
        before, start = self.engine.updates, perf_counter()
        rate = self.engine.settings.updates_per_sample
        self.learn(max(self.engine.buffer_size, round(count / rate)))
        made = self.engine.updates - before
        return (perf_counter() - start) / max(1, made)


def bare_loop(work: Workload) -> Callable[[int], float]:
    """The limit: forward, backward and a fused Adam step on a ready float batch of the same size."""
    chosen, size = work.settings.network, work.image_size
    backbone = build_backbone(chosen.name, chosen.stem, chosen.width, image_size=size)
    head = torch.nn.Linear(feature_size(backbone, size), sum(work.classes))
    adam = torch.optim.Adam([*backbone.parameters(), *head.parameters()], lr=work.settings.lr, fused=True)
    images = torch.randn(work.settings.batch_size, 3, size, size)
    labels = torch.randint(sum(work.classes), (work.settings.batch_size,))

    def run(count: int) -> float:
        start = perf_counter()
        for _ in range(count):
            loss = F.cross_entropy(head(backbone(images)), labels)
            loss.backward()  # type: ignore[no-untyped-call]
            adam.step()
            adam.zero_grad()
        return (perf_counter() - start) / count

    return run


def bare_forward(work: Workload, batch: int) -> Callable[[int], float]:
    """The limit of evaluation: forward passes of ready float batches, no gradients; seconds an image."""
    chosen, size = work.settings.network, work.image_size
    backbone = build_backbone(chosen.name, chosen.stem, chosen.width, image_size=size).eval()
    images = torch.randn(batch, 3, size, size)

    def run(count: int) -> float:
        start = perf_counter()
        with torch.inference_mode():
            for _ in range(count):
                backbone(images)
        return (perf_counter() - start) / (count * batch)

    return run
