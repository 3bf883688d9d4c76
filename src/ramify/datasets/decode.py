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
from numpy.typing import NDArray
from PIL import Image, ImageOps, UnidentifiedImageError

HEIC = frozenset({".heic", ".heif", ".hif"})
SUFFIXES = HEIC | {
    *(".jpg", ".jpeg", ".jfif", ".jpe", ".png", ".gif", ".webp", ".avif", ".bmp"),
    *(".tif", ".tiff", ".ppm", ".pgm"),
}
# Only formats that are decoded in process: an EPS file, for one, would be run by Ghostscript.
FORMATS = ("JPEG", "PNG", "GIF", "WEBP", "AVIF", "BMP", "TIFF", "PPM")

MAX_PIXELS = 80_000_000

_QUIET = threading.RLock()


class BrokenImage(Exception):
    """An image that cannot be used; the message says why."""


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
        raise BrokenImage(f"more than {MAX_PIXELS:,} pixels") from error
    except OSError as error:
        raise BrokenImage(error.strerror or str(error)) from error
    except Exception as error:
        raise BrokenImage(f"{type(error).__name__}: {error}") from error


@telling_damage()
def decode(source: Path | bytes, size: int, banner: int = 0) -> NDArray[np.uint8]:
    """The first frame of an image as uint8 [3, size, size], upright (EXIF), on white where transparent.

    `banner` rows at its bottom are cut off.
    """
    data = source.read_bytes() if isinstance(source, Path) else source
    if not data:
        raise BrokenImage("it is empty")
    with Image.open(io.BytesIO(data), formats=_formats(data)) as image:
        if image.width * image.height > MAX_PIXELS:
            raise BrokenImage(f"{image.width}×{image.height} pixels, more than {MAX_PIXELS:,}")
        return pixels(image, size, banner)


def _formats(data: bytes) -> tuple[str, ...]:
    """What the image may be; HEIC and AVIF need what not every installation has."""
    brands = data[8:40] if data[4:8] == b"ftyp" else b""
    avif = b"avif" in brands or b"avis" in brands
    if not avif and any(brand in brands for brand in _HEIC_BRANDS):
        return _heif()
    Image.init()
    if avif and "AVIF" not in Image.OPEN:
        raise BrokenImage("AVIF needs Pillow 11.3 or newer: pip install 'pillow>=11.3'")
    return tuple(name for name in FORMATS if name in Image.OPEN)


_HEIC_BRANDS = (b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx", b"mif1", b"msf1")


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
def pixels(image: Image.Image, size: int, banner: int = 0) -> NDArray[np.uint8]:
    """A Pillow image as uint8 [3, size, size], upright (EXIF), on white where transparent."""
    if image.width == 0 or image.height <= banner:
        raise BrokenImage(f"{image.width}×{image.height} pixels, so none at all")
    upright = _rgb(ImageOps.exif_transpose(image))
    if banner:
        upright = upright.crop((0, 0, upright.width, upright.height - banner))
    return stretch(upright, size)


def stretch(image: Image.Image, size: int) -> NDArray[np.uint8]:
    """An RGB image as uint8 [3, size, size], resized without regard to its aspect (antialiased bilinear)."""
    if image.size != (size, size):
        image = image.resize((size, size), Image.Resampling.BILINEAR)
    return np.asarray(image).transpose(2, 0, 1)


def _rgb(image: Image.Image) -> Image.Image:
    if image.mode.startswith("I"):  # 16-bit grey; Pillow would clip it at 255
        return Image.fromarray((np.asarray(image) >> 8).clip(0, 255).astype(np.uint8)).convert("RGB")
    if image.mode == "F":
        raise BrokenImage("its pixels are 32-bit floats of unknown range")
    if image.mode in ("RGBA", "LA", "PA", "La", "RGBa") or "transparency" in image.info:
        layer = image.convert("RGBA")
        return Image.alpha_composite(Image.new("RGBA", layer.size, "white"), layer).convert("RGB")
    return image.convert("RGB")
