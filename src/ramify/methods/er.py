"""ER."""

from ramify.memory import Reservoir
from ramify.methods.recipe import Recipe, method
from ramify.methods.settings import Settings
from ramify.randomness import Generators
from ramify.rehearsal import HalfAndHalf
from ramify.training.objectives import CrossEntropy
from ramify.training.rates import ExponentialReset


@method("er")
def er(settings: Settings, rng: Generators) -> Recipe:
    """ER (Rolnick et al. 2019): rehearse a reservoir of the stream, half of each batch from memory.

    The memory takes a sample after it has been trained on.
    """
    return Recipe(
        keep=Reservoir(rng["keep"]),
        rehearse=HalfAndHalf(rng["rehearse"]),
        minimise=CrossEntropy(),
        rate=ExponentialReset(settings.lr, settings.lr_decay),
    )
