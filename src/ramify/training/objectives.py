"""What to minimise."""

from __future__ import annotations

from torch import Tensor

from ramify.memory import Forward, Workbench
from ramify.networks import cross_entropy
from ramify.state import Stateful


class CrossEntropy(Stateful):
    """Mean over the batch of each sample's cross-entropy on its own level's head, over the classes seen."""

    def __init__(self, clip: float | None = None) -> None:
        self.clip = clip  # largest norm of the gradient

    def loss(self, bench: Workbench, forward: Forward) -> Tensor:
        """The value to differentiate."""
        return cross_entropy(forward.logits, forward.targets, bench.levels).mean()

    def differentiate(self, bench: Workbench, loss: Tensor) -> None:
        """Give the network's parameters their gradients."""
        loss.backward()  # type: ignore[no-untyped-call]
