"""The fourteen image operations of AutoAugment on whole uint8 batches, as Pillow defines them.

An operation belongs to one of three families, and a family is one computation for all the images that drew
it: geometric (a map of source pixels), enhancement (a blend with a degenerate image), lookup (256 entries).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import cache

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from ramify.arrays import Floats, Ints, Singles

_GREYS = np.arange(256)


class Op(IntEnum):
    """The operations, in the order of their families: geometric, enhancement, lookup."""

    IDENTITY = 0
    SHEAR_X = 1
    SHEAR_Y = 2
    TRANSLATE_X = 3
    TRANSLATE_Y = 4
    ROTATE = 5
    CONTRAST = 6
    COLOR = 7
    SHARPNESS = 8
    BRIGHTNESS = 9
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


def _source_map(op: Op, value: float, height: int, width: int) -> Ints:
    """Flat source index of each pixel, -1 outside: nearest neighbour in Pillow's 16.16 fixed point."""
    a, b, c, d, e, f = _inverse_affine(op, value, height, width)
    fixed = np.floor(
        np.array([a, b, c + a / 2 + b / 2, d, e, f + d / 2 + e / 2]) * 65536 + 0.5  # pixel centres
    ).astype(np.int64)
    y, x = np.mgrid[:height, :width]
    source_x = (fixed[0] * x + fixed[1] * y + fixed[2]) >> 16
    source_y = (fixed[3] * x + fixed[4] * y + fixed[5]) >> 16
    inside = (source_x >= 0) & (source_x < width) & (source_y >= 0) & (source_y < height)
    flat: Ints = np.where(inside, source_y * width + source_x, -1).reshape(-1)
    return flat


def _fixed_lookup(op: Op, value: float) -> Ints:
    """The 256 entries of brightness, invert, posterize, solarize, which do not depend on the image."""
    if op == Op.BRIGHTNESS:
        return (_GREYS * np.float32(value)).clip(0, 255).astype(np.int64)
    if op == Op.INVERT:
        return 255 - _GREYS
    if op == Op.POSTERIZE:
        return _GREYS & -(1 << 8 - int(value))
    if op == Op.SOLARIZE:
        return np.where(value > _GREYS, _GREYS, 255 - _GREYS)
    return np.zeros_like(_GREYS)


@dataclass(frozen=True)
class Operations:
    """Operations of given strength, compiled for one image size and device; applied by their number.

    Number 0 leaves an image as it is; the others are numbered in the order of `Op`.
    """

    edges: Ints  # first number of each Op
    maps: Tensor  # geometric: flat source index, [n, 1, pixels] int64
    inside: Tensor  # geometric: 0 where the source lies outside, [n, 1, pixels] uint8
    factors: Singles  # of every number; the enhancements' blend
    lookups: npt.NDArray[np.uint8]  # of every number, [n, 256]; those without a fixed table have zeros
    luma: Tensor  # Pillow's RGB → L, [3, 1, 1]

    @classmethod
    def compile(
        cls, operations: Sequence[tuple[Op, float]], height: int, width: int, device: torch.device
    ) -> "Operations":
        """`operations` must be in the order of `Op` and start with the identity.

        The value is the shear, the shift in pixels, the angle in degrees, the blend factor, the number of
        bits or the threshold; the other operations have none.
        """
        maps = [_source_map(op, v, height, width) for op, v in operations if Op.SHEAR_X <= op <= Op.ROTATE]
        flat = np.array(maps, np.int64).reshape(-1, 1, height * width)
        return cls(
            edges=np.searchsorted([op for op, _ in operations], list(Op)),
            maps=torch.from_numpy(flat.clip(0)).to(device),
            inside=torch.from_numpy((flat >= 0).astype(np.uint8)).to(device),
            factors=np.array([value for _, value in operations], np.float32),
            lookups=np.array([_fixed_lookup(op, value) for op, value in operations], np.uint8),
            luma=(torch.tensor((19595.0, 38470.0, 7471.0), device=device) / 65536).view(3, 1, 1),
        )

    def __call__(self, images: Tensor, numbers: Ints) -> Tensor:
        """Apply to `images` [B, 3, H, W] uint8 the operations `numbers` [stages, B], stage after stage."""
        place = np.arange(len(images))  # of each image in the batch, which each stage sorts by operation
        with torch.inference_mode():  # spares bookkeeping, a tenth of the time on small images
            for stage in numbers:
                if stage.any():
                    order = stage.argsort(kind="stable")
                    images = images.index_select(0, self._send(place[order]))
                    place[order] = np.arange(len(order))
                    self._apply_sorted(images, stage[order])
        return images.index_select(0, self._send(place))

    def _apply_sorted(self, images: Tensor, numbers: Ints) -> None:
        """In place; every operation's images lie together, so a slice is all that a family needs."""
        first = numbers.searchsorted(self.edges).tolist()
        move, enhance, look_up = first[Op.SHEAR_X], first[Op.CONTRAST], first[Op.BRIGHTNESS]
        if move < enhance:
            self._move(images[move:enhance], numbers[move:enhance])
        if enhance < look_up:
            color, sharpness = first[Op.COLOR] - enhance, first[Op.SHARPNESS] - enhance
            self._enhance(images[enhance:look_up], numbers[enhance:look_up], color, sharpness)
        if look_up < len(images):
            autocontrast, equalize = first[Op.AUTOCONTRAST] - look_up, first[Op.EQUALIZE] - look_up
            self._look_up(images[look_up:], numbers[look_up:], autocontrast, equalize)

    def _send(self, array: npt.NDArray[np.generic]) -> Tensor:
        return torch.from_numpy(array).to(self.luma.device)

    def _move(self, images: Tensor, numbers: Ints) -> None:
        """Shear, translate, rotate: Pillow's `Image.transform(AFFINE)`, nearest neighbour, black outside."""
        rows = self._send(numbers - self.edges[Op.SHEAR_X])
        pixels = images.flatten(2)
        moved = pixels.gather(2, self.maps.index_select(0, rows).expand_as(pixels))
        torch.mul(moved, self.inside.index_select(0, rows), out=pixels)

    def _enhance(self, images: Tensor, numbers: Ints, color: int, sharpness: int) -> None:
        """Pillow's `ImageEnhance`: degenerate + factor · (image − degenerate), cut off to 0..255.

        The degenerate image is the mean grey (contrast, the first images), the grey image (from `color` on)
        or the smoothed one (from `sharpness` on).
        """
        image = images.float()
        degenerate = image.clone()
        if sharpness:  # the weights are 16-bit fractions of sum 1: float32 holds every step exactly
            grey = (image[:sharpness] * self.luma).sum(1, keepdim=True).add_(0.5).floor_()
            if color:
                grey[:color] = grey[:color].mean((2, 3), keepdim=True).add_(0.5).floor_()
            degenerate[:sharpness] = grey
        if sharpness < len(image):
            _smooth(degenerate[sharpness:])
        factors = self._send(self.factors[numbers]).view(-1, 1, 1, 1)
        images.copy_(image.sub_(degenerate).mul_(factors).add_(degenerate).clamp_(0, 255))

    def _look_up(self, images: Tensor, numbers: Ints, autocontrast: int, equalize: int) -> None:
        """Fixed tables first; from `autocontrast` on, and from `equalize` on, a table of the image's own."""
        pixels = images.view(3 * len(images), -1)
        offsets = np.arange(0, 256 * len(pixels), 256, dtype=np.int32)
        codes = pixels.int().add_(self._send(offsets[:, None])).view(-1)
        tables = np.empty((len(images), 3, 256), np.uint8)
        tables[:autocontrast] = self.lookups[numbers[:autocontrast], None]
        own, here = codes[autocontrast * 3 * pixels.shape[1] :], images.device.type == "cpu"
        if len(own) and here:
            counts = torch.bincount(own, minlength=tables.size).numpy().reshape(tables.shape)
            if autocontrast < equalize:
                tables[autocontrast:equalize] = _autocontrast(counts[autocontrast:equalize])
            if equalize < len(images):
                tables[equalize:] = _equalize(counts[equalize:])
        sent = self._send(tables.reshape(-1))
        if len(own) and not here:
            _fill_tables(sent.view(-1, 256), own, 3 * autocontrast, 3 * equalize)
        torch.index_select(sent, 0, codes, out=images.view(-1))


def _smooth(images: Tensor) -> None:
    """Pillow's `ImageFilter.SMOOTH`: 3×3 with weight 5/13 in the centre, 1/13 around; the border is kept.

    Sums run over the flat batch; those that cross an image's border are not used.
    """
    height, width = images.shape[2:]
    flat = images.view(-1)
    rows = (flat[: -2 * width] + flat[width:-width]).add_(flat[2 * width :])
    box = (rows[:-2] + rows[1:-1]).add_(rows[2:])
    box.add_(flat[width + 1 : -width - 1], alpha=4).add_(6.5).div_(13).floor_()
    inner = (len(images), 3, height - 2, width - 2)
    images[:, :, 1:-1, 1:-1] = box.as_strided(inner, images.stride())


def _autocontrast(counts: Ints) -> Ints:
    """Stretch to the full range: entry g is ⌊255 (g − low) / (high − low)⌋, with Pillow's rounding."""
    present = counts > 0
    low = present.argmax(-1)[..., None]
    high = 255 - present[..., ::-1].argmax(-1)[..., None]
    return _stretched(low, high)


def _stretched(low: Ints, high: Ints) -> Ints:
    scale = 255 / np.maximum(high - low, 1)
    return np.where(high > low, _GREYS * scale - low * scale, _GREYS).astype(np.int64)


def _equalize(counts: Ints) -> Floats:
    """Flatten the histogram: entry g is ⌊(⌊step/2⌋ + pixels below g) / step⌋; 255 steps reach the highest."""
    below = counts.cumsum(-1)
    below -= counts
    step = (below * (counts > 0)).max(-1, keepdims=True) // 255
    table = np.minimum((below + step // 2) / np.maximum(step, 1), 255)
    return np.where(step > 0, table, _GREYS)


def _fill_tables(tables: Tensor, codes: Tensor, autocontrast: int, equalize: int) -> None:
    """The same two on a device, in whole numbers and without waiting for it: rows of `tables` [n, 256]."""
    counts = torch.zeros(tables.numel(), dtype=torch.int32, device=tables.device)
    counts = counts.scatter_add_(0, codes.long(), torch.ones_like(codes)).view(tables.shape)
    greys = torch.arange(256, device=tables.device)
    if autocontrast < equalize:
        present = counts[autocontrast:equalize] > 0
        low, high = greys.where(present, 255).amin(1), greys.where(present, 0).amax(1)
        tables[autocontrast:equalize] = _all_stretched(tables.device).index_select(0, 256 * low + high)
    if equalize < len(tables):
        own = counts[equalize:]
        below = own.cumsum(1) - own
        step = (below * (own > 0)).amax(1, keepdim=True) // 255
        flat = ((below + step // 2) // step.clamp(min=1)).clamp(max=255)
        tables[equalize:] = flat.where(step > 0, greys).to(torch.uint8)


@cache
def _all_stretched(device: torch.device) -> Tensor:
    """`_stretched` for every lowest and highest grey, [256 · 256, 256]: it is rounded in double precision."""
    high = np.arange(256)[:, None]
    tables = [_stretched(np.full_like(high, low), high).astype(np.uint8) for low in range(256)]
    return torch.from_numpy(np.concatenate(tables)).to(device)
