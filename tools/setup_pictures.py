"""Draw every setup for docs/setups.md, on the built-in images.

python tools/setup_pictures.py [docs/images/setups]
"""

from __future__ import annotations

import sys
from pathlib import Path

from ramify.cli import main
from ramify.streams import SETUPS

SAME = {"top-down"}  # multiple-depth by another name
# Setups that show more on some of the levels, and what else a stream can be
OPTIONS = {"drift": ["--levels", "1,2,4"], "dhocl": ["--levels", "1,2,4"]}
ALSO = {
    "single-depth-dual": ["--setup", "single-depth", "--labels", "dual"],
    "disjoint-long-tailed": ["--setup", "disjoint", "--imbalance", "20"],
}


def draw(folder: Path) -> int:
    """One SVG a setup; the number of those that failed."""
    wanted = {name: ["--setup", name, *OPTIONS.get(name, [])] for name in SETUPS if name not in SAME} | ALSO
    show = ["stream", "show", "--dataset", "garden", "--image-size", "16"]
    return sum(
        main([*show, *options, "--out", str(folder / f"{name}.svg")]) > 0 for name, options in wanted.items()
    )


if __name__ == "__main__":
    sys.exit(draw(Path(sys.argv[1] if len(sys.argv) > 1 else "docs/images/setups")))
