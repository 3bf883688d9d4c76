"""ResNet18 and ResNet34 (He et al. 2016) that return a feature, with the two stems in use."""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ramify.networks.settings import Stem

BLOCKS = {"resnet18": (2, 2, 2, 2), "resnet34": (3, 4, 6, 3)}


def trim(conv: nn.Conv2d, side: int) -> None:
    """Leave out the taps of a 3×3 convolution that only ever meet the padding, for inputs of side × side.

    With the `imagenet` stem, images of 32×32 are one pixel large in the last stage: there eight of nine
    taps, and half of the network's weights or more, are multiplied by zeros and never learn.
    """
    if side <= conv.stride[0]:
        kept = conv.weight.detach()[:, :, 1 : 1 + side, 1 : 1 + side]
        conv.weight = nn.Parameter(torch.empty(kept.shape, device=kept.device).copy_(kept))
        conv.kernel_size, conv.padding = (side, side), (0, 0)


def trimmed(weight: Tensor, like: Tensor) -> Tensor:
    """The taps of a full 3×3 weight that a trimmed one of the shape of `like` has."""
    side = like.shape[-1] if like.ndim == 4 else 0
    if weight.ndim != 4 or weight.shape[-1] != 3 or side not in (1, 2):
        return weight
    return weight[:, :, 1 : 1 + side, 1 : 1 + side]


def untrimmed(conv: nn.Conv2d) -> Tensor:
    """Its weight with zeros for the taps that were left out, whatever they were: they met padding alone."""
    weight = conv.weight.detach()
    after = 2 - weight.shape[-1]
    return F.pad(weight, (1, after, 1, after))


class Pool(nn.Module):
    """The mean over all places."""

    def forward(self, x: Tensor) -> Tensor:
        """[n, c, h, w] → [n, c]."""
        return x.mean((2, 3))


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
        self.blocks = blocks
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

    def stages(self) -> list[nn.Module]:
        """One after the other they are the network: the stem, four stages, the mean."""
        found: list[nn.Module] = [self.stem]
        start = 0
        for count in self.blocks:
            found.append(self.layers[start : start + count])
            start += count
        return [*found, Pool()]

    def standard_names(self) -> dict[str, str]:
        """The names of its weights -> those in the usual layout (`layer1.0.conv1.weight`)."""
        places = [(stage, index) for stage, count in enumerate(self.blocks, 1) for index in range(count)]
        names = {}
        for name in self.state_dict():
            parts = name.split(".")
            if parts[0] == "stem":
                names[name] = ".".join([("conv1", "bn1")[int(parts[1])], *parts[2:]])
            else:
                stage, index = places[int(parts[1])]
                inner = ".".join(parts[2:]).replace("shortcut.", "downsample.")
                names[name] = f"layer{stage}.{index}.{inner}"
        return names

    def from_standard(self, weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Weights in the usual layout, or in this one, untrimmed, as this network takes them."""
        ours = {theirs: name for name, theirs in self.standard_names().items()}
        own = self.state_dict()
        found = {ours.get(name, name): value for name, value in weights.items()}
        return {name: trimmed(v, own[name]) if name in own else v for name, v in found.items()}

    def to_standard(self) -> dict[str, Tensor]:
        """Its weights in the usual layout, untrimmed: for images of any size."""
        kernels = {
            f"{name}.weight": untrimmed(module)
            for name, module in self.named_modules()
            if isinstance(module, nn.Conv2d) and "conv" in name and module.padding == (0, 0)
        }
        own = self.state_dict() | kernels
        return {theirs: own[name].detach().clone() for name, theirs in self.standard_names().items()}
