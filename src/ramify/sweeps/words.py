"""Quantities as people say them."""

from __future__ import annotations


def duration(seconds: float | None) -> str:
    """Seconds as people say them.

    >>> duration(75), duration(7321), duration(864000), duration(None)
    ('1 min 15 s', '2 h 2 min', '10.0 days', '')
    """
    if seconds is None:
        return ""
    if seconds < 60:
        return f"{seconds:.0f} s"
    if seconds < 3600:
        return f"{seconds // 60:.0f} min {seconds % 60:.0f} s"
    if seconds < 48 * 3600:
        return f"{seconds // 3600:.0f} h {seconds % 3600 // 60:.0f} min"
    return f"{seconds / 86400:,.1f} days"


def rounded(count: float) -> str:
    """A large number.

    >>> rounded(950), rounded(12_345), rounded(3_400_000)
    ('950', '12.3 thousand', '3.4 million')
    """
    if count < 1e3:
        return f"{count:.0f}"
    return f"{count / 1e3:.1f} thousand" if count < 1e6 else f"{count / 1e6:,.1f} million"
