"""One look a method, everywhere: a colour from Okabe and Ito's colour-blind safe set, a dash and a marker."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

LIGHT = ("#0072b2", "#56b4e9", "#009e73", "#cc79a7", "#e69f00", "#a08a00", "#222222", "#d55e00", "#808080")
DARK = ("#4aa3df", "#8fd0f5", "#2cc79a", "#e39cc4", "#f0b432", "#d6c24a", "#f0f0f0", "#ff8a3d", "#a0a0a0")
DASHES = ("", "7 3", "2 3", "9 3 2 3", "4 2", "1 2")
MARKERS = ("circle", "square", "triangle", "diamond", "cross", "down")


@dataclass(frozen=True)
class Style:
    """Colour (an index into LIGHT and DARK), dash pattern and marker of a line."""

    color: int
    dash: int = 0
    marker: int = 0

    def variant(self, number: int) -> Style:
        """The same colour for the same method with other settings."""
        return replace(
            self, dash=(self.dash + number) % len(DASHES), marker=(self.marker + number) % len(MARKERS)
        )


# The paper's ablations and upper bounds share the hue of the method that they belong to.
KNOWN = {
    "er": Style(0, 0, 0),
    "ewc++": Style(1, 0, 1),
    "bic": Style(2, 0, 2),
    "mir": Style(3, 0, 3),
    "rm": Style(4, 0, 4),
    "gdumb": Style(5, 0, 5),
    "clib": Style(6, 0, 1),
    "fms": Style(7, 1, 2),
    "pl": Style(7, 2, 3),
    "pl-fms": Style(7, 0, 0),
    "pl-fms-t": Style(7, 3, 4),
    "oracle": Style(8, 1, 5),
}


def styles(methods: Iterable[str]) -> dict[str, Style]:
    """The look of each method; those that are not the paper's take the colours in turn, dashed."""
    unknown = sorted({method for method in methods if method not in KNOWN})
    turn = len(LIGHT) - 1
    return KNOWN | {
        method: Style((2 + i) % turn, 3 - (i // turn) % 3, (i + 3) % len(MARKERS))
        for i, method in enumerate(unknown)
    }


def hues(count: int) -> list[str]:
    """So many colours, equally vivid and by turns a little darker and lighter (OKLCH), for any background."""
    hue = 2 * np.pi * ((np.arange(count) + 0.1) / max(count, 3) + 0.38)
    lightness = np.where(np.arange(count) % 2, 0.68, 0.55)
    a, b = 0.13 * np.cos(hue), 0.13 * np.sin(hue)
    to_cone = np.array([[1, 0.39634, 0.21580], [1, -0.10556, -0.06385], [1, -0.08948, -1.29149]])
    to_rgb = np.array(
        [[4.07674, -3.30771, 0.23097], [-1.26844, 2.60976, -0.34132], [-0.0042, -0.70342, 1.70761]]
    )
    linear = np.clip((np.stack((lightness, a, b), axis=1) @ to_cone.T) ** 3 @ to_rgb.T, 0, 1)
    srgb = np.where(linear <= 0.0031308, 12.92 * linear, 1.055 * linear ** (1 / 2.4) - 0.055)
    return ["#" + bytes(color).hex() for color in np.round(255 * srgb).astype(np.uint8)]
