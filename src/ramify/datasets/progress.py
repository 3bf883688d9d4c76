"""Progress bars on stderr, where the command `ramify` is at work: a library shows none of its own accord."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from ramify.console import screen


@contextmanager
def progress_bar(
    title: str, total: int | None, start: int, show: bool, files: bool = False
) -> Iterator[Callable[[int], None]]:
    """Yield a function that advances a bar; `files` counts bytes instead of images.

    There is one where ramify's log is shown (the command, but not with -q) and stderr is a terminal.
    """
    if not (show and logging.getLogger("ramify").isEnabledFor(logging.INFO)):
        yield lambda n: None
        return
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
    console = screen(stderr=True)
    with Progress(*columns, console=console, disable=not console.is_terminal, transient=True) as progress:
        task = progress.add_task(title, total=total, completed=start)
        yield lambda n: progress.advance(task, n)
