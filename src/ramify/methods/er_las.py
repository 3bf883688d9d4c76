"""ER-LAS."""

from dataclasses import dataclass, replace

from ramify.methods.er import er
from ramify.methods.recipe import Recipe, method
from ramify.methods.settings import Settings, check_bounds
from ramify.randomness import Generators
from ramify.training.priors import WindowPrior
from ramify.typed import Typed, whole


@dataclass(frozen=True)
class ErLasSettings(Typed):
    """ER-LAS."""

    tau: float = 1.0
    """How much of the batches' prior is taken out of the logits."""
    window: int = 1
    """Batches that the prior is counted in."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_bounds({}, {}, {"er_las.tau": self.tau})
        whole("er_las.window", self.window, 1)


@method("er-las", settings=ErLasSettings)
def er_las(settings: Settings, rng: Generators) -> Recipe:
    """ER-LAS (Huang et al. 2024): ER whose softmax is adjusted by the class priors of the latest batches."""
    own = settings[ErLasSettings]
    return replace(er(settings, rng), minimise=WindowPrior(own.tau, own.window))
