"""Time the augmentation: `python benchmarks/augment.py` prints the median µs of a batch on the CPU."""

import time
from collections.abc import Callable
from functools import partial

import numpy as np
import torch

from ramify.training.augment import Augment, Normalize
from ramify.training.autoaugment import PolicyName
from ramify.training.cutmix import CutMix

SHAPES: tuple[tuple[int, int, PolicyName, int], ...] = (
    (16, 32, "cifar10", 1000),
    (128, 32, "cifar10", 200),
    (64, 224, "imagenet", 10),
)


def median_microseconds(call: Callable[[], object], repeats: int) -> float:
    """Median over `repeats` calls, after a tenth as many to warm up."""
    times = []
    for _ in range(repeats + repeats // 10):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return float(np.median(times[repeats // 10 :]) * 1e6)


def main() -> None:
    """Print one row a batch shape."""
    rng = np.random.default_rng(0)
    normalize = Normalize((0.5, 0.5, 0.5), (0.25, 0.25, 0.25))
    names = ("batch", "policy", "crop+flip", "augment", "normalize", "cutmix")
    print(" ".join(f"{name:>13}" for name in names))
    for n, size, policy, repeats in SHAPES:
        images = torch.from_numpy(rng.integers(0, 256, (n, 3, size, size), dtype=np.uint8))
        calls = (
            partial(Augment(None), images, rng),
            partial(Augment(policy), images, rng),
            partial(normalize, images),
            partial(CutMix(probability=1), normalize(images), rng.integers(1, 6, n), rng),
        )
        figures = (f"{median_microseconds(call, repeats):.0f}" for call in calls)
        print(" ".join(f"{cell:>13}" for cell in (f"{n}×3×{size}×{size}", policy, *figures)))


if __name__ == "__main__":
    main()
