"""From an image file to pixels: any mode becomes 8-bit RGB, any shape is stretched to a square."""

from __future__ import annotations

import io
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import numpy as np
from PIL import Image, ImageOps, UnidentifiedImageError

from ramify.arrays import Pixels

# Only formats that are decoded in process: an EPS file, for one, would be run by Ghostscript.
FORMATS = ("JPEG", "PNG", "GIF", "WEBP", "AVIF", "BMP", "TIFF", "PPM")

MAX_PIXELS = 80_000_000

DRAFT = 4
"""With so many decoded pixels a side for each one that is kept, a draft differs by rounding alone."""
ORIENTATION = 0x0112
_TURN = Image.Transpose
TURNS = {
    2: _TURN.FLIP_LEFT_RIGHT,
    3: _TURN.ROTATE_180,
    4: _TURN.FLIP_TOP_BOTTOM,
    5: _TURN.TRANSPOSE,
    6: _TURN.ROTATE_270,
    7: _TURN.TRANSVERSE,
    8: _TURN.ROTATE_90,
}
"""What turns an image upright, by its EXIF orientation."""

_QUIET = threading.RLock()


class BrokenImage(Exception):
    """An image that cannot be used; the message says why."""


class TooLarge(BrokenImage):
    """An image of more pixels than are read."""


@contextmanager
def quiet_pillow() -> Iterator[None]:
    """Silence Pillow's remarks on odd metadata, for all threads, and make its bomb warning an error.

    One thread at a time: the filters that it puts back in the end are those of the whole process.
    """
    with _QUIET, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("error", Image.DecompressionBombWarning)
        yield


@contextmanager
def telling_damage() -> Iterator[None]:
    """Turn whatever a damaged image leads Pillow's decoders to into a `BrokenImage`."""
    try:
        yield
    except BrokenImage:
        raise
    except UnidentifiedImageError as error:
        raise BrokenImage("not an image of a known format") from error
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise TooLarge(f"more than {MAX_PIXELS:,} pixels") from error
    except OSError as error:
        raise BrokenImage(error.strerror or str(error)) from error
    except Exception as error:
        raise BrokenImage(f"{type(error).__name__}: {error}") from error


@telling_damage()
def decode_image(source: Path | bytes, size: int, banner: int = 0, most: int = MAX_PIXELS) -> Pixels:
    """The first frame of an image as uint8 [3, size, size], upright (EXIF), on white where transparent.

    `banner` rows at its bottom are cut off. One of more than `most` pixels is refused before it is decoded.
    """
    data = source.read_bytes() if isinstance(source, Path) else source
    if not data:
        raise BrokenImage("it is empty")
    with Image.open(io.BytesIO(data), formats=_formats(data)) as image:
        if image.width * image.height > min(most, MAX_PIXELS):
            raise TooLarge(f"{image.width}×{image.height} pixels, more than {min(most, MAX_PIXELS):,}")
        if banner:
            return pixels(_cut(image, banner), size)
        # A large JPEG is decoded at 1/2, 1/4 or 1/8 of its sides, the least that has DRAFT times the size.
        drafted = image.draft(None, (DRAFT * size, DRAFT * size))
        return pixels(image, size, drafted and drafted[1])


def _formats(data: bytes) -> tuple[str, ...]:
    """What the image may be; HEIC and AVIF need what not every installation has."""
    brands = data[8:40] if data[4:8] == b"ftyp" else b""
    avif = b"avif" in brands or b"avis" in brands
    if not avif and any(brand in brands for brand in _HEIC_BRANDS):
        return _heif()
    if avif and "AVIF" not in _common():
        raise BrokenImage("AVIF needs Pillow 11.3 or newer: pip install 'pillow>=11.3'")
    return _common()


_HEIC_BRANDS = (b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx", b"mif1", b"msf1")


@cache
def _common() -> tuple[str, ...]:
    Image.init()
    return tuple(name for name in FORMATS if name in Image.OPEN)


@cache
def _heif() -> tuple[str, ...]:
    """Let Pillow read HEIC, through the extra that brings it."""
    try:
        from pillow_heif import register_heif_opener
    except ImportError:
        raise BrokenImage("HEIC needs the extra `heic`: pip install 'ramify[heic]'") from None
    register_heif_opener()
    return ("HEIF",)


@telling_damage()
def pixels(image: Image.Image, size: int, box: tuple[float, float, float, float] | None = None) -> Pixels:
    """A Pillow image, or a box of it, as uint8 [3, size, size], upright (EXIF), white where transparent."""
    if 0 in image.size:
        raise BrokenImage(f"{image.width}×{image.height} pixels, so none at all")
    image.load()  # some formats turn themselves upright here, and then say so
    turn = TURNS.get(image.getexif().get(ORIENTATION, 1))
    square = _square(_rgb(image), size, box)  # a square is turned at less cost than the photograph
    return _array(square if turn is None else square.transpose(turn))


def stretch(image: Image.Image, size: int) -> Pixels:
    """An RGB image as uint8 [3, size, size], resized without regard to its aspect (antialiased bilinear)."""
    return _array(_square(image, size, None))


def _square(image: Image.Image, size: int, box: tuple[float, float, float, float] | None) -> Image.Image:
    if image.size == (size, size) and box in (None, (0, 0, size, size)):
        return image
    return image.resize((size, size), Image.Resampling.BILINEAR, box)


def _array(image: Image.Image) -> Pixels:
    return np.asarray(image).transpose(2, 0, 1)


def _cut(image: Image.Image, banner: int) -> Image.Image:
    """The image, upright, without the rows at its bottom."""
    upright = ImageOps.exif_transpose(image)
    if upright.height <= banner:
        raise BrokenImage(f"{upright.width}×{upright.height} pixels: nothing is above its banner of {banner}")
    return upright.crop((0, 0, upright.width, upright.height - banner))


def _rgb(image: Image.Image) -> Image.Image:
    if image.mode.startswith("I"):  # 16-bit grey; Pillow would clip it at 255
        return Image.fromarray((np.asarray(image) >> 8).clip(0, 255).astype(np.uint8)).convert("RGB")
    if image.mode == "F":
        raise BrokenImage("its pixels are 32-bit floats of unknown range")
    if image.mode in ("RGBA", "LA", "PA", "La", "RGBa") or "transparency" in image.info:
        layer = image.convert("RGBA")
        return Image.alpha_composite(Image.new("RGBA", layer.size, "white"), layer).convert("RGB")
    return image if image.mode == "RGB" else image.convert("RGB")
