"""Cross-entropy that does not take what the batches happen to hold for what the world holds."""

from __future__ import annotations

import numpy as np
from torch import Tensor

from ramify.arrays import Floats
from ramify.memory import Batch, Forward, Workbench
from ramify.networks.levels import like
from ramify.training.objectives import CrossEntropy


class Shifted(CrossEntropy):
    """Cross-entropy of logits that are shifted class by class (logit adjustment, Menon et al. 2021)."""

    def shift(self, bench: Workbench, batch: Batch) -> Floats:
        """By class; only differences within a level matter."""
        raise TypeError(f"{type(self).__name__} does not say by how much logits are shifted")

    def compared(self, bench: Workbench, forward: Forward) -> Tensor:
        """The logits, shifted."""
        return forward.logits + like(forward.logits, self.shift(bench, forward.batch).astype(np.float32))
