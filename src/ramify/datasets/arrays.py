"""Images that are already pixels."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from ramify.datasets.decode import stretch


@dataclass(frozen=True)
class ArrayImages:
    """A split held as uint8 [n, 3, side, side]."""

    pixels: NDArray[np.uint8]
    leaves: NDArray[np.int64]

    def name(self, index: int) -> str:
        """The image's number."""
        return f"image {index}"

    def read(self, index: int, size: int) -> NDArray[np.uint8]:
        """The image, stretched where `size` is not its own."""
        pixels: NDArray[np.uint8] = self.pixels[index]
        if pixels.shape[-1] == size:
            return pixels
        return stretch(Image.fromarray(np.ascontiguousarray(pixels.transpose(1, 2, 0))), size)
