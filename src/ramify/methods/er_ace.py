"""ER-ACE."""

from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from ramify.memory import Forward, Workbench
from ramify.methods.er import er
from ramify.methods.recipe import Recipe, method
from ramify.methods.settings import Settings
from ramify.networks import cross_entropy
from ramify.networks.levels import like
from ramify.randomness import Generators
from ramify.training.objectives import CrossEntropy


class Asymmetric(CrossEntropy):
    """Arrivals are told apart among the classes that arrive with them, stored samples among all classes seen.

    So new classes do not push the old ones aside. The sum of both means (eq. 3 of the paper).
    """

    def loss(self, bench: Workbench, forward: Forward) -> Tensor:
        """The value to differentiate."""
        logits, targets, arrived = forward.logits, forward.targets, forward.batch.arrived
        new = arrived if targets.rows is None else arrived[targets.rows]
        present = np.zeros(len(bench.classes), bool)
        present[targets.classes[new]] = True
        closed = like(logits, arrived[:, None] & ~present)
        losses = cross_entropy(logits.masked_fill(closed, -torch.inf), targets, bench.levels)
        return sum(
            (losses[like(losses, one)].mean() for one in (new, ~new) if one.any()), losses.new_zeros(())
        )


@method("er-ace")
def er_ace(settings: Settings, rng: Generators) -> Recipe:
    """ER-ACE (Caccia et al. 2022): ER with an asymmetric cross-entropy."""
    return replace(er(settings, rng), minimise=Asymmetric())
