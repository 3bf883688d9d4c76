"""The values of images, and what is asked of them where they come in from users or in a dataset: 0 to 255.

Whoever is given them after that does not look again: test images may be a memory map of many GB.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ramify.arrays import Array
from ramify.errors import RamifyError

if TYPE_CHECKING:
    from torch import Tensor

Channels = tuple[float, float, float]  # of images in 0..1
IMAGENET_MEAN: Channels = (0.485, 0.456, 0.406)
IMAGENET_STD: Channels = (0.229, 0.224, 0.225)
SUFFIXES = frozenset(  # of the names of image files
    {
        *(".jpg", ".jpeg", ".jfif", ".jpe", ".png", ".gif", ".webp", ".avif", ".bmp"),
        *(".tif", ".tiff", ".ppm", ".pgm", ".heic", ".heif", ".hif"),
    }
)


def check_values(images: Array | Tensor) -> None:
    """Refuse uint8 images [n, …] that are cut-off floats: the largest value of several images is 1.

    Dark images, all 0, are images; so is one alone, which says too little.
    """
    if getattr(images, "is_meta", False):
        raise RamifyError("images are on the device 'meta' and hold no values; give them on a real device")
    if len(images) > 1 and images.max() == 1:
        raise RamifyError(
            f"the largest value in {len(images)} images is 1; floats in 0..1 must be multiplied by 255 "
            "before they become uint8"
        )
