"""What every method is held against: fine-tuning without memory, and training anew on everything."""

from dataclasses import replace
from typing import Any

from ramify.memory import Everything, Nowhere
from ramify.methods.epochs import SETTINGS
from ramify.methods.er import er
from ramify.methods.gdumb import gdumb
from ramify.methods.recipe import Recipe, method
from ramify.methods.settings import Settings
from ramify.randomness import Generators
from ramify.rehearsal import ArrivalsOnly

CEILING: dict[str, Any] = {
    "settings": SETTINGS,
    "keeps_stream": True,
    "trains_when_asked": True,
    "memory_epochs": "answers",
    "bound": "ceiling",
}


@method("naive", bound="floor")
def naive(settings: Settings, rng: Generators) -> Recipe:
    """Naive fine-tuning: batches of the stream alone, as many updates as ER, no memory."""
    return replace(er(settings, rng), keep=Nowhere(), rehearse=ArrivalsOnly(rng["rehearse"]), memory_size=0)


@method("retrain", **CEILING)
def retrain(settings: Settings, rng: Generators) -> Recipe:
    """Retraining: keep the whole stream; when asked, train a fresh model on all of it, whatever it costs."""
    return replace(gdumb(settings, rng), keep=Everything())


@method("oracle", told_paths=True, offline=True, **CEILING)
def oracle(settings: Settings, rng: Generators) -> Recipe:
    """Oracle (table 5): offline training on all images with their classes at all levels, an upper bound.

    It keeps the whole stream (a run makes the memory large enough) and answers only at its end.
    """
    return retrain(settings, rng)
