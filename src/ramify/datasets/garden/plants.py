"""The twelve genera of the garden. Each is painted with two traits, 0 or 1, and so has four species.

What the eye sees is the tree: flowering plants carry a bright bloom on a thin stem, foliage plants have none;
rayed blooms are one face, spires are many small ones; leafy plants grow from soil, succulents stand in a pot.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

from ramify.datasets.garden.canvas import Canvas, Field, unit

Painter: TypeAlias = Callable[[Canvas, int, int], None]
Colour: TypeAlias = tuple[int, int, int]

GREEN: Colour = (74, 132, 52)


class Genus(NamedTuple):
    """A class of level 3: its ancestors, its four species (traits 00, 01, 10, 11) and its painter."""

    kind: str
    form: str
    name: str
    species: tuple[str, str, str, str]
    paint: Painter


def _stalk(c: Canvas, height: Field) -> tuple[Field, Field, Field]:
    """A stem with two leaves; returns its tip (x, y) and its bend."""
    green, bend = c.tint(GREEN), c.vary(-0.12, 0.12)
    c.rod(0.0, 0.0, height, 0.022, green, 0.25, bend)
    for side in (0.07, 0.43):
        c.leaf(0.0, c.vary(0.03, 0.2), c.vary(0.22, 0.34), 0.055, green, side + c.vary(-0.03, 0.03))
    return -bend, height, bend


def _rays(c: Canvas, x: Field, y: Field, count: int, reach: Field, width: float, colour: Field) -> None:
    start = c.vary(0, 1)
    for k in range(count):
        cos, sin = unit(start + k / count)
        c.ellipse(
            x + cos * reach * 0.55, y + sin * reach * 0.55, reach * 0.45, width, colour, start + k / count
        )


def _pot(c: Canvas) -> None:
    """A pot of any colour; the plant's foot is its soil."""
    clay = c.tint((172, 108, 84), spread=46, light=0.2)
    c.wedge(0.0, -0.3, 0.3, 0.17, 0.24, clay)
    c.rod(-0.28, -0.03, 0.56, 0.05, clay * 0.85, 0.0)


def daisies(c: Canvas, rosy: int, dark: int) -> None:
    """Many narrow petals: white or rose; a small yellow eye or a broad dark one."""
    x, y, _ = _stalk(c, c.vary(0.6, 0.72))
    colours: tuple[Colour, Colour] = ((236, 232, 222), (224, 112, 164))
    _rays(c, x, y, 10, c.vary(0.3, 0.37), 0.05, c.tint(colours[rosy]))
    eye = c.vary(0.13, 0.155) if dark else c.vary(0.08, 0.1)
    c.ellipse(x, y, eye, eye, c.tint((86, 52, 36) if dark else (238, 192, 40)))


def poppies(c: Canvas, golden: int, blotched: int) -> None:
    """Four broad petals: scarlet or golden; with dark blotches around the heart or without."""
    x, y, _ = _stalk(c, c.vary(0.6, 0.72))
    petal = c.tint((236, 164, 36) if golden else (208, 44, 40))
    reach, start = c.vary(0.17, 0.2), c.vary(0, 1)
    for k in range(4):
        cos, sin = unit(start + k / 4)
        c.ellipse(x + cos * reach, y + sin * reach, reach, reach, petal * (1 - 0.06 * k))
        if blotched:
            c.ellipse(
                x + cos * reach * 0.6, y + sin * reach * 0.6, 0.07, 0.06, c.tint((48, 26, 40)), start + k / 4
            )
    c.ellipse(x, y, 0.06, 0.06, c.tint((150, 160, 70)))


def starflowers(c: Canvas, pale: int, many: int) -> None:
    """Pointed petals: violet or pale blue; five or eight of them."""
    x, y, _ = _stalk(c, c.vary(0.6, 0.72))
    petal, start, reach = c.tint((164, 192, 236) if pale else (112, 62, 168)), c.vary(0, 1), c.vary(0.34, 0.4)
    count = 8 if many else 5
    for k in range(count):
        c.leaf(x, y, reach, 0.075, petal, start + k / count)
    c.ellipse(x, y, 0.06, 0.06, c.tint((240, 226, 120)))


def lupins(c: Canvas, pink: int, even: int) -> None:
    """A dense upright spike: purple or pink; tapering to a tip or even in width."""
    _, y, bend = _stalk(c, c.vary(0.85, 0.98))
    floret = c.tint((226, 112, 150) if pink else (108, 82, 190))
    for k in range(7):
        height = 0.36 + 0.64 * k / 6
        width = 0.115 if even else 0.19 * (1 - k / 6) + 0.03
        for side in (-1.0, 1.0):
            c.ellipse(
                -bend * (height * height) + side * width * 0.6,
                y * height,
                0.5 * width + 0.03,
                0.06,
                floret * c.shade(0.8, 1.15),
                side * 0.06,
            )


def bellflowers(c: Canvas, white: int, facing: int) -> None:
    """Hanging bells: blue or white; all on one side of the stem or in facing pairs."""
    _, y, bend = _stalk(c, c.vary(0.9, 1.0))
    bell, green = c.tint((226, 226, 236) if white else (74, 104, 208)), c.tint(GREEN)
    side = 1 - 2 * c.chance(0.5)
    places = (
        [(0.95, 1), (0.95, -1), (0.66, 1), (0.66, -1)] if facing else [(1.0, 1), (0.8, 1), (0.6, 1), (0.4, 1)]
    )
    for height, way in places:
        left, top = -bend * height * height, y * height
        reach = side * way * 0.17
        c.rod(left, top, 0.16, 0.016, green, 0.25 - 0.25 * side * way)
        c.wedge(left + reach, top - 0.2, 0.2, 0.115, 0.05, bell * c.shade(0.88, 1.08))
        c.ellipse(left + reach, top - 0.2, 0.115, 0.035, bell * 0.72)


def umbels(c: Canvas, yellow: int, domed: int) -> None:
    """Florets on rays from one point: white or yellow; in a flat plate or a round dome."""
    x, y, _ = _stalk(c, c.vary(0.52, 0.6))
    floret, green = c.tint((228, 206, 52) if yellow else (238, 236, 228)), c.tint(GREEN)
    for k in range(7):
        turn = 0.25 - (k - 3) * (0.085 if domed else 0.055)
        cos, sin = unit(turn)
        c.rod(x, y, 0.24, 0.012, green, turn)
        right, up = (cos * 0.32, sin * 0.32) if domed else ((k - 3) * 0.125, 0.2)
        c.ellipse(x + right, y + up, 0.07, 0.055, floret * c.shade(0.88, 1.06))
    if domed:
        for k in range(4):
            cos, sin = unit(0.25 + (k - 1.5) * 0.11)
            c.ellipse(x + cos * 0.2, y + sin * 0.2, 0.065, 0.055, floret * c.shade(0.82, 1.0))


def ferns(c: Canvas, blue: int, long: int) -> None:
    """Feathered fronds: green or blue-green; with short leaflets close together or long ones apart."""
    green = c.tint((84, 138, 116) if blue else (66, 128, 48))
    for turn in (0.37, 0.13, 0.25):
        angle, length = turn + c.vary(-0.025, 0.025), c.vary(0.85, 1.0)
        cos, sin = unit(angle)
        c.rod(0.0, 0.0, length, 0.014, green * 0.8, angle)
        count = 5 if long else 9
        for k in range(count):
            along = length * (0.16 + 0.8 * k / count)
            reach = (0.27 if long else 0.15) * (1 - 0.65 * k / count)
            for side in (0.17, -0.17):
                c.leaf(
                    cos * along, sin * along, reach, 0.035, green * (0.95 if side > 0 else 1.1), angle + side
                )


def broadleaves(c: Canvas, split: int, striped: int) -> None:
    """A few large leaves: oval or heart-lobed; plain or with a pale midrib."""
    green = c.tint((52, 122, 56))
    for turn in (0.42, 0.08, 0.33, 0.17, 0.25):
        angle, shade = turn + c.vary(-0.03, 0.03), c.shade(0.8, 1.2)
        cos, sin = unit(angle)
        stem = c.vary(0.18, 0.3)
        x, y = cos * stem, sin * stem
        c.rod(0.0, 0.0, stem, 0.018, green * 0.8, angle)
        if split:
            for side in (0.06, -0.06):
                c.leaf(x, y, 0.5, 0.085, green * shade, angle + side)
        else:
            c.ellipse(x + cos * 0.24, y + sin * 0.24, 0.26, 0.14, green * shade, angle)
        if striped:
            c.leaf(x, y, 0.46, 0.034, c.tint((214, 226, 160)), angle)


def grasses(c: Canvas, bronze: int, seeding: int) -> None:
    """A tuft of arching blades: green or bronze; bare or with seed heads."""
    blade = c.tint((150, 112, 58) if bronze else (104, 148, 56))
    for k in range(9):
        angle, length = 0.25 + (k - 4) * 0.03 + c.vary(-0.02, 0.02), c.vary(0.75, 1.0)
        curl = -(k - 4) * 0.07 + c.vary(-0.05, 0.05)
        c.leaf(0.0, -0.05, length, 0.026, blade * c.shade(0.75, 1.2), angle, curl)
    if seeding:
        for k in (-1, 0, 1):
            angle = 0.25 + k * 0.045 + c.vary(-0.02, 0.02)
            cos, sin = unit(angle)
            c.rod(0.0, 0.0, 0.8, 0.012, blade * 0.8, angle)
            c.ellipse(cos * 0.85, sin * 0.85, 0.17, 0.05, c.tint((198, 172, 116)), angle)


def columns(c: Canvas, armed: int, spotted: int) -> None:
    """A thick ribbed column: alone or with arms; ribs or rows of spines."""
    _pot(c)
    green, pale = c.tint((72, 130, 76)), c.tint((206, 214, 170))
    height = c.vary(0.72, 0.85)
    if armed:
        for side, at in ((-1.0, 0.3), (1.0, 0.42)):
            c.rod(0.0, at, 0.27, 0.055, green * 0.92, 0.25 - 0.25 * side)
            c.rod(side * 0.25, at - 0.05, 0.3, 0.06, green * 0.92, 0.25)
            c.ellipse(side * 0.25, at + 0.25, 0.06, 0.06, green * 0.92)
    c.rod(0.0, 0.0, height, 0.14, green)
    c.ellipse(0.0, height, 0.14, 0.12, green)
    if spotted:
        for k in range(5):
            for dx in (-0.07, 0.07):
                c.ellipse(dx, height * (0.16 + 0.19 * k) + dx * 0.6, 0.026, 0.026, pale)
    else:
        for dx in (-0.075, 0.0, 0.075):
            c.rod(dx, 0.02, height, 0.015, green * 0.66, 0.25)


def rosettes(c: Canvas, frosted: int, pointed: int) -> None:
    """A low cup of fleshy leaves: green with red tips or frosted blue; rounded or pointed."""
    _pot(c)
    flesh = c.tint((142, 168, 178) if frosted else (112, 152, 84))
    tip = c.tint((186, 176, 196) if frosted else (196, 90, 84))
    start = c.vary(0, 1)
    for ring, (reach, count) in enumerate(((0.42, 8), (0.29, 6), (0.17, 4))):
        shade = flesh * (0.78 + 0.16 * ring)
        for k in range(count):
            turn = start + k / count + ring * 0.07
            cos, sin = unit(turn)
            y = 0.3 + sin * reach * 0.45
            if pointed:
                c.leaf(cos * reach * 0.15, 0.3 + sin * reach * 0.1, reach, 0.085, shade, turn)
            else:
                c.ellipse(cos * reach * 0.6, y, reach * 0.42, 0.09, shade, turn)
            c.ellipse(cos * reach * 0.97, 0.3 + sin * reach * 0.9, 0.035, 0.035, tip)


def paddles(c: Canvas, fanned: int, spined: int) -> None:
    """Flat round pads on pads: stacked or fanned; smooth or with spines."""
    _pot(c)
    green, pale = c.tint((96, 146, 74)), c.tint((236, 226, 176))
    lean = c.vary(-0.05, 0.05)
    pads = [(0.0, 0.2, 0.25), (-0.24, 0.56, 0.32), (0.24, 0.56, 0.18), (0.0, 0.66, 0.25)]
    if not fanned:
        pads = [(0.0, 0.2, 0.25), (0.06, 0.52, 0.2), (-0.04, 0.8, 0.3)]
    for x, y, turn in pads:
        cos, sin = unit(turn + lean)
        size = c.vary(0.9, 1.1)
        c.ellipse(x, y, 0.23 * size, 0.165 * size, green * c.shade(0.82, 1.15), turn + lean)
        if spined:
            for u, v in ((-0.1, 0.0), (0.02, 0.07), (0.02, -0.07), (0.13, 0.0)):
                c.ellipse(x + cos * u - sin * v, y + sin * u + cos * v, 0.024, 0.024, pale)


GENERA = (
    Genus(
        "flowering", "rayed", "daisies", ("moon daisy", "owl daisy", "rose daisy", "velvet daisy"), daisies
    ),
    Genus(
        "flowering", "rayed", "poppies", ("ember poppy", "raven poppy", "honey poppy", "tiger poppy"), poppies
    ),
    Genus(
        "flowering",
        "rayed",
        "starflowers",
        ("dusk star", "wheel star", "frost star", "compass star"),
        starflowers,
    ),
    Genus(
        "flowering",
        "spired",
        "lupins",
        ("royal lupin", "candle lupin", "blush lupin", "ribbon lupin"),
        lupins,
    ),
    Genus(
        "flowering",
        "spired",
        "bellflowers",
        ("rain bell", "twin bell", "snow bell", "chapel bell"),
        bellflowers,
    ),
    Genus(
        "flowering", "spired", "umbels", ("lace umbel", "cloud umbel", "fennel umbel", "sun umbel"), umbels
    ),
    Genus("foliage", "leafy", "ferns", ("lady fern", "sword fern", "sea fern", "heron fern"), ferns),
    Genus(
        "foliage",
        "leafy",
        "broadleaves",
        ("spoon leaf", "ribbed leaf", "heart leaf", "feather leaf"),
        broadleaves,
    ),
    Genus("foliage", "leafy", "grasses", ("meadow grass", "oat grass", "fox grass", "rye grass"), grasses),
    Genus(
        "foliage",
        "succulent",
        "columns",
        ("post cactus", "star cactus", "arm cactus", "elder cactus"),
        columns,
    ),
    Genus(
        "foliage",
        "succulent",
        "rosettes",
        ("cup rosette", "thorn rosette", "pearl rosette", "frost rosette"),
        rosettes,
    ),
    Genus(
        "foliage",
        "succulent",
        "paddles",
        ("stone paddle", "needle paddle", "fan paddle", "hedge paddle"),
        paddles,
    ),
)
