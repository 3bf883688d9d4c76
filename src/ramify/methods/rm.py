"""RM."""

from ramify.memory import Balanced
from ramify.methods.epochs import SETTINGS, EpochSettings, MemoryEpochs
from ramify.methods.recipe import Recipe, method
from ramify.methods.settings import Settings
from ramify.randomness import Generators
from ramify.rehearsal import StreamOnly
from ramify.training.objectives import CrossEntropy
from ramify.training.rates import Rate


@method("rm", settings=SETTINGS, task_free=False, memory_epochs="task ends")
def rm(settings: Settings, rng: Generators) -> Recipe:
    """RM (Bang et al. 2021): learn the stream as it comes, then the balanced memory for many epochs.

    Not task-free: the epochs on memory come at the end of each task. Within a task one update is made for
    each batch of the stream, whatever `updates_per_sample` says.
    """
    epochs = MemoryEpochs(settings[EpochSettings].count)
    return Recipe(
        keep=Balanced(rng["keep"]),
        rehearse=StreamOnly(rng["rehearse"]),
        minimise=CrossEntropy(clip=10.0),
        rate=Rate(settings.lr),
        answer=epochs,
        consolidate=epochs.train,
    )
