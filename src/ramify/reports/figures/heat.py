"""Heat maps: shares as a tiny image whose opacity is the value, so that it suits any background."""

from __future__ import annotations

import base64
import io

import numpy as np
import numpy.typing as npt

from ramify.reports.figures.theme import HEAT
from ramify.reports.markup import Markup, el


def heat_uri(shares: npt.NDArray[np.float64], dark: bool = False) -> str:
    """A PNG as data URI: opacity = √share, to show small shares too; the page reads values back from it."""
    from PIL import Image

    alpha = np.round(255 * np.sqrt(np.clip(np.nan_to_num(shares), 0, 1))).astype(np.uint8)
    image = Image.frombytes("P", alpha.shape[::-1], alpha.tobytes())
    image.putpalette([channel for _ in range(256) for channel in HEAT[dark]])
    data = io.BytesIO()
    image.save(data, "PNG", optimize=True, transparency=bytes(range(256)))
    return "data:image/png;base64," + base64.b64encode(data.getvalue()).decode()


def heat_image(shares: npt.NDArray[np.float64], x: float, y: float, width: float, height: float) -> Markup:
    """The heat map in a rectangle of a panel."""
    return el(
        "image",
        href=heat_uri(shares),
        x=float(x),
        y=float(y),
        width=float(width),
        height=float(height),
        preserveAspectRatio="none",
        image_rendering="optimizeSpeed",
        class_="heat",
    )
