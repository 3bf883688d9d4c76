"""What a dataset is: train and test images, their leaf classes, the tree, and how to normalise."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ramify.arrays import Array, Ints
from ramify.errors import RamifyError
from ramify.pixels import Channels, check_values
from ramify.taxonomy import Taxonomy


@dataclass(frozen=True, eq=False)
class Split:
    """Images, uint8 [n, 3, size, size] (an array or a memory map), and their leaf classes, int64 [n].

    In the place of images there may be features, float [n, size], or several views of each, [n, views, size].
    `names` are the files that the images come from; none where that is not known.
    """

    images: Array
    leaves: Ints
    names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        shape = self.images.shape
        if self.of_features:
            if len(shape) not in (2, 3) or 0 in shape[1:]:
                raise RamifyError(f"features are {self.images.dtype} {shape}: expected [n, size]")
        else:
            if self.images.dtype != np.uint8 or len(shape) != 4 or shape[1] != 3 or shape[2] != shape[3]:
                raise RamifyError(
                    f"images are {self.images.dtype} {shape}: expected uint8 [n, 3, size, size]"
                )
            check_values(self.images[:256])  # some are enough; they may be a memory map
        if self.leaves.dtype != np.int64 or self.leaves.shape != shape[:1]:
            raise RamifyError(
                f"leaf labels are {self.leaves.dtype} {self.leaves.shape}: expected int64 [{shape[0]}]"
            )

        if len(self.names) not in (0, len(self.leaves)):
            raise RamifyError(
                f"{len(self.names)} names for {len(self.leaves)} images: give one each, or none"
            )

    @property
    def of_features(self) -> bool:
        """Whether it holds features, not images."""
        return self.images.dtype in (np.float32, np.float16)

    def __len__(self) -> int:
        return len(self.leaves)


@dataclass(frozen=True, eq=False)
class Dataset:
    """Two splits over the leaves of one tree.

    `mean` and `std` are per channel of images scaled to 0..1; `fingerprint` is a SHA-256 over pixels, labels
    and tree; `notes` say how it was made (a split's seed, skipped images, a checksum that differs).
    """

    name: str
    train: Split
    test: Split
    taxonomy: Taxonomy
    mean: Channels
    std: Channels
    fingerprint: str
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.train.images.shape[-1:] != self.test.images.shape[-1:]:
            shapes = f"{self.train.images.shape[1:]} and {self.test.images.shape[1:]}"
            raise RamifyError(f"{self.name}: train and test images differ in shape ({shapes})")
        for split in (self.train, self.test):
            if len(split) and not 0 <= split.leaves.min() <= split.leaves.max() < self.taxonomy.leaves:
                raise RamifyError(f"{self.name}: a label lies outside 0..{self.taxonomy.leaves - 1}")

    def verify(self) -> None:
        """Read every pixel once and compare with the fingerprint; raises where something has changed."""
        found = fingerprint([_digest(split.images) for split in (self.train, self.test)], self)
        if found != self.fingerprint:
            where = getattr(self.train.images, "filename", "memory")
            raise RamifyError(
                f"{self.name}: the pixels in {where} are not those that were decoded: remove its folder"
            )

    @property
    def of_features(self) -> bool:
        """Whether it holds features, not images."""
        return self.train.of_features

    @property
    def image_size(self) -> int:
        """The side of the square images, in pixels; of features, how many values one has."""
        return int(self.train.images.shape[-1])


def fingerprint(pixels: Sequence[str], dataset: Dataset) -> str:
    """The digest of a dataset, given those of the pixels of its splits."""
    checksum = hashlib.sha256("".join((*pixels, dataset.taxonomy.fingerprint)).encode())
    for split in (dataset.train, dataset.test):
        checksum.update(split.leaves.astype("<i8").tobytes())
    return checksum.hexdigest()


def _digest(images: Array) -> str:
    checksum, step = hashlib.sha256(), 1024
    for start in range(0, len(images), step):
        checksum.update(images[start : start + step].tobytes())
    return checksum.hexdigest()
