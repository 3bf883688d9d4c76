"""Decoded images on disk, found by what they were made from, memory-mapped and never copied to RAM."""

from __future__ import annotations

import fcntl
import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ramify.errors import RamifyError
from ramify.taxonomy import Taxonomy, read_taxonomy

FORMAT = 1
SPLITS = ("train", "test")


class Images(Protocol):
    """The images of a split before they are decoded, and their leaf classes."""

    @property
    def leaves(self) -> NDArray[np.int64]:
        """The leaf class of each image."""

    def name(self, index: int) -> str:
        """What a report calls this image."""

    def read(self, index: int, size: int) -> NDArray[np.uint8]:
        """The image as uint8 [3, size, size]; raises `BrokenImage`."""


@dataclass(frozen=True)
class Contents:
    """All that a cache is built from."""

    taxonomy: Taxonomy
    train: Images
    test: Images
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True)
class Recipe:
    """A dataset found on disk: what decides its content (quick to tell), and the content itself (slower)."""

    name: str
    key: Mapping[str, Any]
    contents: Callable[[], Contents]


@dataclass(frozen=True)
class Cache:
    """An opened cache; `images` are memory maps."""

    folder: Path
    taxonomy: Taxonomy
    images: Mapping[str, NDArray[np.uint8]]
    leaves: Mapping[str, NDArray[np.int64]]
    meta: Mapping[str, Any]


def open_or_build(recipe: Recipe, size: int, root: Path, progress: bool, skip_broken: bool) -> Cache:
    """The cache of a recipe at an image size below `root`, built first where there is none."""
    from ramify.datasets.build import broken_error, build

    key = json.dumps([FORMAT, size, recipe.name, recipe.key], sort_keys=True)
    folder = root / f"{recipe.name}-{size}-{hashlib.sha256(key.encode()).hexdigest()[:16]}"
    cache = open_cache(folder)
    if cache is None:
        try:
            with locked(folder):
                cache = open_cache(folder)
                if cache is None:
                    build(folder, recipe, size, progress, skip_broken)
                    cache = open_cache(folder)
        except OSError as error:
            raise RamifyError(
                f"cannot write the decoded images to {root}: {error.strerror or error}; "
                "choose another place with RAMIFY_DATA or --data-dir"
            ) from error
    if cache is None:
        raise RamifyError(f"the decoded images in {folder} cannot be read back: check the disk")
    if cache.meta["broken"] and not skip_broken:
        raise broken_error(recipe.name, cache.meta["broken"], folder)
    return cache


def open_cache(folder: Path) -> Cache | None:
    """A finished cache, or None where there is none or it is damaged."""
    try:
        meta = json.loads((folder / "cache.json").read_text("utf-8"))
        images = {s: np.load(folder / f"{s}.npy", mmap_mode="r", allow_pickle=False) for s in SPLITS}
        leaves = {s: np.load(folder / f"{s}-leaves.npy", allow_pickle=False) for s in SPLITS}
        taxonomy = read_taxonomy(folder / "taxonomy.csv")
    except (OSError, ValueError, RamifyError):
        return None
    whole = isinstance(meta, dict) and meta.get("format") == FORMAT
    if not whole or any(len(images[s]) != len(leaves[s]) for s in SPLITS):
        return None
    return Cache(folder, taxonomy, images, leaves, meta)


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the lock of a cache folder, so that of two processes one builds and the other waits."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_name(f".{folder.name}.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def digest(path: Path, algorithm: str = "sha256", skip: int = 0) -> str:
    """The checksum of a file after its first `skip` bytes, read in pieces."""
    checksum = hashlib.new(algorithm)
    with path.open("rb") as file:
        file.seek(skip)
        while piece := file.read(2**20):
            checksum.update(piece)
    return checksum.hexdigest()
