"""The fourteen image operations of AutoAugment on whole uint8 batches, as Pillow defines them.

An operation belongs to one of three families, and a family is one computation for all the images that drew
it: geometric (a map of source pixels), enhancement (a blend with a degenerate image), lookup (256 entries).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

IntArray = npt.NDArray[np.int64]


class Op(IntEnum):
    """The operations, in the order of their families: geometric, enhancement, lookup."""

    IDENTITY = 0
    SHEAR_X = 1
    SHEAR_Y = 2
    TRANSLATE_X = 3
    TRANSLATE_Y = 4
    ROTATE = 5
    BRIGHTNESS = 6
    CONTRAST = 7
    COLOR = 8
    SHARPNESS = 9
    INVERT = 10
    POSTERIZE = 11
    SOLARIZE = 12
    AUTOCONTRAST = 13
    EQUALIZE = 14


def _inverse_affine(op: Op, value: float, height: int, width: int) -> tuple[float, ...]:
    """Pillow's (a, b, c, d, e, f): the pixel (x, y) of the result is (ax+by+c, dx+ey+f) of the source."""
    if op == Op.SHEAR_X:
        return 1.0, value, 0.0, 0.0, 1.0, 0.0
    if op == Op.SHEAR_Y:
        return 1.0, 0.0, 0.0, value, 1.0, 0.0
    if op == Op.TRANSLATE_X:
        return 1.0, 0.0, float(int(value)), 0.0, 1.0, 0.0
    if op == Op.TRANSLATE_Y:
        return 1.0, 0.0, 0.0, 0.0, 1.0, float(int(value))
    cos, sin = math.cos(math.radians(value)), math.sin(math.radians(value))
    x, y = width / 2, height / 2
    return cos, -sin, x - cos * x + sin * y, sin, cos, y - sin * x - cos * y


def _source_map(op: Op, value: float, height: int, width: int) -> IntArray:
    """Flat source index of each pixel, -1 outside: nearest neighbour in Pillow's 16.16 fixed point."""
    a, b, c, d, e, f = _inverse_affine(op, value, height, width)
    fixed = np.floor(
        np.array([a, b, c + a / 2 + b / 2, d, e, f + d / 2 + e / 2]) * 65536 + 0.5  # pixel centres
    ).astype(np.int64)
    y, x = np.mgrid[:height, :width]
    source_x = (fixed[0] * x + fixed[1] * y + fixed[2]) >> 16
    source_y = (fixed[3] * x + fixed[4] * y + fixed[5]) >> 16
    inside = (source_x >= 0) & (source_x < width) & (source_y >= 0) & (source_y < height)
    flat: IntArray = np.where(inside, source_y * width + source_x, -1).reshape(-1)
    return flat


def _fixed_lookup(op: Op, value: float) -> IntArray:
    """The 256 entries of an operation that does not depend on the image."""
    grey = np.arange(256)
    if op == Op.INVERT:
        return 255 - grey
    if op == Op.POSTERIZE:
        return grey & -(1 << 8 - int(value))
    return np.where(grey < value, grey, 255 - grey)  # solarize


@dataclass(frozen=True)
class Operations:
    """Operations of given strength, compiled for one image size and device; applied by their number.

    Number 0 leaves an image as it is; the others are numbered in the order of `Op`.
    """

    edges: IntArray  # first number of each Op, and the end
    maps: Tensor  # geometric: flat source index, [n, pixels] int64
    inside: Tensor  # geometric: 0 where the source lies outside, [n, pixels] uint8
    factors: npt.NDArray[np.float32]  # of every number; the enhancements' blend
    lookups: Tensor  # invert, posterize, solarize: [n, 256] uint8

    @classmethod
    def compile(
        cls, operations: Sequence[tuple[Op, float]], height: int, width: int, device: torch.device
    ) -> "Operations":
        """`operations` must be in the order of `Op` and start with the identity.

        The value is the shear, the shift in pixels, the angle in degrees, the blend factor, the number of
        bits or the threshold; the other operations have none.
        """
        ops = np.array([op for op, _ in operations])
        maps = [_source_map(op, v, height, width) for op, v in operations if Op.SHEAR_X <= op <= Op.ROTATE]
        flat = np.stack(maps) if maps else np.zeros((0, height * width), np.int64)
        lookups = [_fixed_lookup(op, v) for op, v in operations if Op.INVERT <= op <= Op.SOLARIZE]
        return cls(
            edges=np.searchsorted(ops, np.arange(len(Op) + 1)),
            maps=torch.from_numpy(flat.clip(0)).to(device),
            inside=torch.from_numpy((flat >= 0).astype(np.uint8)).to(device),
            factors=np.array([value for _, value in operations], np.float32),
            lookups=torch.from_numpy(np.array(lookups, np.uint8).reshape(-1, 256)).to(device),
        )

    def __call__(self, images: Tensor, numbers: IntArray) -> Tensor:
        """Apply to `images` [B, 3, H, W] uint8 the operations `numbers` [stages, B], stage after stage."""
        place = np.arange(len(images))  # of each image in the batch, which each stage sorts by operation
        for stage in numbers:
            if not stage.any():
                continue
            order = np.argsort(stage, kind="stable")
            images = images.index_select(0, _send(place[order], images))
            place[order] = np.arange(len(order))
            self._apply_sorted(images, stage[order])
        return images.index_select(0, _send(place, images))

    def _apply_sorted(self, images: Tensor, numbers: IntArray) -> None:
        """In place; every operation's images lie together, so a slice is all that a family needs."""
        first = np.searchsorted(numbers, self.edges).tolist()
        shear_x, brightness = first[Op.SHEAR_X], first[Op.BRIGHTNESS]
        contrast, color, sharpness = first[Op.CONTRAST : Op.INVERT]
        invert, autocontrast, equalize = first[Op.INVERT], first[Op.AUTOCONTRAST], first[Op.EQUALIZE]
        if shear_x < brightness:
            rows = _send(numbers[shear_x:brightness] - self.edges[Op.SHEAR_X], images)
            _move(
                images[shear_x:brightness], self.maps.index_select(0, rows), self.inside.index_select(0, rows)
            )
        if brightness < invert:
            factors = _send(self.factors[numbers[brightness:invert]], images)
            start = brightness
            _enhance(images[start:invert], factors, contrast - start, color - start, sharpness - start)
        if invert < len(images):
            rows = _send(numbers[invert:autocontrast] - self.edges[Op.INVERT], images)
            fixed = self.lookups.index_select(0, rows)
            _look_up(images[invert:], fixed, equalize - invert)


def _send(array: npt.NDArray[np.generic], like: Tensor) -> Tensor:
    return torch.from_numpy(array).to(like.device, non_blocking=True)


def _move(images: Tensor, maps: Tensor, inside: Tensor) -> None:
    """Shear, translate, rotate: Pillow's `Image.transform(AFFINE)`, nearest neighbour, black outside."""
    pixels = images.flatten(2)
    pixels.copy_(pixels.gather(2, maps[:, None].expand_as(pixels)).mul_(inside[:, None]))


def _enhance(images: Tensor, factors: Tensor, contrast: int, color: int, sharpness: int) -> None:
    """Pillow's `ImageEnhance`: degenerate + factor · (image − degenerate), cut off to 0..255.

    The degenerate image is black (brightness, the first images), the mean grey (from `contrast` on),
    the grey image (from `color` on) or the smoothed one (from `sharpness` on).
    """
    image = images.float()
    degenerate = torch.zeros_like(image)
    if contrast < sharpness:
        grey = _grey(image[contrast:sharpness])
        if contrast < color:
            degenerate[contrast:color] = (grey[: color - contrast].mean((2, 3), keepdim=True) + 0.5).floor_()
        if color < sharpness:
            degenerate[color:sharpness] = grey[color - contrast :]
    if sharpness < len(image):
        degenerate[sharpness:] = _smooth(image[sharpness:])
    images.copy_(degenerate.add_(image.sub_(degenerate).mul_(factors[:, None, None, None])).clamp_(0, 255))


def _grey(image: Tensor) -> Tensor:
    """Pillow's RGB → L; its 16-bit weights sum to 65536, so float32 holds every step exactly."""
    weights = torch.tensor((19595.0, 38470.0, 7471.0), device=image.device).view(3, 1, 1)
    return (image * weights).sum(1, keepdim=True).add_(32768).div_(65536).floor_()


def _smooth(image: Tensor) -> Tensor:
    """Pillow's `ImageFilter.SMOOTH`: 3×3 with weight 5/13 in the centre, 1/13 around; the border is kept."""
    rows = image[:, :, :-2] + image[:, :, 1:-1]
    rows += image[:, :, 2:]
    box = rows[..., :-2] + rows[..., 1:-1]
    box += rows[..., 2:]
    smooth = image.clone()
    centre = smooth[:, :, 1:-1, 1:-1]
    centre.copy_(box.add_(centre, alpha=4).add_(6.5).div_(13).floor_())
    return smooth


def _look_up(images: Tensor, fixed: Tensor, equalize: int) -> None:
    """Invert, posterize, solarize by `fixed`, then autocontrast, then (from `equalize` on) equalize."""
    pixels = images.flatten(0, 1).flatten(1)
    tables = [fixed.repeat_interleave(3, 0)] if len(fixed) else []
    codes = pixels.int().add_(torch.arange(0, 256 * len(pixels), 256, device=pixels.device).int()[:, None])
    if len(fixed) < len(images):
        stretch = pixels[3 * len(fixed) : 3 * equalize]
        fractions = [_autocontrast(stretch)] if len(stretch) else []
        if equalize < len(images):
            start = 3 * equalize
            counts = torch.bincount(codes[start:].flatten(), minlength=256 * len(pixels))[256 * start :]
            fractions.append(_equalize(counts.view(-1, 256)))
        numerator = torch.cat([n for n, _ in fractions])
        denominator = torch.cat([d for _, d in fractions])
        # An image of one grey level has denominator 0 and stays as it is.
        level = torch.where(
            denominator > 0, numerator / denominator, torch.arange(256.0, device=pixels.device)
        )
        tables.append(level.clamp_(0, 255).byte())
    pixels.copy_(torch.cat(tables).flatten().index_select(0, codes.flatten()).view_as(pixels))


def _autocontrast(pixels: Tensor) -> tuple[Tensor, Tensor]:
    """Stretch to the full range: entry g is ⌊255 (g − low) / (high − low)⌋."""
    low, high = pixels.amin(1, keepdim=True).float(), pixels.amax(1, keepdim=True).float()
    return (torch.arange(256.0, device=pixels.device) - low).mul_(255), high.sub_(low)


def _equalize(counts: Tensor) -> tuple[Tensor, Tensor]:
    """Flatten the histogram: entry g is ⌊(⌊step/2⌋ + pixels below g) / step⌋; 255 steps reach the highest."""
    below = counts.cumsum(1).sub_(counts)
    step = (below * (counts > 0)).amax(1, keepdim=True).floor_divide_(255)
    return below.add_(step // 2).float(), step.float()
