"""What users give as images: uint8 arrays or tensors, Pillow images, or paths."""

from __future__ import annotations

from collections.abc import Iterable
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from ramify.arrays import Array, Pixels
from ramify.datasets.decode import BrokenImage, decode_image, pixels, quiet_pillow, stretch
from ramify.errors import RamifyError
from ramify.pixels import check_values

OneImage = Pixels | Tensor | Image.Image | str | PathLike[str]
Images = Pixels | Tensor | Iterable[Image.Image | str | PathLike[str]]


def one_tensor(image: OneImage, size: int) -> Tensor:
    """One image as uint8 [1, 3, size, size]: an array or tensor of three axes, a Pillow image or a path."""
    if isinstance(image, np.ndarray | Tensor):
        return image_tensor(image[None], size)
    if isinstance(image, list | tuple):
        raise RamifyError(f"one image is asked for, and a {type(image).__name__} of {len(image)} was given")
    return image_tensor([image], size)


def image_tensor(images: Images, size: int) -> Tensor:
    """Images as uint8 [n, 3, size, size], stretched where they are of another size.

    Arrays are [n, 3, h, w] or [n, h, w, 3]: the axis of length 3 is the colour. Where both could be it
    (images three pixels high or wide) the array is refused.
    """
    if isinstance(images, np.ndarray) and images.dtype.kind in "OU":
        images = images.tolist()
    if isinstance(images, np.ndarray | Tensor):
        return _from_array(images, size)
    if isinstance(images, str | PathLike | Image.Image) or not isinstance(images, Iterable):
        raise RamifyError(f"images is one {type(images).__name__}; give a list, also of a single image")
    with quiet_pillow():
        found = [_read(image, index, size) for index, image in enumerate(images)]
    stacked = np.stack(found) if found else np.empty((0, 3, size, size), np.uint8)
    check_values(stacked)
    return torch.from_numpy(stacked)


def _read(image: Any, index: int, size: int) -> Pixels:
    try:
        if isinstance(image, Image.Image):
            return pixels(image, size)
        if isinstance(image, str | PathLike):
            return decode_image(Path(image), size)
    except BrokenImage as reason:
        name = f" ({image})" if isinstance(image, str | PathLike) else ""
        raise RamifyError(f"image {index}{name} cannot be used: {reason}; leave it out or mend it") from None
    hint = "; np.stack the arrays into one" if isinstance(image, np.ndarray | Tensor) else ""
    raise RamifyError(
        f"image {index} is of type {type(image).__name__}; a list holds Pillow images or paths{hint}"
    )


def _from_array(images: Array | Tensor, size: int) -> Tensor:
    shape = tuple(images.shape)
    if images.dtype not in (torch.uint8, np.uint8):
        hint = "; floats in 0..1: (images * 255).round() as uint8" if "float" in str(images.dtype) else ""
        raise RamifyError(f"images are {images.dtype}; they must be uint8, 0 to 255{hint}")
    if isinstance(images, np.ndarray):
        images = torch.from_numpy(np.require(images, requirements=["C", "W"]))  # torch warns of read-only
    array = images
    if array.ndim != 4 or 3 not in (shape[1], shape[3]):
        hint = "; one image is images[None]" if array.ndim == 3 else ""
        raise RamifyError(f"images have shape {shape}; they must be [n, 3, h, w] or [n, h, w, 3]{hint}")
    if shape[1] == shape[3] == 3:
        raise RamifyError(
            f"images of shape {shape} may be [n, 3, h, w] or [n, h, w, 3]; enlarge them so that only the "
            "colour axis has length 3"
        )
    if shape[1] != 3:
        array = array.permute(0, 3, 1, 2)
    if 0 in array.shape[2:]:
        raise RamifyError(f"images have shape {shape}; they must have at least one pixel")
    check_values(array)
    if array.shape[2:] == (size, size) or not len(array):
        return array.contiguous() if len(array) else array.new_empty((0, 3, size, size))
    rows = array.permute(0, 2, 3, 1).contiguous().cpu().numpy()
    return torch.from_numpy(np.stack([stretch(Image.fromarray(row), size) for row in rows]))
