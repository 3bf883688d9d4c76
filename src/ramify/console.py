"""The consoles that commands print to: as wide as a terminal, or as their lines where it is none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console

WIDE = 10_000  # columns; a pipe, a file or a log has no edge at which to break a line


def screen(**given: Any) -> Console:
    """A rich console, made of what `rich.console.Console` takes; lines in a pipe or a file stay whole."""
    from rich.console import Console

    made = Console(**given)
    if given.get("width") is None and not made.is_terminal:
        made.width = WIDE
    return made
