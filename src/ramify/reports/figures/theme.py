"""The look of figures, as rules for classes, in concrete colours that every program understands."""

from __future__ import annotations

from ramify.reports.palette import DARK, LIGHT

FONT = "Helvetica, Arial, 'Liberation Sans', Aileron, sans-serif"

INKS = {
    # ink, faint ink, grid, paper, empty cell, right, wrong
    False: ("#1c2128", "#59636e", "#d9dee3", "#ffffff", "#eef1f4", "#0072b2", "#d55e00"),
    True: ("#e6edf3", "#9aa5b1", "#373e47", "#14181d", "#262c34", "#4aa3df", "#ff8a3d"),
}
HEAT = (0, 84, 147)  # of cells in heat maps, by their opacity


def stylesheet(dark: bool = False) -> str:
    """Rules for the classes that figures use."""
    ink, faint, grid, paper, empty, right, wrong = INKS[dark]
    colors = DARK if dark else LIGHT
    rules = [
        f"text{{font-family:{FONT};fill:{ink}}}",
        ".t{font-size:11px}.t12{font-size:12px}.t9{font-size:9px}.h{font-size:15px;font-weight:bold}",
        f".b{{font-size:12px;font-weight:bold}}text.faint{{fill:{faint}}}",
        f".paper{{fill:{paper}}}.empty{{fill:{empty}}}.frame{{fill:none;stroke:{grid}}}",
        f".grid{{stroke:{grid};fill:none}}.task{{stroke:{faint};stroke-dasharray:2 3;fill:none;opacity:.8}}",
        ".line{fill:none;stroke-width:1.8;stroke-linejoin:round}.band{opacity:.16}.many .band{opacity:.07}",
        f".right{{fill:{right}}}.wrong{{fill:{wrong}}}.lost{{fill:{wrong};opacity:.4}}.kept{{fill:{right};opacity:.45}}",
        f".tie{{fill:none;stroke:{right};opacity:.75}}.miss{{fill:none;stroke:{wrong};stroke-dasharray:5 2}}",
        f".between{{stroke:{paper};fill:none}}",
        f".cursor{{stroke:{ink};opacity:.5}}",
        *(f".s{i}{{stroke:{color}}}.f{i}{{fill:{color}}}" for i, color in enumerate(colors)),
    ]
    return "".join(rules)
