"""Decoded images on disk, found by what they were made from, memory-mapped and never copied to RAM."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.lib.format import open_memmap

from ramify.arrays import Ints, Pixels
from ramify.datasets.places import open_or_make
from ramify.files import read_json, write_atomic
from ramify.taxonomy import Taxonomy, read_taxonomy
from ramify.typed import from_dict

FORMAT = 1
SPLITS = ("train", "test")

BrokenEntry = tuple[int, str, str]
"""Index, name and reason of an image that cannot be used."""


class RawImages(Protocol):
    """The images of a split before they are decoded, and their leaf classes."""

    @property
    def leaves(self) -> Ints:
        """The leaf class of each image."""

    def name(self, index: int) -> str:
        """What a report calls this image."""

    def read(self, index: int, size: int) -> Pixels:
        """The image as uint8 [3, size, size]; raises `BrokenImage`."""


MakeSplit = Callable[[Ints, Ints], RawImages]
"""From the rows of a list and their leaf classes to the images of a split."""


@dataclass(frozen=True)
class Contents:
    """All that a cache is built from."""

    taxonomy: Taxonomy
    train: RawImages
    test: RawImages
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True)
class Origin:
    """A dataset found on disk: what decides its content (quick to tell), and the content itself (slower)."""

    name: str
    key: Mapping[str, Any]
    contents: Callable[[], Contents]
    unread: str = ""
    """Which files beside the images are not read, if any: it may change while the images do not."""


@dataclass(frozen=True)
class Meta:
    """What cache.json says of a finished cache."""

    format: int
    sha256: dict[str, str]  # of each split's pixels
    broken: list[BrokenEntry]
    notes: tuple[str, ...]
    warnings: tuple[str, ...]


@dataclass(frozen=True)
class Cache:
    """An opened cache; `images` are memory maps."""

    folder: Path
    taxonomy: Taxonomy
    images: Mapping[str, Pixels]
    leaves: Mapping[str, Ints]
    meta: Meta


def open_or_build(origin: Origin, size: int, root: Path, progress: bool, skip_broken: bool) -> Cache:
    """The cache of an origin at an image size below `root`, built first where there is none."""
    from ramify.datasets.build import broken_error, build

    key = json.dumps([FORMAT, size, origin.name, origin.key], sort_keys=True)
    folder = root / f"{origin.name}-{size}-{hashlib.sha256(key.encode()).hexdigest()[:16]}"
    cache = open_or_make(
        folder,
        lambda: open_cache(folder),
        lambda: build(folder, origin, size, progress, skip_broken),
        "the decoded images",
    )
    if cache.meta.broken and not skip_broken:
        raise broken_error(origin.name, cache.meta.broken, folder)
    return cache


def open_cache(folder: Path) -> Cache | None:
    """A finished cache, or None where there is none or it is damaged."""
    try:
        meta = from_dict(Meta, read_json(folder / "cache.json"), "cache.json")
        images = {s: open_memmap(folder / f"{s}.npy", mode="r") for s in SPLITS}
        leaves = {s: np.array(open_memmap(folder / f"{s}-leaves.npy", mode="r")) for s in SPLITS}
        cache = Cache(folder, read_taxonomy(folder / "taxonomy.csv"), images, leaves, meta)
        return cache if _whole(cache) else None
    except Exception:  # numpy has many words for a damaged file; whatever is wrong, the cache is built anew
        return None


def write_names(folder: Path, split: str, images: RawImages, without: Set[int]) -> None:
    """Keep the paths of a split's images, where they are files: reports name them."""
    paths = getattr(images, "paths", None)
    if paths is not None:
        kept = [path for index, path in enumerate(paths) if index not in without]
        write_atomic(folder / f"{split}-paths.json", json.dumps(kept))


def read_names(cache: Cache, split: str) -> tuple[str, ...]:
    """The paths of a split's images; none where they are no files, or where an older cache kept none."""
    try:
        names = json.loads((cache.folder / f"{split}-paths.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return ()
    fits = isinstance(names, list) and len(names) == len(cache.leaves[split])
    return tuple(map(str, names)) if fits else ()


def _whole(cache: Cache) -> bool:
    """Whether the parts of a cache are what they should be, and fit together."""
    pixels, leaves = cache.images.values(), cache.leaves.values()
    return (
        cache.meta.format == FORMAT
        and cache.meta.sha256.keys() == set(SPLITS)
        and all(p.dtype == np.uint8 and p.ndim == 4 and p.shape[1] == 3 for p in pixels)
        and len({side for p in pixels for side in p.shape[2:]}) == 1
        and all(f.dtype == np.int64 and f.shape == p.shape[:1] for f, p in zip(leaves, pixels, strict=True))
        and all(((f >= 0) & (f < cache.taxonomy.leaves)).all() for f in leaves)
    )
