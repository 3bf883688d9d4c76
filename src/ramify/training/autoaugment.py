"""AutoAugment's policies (Cubuk et al., CVPR 2019, appendix): 25 sub-policies of two operations each."""

from dataclasses import dataclass
from functools import cache
from typing import Literal

import numpy as np
import numpy.typing as npt
import torch

from ramify.training.autoaugment_ops import IntArray, Op, Operations

PolicyName = Literal["cifar10", "imagenet"]

# Each line is a sub-policy: (operation, probability, strength 0..9) twice.
_CIFAR10 = """
Invert 0.1 7        Contrast 0.2 6
Rotate 0.7 2        TranslateX 0.3 9
Sharpness 0.8 1     Sharpness 0.9 3
ShearY 0.5 8        TranslateY 0.7 9
AutoContrast 0.5 8  Equalize 0.9 2
ShearY 0.2 7        Posterize 0.3 7
Color 0.4 3         Brightness 0.6 7
Sharpness 0.3 9     Brightness 0.7 9
Equalize 0.6 5      Equalize 0.5 1
Contrast 0.6 7      Sharpness 0.6 5
Color 0.7 7         TranslateX 0.5 8
Equalize 0.3 7      AutoContrast 0.4 8
TranslateY 0.4 3    Sharpness 0.2 6
Brightness 0.9 6    Color 0.2 8
Solarize 0.5 2      Invert 0.0 3
Equalize 0.2 0      AutoContrast 0.6 0
Equalize 0.2 8      Equalize 0.6 4
Color 0.9 9         Equalize 0.6 6
AutoContrast 0.8 4  Solarize 0.2 8
Brightness 0.1 3    Color 0.7 0
Solarize 0.4 5      AutoContrast 0.9 3
TranslateY 0.9 9    TranslateY 0.7 9
AutoContrast 0.9 2  Solarize 0.8 3
Equalize 0.8 8      Invert 0.1 3
TranslateY 0.7 9    AutoContrast 0.9 1
"""
_IMAGENET = """
Posterize 0.4 8     Rotate 0.6 9
Solarize 0.6 5      AutoContrast 0.6 5
Equalize 0.8 8      Equalize 0.6 3
Posterize 0.6 7     Posterize 0.6 6
Equalize 0.4 7      Solarize 0.2 4
Equalize 0.4 4      Rotate 0.8 8
Solarize 0.6 3      Equalize 0.6 7
Posterize 0.8 5     Equalize 1.0 2
Rotate 0.2 3        Solarize 0.6 8
Equalize 0.6 8      Posterize 0.4 6
Rotate 0.8 8        Color 0.4 0
Rotate 0.4 9        Equalize 0.6 2
Equalize 0.0 7      Equalize 0.8 8
Invert 0.6 4        Equalize 1.0 8
Color 0.6 4         Contrast 1.0 8
Rotate 0.8 8        Color 1.0 2
Color 0.8 8         Solarize 0.8 7
Sharpness 0.4 7     Invert 0.6 8
ShearX 0.6 5        Equalize 1.0 9
Color 0.4 0         Equalize 0.6 3
Equalize 0.4 7      Solarize 0.2 4
Solarize 0.6 5      AutoContrast 0.6 5
Invert 0.6 4        Equalize 1.0 8
Color 0.6 4         Contrast 1.0 8
Equalize 0.8 8      Equalize 0.6 3
"""
_NAMES = {op.name.replace("_", "").lower(): op for op in Op}


def _value(op: Op, strength: int, negative: bool, height: int, width: int) -> float:
    """What `Operations.compile` takes for a strength of 0..9, with the ranges of torchvision."""
    part = strength / 9
    sign = -1 if negative else 1
    if op in (Op.SHEAR_X, Op.SHEAR_Y):
        return sign * 0.3 * part
    if op in (Op.TRANSLATE_X, Op.TRANSLATE_Y):
        return sign * 150 / 331 * (width if op == Op.TRANSLATE_X else height) * part
    if op == Op.ROTATE:
        return sign * 30 * part
    if Op.BRIGHTNESS <= op <= Op.SHARPNESS:
        return 1 + sign * 0.9 * part
    if op == Op.POSTERIZE:
        return 8 - round(4 * part)
    if op == Op.SOLARIZE:
        return 255 * (1 - part)
    return 0.0


@dataclass(frozen=True)
class Policy:
    """A policy for one image size and device: its operations, and which of them a sub-policy draws."""

    operations: Operations
    probability: npt.NDArray[np.float64]  # [stage, sub-policy]
    number: IntArray  # [stage, sub-policy, sign]: what to ask of `operations`

    def choose(self, uniform: npt.NDArray[np.float64]) -> IntArray:
        """Numbers [2, B] for `operations` out of uniform draws [5, B]: sub-policy, whether, which sign."""
        stages = len(self.probability)
        drawn = (uniform[0] * self.probability.shape[1]).astype(np.int64)
        applied = uniform[1 : 1 + stages] < self.probability[:, drawn]
        sign = (uniform[1 + stages :] < 0.5).astype(np.int64)
        return np.where(applied, self.number[np.arange(stages)[:, None], drawn, sign], 0)


@cache
def policy(name: PolicyName, height: int, width: int, device: torch.device) -> Policy:
    """The policy `name`, compiled."""
    words = np.array({"cifar10": _CIFAR10, "imagenet": _IMAGENET}[name].split()).reshape(-1, 2, 3)
    wanted = [
        [
            [(op, _value(op, int(strength), negative, height, width)) for negative in (False, True)]
            for op, strength in ((_NAMES[word.lower()], strength) for word, _, strength in words[:, stage])
        ]
        for stage in range(2)
    ]
    identity = (Op.IDENTITY, 0.0)
    operations = sorted({identity, *(entry for stage in wanted for pair in stage for entry in pair)})
    return Policy(
        operations=Operations.compile(operations, height, width, device),
        probability=words[:, :, 1].T.astype(np.float64),
        number=np.array(
            [[[operations.index(entry) for entry in pair] for pair in stage] for stage in wanted]
        ),
    )
