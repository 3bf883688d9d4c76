"""CutMix (Yun et al., ICCV 2019) among the samples of one level."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

IntArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float32]


@dataclass(frozen=True)
class CutMix:
    """Paste a box of another image of the same level; one box and one λ a level, λ ~ Beta(alpha, alpha).

    With `probability` a batch is mixed, else left as it is. The loss of sample b is then
    λ_b · CE(target_b) + (1 − λ_b) · CE(target of partner_b).
    """

    probability: float = 0.5
    alpha: float = 1.0

    def __call__(
        self, images: Tensor, levels: IntArray, rng: np.random.Generator
    ) -> tuple[Tensor, IntArray, FloatArray]:
        """Return the mixed images [B, 3, H, W], each one's partner [B] and λ [B], its own share."""
        n, _, height, width = images.shape
        partner = np.arange(n)
        if rng.random() >= self.probability:
            return images, partner, np.ones(n, np.float32)
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
