"""Runs kept behind a URL, for workers that have no folder in common."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ramify.errors import RamifyError

FileStamp = tuple[int, int]


class Store:
    """The folder of one run behind a URL: s3://bucket/study/RUN, or whatever fsspec has a driver for."""

    def __init__(self, url: str, name: str) -> None:
        try:
            import fsspec

            self.files: Any
            self.files, root = fsspec.core.url_to_fs(url)
        except (ImportError, ValueError) as error:
            raise RamifyError(
                f"{url!r} cannot be used as a store: {error}; give a URL that fsspec knows"
            ) from None
        self.root = f"{root.rstrip('/')}/{name}"
        self._pushed: dict[str, FileStamp] = {}

    def pull(self, folder: Path) -> None:
        """Bring what is there to a local folder."""
        folder.mkdir(parents=True, exist_ok=True)
        if self.files.exists(self.root):
            for path in self.files.ls(self.root, detail=False):
                name = path.rsplit("/", 1)[-1]
                self.files.get_file(path, str(folder / name))
                self._pushed[name] = (0, 0)  # so that what goes here goes there, too

    def push(self, folder: Path) -> None:
        """Bring what has changed in a local folder there, and remove there what is gone.

        In such an order that what is there can be continued at any moment: a checkpoint before its checksum,
        the result last.
        """
        here = {path.name: path for path in folder.iterdir() if path.is_file() and path.name[0] != "."}
        self.files.makedirs(self.root, exist_ok=True)
        for name in sorted(here, key=lambda name: (name == "result.json", name.endswith(".sha256"), name)):
            status = here[name].stat()
            stamp = (status.st_mtime_ns, status.st_size)
            if self._pushed.get(name) != stamp:
                self.files.put_file(str(here[name]), f"{self.root}/{name}")
                self._pushed[name] = stamp
        for name in self._pushed.keys() - here.keys():
            self.files.rm_file(f"{self.root}/{name}")
            del self._pushed[name]

    def finished(self) -> bool:
        """Whether the run came to its end."""
        return bool(self.files.exists(f"{self.root}/result.json"))


@contextmanager
def working_copy(url: str | None, folder: Path) -> Iterator[tuple[Path, Callable[[], None]]]:
    """The folder to work in, and what to call now and then to keep it.

    Without a store that is the run's own folder; with one, a temporary copy that is kept whenever a new
    checkpoint has been written, and at the end.
    """
    if url is None:
        folder.mkdir(parents=True, exist_ok=True)
        yield folder, lambda: None
        return
    store, kept = Store(url, folder.name), ""
    scratch = Path(tempfile.mkdtemp(prefix="ramify-"))

    def keep() -> None:
        nonlocal kept
        newest = max((path.name for path in scratch.glob("checkpoint-*.sha256")), default="")
        if newest != kept:
            store.push(scratch)
            kept = newest

    try:
        store.pull(scratch)
        yield scratch, keep
    finally:
        store.push(scratch)
        shutil.rmtree(scratch, ignore_errors=True)
