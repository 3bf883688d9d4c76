"""CLIB, and the paper's two parts on top of it: FMS, PL and PL-FMS."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from ramify.memory import FirstOrder, Importance, LeastImportant, Probe, PseudoLabel, Sweep
from ramify.methods.recipe import Recipe, method
from ramify.methods.settings import Settings
from ramify.randomness import Generators
from ramify.rehearsal import Flexible, MemoryOnly
from ramify.training.objectives import CrossEntropy
from ramify.training.rates import Adaptive
from ramify.typed import Count, Positive, Typed, Whole


@dataclass(frozen=True)
class ImportanceSettings(Typed):
    """CLIB, FMS, PL, PL-FMS: how the importance of stored samples is followed (docs/importance.md)."""

    kind: Literal["sweep", "probe", "first-order"] = "probe"
    """The loss of all of memory (as published), of a random probe of it, or head gradients of the batch."""
    period: Whole = 0
    """Updates between refreshes; 0 means the updates of one stream batch."""
    probe: Count = 32
    """Samples in the probe."""

    def build(self, settings: Settings, rng: Generators) -> Importance:
        """The importance that they share."""
        arrivals = max(1, settings.batch_size // 2)
        period = self.period or max(1, round(arrivals * settings.updates_per_sample))
        if self.kind == "probe":
            return Probe(period, self.probe, rng["probe"])
        return Sweep(period) if self.kind == "sweep" else FirstOrder(period)


@dataclass(frozen=True)
class PseudoLabelSettings(Typed):
    """PL and PL-FMS: algorithm 1."""

    exact: bool = False
    """Vote with predictions of the model as it is at each insertion, as printed, or with the latest known."""
    but: Literal["victim", "newcomer"] = "victim"
    """The level that names no class: that of ȳ (section 4.1), or the newcomer's (algorithm 1)."""


@dataclass(frozen=True)
class FlexibleSettings(Typed):
    """FMS and PL-FMS: equation 4."""

    T: Positive = 5000.0
    """Time until a new class is taken from the stream without refusal."""
    unit: Literal["samples", "batches", "updates"] = "batches"
    """What T counts: samples of the stream, stream batches (half of `batch_size`), or updates."""
    rule: Literal["fixed", "per-class"] = "fixed"
    """T as it is, or divided by the number of classes seen."""

    def horizon(self, settings: Settings) -> float:
        """T in samples of the stream."""
        batch = max(1, settings.batch_size // 2)
        samples = {"samples": 1, "batches": batch, "updates": 1 / settings.updates_per_sample}
        return self.T * samples[self.unit]


CLIB = {"importance": ImportanceSettings}
FMS, PL = CLIB | {"fms": FlexibleSettings}, CLIB | {"pl": PseudoLabelSettings}


@method("clib", settings=CLIB)
def clib(settings: Settings, rng: Generators) -> Recipe:
    """CLIB (Koh et al. 2022): keep what lowers the loss most, train on memory alone, adapt the rate.

    A sample is stored before training; an update is made as soon as there is credit for one.
    """
    importance = settings[ImportanceSettings].build(settings, rng)
    return Recipe(
        keep=LeastImportant(importance),
        rehearse=MemoryOnly(rng["rehearse"]),
        minimise=CrossEntropy(),
        rate=Adaptive(settings.lr, importance),
    )


@method("fms", settings=FMS)
def fms(settings: Settings, rng: Generators) -> Recipe:
    """FMS (PL-FMS without PL, table 4): CLIB that admits new classes from the stream step by step."""
    own = settings[FlexibleSettings]
    return replace(clib(settings, rng), rehearse=Flexible(rng["rehearse"], own.horizon(settings), own.rule))


@method("pl", settings=PL)
def pl(settings: Settings, rng: Generators) -> Recipe:
    """PL (PL-FMS without FMS, table 4): CLIB that evicts among hierarchically related classes."""
    importance = settings[ImportanceSettings].build(settings, rng)
    own = settings[PseudoLabelSettings]
    keep = PseudoLabel(importance, own.exact, own.but)
    return replace(clib(settings, rng), keep=keep, rate=Adaptive(settings.lr, importance))


@method("pl-fms", settings=PL | FMS)
def pl_fms(settings: Settings, rng: Generators) -> Recipe:
    """PL-FMS (section 4): evict among hierarchically related classes, admit new classes step by step."""
    return replace(pl(settings, rng), rehearse=fms(settings, rng).rehearse)


@method("pl-fms-t", settings=PL | FMS, told_paths=True)
def pl_fms_t(settings: Settings, rng: Generators) -> Recipe:
    """PL-FMS-T (table 5): PL-FMS where each sample carries its true class at every level.

    The loss is the mean over all (sample, level) pairs; votes are the true classes. A sample counts in memory
    under the label that the stream gave it.
    """
    return pl_fms(settings, rng)
