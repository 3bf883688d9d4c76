"""CutMix (Yun et al., ICCV 2019) among the samples of one level."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from ramify.arrays import Ints, Singles
from ramify.memory import Batch, Workbench
from ramify.networks.levels import Targets, level_sets
from ramify.training.augment import ripe


def unmixed(bench: Workbench, batch: Batch, images: Tensor, targets: Targets) -> tuple[Tensor, Targets]:
    """No mixing."""
    return images, targets


@dataclass(frozen=True)
class CutMix:
    """Paste a box of another image of the same level; one box and one λ a level, λ ~ Beta(alpha, alpha).

    With `probability` a batch is mixed, else left as it is. The loss of sample b is then
    λ_b · CE(target_b) + (1 − λ_b) · CE(target of partner_b). Images that are not `ripe` keep to themselves.
    """

    probability: float = 0.5
    alpha: float = 1.0
    half: float = 0.0

    def __call__(
        self, bench: Workbench, batch: Batch, images: Tensor, targets: Targets
    ) -> tuple[Tensor, Targets]:
        """Mix the images of a batch, and what they are compared with, among samples of the same levels."""
        groups = level_sets(batch.labels, bench.classes.level_of)
        if self.half:
            mixed = ripe(batch.rehearsed, len(batch), self.half, bench.rng["cutmix"])
            groups = np.where(mixed, groups, groups.max() + 1 + np.arange(len(batch)))
        images, partner, lam = self.mix(images, groups, bench.rng["cutmix"])
        return images, targets if partner is None else targets.mixed(partner, lam)

    def mix(
        self, images: Tensor, levels: Ints, rng: np.random.Generator
    ) -> tuple[Tensor, Ints | None, Singles]:
        """Return the images [B, 3, H, W], each one's partner [B] (None: not mixed) and own share λ [B]."""
        n, _, height, width = images.shape
        if rng.random() >= self.probability:
            return images, None, np.ones(n, np.float32)
        partner = np.arange(n)
        partner[levels.argsort(kind="stable")] = np.lexsort((rng.random(n), levels))
        size = np.array([[height], [width]])
        share = 1 - rng.beta(self.alpha, self.alpha, levels.max() + 1)
        side = (np.sqrt(share) * size).astype(np.int64)  # [2, levels]: height and width of each level's box
        start = (rng.random(side.shape) * size).astype(np.int64) - side // 2  # its centre is uniform
        start, end = np.maximum(start, 0), np.minimum(start + side, size)
        lam = (1 - np.prod(end - start, axis=0) / (height * width)).astype(np.float32)[levels]
        pixel = np.arange(max(height, width))
        rows, columns = ((pixel >= start[..., None]) & (pixel < end[..., None]))[:, levels]
        box = rows[:, None, :height, None] & columns[:, None, None, :width]
        others = images.index_select(0, torch.from_numpy(partner).to(images.device))
        return torch.where(torch.from_numpy(box).to(images.device), others, images), partner, lam
