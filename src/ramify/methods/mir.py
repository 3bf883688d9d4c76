"""MIR."""

from ramify.memory import Reservoir
from ramify.methods.recipe import Recipe, method
from ramify.methods.settings import Settings
from ramify.randomness import Generators
from ramify.rehearsal import MostInterfered
from ramify.training.objectives import CrossEntropy
from ramify.training.schedules import ExponentialReset


@method("mir")
def mir(settings: Settings, rng: Generators) -> Recipe:
    """MIR (Aljundi et al. 2019): ER, but the memory's half are the samples that the arrivals would hurt most.

    The virtual step is plain SGD at the current rate on the arrivals, not augmented; the candidates' losses
    are compared in evaluation mode. Each level keeps its share of the candidates.
    """
    return Recipe(
        keep=Reservoir(rng["keep"]),
        rehearse=MostInterfered(rng["rehearse"], settings.mir.candidates),
        minimise=CrossEntropy(),
        rate=ExponentialReset(settings.lr, settings.lr_decay),
    )
