"""What the making of a batch costs: augmentation, normalisation and CutMix, without any network."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from time import perf_counter

import numpy as np
import torch

from ramify.arrays import Ints
from ramify.memory.batch import Batch, Sample, arrived
from ramify.networks import ImageInputs
from ramify.training.augment import Augment
from ramify.training.autoaugment import AutoAugmentName
from ramify.training.cutmix import CutMix

SHAPES: tuple[tuple[int, int, AutoAugmentName, int], ...] = (  # images, their size, AutoAugment, repeats
    (16, 32, "cifar10", 1000),
    (128, 32, "cifar10", 200),
    (64, 224, "imagenet", 10),
)


def median_seconds(call: Callable[[], object], repeats: int) -> float:
    """Median over `repeats` calls, after a tenth as many to warm up."""
    times = []
    for _ in range(repeats + repeats // 10):
        start = perf_counter()
        call()
        times.append(perf_counter() - start)
    return statistics.median(times[repeats // 10 :])


def _augment(part: Augment, images: torch.Tensor, rng: np.random.Generator) -> torch.Tensor:
    return part.apply(images, part.draw(len(images), rng))


def _mix(part: CutMix, batch: Batch, levels: Ints, rng: np.random.Generator) -> torch.Tensor:
    height, width = batch.inputs.shape[2:]
    return part.paste(batch.inputs, replace(batch, mixture=part.choose(levels, height, width, rng)))


def batch_making(images: int, size: int, autoaugment: AutoAugmentName, repeats: int) -> dict[str, float]:
    """Seconds that each step takes for a batch on the CPU."""
    rng = np.random.default_rng(0)
    ready = ImageInputs(size).ready
    batch = torch.from_numpy(rng.integers(0, 256, (images, 3, size, size), dtype=np.uint8))
    whole = arrived([Sample(image, (0,)) for image in batch])
    steps: dict[str, Callable[[], object]] = {
        "crop and flip": partial(_augment, Augment(None), batch, rng),
        "all augmentation": partial(_augment, Augment(autoaugment), batch, rng),
        "normalize": partial(ready, batch),
        "cutmix": partial(_mix, CutMix(probability=1), whole, rng.integers(1, 6, images), rng),
    }
    return {name: median_seconds(call, repeats) for name, call in steps.items()}
