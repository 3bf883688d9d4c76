import io
import struct
import zlib

import numpy as np
import pytest
from PIL import Image, ImageOps

from ramify.datasets.decode import DRAFT, MAX_PIXELS, BrokenImage, decode_image, pixels, quiet_pillow

RNG = np.random.default_rng(0)
PIXELS = RNG.integers(0, 256, (8, 8, 3), dtype=np.uint8)


def encode(image: Image.Image, kind: str = "PNG", **options: object) -> bytes:
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def test_rgb_is_kept_exactly():
    np.testing.assert_array_equal(decode_image(encode(Image.fromarray(PIXELS)), 8), PIXELS.transpose(2, 0, 1))


def test_grey_has_three_equal_channels():
    grey = PIXELS[..., 0]
    np.testing.assert_array_equal(decode_image(encode(Image.fromarray(grey)), 8), np.stack([grey] * 3))


def test_16_bit_grey_keeps_its_high_byte():
    deep = RNG.integers(0, 2**16, (8, 8), dtype=np.uint16)
    for kind in ("PNG", "TIFF"):
        found = decode_image(encode(Image.fromarray(deep), kind), 8)
        np.testing.assert_array_equal(found[1], deep >> 8)


def test_cmyk_jpeg_becomes_rgb():
    red = Image.new("CMYK", (8, 8), (0, 255, 255, 0))
    found = decode_image(encode(red, "JPEG", quality=95), 8)
    assert found[0].min() > 200
    assert found[1:].max() < 60


def test_palette_is_looked_up():
    image = Image.fromarray(PIXELS).quantize(16)
    np.testing.assert_array_equal(
        decode_image(encode(image), 8), np.asarray(image.convert("RGB")).transpose(2, 0, 1)
    )


@pytest.mark.parametrize("mode", ["RGBA", "LA"])
def test_transparent_pixels_are_white(mode):
    image = Image.new(mode, (8, 8), (0, 0, 0, 0) if mode == "RGBA" else (0, 0))
    assert (decode_image(encode(image), 8) == 255).all()


def test_palette_transparency_is_white():
    image = Image.new("P", (8, 8), 0)
    image.putpalette([10, 20, 30] * 256)
    assert (decode_image(encode(image, transparency=0), 8) == 255).all()


def test_animation_gives_its_first_frame():
    frames = [Image.new("RGB", (8, 8), colour) for colour in ("red", "blue")]
    found = decode_image(encode(frames[0], "GIF", save_all=True, append_images=frames[1:]), 8)
    assert found[:, 0, 0].tolist() == [255, 0, 0]


def test_exif_orientation_is_honoured():
    exif = Image.Exif()
    exif[0x0112] = 6  # the camera was turned: rotate by 90° clockwise
    found = decode_image(encode(Image.fromarray(PIXELS), "PNG", exif=exif), 8)
    np.testing.assert_array_equal(found, np.rot90(PIXELS, -1).transpose(2, 0, 1))


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "TIFF", "WEBP"])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_every_orientation_is_as_pillow_turns_it(kind, orientation):
    exif = Image.Exif()
    exif[0x0112] = orientation
    smooth = Image.fromarray(PIXELS[:6]).resize((48, 32), Image.Resampling.BICUBIC)
    data = encode(smooth, kind, exif=exif, **({"quality": 95} if kind in ("JPEG", "WEBP") else {}))
    with Image.open(io.BytesIO(data)) as image:
        upright = ImageOps.exif_transpose(image).convert("RGB").resize((8, 8), Image.Resampling.BILINEAR)
    expected = np.asarray(upright).transpose(2, 0, 1).astype(int)
    assert np.abs(decode_image(data, 8) - expected).max() <= 1  # the passes of resizing are rounded in turn


def photograph(kind, width, height):
    """Something like a photograph (falling spectrum), and what is worst for drafts: noise and stripes."""
    if kind == "noise":
        return RNG.integers(0, 256, (height, width, 3), dtype=np.uint8)
    if kind == "stripes":
        return np.repeat(
            (np.indices((height, width)).sum(0) // 7 % 2 * 255).astype(np.uint8)[..., None], 3, 2
        )
    slopes = np.hypot(np.fft.fftfreq(height)[:, None], np.fft.rfftfreq(width)[None])
    waves = np.exp(2j * np.pi * RNG.random((3, *slopes.shape))) / np.maximum(slopes, 1 / width) ** 1.2
    field = np.fft.irfft2(waves, s=(height, width)).transpose(1, 2, 0)
    return (127 + 45 * field / field.std()).clip(0, 255).astype(np.uint8)


@pytest.mark.parametrize(("kind", "mean"), [("photo", 0.3), ("stripes", 0.5), ("noise", 0.5)])
@pytest.mark.parametrize("subsampling", [0, 2])
def test_a_draft_of_a_large_jpeg_differs_by_rounding_alone(kind, mean, subsampling):
    whole = Image.fromarray(photograph(kind, 1003, 759))  # no multiple of anything
    data = encode(whole, "JPEG", quality=90, subsampling=subsampling)
    with Image.open(io.BytesIO(data)) as image:
        full = np.asarray(image.resize((20, 20), Image.Resampling.BILINEAR)).transpose(2, 0, 1).astype(int)
    with Image.open(io.BytesIO(data)) as image:
        assert image.draft(None, (DRAFT * 20, DRAFT * 20)) == ("RGB", (0, 0, 1003 / 8, 759 / 8))
    difference = np.abs(decode_image(data, 20) - full)
    assert difference.max() <= 3
    assert difference.mean() <= mean


def test_smaller_jpegs_are_decoded_whole():
    data = encode(Image.fromarray(photograph("noise", 300, 159)), "JPEG", quality=90)
    with Image.open(io.BytesIO(data)) as image:
        full = np.asarray(image.resize((20, 20), Image.Resampling.BILINEAR)).transpose(2, 0, 1)
    np.testing.assert_array_equal(decode_image(data, 20), full)


def test_a_given_image_is_left_as_it_is():
    data = encode(Image.fromarray(photograph("photo", 1003, 759)), "JPEG")
    with Image.open(io.BytesIO(data)) as image:
        pixels(image, 20)
        assert image.size == (1003, 759)


def test_a_banner_at_the_bottom_is_cut_off():
    canvas = np.zeros((60, 40, 3), np.uint8)
    canvas[40:] = 255
    assert decode_image(encode(Image.fromarray(canvas)), 8, banner=20).max() == 0
    with pytest.raises(BrokenImage, match="banner"):
        decode_image(encode(Image.fromarray(canvas)), 8, banner=60)


def test_any_shape_is_stretched():
    wide = Image.fromarray(np.repeat(np.repeat(PIXELS, 2, 0), 6, 1))
    found = decode_image(encode(wide), 8)
    assert found.shape == (3, 8, 8)
    assert abs(found.mean() - PIXELS.mean()) < 2


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "empty"),
        (b"this is no image", "not an image"),
        (encode(Image.fromarray(PIXELS), "JPEG")[:300], "(?i)truncated"),
        (encode(Image.fromarray(PIXELS))[:60], "."),
        (encode(Image.fromarray(PIXELS.astype(np.float32)[..., 0]), "TIFF"), "float"),
        (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n", "not an image"),
    ],
)
def test_broken_images_say_why(data, reason):
    with quiet_pillow(), pytest.raises(BrokenImage, match=reason):
        decode_image(data, 8)


@pytest.mark.parametrize("side", [9_000, 12_000, 30_000])
def test_a_decompression_bomb_is_refused_before_it_is_decoded(side):
    assert side * side > MAX_PIXELS
    chunks = b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in ((b"IHDR", struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)), (b"IDAT", b""))
    )
    with quiet_pillow(), pytest.raises(BrokenImage, match="pixels"):
        decode_image(b"\x89PNG\r\n\x1a\n" + chunks, 8)


def test_a_missing_file_is_reported(tmp_path):
    with pytest.raises(BrokenImage, match="No such file"):
        decode_image(tmp_path / "none.jpg", 8)
