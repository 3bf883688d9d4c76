"""SVG to PNG, with fonts that are always there."""

from __future__ import annotations

import io
import tempfile
from pathlib import Path

from ramify.errors import RamifyError


def to_png(svg: str, scale: float = 2.0) -> bytes:
    """Draw an SVG document at `scale` pixels a unit."""
    try:
        import resvg_py
    except ImportError:
        raise RamifyError("PNG figures need the extra `report`: pip install 'ramify[report]'") from None
    with tempfile.TemporaryDirectory() as folder:
        font = Path(folder) / "Aileron.ttf"
        font.write_bytes(_spare_font())
        return bytes(
            resvg_py.svg_to_bytes(
                svg_string=svg, zoom=scale, font_files=[str(font)], sans_serif_family="Aileron"
            )
        )


def _spare_font() -> bytes:
    """The font that Pillow carries, for machines that have none."""
    from PIL import ImageFont

    font = ImageFont.load_default(20)
    assert isinstance(font, ImageFont.FreeTypeFont)
    assert isinstance(font.path, io.BytesIO)
    return font.path.getvalue()
