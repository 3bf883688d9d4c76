"""Runs that take a second, for tests of what surrounds the learning."""

from __future__ import annotations

from typing import Any

from torch import nn

from ramify.methods.settings import (
    AugmentSettings,
    BicSettings,
    EpochSettings,
    FlexibleSettings,
    NetworkSettings,
)
from ramify.runs import Config


def network() -> nn.Module:
    """Batch normalisation has running statistics; dropout draws from torch's own generator."""
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, 2, 1),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.Dropout(0.2),
        nn.AdaptiveAvgPool2d(2),
        nn.Flatten(),
    )


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
    }
    return Config(method=method, **(settings | changes))
