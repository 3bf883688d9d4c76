"""Runs that take a second, for tests of what surrounds the learning."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from ramify.methods.bic import BicSettings
from ramify.methods.clib import FlexibleSettings
from ramify.methods.closed_form import RandumbSettings, RanpacSettings
from ramify.methods.epochs import EpochSettings
from ramify.methods.settings import AugmentSettings, NetworkSettings
from ramify.runs import Config

# For processes of their own: these modules, and what this one finds.
PYTHONPATH = os.pathsep.join([str(Path(__file__).parent), *filter(None, [os.environ.get("PYTHONPATH")])])


class Slow(nn.Module):
    """Takes as long as the environment says, so that a signal finds a run on its way."""

    def forward(self, images: Tensor) -> Tensor:
        if seconds := os.environ.get("TINY_RUNS_SLEEP"):
            time.sleep(float(seconds))
        return images


def network() -> nn.Module:
    """Batch normalisation has running statistics; dropout draws from torch's own generator."""
    return nn.Sequential(
        Slow(),
        nn.Conv2d(3, 8, 3, 2, 1),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.Dropout(0.2),
        nn.AdaptiveAvgPool2d(2),
        nn.Flatten(),
    )


def three_layers() -> nn.Module:
    """Learns what it is shown, as the smallest ResNet does in four times the time."""
    layers: list[nn.Module] = []
    for inputs, outputs in ((3, 16), (16, 32), (32, 64)):
        layers += [nn.Conv2d(inputs, outputs, 3, 2, 1), nn.BatchNorm2d(outputs), nn.ReLU()]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten())


def unsynced(*arguments: Any) -> None:
    """The work of a process of `soak`, which is killed; the machine is not."""
    import soak

    os.fsync = os.fstat  # type: ignore[assignment]
    soak._work(*arguments)


def tiny(method: str = "er", **changes: Any) -> Config:
    """144 samples in three tasks."""
    settings: dict[str, Any] = {
        "image_size": 8,
        "per_class": 3,
        "levels": (1, 2, 4),
        "network": NetworkSettings("tiny_runs:network"),
        "batch_size": 8,
        "updates_per_sample": 1.0,
        "memory_size": 30,
        "eval_every": 40,
        "eval_images": 60,
        "augment": AugmentSettings(padding=1, autoaugment="none"),
        "epochs": EpochSettings(3),
        "bic": BicSettings(validation=0.2, epochs=3),
        "fms": FlexibleSettings(50.0),
        "ranpac": RanpacSettings(32),
        "randumb": RandumbSettings(64),
    }
    return Config(method=method, **(settings | changes))
