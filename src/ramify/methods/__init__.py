"""The methods, each a choice of parts with its own settings, and the learner that they share."""

from typing import TYPE_CHECKING, Any

from ramify.methods import (  # noqa: F401
    bic,
    bounds,
    canopy,
    clib,
    closed_form,
    derpp,
    er,
    er_ace,
    er_las,
    ewc,
    gdumb,
    mir,
    rm,
    settings,
)
from ramify.methods.recipe import METHODS, Answer, Method, Recipe, find_method, method
from ramify.methods.trainer import Trainer
from ramify.typed import from_dict

GROUPS = {name: group for built_in in METHODS.values() for name, group in built_in.settings.items()}

if TYPE_CHECKING:
    Settings = settings.Settings
else:
    Settings = settings.with_groups(settings.Settings, GROUPS)


def make_settings(
    base: settings.Settings | None = None, method: Method | None = None, **values: Any
) -> settings.Settings:
    """Settings with the tables of all methods here, and of your own: `values` over `base` or the defaults.

    >>> make_settings(memory_size=100, fms={"T": 20.0}).memory_size
    100
    """
    tables = GROUPS if method is None else settings.add_tables(GROUPS, method.settings)
    chosen = settings.with_groups(settings.Settings, tables)() if base is None else base
    return from_dict(type(chosen), values, "settings", chosen)


__all__ = [
    "GROUPS",
    "METHODS",
    "Answer",
    "Method",
    "Recipe",
    "Settings",
    "Trainer",
    "find_method",
    "make_settings",
    "method",
]
