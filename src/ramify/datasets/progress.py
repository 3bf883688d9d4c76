"""Progress bars on stderr."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def progress_bar(
    title: str, total: int | None, start: int, show: bool, files: bool = False
) -> Iterator[Callable[[int], None]]:
    """Yield a function that advances a bar; `files` counts bytes instead of images."""
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    counter = DownloadColumn() if files else MofNCompleteColumn()
    columns = (TextColumn("{task.description}"), BarColumn(), counter, TimeRemainingColumn())
    console = Console(stderr=True)
    with Progress(
        *columns, console=console, disable=not (show and console.is_terminal), transient=True
    ) as progress:
        task = progress.add_task(title, total=total, completed=start)
        yield lambda n: progress.advance(task, n)
