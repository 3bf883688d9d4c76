"""Oracle."""

from dataclasses import replace

from ramify.memory import Everything
from ramify.methods.epochs import SETTINGS
from ramify.methods.gdumb import gdumb
from ramify.methods.recipe import Recipe, method
from ramify.methods.settings import Settings
from ramify.randomness import Generators


@method(
    "oracle",
    settings=SETTINGS,
    told_paths=True,
    offline=True,
    keeps_stream=True,
    trains_when_asked=True,
    memory_epochs="answers",
    bound="ceiling",
)
def oracle(settings: Settings, rng: Generators) -> Recipe:
    """Oracle (table 5): offline training on all images with their classes at all levels, an upper bound.

    It keeps the whole stream (a run makes the memory large enough) and answers only at its end.
    """
    return replace(gdumb(settings, rng), keep=Everything())
