"""Compare two methods on your own folder of images, over seeds, with a report to look at.

    python compare_on_folder.py                                              # the built-in garden
    python compare_on_folder.py --images cars64 --taxonomy stanford-cars --size 64 --setup single-depth

The same from the command line: ramify compare --methods er,pl-fms --dataset FOLDER …
"""

from __future__ import annotations

import argparse
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from ramify import run_config
from ramify.reports.data import load_run
from ramify.reports.write import write_report
from ramify.runs.presets import resolve


def main() -> None:
    """Run, print, report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--images", default="garden", help="a dataset's name, or a folder of class folders")
    parser.add_argument("--taxonomy", help="the tree of a flat folder: a file or a name")
    parser.add_argument("--size", type=int, default=32, help="side of the images")
    parser.add_argument("--setup", default="multiple-depth")
    parser.add_argument("--methods", nargs=2, default=["er", "pl-fms"])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--limit", type=int, help="stop after so many samples")
    parser.add_argument("--out", type=Path, default=Path("runs/compare"))
    options = parser.parse_args()

    folders = []
    for method in options.methods:
        for seed in range(options.seeds):
            config = replace(
                resolve("quick", method, options.images, options.setup),
                taxonomy=options.taxonomy,
                image_size=options.size,
                limit=options.limit,
                seed=seed,
            )
            folders.append(options.out / f"{method}-{seed}")
            result = run_config(config, folders[-1], resume=True)
            levels = "  ".join(f"{100 * value:.1f}" for value in result.final_accuracy.values())
            print(f"{method} seed {seed}: final accuracy at each level {levels}")
    write_report([load_run(folder) for folder in folders], options.out / "report.html")
    print(f"look at {options.out / 'report.html'}")


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):  # Ctrl-C ends it
        main()
