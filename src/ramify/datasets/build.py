"""Building a cache of decoded images: in parallel, in constant memory, resumable after any interruption."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ramify.datasets.cache import FORMAT, SPLITS, BrokenEntry, Meta, Origin, RawImages, write_names
from ramify.datasets.decode import BrokenImage, quiet_pillow
from ramify.datasets.table import Chunk, SplitRows, checksums, finish, write_rows
from ramify.errors import RamifyError
from ramify.files import write_atomic
from ramify.plural import counted, some
from ramify.taxonomy import write_taxonomy
from ramify.typed import to_dict

CHUNK_BYTES = 2**21


def build(folder: Path, origin: Origin, size: int, progress: bool, skip_broken: bool) -> None:
    """Decode all images of an origin into `folder`, which appears whole or not at all."""
    contents = origin.contents()
    splits: dict[str, RawImages] = {"train": contents.train, "test": contents.test}
    rows = {name: _decoded(images, size) for name, images in splits.items()}
    with quiet_pillow():
        partial, state = write_rows(folder, rows, f"decoding {origin.name}", "the decoded images", progress)
    broken = [entry for name in SPLITS for entry in state.of(name).broken]
    if broken:
        write_atomic(partial / "broken.txt", "".join(f"{name}: {reason}\n" for _, name, reason in broken))
        if not skip_broken:
            raise broken_error(origin.name, broken, partial)
    for name, images in splits.items():
        gone = [index for index, *_ in state.of(name).broken]
        write_names(partial, name, images, set(gone))
        leaves = np.delete(images.leaves, gone).astype("<i8")
        np.save(partial / f"{name}-leaves.npy", leaves, allow_pickle=False)
    write_taxonomy(contents.taxonomy, partial / "taxonomy.csv")
    meta = Meta(FORMAT, checksums(partial), broken, contents.notes, contents.warnings)
    write_atomic(partial / "cache.json", json.dumps(to_dict(meta), indent=1))
    finish(partial, folder)


def broken_error(name: str, broken: Sequence[BrokenEntry], folder: Path) -> RamifyError:
    """One line that names the images that cannot be used."""
    listed = some((f"{image} ({reason})" for _, image, reason in broken), 10)
    return RamifyError(
        f"{name}: {counted(len(broken), 'image')} cannot be used: {listed} "
        f"(all in {folder / 'broken.txt'}); "
        "mend them, or leave them out with --skip-broken (skip_broken=True)"
    )


def _decoded(images: RawImages, size: int) -> SplitRows:
    def make(start: int, stop: int) -> Chunk:
        pixels, broken = [], []
        for index in range(start, stop):
            try:
                pixels.append(images.read(index, size))
            except BrokenImage as reason:
                broken.append((index, images.name(index), str(reason)))
        return np.array(pixels, dtype=np.uint8).reshape(-1, 3, size, size), broken

    step = max(1, CHUNK_BYTES // (3 * size * size))
    return SplitRows(len(images.leaves), (3, size, size), np.dtype(np.uint8), make, step, side_by_side=True)
