"""EWC++."""

from ramify.memory import Reservoir
from ramify.methods.recipe import Recipe, method
from ramify.methods.settings import Settings
from ramify.randomness import Generators
from ramify.rehearsal import HalfAndHalf
from ramify.training.objectives import FisherPenalty
from ramify.training.schedules import ExponentialReset


@method("ewc++")
def ewc(settings: Settings, rng: Generators) -> Recipe:
    """EWC++ (Chaudhry et al. 2018): ER, and weights that mattered so far are held where they were.

    Not task-free: where the weights are held, and how firmly, is fixed at the end of each task; before the
    first one there is no penalty.
    """
    penalty = FisherPenalty(settings.ewc.strength, settings.ewc.decay)
    return Recipe(
        keep=Reservoir(rng["keep"]),
        rehearse=HalfAndHalf(rng["rehearse"]),
        minimise=penalty,
        rate=ExponentialReset(settings.lr, settings.lr_decay),
        consolidate=lambda engine: penalty.anchor(),
    )
