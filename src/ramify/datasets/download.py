"""Downloads that resume where they broke off and are checked before they are used."""

from __future__ import annotations

import http.client
import os
import urllib.error
import urllib.request
from pathlib import Path

from ramify.datasets.progress import progress_bar
from ramify.errors import RamifyError
from ramify.files import digest

ATTEMPTS = 3
TIMEOUT = 30.0
BLOCK = 2**18


def download(url: str, path: Path, md5: str | None, progress: bool = True) -> None:
    """Fetch `url` to `path`; a file that is there and whole is kept, a part of one is continued.

    Without an `md5` (the publisher states none) any file of that name is taken for whole.
    """
    if path.is_file() and md5 in (None, digest(path, "md5")):
        return
    part = path.with_name(path.name + ".part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        for attempt in range(ATTEMPTS):
            try:
                _fetch(url, part, progress)
                break
            except (urllib.error.URLError, TimeoutError, ConnectionError, http.client.HTTPException) as error:
                if attempt == ATTEMPTS - 1:
                    raise RamifyError(
                        f"cannot download {url}: {getattr(error, 'reason', None) or error}; the same command "
                        f"continues it later, or put the file at {path}"
                    ) from error
    except OSError as error:
        raise RamifyError(f"cannot write {part}: {error.strerror or error}") from error
    found = digest(part, "md5")
    if md5 not in (None, found):
        part.unlink()
        raise RamifyError(f"{url} arrived damaged or has changed (md5 {found}, expected {md5}): try again")
    part.replace(path)


def _fetch(url: str, part: Path, progress: bool) -> None:
    start = part.stat().st_size if part.exists() else 0
    request = urllib.request.Request(url, headers={"Range": f"bytes={start}-"} if start else {})
    try:
        response = urllib.request.urlopen(request, timeout=TIMEOUT)
    except urllib.error.HTTPError as error:
        error.close()
        if error.code == http.HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
            return  # all of it is there; the checksum decides
        raise
    with response, part.open("ab") as file:
        if response.status != http.HTTPStatus.PARTIAL_CONTENT:  # the server sends it from the beginning
            start = 0
            file.truncate(0)
        length = response.headers.get("Content-Length")
        total = start + int(length) if length else None
        with progress_bar(path_name(url), total, start, progress, files=True) as advance:
            while block := response.read(BLOCK):
                file.write(block)
                advance(len(block))
        file.flush()
        os.fsync(file.fileno())
        if total is not None and file.tell() < total:
            raise ConnectionError(f"it broke off after {file.tell():,} of {total:,} bytes")


def path_name(url: str) -> str:
    """The last part of a URL."""
    return url.rsplit("/", 1)[-1]
