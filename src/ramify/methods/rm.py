"""RM."""

from ramify.memory import Balanced
from ramify.methods.epochs import train_on_memory
from ramify.methods.recipe import Recipe, method
from ramify.methods.settings import Settings
from ramify.randomness import Generators
from ramify.rehearsal import StreamOnly
from ramify.training.objectives import CrossEntropy
from ramify.training.schedules import ExponentialReset


@method("rm")
def rm(settings: Settings, rng: Generators) -> Recipe:
    """RM (Bang et al. 2021): learn the stream as it comes, then the balanced memory for many epochs.

    Not task-free: the epochs on memory come at the end of each task. Within a task one update is made for
    each batch of the stream, whatever `updates_per_sample` says.
    """
    return Recipe(
        keep=Balanced(rng["keep"]),
        rehearse=StreamOnly(rng["rehearse"]),
        minimise=CrossEntropy(clip=10.0),
        rate=ExponentialReset(settings.lr, settings.lr_decay),
        consolidate=train_on_memory,
    )
