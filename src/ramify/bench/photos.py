"""What it takes to read photographs: decoding beside Pillow's own, and a second start on many images.

Photographs are made up (a falling spectrum; JPEG, 90). Decoding is timed in turns, by the processor.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
from PIL import Image

from ramify.datasets import load_dataset

PHOTOS = {(500, 375): 100, (1000, 750): 50, (4000, 3000): 8}  # sides: how many of them
READ_AT = (64, 224)
IMAGES = 200_000  # in the folder that is opened again
ROUNDS = 3


def make(folder: Path, sides: tuple[int, int], count: int) -> list[Path]:
    """Some photographs, one class."""
    width, height = sides
    rng = np.random.default_rng(0)
    slopes = np.hypot(np.fft.fftfreq(height)[:, None], np.fft.rfftfreq(width)[None])
    waves = np.exp(2j * np.pi * rng.random((3, *slopes.shape))) / np.maximum(slopes, 1 / width) ** 1.2
    field = np.fft.irfft2(waves, s=(height, width)).transpose(1, 2, 0)
    pixels = (127 + 45 * field / field.std()).clip(0, 255).astype(np.uint8)
    (folder / "class").mkdir(parents=True)
    paths = [folder / "class" / f"{number}.jpg" for number in range(count)]
    for number, path in enumerate(paths):
        Image.fromarray(np.roll(pixels, 37 * number, (0, 1))).save(path, quality=90)
    return paths


def pillow(path: Path, size: int) -> object:
    """The shortest way to the same pixels."""
    with Image.open(path) as image:
        return np.asarray(image.convert("RGB").resize((size, size), Image.Resampling.BILINEAR))


def by_pillow(paths: Sequence[Path], size: int) -> list[object]:
    """All of them, on all processors."""
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(partial(pillow, size=size), paths))


def cost(work: Callable[[], object]) -> float:
    """Seconds of all processors that it takes."""
    start = time.process_time()
    work()
    return time.process_time() - start


def compare(folder: Path, paths: Sequence[Path], size: int) -> float:
    """Photographs a second of one processor by a whole `load_dataset`, over those by Pillow alone."""
    seconds: list[tuple[float, float]] = []
    for _ in range(ROUNDS):
        with tempfile.TemporaryDirectory() as data:
            ours = partial(load_dataset, folder, data, image_size=size, progress=False)
            seconds.append((cost(partial(by_pillow, paths, size)), cost(ours)))
    alone, whole = np.median(seconds, axis=0)
    return float(alone / whole)


def decoding(sides: tuple[int, int], size: int, count: int) -> float:
    """Photographs read a second, beside those that Pillow alone reads."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "own"
        return compare(folder, make(folder, sides, count), size)


def start_again(images: int) -> float:
    """Seconds that a start takes after images have been decoded, and every file has been looked at once."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        Image.fromarray(np.full((8, 8, 3), 128, np.uint8)).save(folder / "one.png")
        for number in range(max(2, images // 200)):
            place = folder / "own" / f"class {number}"
            place.mkdir(parents=True)
            shutil.copy(folder / "one.png", place / "0.png")
            for other in range(1, 200):
                os.link(place / "0.png", place / f"{other}.png")
        time.sleep(2.5)  # folders that have just changed are looked at again
        for thorough in (True, True, False):
            start = time.perf_counter()
            load_dataset(folder / "own", folder / "data", image_size=8, progress=False, thorough=thorough)
        return time.perf_counter() - start
