"""Axes with round ticks."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ramify.reports.figures.panel import label
from ramify.reports.markup import Markup, el, join, number


def ticks(low: float, high: float, most: int = 6) -> list[float]:
    """Round values from `low` to `high`: at least one, at most `most`."""
    power = 10 ** math.floor(math.log10((high - low) / most))
    for step in (s * power for s in (1, 2, 5, 10, 20)):
        first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
        if last - first < most:
            break
    return [i * step for i in range(first, last + 1)]


def count(value: float) -> str:
    """1,200 as 1.2k and 3,400,000 as 3.4M."""
    for limit, unit in ((1e6, "M"), (1e3, "k")):
        if abs(value) >= limit:
            return f"{value / limit:.3g}{unit}"
    return f"{value:.3g}"


@dataclass(frozen=True)
class Axes:
    """A linear scale in a rectangle of a panel."""

    x_range: tuple[float, float]
    y_range: tuple[float, float]
    left: float
    top: float
    right: float
    bottom: float

    def x(self, value: float) -> float:
        """Data to panel."""
        low, high = self.x_range
        return self.left + (value - low) / (high - low) * (self.right - self.left)

    def y(self, value: float) -> float:
        """Data to panel."""
        low, high = self.y_range
        return self.bottom - (value - low) / (high - low) * (self.bottom - self.top)

    def path(self, points: list[tuple[float, float]]) -> str:
        """A polyline through points of the data."""
        return "M" + "L".join(f"{number(self.x(x))} {number(self.y(y))}" for x, y in points)

    def frame(self, x_title: str, y_title: str) -> Markup:
        """Grid, ticks and titles."""
        parts = []
        for value in ticks(*self.y_range):
            y = self.y(value)
            parts.append(
                el("path", d=f"M{number(self.left)} {number(y)}H{number(self.right)}", class_="grid")
            )
            parts.append(label(self.left - 6, y + 4, count(value), "end", class_="t faint"))
        for value in ticks(*self.x_range, most=5):
            parts.append(label(self.x(value), self.bottom + 15, count(value), "middle", class_="t faint"))
        parts.append(
            label((self.left + self.right) / 2, self.bottom + 30, x_title, "middle", class_="t faint")
        )
        parts.append(label(2, self.top - 12, y_title, class_="t faint"))
        return join(parts)

    def hover(self) -> dict[str, object]:
        """What the page needs to find the x under the pointer."""
        return {
            "kind": "lines",
            "x0": self.x_range[0],
            "x1": self.x_range[1],
            "left": number(self.left),
            "right": number(self.right),
            "top": number(self.top),
            "bottom": number(self.bottom),
        }
