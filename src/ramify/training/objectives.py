"""What to minimise."""

from __future__ import annotations

import numpy as np
from torch import Tensor

from ramify.arrays import Floats
from ramify.memory import Batch, Forward, Workbench
from ramify.networks import cross_entropy
from ramify.networks.levels import like, with_gradient
from ramify.state import Stateful


class CrossEntropy(Stateful):
    """Mean over the batch of each sample's cross-entropy on its own level's head, over the classes seen.

    Where only the heads learn, from features as they are, the gradient is written down, which spares a sixth
    of an update. Only the one that is `minimised` does so: of a part of another one autograd finds it.
    """

    minimised = False  # whether updates are made on its own loss; the trainer says so
    _written: tuple[Tensor, Tensor] | None = None  # features, and the gradient by the logits

    def __init__(self, clip: float | None = None) -> None:
        self.clip = clip  # largest norm of the gradient

    @property
    def plain(self) -> bool:
        """Whether the loss is the one below, and nothing is added to its gradient."""
        own = type(self)
        return own.loss is CrossEntropy.loss and own.differentiate is CrossEntropy.differentiate

    def compared(self, bench: Workbench, forward: Forward) -> Tensor:
        """The logits that are compared with the targets: as they are, or each with a number added."""
        return forward.logits

    def loss(self, bench: Workbench, forward: Forward) -> Tensor:
        """The value to differentiate."""
        logits, targets = self.compared(bench, forward), forward.targets
        if not (self.minimised and self.plain and targets.single) or forward.features.requires_grad:
            self._written = None
            return cross_entropy(logits, targets, bench.levels).mean()
        loss, gradient = with_gradient(logits.detach(), targets, bench.levels)
        self._written = forward.features, gradient
        return loss

    def differentiate(self, bench: Workbench, loss: Tensor) -> None:
        """Give the network's parameters their gradients."""
        if self._written is None:
            loss.backward()  # type: ignore[no-untyped-call]
        else:
            bench.model.heads.differentiate(*self._written)
            self._written = None


class Shifted(CrossEntropy):
    """Cross-entropy of logits that are shifted class by class (logit adjustment, Menon et al. 2021).

    It does not take what the batches happen to hold for what the world holds.
    """

    def shift(self, bench: Workbench, batch: Batch) -> Floats:
        """By class; only differences within a level matter."""
        raise TypeError(f"{type(self).__name__} does not say by how much logits are shifted")

    def compared(self, bench: Workbench, forward: Forward) -> Tensor:
        """The logits, shifted."""
        return forward.logits + like(forward.logits, self.shift(bench, forward.batch).astype(np.float32))
