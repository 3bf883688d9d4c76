"""A panel: one small drawing. A figure: panels with a title and a legend, as a file of its own."""

from __future__ import annotations

import io
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from PIL import ImageFont

from ramify.errors import RamifyError
from ramify.files import write_atomic
from ramify.reports.figures.theme import stylesheet
from ramify.reports.markup import Markup, el, join, number
from ramify.reports.palette import DASHES, MARKERS, Style

GAP, MARGIN, LEGEND_ROW = 16, 16, 20


@dataclass(frozen=True)
class Panel:
    """A drawing in its own coordinates; `hover` tells the page how to find the value below the pointer."""

    title: str
    width: float
    height: float
    body: Markup
    hover: dict[str, Any] = field(default_factory=dict)

    def svg(self, **place: object) -> Markup:
        """As an `svg` element, to stand in a page or within another."""
        return el(
            "svg",
            self.body,
            viewBox=f"0 0 {self.width:g} {self.height:g}",
            class_="panel",
            role="img",
            aria_label=self.title,
            **place,
            **{f"data_{key}": value for key, value in self.hover.items()},
        )


@dataclass(frozen=True)
class Drawing:
    """Panels that belong together. `legend` pairs a look with a name."""

    title: str
    panels: tuple[Panel, ...]
    caption: str = ""
    legend: tuple[tuple[Style, str], ...] = ()
    columns: int = 3

    def to_svg(self) -> str:
        """One SVG document, with all that it needs."""
        columns = min(self.columns, len(self.panels))
        widths = [max(p.width for p in self.panels[c::columns]) for c in range(columns)]
        width = max(sum(widths) + GAP * (columns - 1) + 2 * MARGIN, text_width(self.title, 15) + 2 * MARGIN)
        parts, y = [label(MARGIN, MARGIN + 14, self.title, class_="h")], MARGIN + 26.0
        for line in wrap(self.caption, width - 2 * MARGIN, 11):
            parts.append(label(MARGIN, y + 10, line, class_="t faint"))
            y += 15
        legend, rows = legend_rows(self.legend, width - 2 * MARGIN)
        parts.append(el("g", legend, transform=f"translate({MARGIN} {y + 6:g})"))
        y += rows * LEGEND_ROW + 10
        for start in range(0, len(self.panels), columns):
            x = float(MARGIN)
            row = self.panels[start : start + columns]
            for panel, step in zip(row, widths, strict=False):
                parts.append(panel.svg(x=x, y=y, width=panel.width, height=panel.height))
                x += step + GAP
            y += max(panel.height for panel in row) + GAP
        background = el("rect", width=width, height=y, class_="paper")
        style = el("style", Markup(stylesheet()))
        size = {"viewBox": f"0 0 {width:.0f} {y:.0f}", "width": round(width), "height": round(y)}
        return '<?xml version="1.0" encoding="UTF-8"?>\n' + el(
            "svg", style, background, *parts, xmlns="http://www.w3.org/2000/svg", **size
        )

    def save(self, path: Path, scale: float = 2.0) -> None:
        """Write an SVG, or a PNG (extra `report`) at `scale` pixels a unit."""
        if path.suffix == ".png":
            write_atomic(path, _to_png(self.to_svg(), scale))
        else:
            write_atomic(path, self.to_svg() + "\n")


def _to_png(svg: str, scale: float) -> bytes:
    """An SVG document at `scale` pixels a unit; Pillow's font is for machines that have none."""
    try:
        import resvg_py
    except ImportError:
        raise RamifyError("PNG figures need the extra `report`: pip install 'ramify[report]'") from None
    font = _font()
    assert isinstance(font, ImageFont.FreeTypeFont)
    assert isinstance(font.path, io.BytesIO)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "Aileron.ttf"
        file.write_bytes(font.path.getvalue())
        drawn = resvg_py.svg_to_bytes(
            svg_string=svg, zoom=scale, font_files=[str(file)], sans_serif_family="Aileron"
        )
        return bytes(drawn)


def label(x: float, y: float, text: str, anchor: str | None = None, **attributes: object) -> Markup:
    """A line of text; `anchor` is middle or end."""
    return el("text", text, x=float(x), y=float(y), text_anchor=anchor, **({"class_": "t"} | attributes))


@cache
def text_width(text: str, size: float) -> float:
    """About how wide a text is; a little more than in Helvetica, so that nothing touches."""
    return 1.06 * float(_font().getlength(text.replace("\n", " "))) * size / 20


@cache
def _font() -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    return ImageFont.load_default(20)


def fit(text: str, width: float, size: float) -> str:
    """The text, shortened with … to a width; nothing where not even three letters fit."""
    if text_width(text, size) <= width:
        return text
    for end in range(len(text) - 1, 2, -1):
        if text_width(text[:end] + "…", size) <= width:
            return text[:end].rstrip() + "…"
    return ""


def wrap(text: str, width: float, size: float) -> list[str]:
    """The text in lines of a width."""
    lines: list[str] = []
    for word in text.split():
        if lines and text_width(f"{lines[-1]} {word}", size) <= width:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return lines


def legend_rows(entries: Sequence[tuple[Style, str]], width: float) -> tuple[Markup, int]:
    """The legend in as many rows as it needs."""
    x, row, parts = 0.0, 0, []
    for style, name in entries:
        name = fit(name, width - 40, 12)
        step = 34 + text_width(name, 12) + 18
        if x and x + step > width:
            x, row = 0.0, row + 1
        y = row * LEGEND_ROW
        parts.append(sample(style, x, y + 6))
        parts.append(label(x + 32, y + 10, name, class_="t12"))
        x += step
    return join(parts), row + 1 if entries else 0


def sample(style: Style, x: float, y: float) -> Markup:
    """A short piece of a line with its marker."""
    line = el(
        "path",
        d=f"M{x:g} {y:g}h26",
        class_=f"line s{style.color}",
        stroke_dasharray=DASHES[style.dash] or None,
    )
    return join([line, marker(style, x + 13, y)])


def marker(style: Style, x: float, y: float, size: float = 3.2) -> Markup:
    """A marker at a point."""
    kind, s, t = MARKERS[style.marker], size, 1.25 * size
    outline = {
        "circle": f"m{-s:.1f} 0a{s} {s} 0 1 0 {2 * s} 0a{s} {s} 0 1 0 {-2 * s} 0z",
        "square": f"m{-s:.1f} {-s:.1f}h{2 * s}v{2 * s}h{-2 * s}z",
        "triangle": f"m0 {-t:.1f}l{t:.1f} {1.8 * t:.1f}h{-2 * t:.1f}z",
        "diamond": f"m0 {-t:.1f}l{t:.1f} {t:.1f}l{-t:.1f} {t:.1f}l{-t:.1f} {-t:.1f}z",
        "cross": f"m{-s:.1f} {-s:.1f}l{2 * s} {2 * s}m{-2 * s} 0l{2 * s} {-2 * s}",
        "down": f"m0 {t:.1f}l{t:.1f} {-1.8 * t:.1f}h{-2 * t:.1f}z",
    }[kind]
    look = f"line s{style.color}" if kind == "cross" else f"f{style.color}"
    return el("path", d=f"M{number(x)} {number(y)}{outline}", class_=look)
