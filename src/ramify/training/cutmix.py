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
        side = np.sqrt(1 - rng.beta(self.alpha, self.alpha, levels.max() + 1))
        top, bottom = _interval(side, height, rng)
        left, right = _interval(side, width, rng)
        lam = (1 - (bottom - top) * (right - left) / (height * width)).astype(np.float32)
        rows, columns = np.arange(height), np.arange(width)
        inside_rows = (rows >= top[:, None]) & (rows < bottom[:, None])
        inside_columns = (columns >= left[:, None]) & (columns < right[:, None])
        box = (inside_rows[:, None, :, None] & inside_columns[:, None, None])[levels]
        others = images.index_select(0, torch.from_numpy(partner).to(images.device))
        mixed = torch.where(torch.from_numpy(box).to(images.device), others, images)
        return mixed, partner, lam[levels]


def _interval(
    side: npt.NDArray[np.float64], size: int, rng: np.random.Generator
) -> tuple[IntArray, IntArray]:
    """Where boxes of relative `side` begin and end: centre uniform over the image, cut off at its edge."""
    length = (side * size).astype(np.int64)
    start = rng.integers(size, size=len(side)) - length // 2
    return start.clip(0), (start + length).clip(0, size)
