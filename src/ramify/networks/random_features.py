"""Features that are drawn, not learned: random projections of a feature, random waves over pixels."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor, nn

from ramify.arrays import Floats


class RandomReLU(nn.Module):
    """`size` random projections of the backbone's feature, cut at 0 (RanPAC, McDonnell et al. 2023)."""

    def __init__(self, backbone: nn.Module, features: int, size: int, rng: np.random.Generator) -> None:
        super().__init__()
        self.backbone, self.feature_size = backbone, size
        self.directions = _drawn(rng.standard_normal((size, features)) / math.sqrt(features))

    def forward(self, inputs: Tensor) -> Tensor:
        """Features [n, size]."""
        features = self.backbone(inputs).float()
        with torch.autocast(inputs.device.type, enabled=False):
            return torch.relu(nn.functional.linear(features, self.directions))


class RandomFourier(nn.Module):
    """`size` random waves over the inputs themselves: their products approach a Gaussian kernel.

    Rahimi & Recht 2007; exp(-|x - y|² / 2 d) for d values that vary by about 1, as normalised pixels do.
    """

    def __init__(self, values: int, size: int, rng: np.random.Generator) -> None:
        super().__init__()
        self.feature_size = size
        self.frequencies = _drawn(rng.standard_normal((size, values)) / math.sqrt(values))
        self.phases = _drawn(rng.uniform(0, 2 * math.pi, size))

    def forward(self, inputs: Tensor) -> Tensor:
        """Features [n, size]."""
        with torch.autocast(inputs.device.type, enabled=False):
            waves = nn.functional.linear(inputs.flatten(1).float(), self.frequencies, self.phases)
        return waves.cos() * math.sqrt(2 / self.feature_size)


def _drawn(values: Floats) -> nn.Parameter:
    # not frozen, for what is frozen can be had elsewhere: these draws are part of the learner's state
    return nn.Parameter(torch.from_numpy(values.astype(np.float32)))
