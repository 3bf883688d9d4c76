"""What one asker may send, and how often."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from time import monotonic

ASKERS = 10_000  # whose rate is remembered


@dataclass(frozen=True)
class Limits:
    """Of one request: bytes and pixels; of all that wait: samples; of one address: requests a second."""

    bytes: int = 20_000_000
    pixels: int = 50_000_000
    queue: int = 1000
    rate: float = 100.0
    """0: any."""


class RateLimit:
    """So many requests a second from each address, twice as many at once (a token bucket each)."""

    def __init__(self, rate: float) -> None:
        self.rate = rate
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def wait(self, asker: str, now: float | None = None) -> float:
        """Seconds that this asker has to wait; 0: the request is taken."""
        if not self.rate:
            return 0.0
        now, most = monotonic() if now is None else now, max(1.0, 2 * self.rate)
        left, since = self._left.pop(asker, (most, now))
        left = min(most, left + (now - since) * self.rate)
        taken = left >= 1
        self._left[asker] = (left - taken, now)
        while len(self._left) > ASKERS:
            self._left.popitem(last=False)
        return 0.0 if taken else (1 - left) / self.rate
