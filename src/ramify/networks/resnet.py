"""ResNet18 and ResNet34 (He et al. 2016) that return a feature, with the two stems in use."""

from __future__ import annotations

import math
from typing import Literal

import torch
from torch import Tensor, nn

BLOCKS = {"resnet18": (2, 2, 2, 2), "resnet34": (3, 4, 6, 3)}
Stem = Literal["imagenet", "cifar"]


def trim(conv: nn.Conv2d, side: int) -> None:
    """Leave out the taps of a 3×3 convolution that only ever meet the padding, for inputs of side × side.

    With the `imagenet` stem, images of 32×32 are one pixel large in the last stage: there eight of nine
    taps, and half of the network's weights or more, are multiplied by zeros and never learn.
    """
    if side <= conv.stride[0]:
        conv.weight = nn.Parameter(conv.weight.detach()[:, :, 1 : 1 + side, 1 : 1 + side].clone())
        conv.kernel_size, conv.padding = (side, side), (0, 0)


class BasicBlock(nn.Module):
    """Two 3×3 convolutions and a shortcut."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.relu = nn.ReLU(inplace=True)
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or inputs != outputs:
            self.shortcut = nn.Sequential(
                nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs)
            )

    def forward(self, x: Tensor) -> Tensor:
        """Residual sum of both branches."""
        y = self.relu(self.bn1(self.conv1(x)))
        y = self.bn2(self.conv2(y))
        out: Tensor = self.relu(y + self.shortcut(x))
        return out

    def trim(self, side: int) -> int:
        """Trim both convolutions for inputs of this side; returns the side of the output."""
        trim(self.conv1, side)
        side = math.ceil(side / self.conv1.stride[0])
        trim(self.conv2, side)
        return side


class ResNet(nn.Module):
    """The feature before the classifier: 512 × width values an image.

    `imagenet` is the 7×7 stride-2 stem with max-pooling, `cifar` a 3×3 stride-1 stem without. With an
    `image_size` the network is for images of that size alone, and computes the same with fewer weights.
    """

    def __init__(
        self,
        blocks: tuple[int, int, int, int],
        stem: Stem = "imagenet",
        width: float = 1.0,
        generator: torch.Generator | None = None,
        image_size: int | None = None,
    ) -> None:
        super().__init__()
        widths = [max(1, round(w * width)) for w in (64, 128, 256, 512)]
        if stem == "imagenet":
            first = nn.Conv2d(3, widths[0], 7, 2, 3, bias=False)
            pool: nn.Module = nn.MaxPool2d(3, 2, 1)
        else:
            first = nn.Conv2d(3, widths[0], 3, 1, 1, bias=False)
            pool = nn.Identity()
        self.stem = nn.Sequential(first, nn.BatchNorm2d(widths[0]), nn.ReLU(inplace=True), pool)
        layers: list[BasicBlock] = []
        inputs = widths[0]
        for stage, (outputs, count) in enumerate(zip(widths, blocks, strict=True)):
            for index in range(count):
                layers.append(BasicBlock(inputs, outputs, 2 if stage > 0 and index == 0 else 1))
                inputs = outputs
        self.layers = nn.Sequential(*layers)
        self.feature_size = inputs
        self._initialise(generator)
        if image_size is not None:
            side = math.ceil(image_size / 4) if stem == "imagenet" else image_size
            for layer in layers:
                side = layer.trim(side)

    def _initialise(self, generator: torch.Generator | None) -> None:
        for module in self.modules():
            if isinstance(module, nn.Conv2d) and not module.weight.is_meta:  # that has shapes, no values
                nn.init.kaiming_normal_(
                    module.weight, mode="fan_out", nonlinearity="relu", generator=generator
                )

    def forward(self, images: Tensor) -> Tensor:
        """Features [n, feature_size] of normalised float images [n, 3, h, w]."""
        if not self.training and images.device.type == "cpu":  # a third faster without gradients
            images = images.contiguous(memory_format=torch.channels_last)
        out: Tensor = self.layers(self.stem(images)).mean((2, 3))
        return out
