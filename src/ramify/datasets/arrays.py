"""Images that are already pixels."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from PIL import Image

from ramify.arrays import Ints, Pixels
from ramify.datasets.decode import stretch


@dataclass(frozen=True)
class ArrayImages:
    """A split held as uint8 [n, 3, side, side]."""

    pixels: Pixels
    leaves: Ints

    def name(self, index: int) -> str:
        """The image's number."""
        return f"image {index}"

    def read(self, index: int, size: int) -> Pixels:
        """The image, stretched where `size` is not its own."""
        pixels: Pixels = self.pixels[index]
        if pixels.shape[-1] == size:
            return pixels
        return stretch(Image.fromarray(np.ascontiguousarray(pixels.transpose(1, 2, 0))), size)
