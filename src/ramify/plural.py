"""Numbers with the word that they count."""

from __future__ import annotations


def counted(number: int, one: str, many: str | None = None) -> str:
    """The number and the word in its right form.

    >>> counted(1, "sample"), counted(2000, "sample"), counted(0, "class", "classes")
    ('1 sample', '2,000 samples', '0 classes')
    """
    return f"{number:,} {one if number == 1 else many or one + 's'}"
