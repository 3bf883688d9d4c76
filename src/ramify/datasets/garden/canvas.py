"""A batch of small pictures and the shapes that are painted on them, the same to the bit on every machine.

Only + - * / sqrt and comparisons of float32 touch a pixel: IEEE 754 makes these exact, unlike sin or exp.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np

from ramify.arrays import Pixels, Singles

Field: TypeAlias = Singles
"""One number a picture, [n, 1, 1], or one a pixel, [n, size, size]."""
Number: TypeAlias = Field | float

TURNS = 1024
# Rounding to 1/4096 hides the last bits, in which math libraries differ.
_CIRCLE = np.round(np.exp(2j * np.pi * np.arange(TURNS) / TURNS) * 4096) / 4096


def unit(turn: Number) -> tuple[Field, Field]:
    """The cosine and sine of an angle in whole turns (0.25 points up)."""
    # An array also for a plain number: NumPy 1 and 2 differ in the type of a scalar's product.
    turns = np.asarray(turn, dtype=np.float64).reshape(-1, 1, 1)
    index = np.floor(turns * TURNS + 0.5).astype(np.int64) % TURNS
    return _CIRCLE.real[index].astype(np.float32), _CIRCLE.imag[index].astype(np.float32)


class Canvas:
    """`n` square RGB pictures. In the frame of `place` a plant's foot is (0, 0) and y grows upwards to 1."""

    def __init__(self, n: int, size: int, rng: np.random.Generator) -> None:
        self.n, self.size, self.rng = n, size, rng
        self.pixels = np.zeros((n, 3, size, size), dtype=np.float32)
        grid = (np.arange(size, dtype=np.float32) + 0.5) / size
        self.across: Field = np.broadcast_to(grid[None, None, :], (n, size, size))
        self.down: Field = np.broadcast_to(grid[None, :, None], (n, size, size))
        self.place(self.vary(0.5, 0.5), self.vary(1, 1), self.vary(1, 1), 0.0)

    def vary(self, low: float, high: float) -> Field:
        """One uniform draw for each picture, [n, 1, 1]."""
        return (low + (high - low) * self.rng.random((self.n, 1, 1))).astype(np.float32)

    def chance(self, probability: float) -> Field:
        """1 with this probability, else 0, for each picture."""
        return (self.rng.random((self.n, 1, 1)) < probability).astype(np.float32)

    def shade(self, low: float, high: float) -> Field:
        """One uniform factor for the colour of each picture, [n, 1, 1, 1]."""
        return self.vary(low, high)[..., None]

    def tint(self, colour: tuple[int, int, int], spread: float = 14, light: float = 0.12) -> Field:
        """A colour for each picture, [n, 3, 1, 1]: its hue drifts by `spread`, its brightness by `light`."""
        drift = (self.rng.random((self.n, 3)) * 2 - 1) * spread
        gain = 1 + (self.rng.random((self.n, 1)) * 2 - 1) * light
        tinted = np.clip((np.array(colour) + drift) * gain, 0, 255)
        return tinted.astype(np.float32)[:, :, None, None]

    def place(self, x: Field, y: Field, scale: Field, turn: Number) -> None:
        """Put the plant's foot at (x, y) of the picture (0..1, downwards), `scale` pictures high, turned."""
        cos, sin = unit(turn)
        right, up = (self.across - x) / scale, (y - self.down) / scale
        self.x: Field = right * cos + up * sin
        self.y: Field = up * cos - right * sin
        self.pixel: Field = (1 / (scale * self.size)).astype(np.float32)

    def fill(self, distance: Field, colour: Field, strength: Number = 1.0) -> None:
        """Paint where the distance to a shape's edge is negative; the edge is one pixel soft."""
        cover = np.clip(0.5 - distance / self.pixel, 0, 1) * strength
        self.pixels += cover[:, None] * (colour - self.pixels)

    def _frame(self, x: Number, y: Number, turn: Number) -> tuple[Field, Field]:
        cos, sin = unit(turn)
        right, up = self.x - x, self.y - y
        return right * cos + up * sin, up * cos - right * sin

    def ellipse(
        self,
        x: Number,
        y: Number,
        rx: Number,
        ry: Number,
        colour: Field,
        turn: Number = 0.0,
        strength: Number = 1.0,
    ) -> None:
        """A filled ellipse around (x, y)."""
        u, v = self._frame(x, y, turn)
        u, v = u / rx, v / ry
        self.fill((np.sqrt(u * u + v * v) - 1) * np.minimum(rx, ry), colour, strength)

    def leaf(
        self,
        x: Number,
        y: Number,
        length: Number,
        width: Number,
        colour: Field,
        turn: Number,
        curl: Number = 0.0,
        strength: Number = 1.0,
    ) -> None:
        """A leaf with two pointed ends that starts at (x, y) and points along `turn`; `curl` bends it."""
        u, v = self._frame(x, y, turn)
        t = u / length
        self.fill(np.abs(v - curl * t * t) - width * 4 * t * (1 - t), colour, strength)

    def rod(
        self,
        x: Number,
        y: Number,
        length: Number,
        width: Number,
        colour: Field,
        turn: Number = 0.25,
        curl: Number = 0.0,
        strength: Number = 1.0,
    ) -> None:
        """A stem or a post of even half-width from (x, y) along `turn`; `curl` bends it like `leaf`."""
        u, v = self._frame(x, y, turn)
        t = u / length
        self.fill(
            np.maximum(np.abs(v - curl * t * t) - width, np.abs(u - length / 2) - length / 2),
            colour,
            strength,
        )

    def wedge(
        self,
        x: Number,
        y: Number,
        length: Number,
        start: Number,
        end: Number,
        colour: Field,
        turn: Number = 0.25,
    ) -> None:
        """A straight-sided shape whose half-width runs from `start` at (x, y) to `end`."""
        u, v = self._frame(x, y, turn)
        width = start + (end - start) * (u / length)
        self.fill(np.maximum(np.abs(v) - width, np.abs(u - length / 2) - length / 2), colour)

    def finish(self, noise: float) -> Pixels:
        """The pictures as uint8, with even noise of this amplitude on every value."""
        grain = (self.rng.random(self.pixels.shape, dtype=np.float32) * 2 - 1) * np.float32(noise)
        return np.clip(np.floor(self.pixels + grain + 0.5), 0, 255).astype(np.uint8)
