"""The methods of the paper, each a choice of parts, and the learner that they share."""

from ramify.methods import bic, clib, er, ewc, gdumb, mir, oracle, rm
from ramify.methods.engine import Engine
from ramify.methods.recipe import METHODS, Answer, Recipe, find_method, method
from ramify.methods.settings import Settings

__all__ = [
    "METHODS",
    "Answer",
    "Engine",
    "Recipe",
    "Settings",
    "bic",
    "clib",
    "er",
    "ewc",
    "find_method",
    "gdumb",
    "method",
    "mir",
    "oracle",
    "rm",
]
