"""CLIB, and the paper's two parts on top of it: FMS, PL and PL-FMS."""

from dataclasses import replace

from ramify.memory import FirstOrder, Importance, LeastImportant, Probe, PseudoLabel, Sweep
from ramify.methods.recipe import Recipe, method
from ramify.methods.settings import Settings
from ramify.randomness import Generators
from ramify.rehearsal import Flexible, MemoryOnly
from ramify.training.objectives import CrossEntropy
from ramify.training.schedules import Adaptive


def importance_of(settings: Settings, rng: Generators) -> Importance:
    """The importance that CLIB, FMS, PL and PL-FMS share."""
    chosen = settings.importance
    period = settings.importance_period(max(1, settings.batch_size // 2))
    if chosen.kind == "probe":
        return Probe(period, chosen.probe, rng["probe"])
    return Sweep(period) if chosen.kind == "sweep" else FirstOrder(period)


@method("clib")
def clib(settings: Settings, rng: Generators) -> Recipe:
    """CLIB (Koh et al. 2022): keep what lowers the loss most, train on memory alone, adapt the rate.

    A sample is stored before training; an update is made as soon as there is credit for one.
    """
    importance = importance_of(settings, rng)
    return Recipe(
        keep=LeastImportant(importance),
        rehearse=MemoryOnly(rng["rehearse"]),
        minimise=CrossEntropy(),
        rate=Adaptive(settings.lr, importance),
    )


@method("fms")
def fms(settings: Settings, rng: Generators) -> Recipe:
    """FMS (PL-FMS without PL, table 4): CLIB that admits new classes from the stream step by step."""
    return replace(clib(settings, rng), rehearse=Flexible(rng["rehearse"], settings.fms.T, settings.fms.rule))


@method("pl")
def pl(settings: Settings, rng: Generators) -> Recipe:
    """PL (PL-FMS without FMS, table 4): CLIB that evicts among hierarchically related classes."""
    importance = importance_of(settings, rng)
    return replace(
        clib(settings, rng),
        keep=PseudoLabel(importance, settings.pl.exact),
        rate=Adaptive(settings.lr, importance),
    )


@method("pl-fms")
def pl_fms(settings: Settings, rng: Generators) -> Recipe:
    """PL-FMS (section 4): evict among hierarchically related classes, admit new classes step by step."""
    return replace(pl(settings, rng), rehearse=fms(settings, rng).rehearse)


@method("pl-fms-t")
def pl_fms_t(settings: Settings, rng: Generators) -> Recipe:
    """PL-FMS-T (table 5): PL-FMS where each sample carries its true class at every level.

    The loss is the mean over all (sample, level) pairs; votes are the true classes. A sample counts in memory
    under the label that the stream gave it.
    """
    return replace(pl_fms(settings, rng), told_paths=True)
