"""Augmentation of whole uint8 batches: random crop, horizontal flip, AutoAugment."""

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np
import torch
from torch import Tensor

from ramify.arrays import Floats, Ints, Mask
from ramify.memory import Batch, Workbench
from ramify.training.autoaugment import AutoAugmentName, auto_augment


def crop_flip(images: Tensor, top: Ints, left: Ints, flip: Mask, padding: int) -> Tensor:
    """Mirror image b if flip[b], pad it with `padding` zeros and cut it at row top[b] and column left[b].

    A row of the result is a run of the padded batch or of its mirror image: one copy a row, by its start.
    """
    n, channels, height, width = images.shape
    both = images.new_zeros((2, n, channels, height + 2 * padding, width + 2 * padding))
    inner = both[..., padding : padding + height, padding : padding + width]
    inner[0], inner[1] = images, images.flip(3)
    plane, stride = both.stride(2), both.stride(3)
    corners = (np.arange(n) + n * flip) * (channels * plane) + top * stride + left
    rows = np.arange(channels)[:, None] * plane + np.arange(height) * stride
    starts = torch.from_numpy((corners[:, None, None] + rows).reshape(-1)).to(images.device)
    runs = both.as_strided((both.numel() - width + 1, width), (1, 1))
    return runs.index_select(0, starts).view(images.shape)


@dataclass(frozen=True)
class Draw:
    """The random choices for one batch of B images."""

    top: Ints  # [B], 0..2·padding
    left: Ints
    flip: Mask
    outcome: Floats  # [B], uniform in 0..1: which operations, `AutoAugment.choose`
    ripe: Mask  # [B] whether AutoAugment is applied at all


def ripe(rehearsed: Floats | None, n: int, half: float, rng: np.random.Generator) -> Mask:
    """Which of n images are changed in full: one rehearsed k times with probability k / (k + `half`).

    That helps against learning an image by heart, and hinders while it is hardly known. With 0 all are.
    """
    if not half:
        return np.ones(n, np.bool_)
    times = np.zeros(n) if rehearsed is None else rehearsed
    found: Mask = rng.random(n) < times / (times + half)
    return found


@dataclass(frozen=True)
class Augment:
    """Random crop, horizontal flip, then a sub-policy of AutoAugment, drawn for each image that is `ripe`.

    `autoaugment` is "cifar10", "imagenet" or None (none). Images are uint8 [B, 3, H, W] on any device.
    Small images cost by the call, not by the image: the batches of several updates are augmented `together`
    if they are known.
    """

    autoaugment: AutoAugmentName | None = None
    padding: int = 4
    flip: bool = True
    half: float = 0.0

    def draw(self, n: int, rng: np.random.Generator, rehearsed: Floats | None = None) -> Draw:
        """The choices for `n` images: always the same number of draws from `rng`."""
        uniform = rng.random((4, n))
        top, left = (uniform[:2] * (2 * self.padding + 1)).astype(np.int64)
        return Draw(top, left, (uniform[2] < 0.5) & self.flip, uniform[3], ripe(rehearsed, n, self.half, rng))

    def apply(self, images: Tensor, draw: Draw) -> Tensor:
        """Augment `images` by the choices of `draw`."""
        images = crop_flip(images, draw.top, draw.left, draw.flip, self.padding)
        if self.autoaugment is None:
            return images
        chosen = auto_augment(self.autoaugment, images.shape[2], images.shape[3], images.device)
        return chosen.operations(images, chosen.choose(draw.outcome) * draw.ripe)

    def __call__(self, bench: Workbench, batch: Batch) -> Tensor:
        """Augment a batch with fresh choices."""
        return self.apply(batch.inputs, self.draw(len(batch), bench.rng["augment"], batch.rehearsed))

    def together(self, images: Tensor, draws: Sequence[Draw]) -> Tensor:
        """Augment the images of batches one after the other in one go, by the choices of each of them."""
        return self.apply(
            images, Draw(*(np.concatenate([getattr(d, f.name) for d in draws]) for f in fields(Draw)))
        )


def as_it_is(bench: Workbench, batch: Batch) -> Tensor:
    """No augmentation, as for features."""
    return batch.inputs


def one_view(bench: Workbench, batch: Batch) -> Tensor:
    """Of each sample one of its views [n, views, size], drawn anew."""
    values = batch.inputs
    chosen = torch.from_numpy(bench.rng["augment"].integers(values.shape[1], size=len(batch)))
    rows = torch.arange(len(batch), device=values.device)
    return values[rows, chosen.to(values.device)]
