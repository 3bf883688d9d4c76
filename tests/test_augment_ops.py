"""Every operation of AutoAugment against Pillow, which defines it."""

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageEnhance, ImageOps

from ramify.training.autoaugment_ops import Op, Operations

ENHANCERS = {
    Op.BRIGHTNESS: ImageEnhance.Brightness,
    Op.CONTRAST: ImageEnhance.Contrast,
    Op.COLOR: ImageEnhance.Color,
    Op.SHARPNESS: ImageEnhance.Sharpness,
}
RANGES = {
    Op.SHEAR_X: (-0.4, 0.4),
    Op.SHEAR_Y: (-0.4, 0.4),
    Op.TRANSLATE_X: (-20, 20),
    Op.TRANSLATE_Y: (-20, 20),
    Op.ROTATE: (-40, 40),
    Op.BRIGHTNESS: (0.05, 2),
    Op.CONTRAST: (0.05, 2),
    Op.COLOR: (0.05, 2),
    Op.SHARPNESS: (0.05, 2),
    Op.SOLARIZE: (0, 256),
}


def pillow(image: Image.Image, op: Op, value: float) -> Image.Image:
    shift = int(value)
    matrices = {
        Op.SHEAR_X: (1, value, 0, 0, 1, 0),
        Op.SHEAR_Y: (1, 0, 0, value, 1, 0),
        Op.TRANSLATE_X: (1, 0, shift, 0, 1, 0),
        Op.TRANSLATE_Y: (1, 0, 0, 0, 1, shift),
    }
    if op in matrices:
        return image.transform(image.size, Image.Transform.AFFINE, matrices[op])
    if op in ENHANCERS:
        return ENHANCERS[op](image).enhance(value)
    return {
        Op.IDENTITY: lambda: image,
        Op.ROTATE: lambda: image.rotate(value),
        Op.INVERT: lambda: ImageOps.invert(image),
        Op.POSTERIZE: lambda: ImageOps.posterize(image, int(value)),
        Op.SOLARIZE: lambda: ImageOps.solarize(image, value),
        Op.AUTOCONTRAST: lambda: ImageOps.autocontrast(image),
        Op.EQUALIZE: lambda: ImageOps.equalize(image),
    }[op]()


def picture(rng: np.random.Generator, height: int, width: int) -> np.ndarray:
    """Noise, a smooth picture, a narrow range of greys, or few colours."""
    kind = rng.integers(4)
    if kind == 0:
        return rng.integers(0, 256, (3, height, width), dtype=np.uint8)
    if kind == 1:
        small = Image.fromarray(rng.integers(0, 256, (4, 4, 3), dtype=np.uint8))
        return np.asarray(small.resize((width, height), Image.Resampling.BICUBIC)).transpose(2, 0, 1).copy()
    low, high = sorted(rng.integers(0, 257, 2))
    if kind == 2:
        return rng.integers(low, max(high, low + 1), (3, height, width)).clip(0, 255).astype(np.uint8)
    return rng.choice(rng.integers(0, 256, rng.integers(1, 4)), (3, height, width)).astype(np.uint8)


def draw_value(rng: np.random.Generator, op: Op) -> float:
    if op == Op.POSTERIZE:
        return float(rng.integers(1, 9))
    return float(rng.uniform(*RANGES[op])) if op in RANGES else 0.0


@settings(max_examples=150)
@given(st.integers(0, 2**32), st.integers(3, 40), st.integers(3, 40), st.integers(1, 20))
def test_mixed_batch_equals_pillow(seed: int, height: int, width: int, n: int) -> None:
    """Two stages, each image its own operations, in one call."""
    rng = np.random.default_rng(seed)
    operations = sorted((op, draw_value(rng, op)) for op in Op for _ in range(2 if op else 1))
    images = np.stack([picture(rng, height, width) for _ in range(n)])
    numbers = rng.integers(0, len(operations), (2, n))
    table = Operations.compile(operations, height, width, torch.device("cpu"))
    given = torch.from_numpy(images)
    result = table(given, numbers[:1]).numpy()
    twice = table(given, numbers).numpy()
    assert (given.numpy() == images).all()
    for i in range(n):
        op, value = operations[numbers[0, i]]
        expected = np.asarray(pillow(Image.fromarray(images[i].transpose(1, 2, 0)), op, value)).transpose(
            2, 0, 1
        )
        difference = np.abs(result[i].astype(int) - expected).max()
        assert difference == 0, (op, value, difference)
        second = table(torch.from_numpy(result[i : i + 1]), numbers[1:, i : i + 1])
        assert (second[0].numpy() == twice[i]).all()
