"""Heat maps: shares as a tiny image whose opacity is the value, so that it suits any background."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ramify.arrays import Floats
from ramify.reports.figures.theme import HEAT
from ramify.reports.markup import Markup, el, number

if TYPE_CHECKING:
    from PIL import Image


def heat_uri(shares: Floats) -> str:
    """A PNG as data URI: opacity = √share, to show small shares too; the page reads values back from it."""
    from PIL import Image

    alpha = np.round(255 * np.sqrt(np.clip(np.nan_to_num(shares), 0, 1))).astype(np.uint8)
    image = Image.frombytes("P", alpha.shape[::-1], alpha.tobytes())
    image.putpalette([channel for _ in range(256) for channel in HEAT])
    return _uri(image, transparency=bytes(range(256)))


def heat_image(shares: Floats, x: float, y: float, width: float, height: float) -> Markup:
    """The heat map in a rectangle of a panel."""
    return _image(heat_uri(shares), x, y, width, height, class_="heat")


def heat_hover(
    blocks: Sequence[Sequence[float]],
    names: tuple[Sequence[str], Sequence[str]],
    ends: tuple[float, float],
    scale: float,
    unit: str,
) -> dict[str, object]:
    """What the page needs to name the cell under the pointer: blocks (top, bottom, first row, rows), names.

    A cell of full opacity is worth `scale`.
    """
    rows, columns = names
    return {
        "kind": "heat",
        "blocks": json.dumps(blocks),
        "rows": json.dumps(rows),
        "columns": json.dumps(columns),
        "left": number(ends[0]),
        "right": number(ends[1]),
        "scale": scale,
        "unit": unit,
    }


def tinted_image(
    opacity: Floats, rows: Sequence[str], x: float, y: float, width: float, height: float
) -> Markup:
    """Cells of a given opacity in a rectangle, each row in a colour of its own (#rrggbb)."""
    from PIL import Image

    ink = np.array([tuple(bytes.fromhex(color[1:])) for color in rows], np.uint8)
    pixels = np.empty((*opacity.shape, 4), np.uint8)
    pixels[..., :3] = ink[:, None]
    pixels[..., 3] = np.round(255 * opacity)
    return _image(_uri(Image.fromarray(pixels, "RGBA")), x, y, width, height)


def _uri(image: Image.Image, **options: object) -> str:
    data = io.BytesIO()
    image.save(data, "PNG", optimize=True, **options)
    return "data:image/png;base64," + base64.b64encode(data.getvalue()).decode()


def _image(uri: str, x: float, y: float, width: float, height: float, **attributes: object) -> Markup:
    """An image in a rectangle, its pixels as they are."""
    return el(
        "image",
        href=uri,
        x=float(x),
        y=float(y),
        width=float(width),
        height=float(height),
        preserveAspectRatio="none",
        image_rendering="optimizeSpeed",
        **attributes,
    )
