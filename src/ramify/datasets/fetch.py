"""What a publisher offers: its page, its licence, and archives that are downloaded, checked and unpacked."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ramify.errors import RamifyError


@dataclass(frozen=True)
class Download:
    """One archive: its address, its checksum (None: the publisher states none), and what it unpacks to."""

    url: str
    md5: str | None
    top: str


@dataclass(frozen=True)
class Publisher:
    """Where a dataset comes from; `size` is that of all archives, for people."""

    page: str
    licence: str
    archives: tuple[Download, ...] = ()
    size: str = ""

    def fetch(self, folder: Path, progress: bool) -> None:
        """Bring all archives to `folder`, unpacked; what is there stays, what broke off is continued."""
        from ramify.datasets.archives import extract  # what only a download needs
        from ramify.datasets.download import download, path_name

        for archive in self.archives:
            if not (folder / archive.top).exists():
                path = folder / path_name(archive.url)
                download(archive.url, path, archive.md5, progress)
                extract(path, folder, archive.top)

    def check(self, name: str, root: Path, *needed: Path) -> None:
        """Refuse where one of the files is missing, and say how to provide them."""
        for path in needed:
            if not path.exists():
                raise RamifyError(
                    f"no {name} below {root} ({path} is missing): `ramify data get {name}` downloads it "
                    f"({self.size}; {self.page}), or point RAMIFY_DATA or --data-dir at a folder that has it"
                )
