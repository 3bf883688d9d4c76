"""Oracle."""

from ramify.memory import Everything
from ramify.methods.epochs import FreshModel
from ramify.methods.recipe import Recipe, method
from ramify.methods.settings import Settings
from ramify.randomness import Generators
from ramify.rehearsal import Nothing
from ramify.training.objectives import CrossEntropy
from ramify.training.schedules import Rate


@method("oracle")
def oracle(settings: Settings, rng: Generators) -> Recipe:
    """Oracle (table 5): offline training on all images with their classes at all levels, an upper bound.

    It keeps the whole stream (a run makes the memory large enough) and answers only at its end.
    """
    return Recipe(
        keep=Everything(),
        rehearse=Nothing(rng["rehearse"]),
        minimise=CrossEntropy(clip=10.0),
        rate=Rate(settings.lr),
        answer=FreshModel(),
        told_paths=True,
        offline=True,
    )
