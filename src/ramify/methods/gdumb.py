"""GDumb."""

from ramify.memory import Balanced
from ramify.methods.epochs import SETTINGS, EpochSettings, FreshModel
from ramify.methods.recipe import Recipe, method
from ramify.methods.settings import Settings
from ramify.randomness import Generators
from ramify.rehearsal import Nothing
from ramify.training.objectives import CrossEntropy
from ramify.training.rates import Rate


@method("gdumb", settings=SETTINGS, trains_when_asked=True, memory_epochs="answers")
def gdumb(settings: Settings, rng: Generators) -> Recipe:
    """GDumb (Prabhu et al. 2020): only collect a balanced memory; when asked, train a fresh model on it.

    As in the paper's HLE runs: Adam at the base rate, `epochs.count` epochs, cosine with warm restarts.
    """
    return Recipe(
        keep=Balanced(rng["keep"]),
        rehearse=Nothing(rng["rehearse"]),
        minimise=CrossEntropy(clip=10.0),
        rate=Rate(settings.lr),
        answer=FreshModel(settings[EpochSettings].count),
    )
