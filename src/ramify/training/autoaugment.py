"""AutoAugment's policies (Cubuk et al., CVPR 2019, appendix): 25 sub-policies of two operations each."""

from collections import defaultdict
from dataclasses import dataclass
from functools import cache
from itertools import product
from typing import Literal

import numpy as np
import torch

from ramify.arrays import Floats, Ints
from ramify.training.autoaugment_ops import Op, Operations

AutoAugmentName = Literal["cifar10", "imagenet"]

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
Applied = tuple[Op, float]
_NOTHING: Applied = (Op.IDENTITY, 0.0)
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
    if Op.CONTRAST <= op <= Op.BRIGHTNESS:
        return 1 + sign * 0.9 * part
    if op == Op.POSTERIZE:
        return 8 - round(4 * part)
    if op == Op.SOLARIZE:
        return 255 * (1 - part)
    return 0.0


@dataclass(frozen=True)
class AutoAugment:
    """A policy for one image size and device: every outcome of its draws, and how likely each is."""

    operations: Operations
    outcomes: Ints  # [2, n]: the numbers of a first and a second operation; 0 is none
    edges: Floats  # [n − 1]: where outcome i + 1 begins in 0..1

    def choose(self, uniform: Floats) -> Ints:
        """Numbers [2, B] for `operations`, out of one uniform draw for each image."""
        return self.outcomes[:, self.edges.searchsorted(uniform, side="right")]


@cache
def auto_augment(name: AutoAugmentName, height: int, width: int, device: torch.device) -> AutoAugment:
    """The policy `name`, compiled: a sub-policy of 25, each operation or not, each sign alike."""
    words = {"cifar10": _CIFAR10, "imagenet": _IMAGENET}[name].split()
    stages: list[list[tuple[Applied, float]]] = []  # what may come of each word of the table, how likely
    for word, chance, strength in zip(words[::3], words[1::3], words[2::3], strict=True):
        op, applied = _NAMES[word.lower()], float(chance)
        values = [_value(op, int(strength), negative, height, width) for negative in (False, True)]
        stages.append([(_NOTHING, 1 - applied), *(((op, value), applied / 2) for value in values)])
    weights: dict[tuple[Applied, Applied], float] = defaultdict(float)
    for first, second in zip(stages[::2], stages[1::2], strict=True):
        for (one, p), (two, q) in product(first, second):
            # A second operation without a first takes its place: fewer images are left for a second pass.
            weights[(two, one) if one == _NOTHING else (one, two)] += p * q
    entries = sorted({entry for pair in weights for entry in pair})
    total = np.cumsum(list(weights.values()))
    return AutoAugment(
        operations=Operations.compile(entries, height, width, device),
        outcomes=np.array([[entries.index(entry) for entry in pair] for pair in weights]).T.copy(),
        edges=total[:-1] / total[-1],
    )
