"""Streams: which image arrives when, with which label at which level."""

# The order in which they are listed
from ramify.streams import single_depth, multiple_depth, dhocl, iirc, blurry, gaussian, drift  # noqa: F401, I001
from ramify.streams.build import build_stream, default_tasks
from ramify.streams.moves import Move
from ramify.streams.setup import SETUPS, Setup, find_setup
from ramify.streams.stream import Stream, renumbered, told_levels

__all__ = [
    "SETUPS",
    "Move",
    "Setup",
    "Stream",
    "build_stream",
    "default_tasks",
    "find_setup",
    "renumbered",
    "told_levels",
]
