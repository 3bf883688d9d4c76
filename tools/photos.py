"""What it takes to read photographs: decoding beside Pillow's own, and a second start on many images.

    python tools/photos.py [--photos 200] [--images 200000]

Photographs are made up (a falling spectrum, JPEG of quality 90). Times are of the processor, interleaved.
"""

from __future__ import annotations

import argparse
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from PIL import Image

from ramify.datasets import load_dataset

SIDES = ((500, 375), (1000, 750), (4000, 3000))
SIZES = (64, 224)
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


def cost(work: Callable[[], object]) -> float:
    """Seconds of all processors that it takes."""
    start = time.process_time()
    work()
    return time.process_time() - start


def compare(folder: Path, paths: Sequence[Path], size: int) -> tuple[float, float]:
    """Photographs a second of one processor: Pillow's, and those of a whole `load_dataset`."""
    seconds: list[tuple[float, float]] = []
    for _ in range(ROUNDS):
        with ThreadPoolExecutor(os.cpu_count()) as pool, tempfile.TemporaryDirectory() as data:
            alone = cost(lambda pool=pool: list(pool.map(lambda path: pillow(path, size), paths)))
            ours = cost(lambda data=data: load_dataset(folder, data, image_size=size, progress=False))
        seconds.append((alone, ours))
    alone, ours = np.median(seconds, axis=0)
    return len(paths) / alone, len(paths) / ours


def second_start(folder: Path, images: int) -> tuple[float, float]:
    """Seconds that the first start after decoding takes, looking at every file, and the one after it."""
    Image.fromarray(np.full((8, 8, 3), 128, np.uint8)).save(folder / "one.png")
    for number in range(max(2, images // 200)):
        place = folder / "own" / f"class {number}"
        place.mkdir(parents=True)
        shutil.copy(folder / "one.png", place / "0.png")
        for other in range(1, 200):
            os.link(place / "0.png", place / f"{other}.png")
    time.sleep(2.5)  # folders that have just changed are looked at again
    times = []
    for thorough in (True, True, False):
        start = time.perf_counter()
        load_dataset(folder / "own", folder / "data", image_size=8, progress=False, thorough=thorough)
        times.append(time.perf_counter() - start)
    return times[1], times[2]


def main(argv: Sequence[str] | None = None) -> None:
    """Print both."""
    parser = argparse.ArgumentParser(description="What it takes to read photographs.")
    parser.add_argument("--photos", type=int, default=200, help="of each kind (of the largest a tenth)")
    parser.add_argument("--images", type=int, default=200_000, help="in the folder that is opened twice")
    args = parser.parse_args(argv)
    print("| photographs | to | Pillow | ramify | ratio (to reach: 0.80) |\n|---|---|---|---|---|")
    for sides in SIDES:
        with tempfile.TemporaryDirectory() as name:
            count = max(5, args.photos // (10 if sides == SIDES[-1] else 1))
            paths = make(Path(name) / "own", sides, count)
            for size in SIZES:
                alone, ours = compare(Path(name) / "own", paths, size)
                rates = f"{alone:.0f} /s | {ours:.0f} /s | {ours / alone:.2f}"
                print(f"| {sides[0]}×{sides[1]} | {size} | {rates} |")
    with tempfile.TemporaryDirectory() as name:
        every, folders = second_start(Path(name), args.images)
        told = f"{folders:.2f} s (looking at every file: {every:.2f} s; to reach: 1.00 s)"
        print(f"\nsecond start on {args.images:,} images: {told}")


if __name__ == "__main__":
    main()
