"""Numbers with the word that they count, and lists of which the first few are told."""

from __future__ import annotations

from collections.abc import Iterable


def counted(number: int, one: str, many: str | None = None) -> str:
    """The number and the word in its right form.

    >>> counted(1, "sample"), counted(2000, "sample"), counted(0, "class", "classes")
    ('1 sample', '2,000 samples', '0 classes')
    """
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def some(names: Iterable[object], most: int = 5) -> str:
    """Names in one line, the first few where they are many.

    >>> some("abc", 2)
    'a, b and 1 more'
    """
    listed = list(map(str, names))
    more = f" and {len(listed) - most} more" if len(listed) > most else ""
    return ", ".join(listed[:most]) + more
