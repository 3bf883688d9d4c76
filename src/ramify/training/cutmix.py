"""CutMix (Yun et al., ICCV 2019) among the samples of one level."""

from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from ramify.arrays import Ints
from ramify.memory import Batch, Workbench
from ramify.memory.batch import Mixture
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
        if batch.mixture is None:  # else the images have been mixed ahead
            batch = self.draw(bench, batch)
            images = self.paste(images, batch)
        partner, _, lam = batch.mixture or Mixture()
        return images, targets if partner is None or lam is None else targets.mixed(partner, lam)

    def draw(self, bench: Workbench, batch: Batch) -> Batch:
        """A batch with the choices for it."""
        groups, rng = level_sets(batch.labels, bench.classes.level_of), bench.rng["cutmix"]
        if self.half:
            mixed = ripe(batch.rehearsed, len(batch), self.half, rng)
            groups = np.where(mixed, groups, groups.max() + 1 + np.arange(len(batch)))
        height, width = batch.inputs.shape[2:]
        return replace(batch, mixture=self.choose(groups, height, width, rng))

    def choose(self, levels: Ints, height: int, width: int, rng: np.random.Generator) -> Mixture:
        """Each image's partner [B] of the same level, the boxes, and the images' own shares λ [B]."""
        n = len(levels)
        if rng.random() >= self.probability:
            return Mixture()
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
        return Mixture(partner, rows[:, None, :height, None] & columns[:, None, None, :width], lam)

    def paste(self, images: Tensor, batch: Batch) -> Tensor:
        """The images [B, 3, H, W] of a batch whose mixture is known, with the boxes of their partners."""
        mixture = batch.mixture
        if mixture is None or mixture.partner is None or mixture.box is None:
            return images
        others = images.index_select(0, torch.from_numpy(mixture.partner).to(images.device))
        return torch.where(torch.from_numpy(mixture.box).to(images.device), others, images)
