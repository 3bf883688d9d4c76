"""ER-LAS."""

from dataclasses import dataclass, replace

from ramify.methods.er import er
from ramify.methods.recipe import Recipe, method
from ramify.methods.settings import Settings
from ramify.randomness import Generators
from ramify.training.priors import WindowPrior
from ramify.typed import Count, NotNegative, Typed


@dataclass(frozen=True)
class ErLasSettings(Typed):
    """ER-LAS."""

    tau: NotNegative = 1.0
    """How much of the batches' prior is taken out of the logits."""
    window: Count = 1
    """Batches that the prior is counted in."""


@method("er-las", settings=ErLasSettings)
def er_las(settings: Settings, rng: Generators) -> Recipe:
    """ER-LAS (Huang et al. 2024): ER whose softmax is adjusted by the class priors of the latest batches."""
    own = settings[ErLasSettings]
    return replace(er(settings, rng), minimise=WindowPrior(own.tau, own.window))
