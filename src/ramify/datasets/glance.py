"""Whether a folder of images is as it was, by one look at each of its folders.

A folder's time changes when a file in it is added, removed, renamed or replaced, as most programs write; not
when one is written over in place. The first start looks at every file, later ones only at the folders.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ramify.datasets.listing import image_files, stamps, told_unread
from ramify.datasets.places import kept
from ramify.errors import RamifyError
from ramify.files import read_json, write_atomic
from ramify.typed import from_dict, to_dict

FORMAT = 1
LISTINGS = "decoded/listings"
SETTLED = 2 * 10**9
"""Nanoseconds that a folder must have rested: file systems tell times apart by up to two seconds."""

Files = list[tuple[str, ...]]


@dataclass(frozen=True)
class Memo:
    """What is remembered of a folder: the time of each folder in it, and what was found then."""

    format: int
    folder: str
    times: dict[str, int]
    key: str
    unread: str


@dataclass(frozen=True)
class Glance:
    """The images below a folder: `key` stands for their names, sizes and times; `files` lists them.

    `known` tells whether that was remembered; then there are some.
    """

    key: str
    unread: str
    files: Callable[[], Files]
    known: bool


def glance(folder: Path, root: Path | None, not_images: tuple[str, ...] = ()) -> Glance:
    """Look at a folder; what was found is remembered below the data folder `root` (None: it is not).

    Files called one of `not_images`, at the top, do not count as unread.
    """
    memo = recall(folder, root)
    if memo is not None:
        return Glance(memo.key, memo.unread, lambda: list(image_files(folder)), known=True)
    unread: Counter[str] = Counter()
    times: dict[str, int] = {}
    files = list(image_files(folder, unread=unread, times=times))
    for name in not_images:
        unread[Path(name).suffix] -= (folder / name).is_file()
    key = stamps(folder, map("/".join, files))
    told = told_unread(+unread)
    if files and root is not None:
        _remember(Memo(FORMAT, str(folder.absolute()), times, key, told), folder, root)
    return Glance(key, told, lambda: files, known=False)


def recall(folder: Path, root: Path | None) -> Memo | None:
    """What is remembered of a folder, if none of its folders has changed since."""
    if root is None:
        return None
    try:
        memo = from_dict(Memo, read_json(_place(folder, root)), "memo")
        known = memo.format == FORMAT and memo.folder == str(folder.absolute())
        same = known and all(os.stat(path).st_mtime_ns == then for path, then in memo.times.items())  # noqa: PTH116
    except (OSError, RamifyError, ValueError):
        return None
    return memo if same else None


def forget_listings(root: Path) -> None:
    """Let the next look at each folder be at every file."""
    shutil.rmtree(kept(root, LISTINGS), ignore_errors=True)


def _remember(memo: Memo, folder: Path, root: Path) -> None:
    if max(memo.times.values()) > time.time_ns() - SETTLED:
        return  # a change that is yet to come could bear the same time
    with contextlib.suppress(OSError):  # without a place to write to, every start looks at every file
        place = _place(folder, root)
        place.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(place, json.dumps(to_dict(memo)))


def _place(folder: Path, root: Path) -> Path:
    digest = hashlib.sha256(str(folder.absolute()).encode("utf-8", "surrogateescape")).hexdigest()
    return kept(root, LISTINGS) / f"{digest[:16]}.json"
