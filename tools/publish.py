"""Copy what the figures of finished runs need, without weights, answers and the paths of this machine.

python tools/publish.py RUNS results/NAME
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import sys
from pathlib import Path

from ramify.files import read_json, write_atomic

COPIED = ("records.jsonl", "result.json", "taxonomy.csv")
FOLDERS = re.compile(r"(?<![\w.])/(?:[^\s/:\"]+/)+")  # of an absolute path


def main() -> int:
    """Copy the finished runs, and the study that they belong to."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runs", type=Path, help="folder of a sweep")
    parser.add_argument("to", type=Path)
    args = parser.parse_args()
    finished = sorted(path.parent for path in args.runs.glob("*/result.json"))
    for run in finished:
        about = read_json(run / "config.json")
        write_atomic(args.to / run.name / "config.json", FOLDERS.sub("", json.dumps(about, indent=1)) + "\n")
        for name in COPIED:
            shutil.copyfile(run / name, args.to / run.name / name)
    study = read_json(args.runs / "study.json")
    study["runs"] = [name for name in study["runs"] if args.to.joinpath(name).is_dir()]
    write_atomic(args.to / "study.json", json.dumps(study, indent=1) + "\n")
    print(f"{len(finished)} finished runs of {args.runs} are in {args.to}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
