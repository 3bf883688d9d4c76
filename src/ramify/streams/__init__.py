"""Streams: which image arrives when, with which label at which level."""

from ramify.streams.build import SETUPS, build_stream, default_tasks
from ramify.streams.stream import Stream

__all__ = ["SETUPS", "Stream", "build_stream", "default_tasks"]
