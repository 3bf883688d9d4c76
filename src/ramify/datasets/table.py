"""Tables of rows on disk: made once, in order, continued after any interruption, memory-mapped."""

from __future__ import annotations

import hashlib
import io
import json
import math
import os
import shutil
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib.format import open_memmap

from ramify.arrays import Array
from ramify.datasets.cache import SPLITS, BrokenEntry
from ramify.datasets.places import check_space, open_or_make
from ramify.datasets.progress import progress_bar
from ramify.errors import RamifyError
from ramify.files import digest, read_json, sync, write_atomic
from ramify.typed import from_dict, to_dict

FORMAT = 1
HEADER_BYTES = 128
SECONDS_BETWEEN_SAVES = 2.0

Chunk = tuple[Array, list[BrokenEntry]]
"""Some rows, and what could not become one."""


@dataclass(frozen=True)
class SplitRows:
    """What a split's table is to hold: `make(start, stop)` gives these rows, some at a time."""

    count: int
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    make: Callable[[int, int], Chunk]
    step: int
    """Rows made together; they always are the same ones, so a resumed table is the same to the bit."""
    side_by_side: bool = False
    """Whether a thread for each core makes parts, a few ahead of the one that is written."""

    @property
    def nbytes(self) -> int:
        """Bytes of one row."""
        return self.dtype.itemsize * math.prod(self.shape)


@dataclass
class SoFar:
    """How far a split has come, and what could not be used so far."""

    read: int = 0
    broken: list[BrokenEntry] = field(default_factory=list)

    def length(self, rows: SplitRows) -> int:
        """The bytes of the split's file by then."""
        return HEADER_BYTES + (self.read - len(self.broken)) * rows.nbytes


@dataclass
class Making:
    """state.json: how far the making of tables has come."""

    train: SoFar = field(default_factory=SoFar)
    test: SoFar = field(default_factory=SoFar)
    seconds: float = 0.0

    def of(self, split: str) -> SoFar:
        """That of one split."""
        return self.train if split == "train" else self.test


@dataclass(frozen=True)
class TableMeta:
    """What table.json says of finished tables of features."""

    format: int
    sha256: dict[str, str]
    seconds: float  # that making them took


@dataclass(frozen=True)
class Tables:
    """Opened tables, one a split."""

    arrays: Mapping[str, Array]
    meta: TableMeta


def folder_of(root: Path, name: str, key: Mapping[str, Any]) -> Path:
    """Where the tables of this key are below `root`."""
    text = json.dumps([FORMAT, name, key], sort_keys=True)
    return root / f"{name}-{hashlib.sha256(text.encode()).hexdigest()[:16]}"


def tables_in(folder: Path, splits: Mapping[str, SplitRows], title: str, progress: bool) -> Tables:
    """The tables of features in `folder`, made first where there are none."""
    return open_or_make(
        folder, lambda: _open(folder, splits), lambda: _make(folder, splits, title, progress), "the features"
    )


def _open(folder: Path, splits: Mapping[str, SplitRows]) -> Tables | None:
    try:
        meta = from_dict(TableMeta, read_json(folder / "table.json"), "table.json")
        arrays = {name: open_memmap(folder / f"{name}.npy", mode="r") for name in SPLITS}
    except Exception:  # numpy has many words for a damaged file; whatever is wrong, it is made anew
        return None
    whole = all(
        arrays[name].shape == (rows.count, *rows.shape) and arrays[name].dtype == rows.dtype
        for name, rows in splits.items()
    )
    return Tables(arrays, meta) if whole and meta.format == FORMAT else None


def _make(folder: Path, splits: Mapping[str, SplitRows], title: str, progress: bool) -> None:
    partial, state = write_rows(folder, splits, title, "the features", progress)
    meta = TableMeta(FORMAT, checksums(partial), round(state.seconds, 3))
    write_atomic(partial / "table.json", json.dumps(to_dict(meta), indent=1))
    finish(partial, folder)


def write_rows(
    folder: Path, splits: Mapping[str, SplitRows], title: str, what: str, progress: bool
) -> tuple[Path, Making]:
    """Make all tables, to be put at `folder`; where they are till then, and how the making went.

    That is a folder beside it whose name ends in `.partial`; the next call continues what is there.
    """
    partial = folder.with_name(f".{folder.name}.partial")
    state = _read_state(partial, splits)
    if state is None:
        shutil.rmtree(partial, ignore_errors=True)
        state = Making()
    partial.mkdir(parents=True, exist_ok=True)
    left = {name: rows.count - state.of(name).read for name, rows in splits.items()}
    check_space(partial, sum(left[name] * rows.nbytes for name, rows in splits.items()), what)
    total = sum(rows.count for rows in splits.values())
    with progress_bar(title, total, total - sum(left.values()), progress) as advance:
        for name, rows in splits.items():
            _write(partial, name, rows, state, advance)
    return partial, state


def checksums(partial: Path) -> dict[str, str]:
    """A digest of the rows of each split."""
    return {name: digest(partial / f"{name}.npy", skip=HEADER_BYTES) for name in SPLITS}


def finish(partial: Path, folder: Path) -> None:
    """Let what is made appear, in the place of any other."""
    (partial / "state.json").unlink()
    for path in partial.iterdir():
        sync(path)
    if folder.exists():
        shutil.rmtree(folder)
    partial.rename(folder)
    sync(folder.parent)


def _read_state(partial: Path, splits: Mapping[str, SplitRows]) -> Making | None:
    """How far each split has come in an earlier call; None where that cannot be, or its rows are gone."""
    try:
        state = from_dict(Making, read_json(partial / "state.json"), "state.json")
        whole = all(_whole(partial / f"{s}.npy", state.of(s), rows) for s, rows in splits.items())
    except (OSError, RamifyError):
        return None
    return state if whole else None


def _whole(path: Path, done: SoFar, rows: SplitRows) -> bool:
    """Whether what is said to be done of a split can be, and is there."""
    if done == SoFar():
        return True
    rising = all(a < b for a, b in pairwise((-1, *(index for index, *_ in done.broken), done.read)))
    return rising and done.read <= rows.count and path.stat().st_size >= done.length(rows)


def _write(partial: Path, name: str, rows: SplitRows, state: Making, advance: Callable[[int], None]) -> None:
    done, began = state.of(name), time.monotonic()
    with (partial / f"{name}.npy").open("ab") as file:

        def save() -> None:
            nonlocal began
            file.flush()
            os.fsync(file.fileno())
            state.seconds, began = state.seconds + time.monotonic() - began, time.monotonic()
            write_atomic(partial / "state.json", json.dumps(to_dict(state)))

        file.truncate(done.length(rows))
        file.seek(0, os.SEEK_END)
        try:
            for values, broken in _chunks(rows, done.read):
                file.write(np.ascontiguousarray(values, rows.dtype).data)
                done.read += len(values) + len(broken)
                done.broken += broken
                advance(len(values) + len(broken))
                if time.monotonic() - began > SECONDS_BETWEEN_SAVES:
                    save()
        finally:
            save()
    with (partial / f"{name}.npy").open("r+b") as begun:
        begun.write(_header((done.read - len(done.broken), *rows.shape), rows.dtype))


def _chunks(rows: SplitRows, start: int) -> Iterator[Chunk]:
    """The rows from `start` on, in order; only a few chunks exist at any time."""
    parts = [(at, min(at + rows.step, rows.count)) for at in range(start, rows.count, rows.step)]
    if not rows.side_by_side:
        yield from (rows.make(*part) for part in parts)
        return
    waiting: deque[Future[Chunk]] = deque()
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for part in parts:
            waiting.append(pool.submit(rows.make, *part))
            if len(waiting) > 2 * (os.cpu_count() or 1):
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


def _header(shape: tuple[int, ...], dtype: np.dtype[Any]) -> bytes:
    """The .npy header of an array, padded to a length that does not depend on the shape."""
    file = io.BytesIO()
    about = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(file, about)
    text = file.getvalue().rstrip()
    if len(text) >= HEADER_BYTES:
        raise RamifyError(f"an array of shape {shape} is too large for a table")
    length = (HEADER_BYTES - 10).to_bytes(2, "little")
    return text[:8] + length + text[10:].ljust(HEADER_BYTES - 11) + b"\n"
