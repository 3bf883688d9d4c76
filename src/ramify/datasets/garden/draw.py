"""The scene around a plant: sky, soil, clutter behind it and things in front of it."""

from __future__ import annotations

import numpy as np

from ramify.arrays import Pixels
from ramify.datasets.garden.canvas import Canvas
from ramify.datasets.garden.plants import GENERA

SIZE, SEED = 32, 2023


def _backdrop(c: Canvas) -> None:
    """Sky, soil and clutter: stones, weeds and far flowers of any colour."""
    horizon = c.vary(0.55, 0.95)
    sky, soil = c.tint((178, 190, 190), spread=42, light=0.22), c.tint((118, 102, 80), spread=28, light=0.3)
    c.pixels += sky * (0.8 + 0.3 * c.down[:, None])
    c.fill((horizon - c.down) * (c.pixel * c.size), soil)
    for _ in range(4):
        x, y, radius = c.vary(-0.5, 0.5), c.vary(-0.1, 0.9), c.vary(0.02, 0.07)
        c.ellipse(
            x, y, radius * c.vary(0.6, 1.6), radius, c.tint((150, 130, 130), spread=110), 0.0, c.vary(0.3, 1)
        )
    for _ in range(3):
        c.leaf(
            c.vary(-0.5, 0.5),
            c.vary(-0.1, 0.3),
            c.vary(0.25, 0.6),
            0.03,
            c.tint((96, 130, 70), spread=40),
            c.vary(0.15, 0.35),
        )


def _foreground(c: Canvas) -> None:
    """What stands in front: a leaf across the picture, a post, a falling petal."""
    c.leaf(
        c.vary(-0.6, 0.6),
        c.vary(0, 1),
        c.vary(0.4, 0.9),
        c.vary(0.04, 0.1),
        c.tint((88, 120, 66), spread=40),
        c.vary(0, 1),
        c.vary(-0.2, 0.2),
        c.chance(0.45),
    )
    c.rod(
        c.vary(-0.5, 0.5),
        -0.2,
        1.5,
        c.vary(0.02, 0.045),
        c.tint((140, 118, 96), spread=40),
        0.25,
        0.0,
        c.chance(0.3),
    )
    for _ in range(2):
        c.ellipse(
            c.vary(-0.5, 0.5),
            c.vary(0, 1),
            0.07,
            0.045,
            c.tint((170, 130, 130), spread=90),
            c.vary(0, 1),
            c.chance(0.4),
        )


def draw(leaf: int, n: int) -> Pixels:
    """`n` pictures of one species, uint8 [n, 3, 32, 32]."""
    c = Canvas(n, SIZE, np.random.default_rng([SEED, leaf]))
    c.place(c.vary(0.5, 0.5), c.vary(0.95, 0.95), c.vary(0.9, 0.9), 0.0)
    _backdrop(c)
    c.place(c.vary(0.34, 0.66), c.vary(0.78, 0.94), c.vary(0.62, 0.88), c.vary(-0.06, 0.06))
    GENERA[leaf // 4].paint(c, leaf % 4 // 2, leaf % 2)
    c.place(c.vary(0.5, 0.5), c.vary(0.95, 0.95), c.vary(0.9, 0.9), 0.0)
    _foreground(c)
    c.pixels *= c.shade(0.72, 1.15)
    return c.finish(noise=10)
