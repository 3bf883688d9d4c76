"""Counts and times of a server, in Prometheus' text format."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator, Mapping

BOUNDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)  # seconds
TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Requests:
    """How many there were of each path and status, and how long they took."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[str, int]] = Counter()
        self._times: dict[str, list[int]] = {}
        self._seconds: Counter[str] = Counter()
        self._lock = threading.Lock()

    def add(self, path: str, status: int, seconds: float) -> None:
        """One was answered."""
        with self._lock:
            self._counts[path, status] += 1
            self._seconds[path] += seconds  # type: ignore[assignment]
            times = self._times.setdefault(path, [0] * (len(BOUNDS) + 1))
            times[sum(seconds > bound for bound in BOUNDS)] += 1

    def lines(self) -> Iterator[str]:
        """As Prometheus reads them."""
        with self._lock:
            counts, times = dict(self._counts), {path: list(own) for path, own in self._times.items()}
            seconds = dict(self._seconds)
        yield "# HELP ramify_requests_total Requests by path and status."
        yield "# TYPE ramify_requests_total counter"
        for (path, status), count in sorted(counts.items()):
            yield f"ramify_requests_total{_labels({'path': path, 'status': str(status)})} {count}"
        yield "# HELP ramify_request_seconds Time to answer by path."
        yield "# TYPE ramify_request_seconds histogram"
        for path, own in sorted(times.items()):
            total = 0
            for bound, count in zip((*map(str, BOUNDS), "+Inf"), own, strict=True):
                total += count
                yield f"ramify_request_seconds_bucket{_labels({'path': path, 'le': bound})} {total}"
            yield f"ramify_request_seconds_sum{_labels({'path': path})} {seconds[path]:.6f}"
            yield f"ramify_request_seconds_count{_labels({'path': path})} {total}"


ByLabels = Mapping[tuple[tuple[str, str], ...], float]
"""Values by their labels."""


def metric_lines(name: str, kind: str, told: str, values: float | ByLabels) -> Iterator[str]:
    """One metric: a number, or several by their labels."""
    yield f"# HELP ramify_{name} {told}"
    yield f"# TYPE ramify_{name} {kind}"
    for labels, value in (values if isinstance(values, Mapping) else {(): values}).items():
        yield f"ramify_{name}{_labels(dict(labels))} {value:g}"


def _labels(values: Mapping[str, str]) -> str:
    escaped = (
        f'{name}="{text}"'
        for name, value in values.items()
        for text in [value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")]
    )
    return "{" + ",".join(escaped) + "}" if values else ""
