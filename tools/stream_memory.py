"""Does memory stay constant while a large manifest is decoded and streamed?

python tools/stream_memory.py [--images 200000] [--size 32]

Writes a manifest of 200,000 synthetic images (hard links to a few JPEGs, so that the disk holds little),
loads it as a dataset, reads every image in the order of a multiple-depth stream, and prints the process's own
memory. Pages of the memory map are the kernel's to take back and are shown apart.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import psutil
from PIL import Image

from ramify.datasets import Dataset, load_dataset
from ramify.streams import build_stream

DISTINCT = 50
LEAVES = (5, 50, 500)
LIMIT_MB = 60.0


def memory() -> tuple[float, float]:
    """Private and file-backed resident memory of this process, in MB."""
    held = psutil.Process().memory_info()
    mapped = getattr(held, "shared", 0)  # only Linux tells them apart
    return (held.rss - mapped) / 2**20, mapped / 2**20


def write_manifest(folder: Path, images: int, rng: np.random.Generator) -> Path:
    """JPEGs of 48×40 pixels, each linked to many names, and a manifest with three levels."""
    (folder / "images").mkdir()
    for i in range(DISTINCT):
        pixels = rng.integers(0, 256, (10, 12, 3), dtype=np.uint8).repeat(4, 0).repeat(4, 1)
        Image.fromarray(pixels).save(folder / f"images/{i}.jpg")
    lines = ["path,level1,level2,level3"]
    for i in range(images):
        if i >= DISTINCT:
            os.link(folder / f"images/{i % DISTINCT}.jpg", folder / f"images/{i}.jpg")
        leaf = i % LEAVES[2]
        lines.append(f"images/{i}.jpg,a{leaf % LEAVES[0]},b{leaf % LEAVES[1]},c{leaf}")
    (folder / "manifest.csv").write_text("\n".join(lines) + "\n")
    return folder / "manifest.csv"


class Watch(threading.Thread):
    """Samples the memory two hundred times a second."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.samples: list[tuple[float, float, float]] = []
        self.stopped = threading.Event()

    def run(self) -> None:
        """Sample until stopped."""
        while not self.stopped.wait(0.005):
            self.samples.append((time.monotonic(), *memory()))

    def report(self, title: str, count: int) -> float:
        """Print quarter by quarter; returns how much private memory grew from the first to the last."""
        self.stopped.set()
        self.join()
        quarters = np.array_split(np.array(self.samples), 4)
        seconds = self.samples[-1][0] - self.samples[0][0]
        for name, column in (("private", 1), ("mapped", 2)):
            peaks = "  ".join(f"{quarter[:, column].max():7.1f}" for quarter in quarters)
            print(f"{title:<9}{name:<8} peak MB in each quarter: {peaks}")
        print(f"{title:<9}{count:,} images in {seconds:.0f} s, {count / seconds:,.0f} a second")
        return float(quarters[-1][:, 1].max() - quarters[0][:, 1].max())


def stream(dataset: Dataset, batch: int = 64) -> float:
    """Read every image once, in the order of a multiple-depth stream."""
    order = build_stream("multiple-depth", dataset.train.leaves, dataset.taxonomy, 0).image
    total = 0
    for start in range(0, len(order), batch):
        total += int(dataset.train.images[np.sort(order[start : start + batch])].sum())
    return total / (len(order) * dataset.train.images[0].size)


def main() -> int:
    """Build, stream, print; the exit code is 1 where private memory grew by more than a few MB."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--images", type=int, default=200_000)
    parser.add_argument("--size", type=int, default=32)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        manifest = write_manifest(folder, args.images, np.random.default_rng(0))
        growth = []
        for title in ("decode", "start"):
            watch = Watch()
            watch.start()
            begun = time.monotonic()
            dataset = load_dataset(manifest, folder / "data", image_size=args.size, progress=False)
            if title == "decode":
                growth.append(watch.report(title, args.images))
            else:
                print(f"{title:<9}{time.monotonic() - begun:.2f} s to open it again")
                watch.stopped.set()
        pixels = sum(split.images.nbytes for split in (dataset.train, dataset.test))
        print(f"pixels   {pixels / 1e6:,.0f} MB on disk")
        watch = Watch()
        watch.start()
        mean = stream(dataset)
        growth.append(watch.report("stream", len(dataset.train)))
        print(f"mean     {mean:.2f}")
    print(f"private memory grew by {growth[0]:.1f} MB while decoding, {growth[1]:.1f} MB while streaming")
    return int(max(growth) > LIMIT_MB)


if __name__ == "__main__":
    sys.exit(main())
