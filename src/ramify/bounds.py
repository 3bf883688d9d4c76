"""Values within their bounds, for settings of all kinds."""

from __future__ import annotations

import math
from collections.abc import Mapping

from ramify.errors import RamifyError


def check_bounds(
    above: Mapping[str, float], share: Mapping[str, float], least: Mapping[str, float] | None = None
) -> None:
    """Refuse values that are not above 0, not a share from 0 to 1, or below 0."""
    for name, value in above.items():
        if not 0 < value < math.inf:
            raise RamifyError(f"{name} is {value}; it must be above 0")
    for name, value in share.items():
        if not 0 <= value <= 1:
            raise RamifyError(f"{name} is {value}; it must lie between 0 and 1")
    for name, value in (least or {}).items():
        if not 0 <= value < math.inf:
            raise RamifyError(f"{name} is {value}; it must be 0 or more")
