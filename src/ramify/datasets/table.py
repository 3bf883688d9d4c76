"""Tables of rows on disk: made once, in order, continued after any interruption, memory-mapped."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib.format import open_memmap
from numpy.typing import NDArray

from ramify.datasets.cache import SPLITS
from ramify.datasets.places import SECONDS_BETWEEN_SAVES, check_space, open_or_make, put_in_place
from ramify.datasets.progress import progress_bar
from ramify.errors import RamifyError
from ramify.files import digest, read_json, write_atomic
from ramify.typed import from_dict, to_dict

FORMAT = 1


@dataclass(frozen=True)
class Rows:
    """What a split's table is to hold: `make(start, stop)` gives these rows, some at a time."""

    count: int
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    make: Callable[[int, int], NDArray[Any]]
    step: int
    """Rows made together; they always are the same ones, so a resumed table is the same to the bit."""


@dataclass(frozen=True)
class TableMeta:
    """What table.json says of a finished table."""

    format: int
    sha256: dict[str, str]
    seconds: float  # that making it took


@dataclass
class Made:
    """How far the making has come."""

    rows: dict[str, int] = field(default_factory=dict)
    seconds: float = 0.0


@dataclass(frozen=True)
class Tables:
    """Opened tables, one a split."""

    arrays: Mapping[str, NDArray[Any]]
    meta: TableMeta


def folder_of(root: Path, name: str, key: Mapping[str, Any]) -> Path:
    """Where the tables of this key are below `root`."""
    text = json.dumps([FORMAT, name, key], sort_keys=True)
    return root / f"{name}-{hashlib.sha256(text.encode()).hexdigest()[:16]}"


def tables_in(folder: Path, splits: Mapping[str, Rows], title: str, progress: bool) -> Tables:
    """The tables in `folder`, made first where there are none."""
    return open_or_make(
        folder, lambda: _open(folder, splits), lambda: _make(folder, splits, title, progress), "the features"
    )


def _open(folder: Path, splits: Mapping[str, Rows]) -> Tables | None:
    try:
        meta = from_dict(TableMeta, read_json(folder / "table.json"), "table.json")
        arrays = {name: open_memmap(folder / f"{name}.npy", mode="r") for name in SPLITS}
    except Exception:  # numpy has many words for a damaged file; whatever is wrong, it is made anew
        return None
    whole = all(_fits(arrays[name], rows) for name, rows in splits.items())
    return Tables(arrays, meta) if whole and meta.format == FORMAT else None


def _make(folder: Path, splits: Mapping[str, Rows], title: str, progress: bool) -> None:
    partial = folder.with_name(f".{folder.name}.partial")
    partial.mkdir(parents=True, exist_ok=True)
    done = _read_progress(partial, splits)
    total, there = sum(rows.count for rows in splits.values()), sum(done.rows.values())
    sizes = {n: rows.dtype.itemsize * int(np.prod(rows.shape)) for n, rows in splits.items()}
    check_space(partial, sum((splits[n].count - done.rows[n]) * sizes[n] for n in splits), "the features")
    with progress_bar(title, total, there, progress) as advance:
        for name, rows in splits.items():
            _write(partial, name, rows, done, advance)
    files = {name: partial / f"{name}.npy" for name in splits}
    checksums = {n: digest(path, skip=int(open_memmap(path, mode="r").offset)) for n, path in files.items()}
    meta = TableMeta(FORMAT, checksums, round(done.seconds, 3))
    write_atomic(partial / "table.json", json.dumps(to_dict(meta), indent=1))
    (partial / "progress.json").unlink()
    put_in_place(partial, folder)


def _read_progress(partial: Path, splits: Mapping[str, Rows]) -> Made:
    """How far an earlier call came; nothing, where its rows are not all there."""
    try:
        found = from_dict(Made, read_json(partial / "progress.json"), "progress.json")
        fits = found.rows.keys() == splits.keys() and all(
            0 <= found.rows[n] <= rows.count
            and (found.rows[n] == 0 or _fits(open_memmap(partial / f"{n}.npy", mode="r"), rows))
            for n, rows in splits.items()
        )
    except (OSError, ValueError, RamifyError):
        fits = False
    return found if fits else Made(dict.fromkeys(splits, 0))


def _fits(array: NDArray[Any], rows: Rows) -> bool:
    return array.shape == (rows.count, *rows.shape) and array.dtype == rows.dtype


def _write(partial: Path, name: str, rows: Rows, done: Made, advance: Callable[[int], None]) -> None:
    path, start = partial / f"{name}.npy", done.rows[name]
    mode = "r+" if start else "w+"
    array = open_memmap(
        path, mode, None if start else rows.dtype, None if start else (rows.count, *rows.shape)
    )
    began = saved = time.monotonic()

    def save() -> None:
        nonlocal began
        array.flush()
        done.seconds += time.monotonic() - began
        began = time.monotonic()
        write_atomic(partial / "progress.json", json.dumps(to_dict(done)))

    try:
        for at in range(start, rows.count, rows.step):
            stop = min(at + rows.step, rows.count)
            array[at:stop] = rows.make(at, stop)
            done.rows[name] = stop
            advance(stop - at)
            if time.monotonic() - saved > SECONDS_BETWEEN_SAVES:
                save()
                saved = time.monotonic()
    finally:
        save()
