"""Datasets by name: each source says where its files are expected and how to get them."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ramify.datasets.cache import Origin
from ramify.datasets.fetch import Publisher
from ramify.errors import RamifyError
from ramify.pixels import IMAGENET_MEAN, IMAGENET_STD, Channels


@dataclass(frozen=True)
class Source:
    """A dataset that ramify knows by name.

    `open` finds the files below the data folder, or raises saying how to provide them; `get` downloads
    them there (None: it cannot). `counts` (classes a level) and `images` (train, test) are as published.
    `taxonomy`, where given, is laid over the classes by name. `publisher` is None for what ramify draws and
    for your own.
    """

    name: str
    summary: str
    open: Callable[[Path], Origin]
    get: Callable[[Path, bool], None] | None = None
    image_size: int = 224
    mean: Channels = IMAGENET_MEAN
    std: Channels = IMAGENET_STD
    taxonomy: str | Path | None = None
    counts: tuple[int, ...] = ()
    images: tuple[int, int] | None = None
    publisher: Publisher | None = None


SOURCES: dict[str, Source] = {}


def register(source: Source) -> None:
    """Make a source known by its name."""
    SOURCES[source.name] = source


def find_source(name: str) -> Source:
    """The source of this name."""
    if name not in SOURCES:
        near = difflib.get_close_matches(name.lower(), SOURCES, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(SOURCES)};"
        raise RamifyError(
            f"no dataset {name!r}: {hint} (or the path of a folder, a .csv or a .parquet of your own)"
        )
    return SOURCES[name]
