"""Building a cache of decoded images: in parallel, in constant memory, resumable after any interruption."""

from __future__ import annotations

import io
import json
import os
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ramify.datasets.cache import (
    FORMAT,
    SPLITS,
    BrokenEntry,
    Contents,
    Meta,
    Origin,
    RawImages,
    write_names,
)
from ramify.datasets.decode import BrokenImage, quiet_pillow
from ramify.datasets.places import SECONDS_BETWEEN_SAVES, check_space, put_in_place
from ramify.datasets.progress import progress_bar
from ramify.errors import RamifyError
from ramify.files import digest, read_json, write_atomic
from ramify.taxonomy import write_taxonomy
from ramify.typed import from_dict, to_dict

HEADER_BYTES = 128
CHUNK_BYTES = 2**21
NAMES_IN_ERROR = 10

Chunk = tuple[NDArray[np.uint8], list[BrokenEntry]]


@dataclass
class Done:
    """How far a split was read, and what could not be used so far."""

    read: int = 0
    broken: list[BrokenEntry] = field(default_factory=list)


@dataclass
class BuildState:
    """state.json: how far a build has come."""

    train: Done = field(default_factory=Done)
    test: Done = field(default_factory=Done)

    def of(self, split: str) -> Done:
        """That of one split."""
        return self.train if split == "train" else self.test


def build(folder: Path, origin: Origin, size: int, progress: bool, skip_broken: bool) -> None:
    """Decode all images of an origin into `folder`, which appears whole or not at all.

    The work is kept beside it, in a folder whose name ends in `.partial`, and continued by the next call.
    """
    contents = origin.contents()
    partial = folder.with_name(f".{folder.name}.partial")
    partial.mkdir(parents=True, exist_ok=True)
    splits: dict[str, RawImages] = {"train": contents.train, "test": contents.test}
    state = _read_state(partial, size, splits)
    total, done = sum(len(s.leaves) for s in splits.values()), sum(state.of(s).read for s in SPLITS)
    check_space(partial, (total - done) * 3 * size * size, "the decoded images")
    with (
        quiet_pillow(),
        ThreadPoolExecutor(os.cpu_count()) as pool,
        progress_bar(f"decoding {origin.name}", total, done, progress) as advance,
    ):
        for name, images in splits.items():
            _write_split(partial, name, images, size, state, pool, advance)
    broken = [entry for name in SPLITS for entry in state.of(name).broken]
    if broken:
        write_atomic(partial / "broken.txt", "".join(f"{name}: {reason}\n" for _, name, reason in broken))
        if not skip_broken:
            raise broken_error(origin.name, broken, partial)
    _finish(partial, contents, splits, size, state)
    put_in_place(partial, folder)


def broken_error(name: str, broken: Sequence[BrokenEntry], folder: Path) -> RamifyError:
    """One line that names the images that cannot be used."""
    listed = ", ".join(f"{image} ({reason})" for _, image, reason in broken[:NAMES_IN_ERROR])
    more = f" and {len(broken) - NAMES_IN_ERROR} more" if len(broken) > NAMES_IN_ERROR else ""
    return RamifyError(
        f"{name}: {len(broken)} images cannot be used: {listed}{more} (all in {folder / 'broken.txt'}); "
        "mend them, or leave them out with --skip-broken (skip_broken=True)"
    )


def _read_state(partial: Path, size: int, splits: dict[str, RawImages]) -> BuildState:
    """How far each split was read in an earlier call; nothing, where its pixels are not all there."""
    try:
        state = from_dict(BuildState, read_json(partial / "state.json"), "state.json")
        whole = all(_whole(partial / f"{s}.npy", state.of(s), size, len(splits[s].leaves)) for s in SPLITS)
    except (OSError, RamifyError):
        return BuildState()
    return state if whole else BuildState()


def _whole(path: Path, done: Done, size: int, images: int) -> bool:
    """Whether what is said to be done of a split can be, and is there."""
    if done == Done():
        return True
    indices = [index for index, *_ in done.broken]
    rising = all(a < b for a, b in pairwise((-1, *indices, done.read)))
    return rising and done.read <= images and path.stat().st_size >= _length(done, size)


def _length(done: Done, size: int) -> int:
    """The bytes of a split's file when so much of it is done."""
    return HEADER_BYTES + (done.read - len(done.broken)) * 3 * size * size


def _write_split(
    partial: Path,
    name: str,
    images: RawImages,
    size: int,
    state: BuildState,
    pool: ThreadPoolExecutor,
    advance: Callable[[int], None],
) -> None:
    done = state.of(name)
    saved = time.monotonic()
    with (partial / f"{name}.npy").open("ab") as file:

        def save() -> None:
            file.flush()
            os.fsync(file.fileno())
            write_atomic(partial / "state.json", json.dumps(to_dict(state)))

        file.truncate(_length(done, size))
        file.seek(0, os.SEEK_END)
        try:
            for pixels, broken in _chunks(images, size, done.read, pool):
                file.write(pixels.data)
                done.read += len(pixels) + len(broken)
                done.broken += broken
                advance(len(pixels) + len(broken))
                if time.monotonic() - saved > SECONDS_BETWEEN_SAVES:
                    save()
                    saved = time.monotonic()
        finally:
            save()


def _chunks(images: RawImages, size: int, start: int, pool: ThreadPoolExecutor) -> Iterator[Chunk]:
    """The decoded images from `start` on, in order; only a few chunks exist at any time."""
    step = max(1, CHUNK_BYTES // (3 * size * size))

    def read(first: int) -> Chunk:
        pixels, broken = [], []
        for index in range(first, min(first + step, len(images.leaves))):
            try:
                pixels.append(images.read(index, size))
            except BrokenImage as reason:
                broken.append((index, images.name(index), str(reason)))
        return np.array(pixels, dtype=np.uint8).reshape(-1, 3, size, size), broken

    waiting: deque[Future[Chunk]] = deque()
    for first in range(start, len(images.leaves), step):
        waiting.append(pool.submit(read, first))
        if len(waiting) > 2 * (os.cpu_count() or 1):
            yield waiting.popleft().result()
    while waiting:
        yield waiting.popleft().result()


def _finish(
    partial: Path, contents: Contents, splits: dict[str, RawImages], size: int, state: BuildState
) -> None:
    checksums: dict[str, str] = {}
    all_broken: list[BrokenEntry] = []
    for name, images in splits.items():
        broken = state.of(name).broken
        leaves = np.delete(images.leaves, [index for index, *_ in broken])
        write_names(partial, name, images, {index for index, *_ in broken})
        np.save(partial / f"{name}-leaves.npy", leaves.astype("<i8"), allow_pickle=False)
        with (partial / f"{name}.npy").open("r+b") as file:
            file.write(_header((len(leaves), 3, size, size)))
        checksums[name] = digest(partial / f"{name}.npy", skip=HEADER_BYTES)
        all_broken += broken
    write_taxonomy(contents.taxonomy, partial / "taxonomy.csv")
    meta = Meta(FORMAT, checksums, all_broken, contents.notes, contents.warnings)
    write_atomic(partial / "cache.json", json.dumps(to_dict(meta), indent=1))
    (partial / "state.json").unlink()


def _header(shape: tuple[int, ...]) -> bytes:
    """The .npy header of a uint8 array, padded to a length that does not depend on the shape."""
    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(file, {"descr": "|u1", "fortran_order": False, "shape": shape})
    text = file.getvalue().rstrip()
    if len(text) >= HEADER_BYTES:
        raise RamifyError(f"an array of shape {shape} is too large for a cache")
    length = (HEADER_BYTES - 10).to_bytes(2, "little")
    return text[:8] + length + text[10:].ljust(HEADER_BYTES - 11) + b"\n"
