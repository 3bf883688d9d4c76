"""Load: many samples through memory, stream and metrics, and a run with many classes and evaluations.

python tools/load.py [--samples 10000000] [--evaluations 2000]
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
from loading import PARTS, deep_run, push, resident_bytes
from ramify.reports.write import report_run


def main() -> int:
    """Print what was measured."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, default=10_000_000)
    parser.add_argument("--evaluations", type=int, default=2000)
    args = parser.parse_args()
    load = push(args.samples)
    fifth = PARTS // 5
    print(f"{args.samples:,} samples, 1,189 classes, 7 levels, three memories of 2,000")
    print(f"  resident memory grows by {load.bytes_per_million / 1e3:.1f} kB a million samples (second half)")
    for name, part in (("second", slice(fifth, 2 * fifth)), ("last", slice(-fifth, None))):
        times = sorted(load.seconds[part])
        print(f"  {name} fifth: {1e6 * times[fifth // 2]:.1f} µs of CPU a sample (median of {fifth})")
    print(f"  ratio {load.slowdown:.2f}")
    with tempfile.TemporaryDirectory() as folder:
        out, before, start = Path(folder) / "run", resident_bytes(), time.monotonic()
        run = deep_run(out, args.evaluations)
        size = (out / "records.jsonl").stat().st_size
        print(f"{len(run.records):,} evaluations in {time.monotonic() - start:.0f} s")
        print(f"  records.jsonl: {size / 1e6:.1f} MB, {size / len(run.records):,.0f} bytes a record")
        print(f"  resident memory grew by {(resident_bytes() - before) / 1e6:.0f} MB")
        start = time.monotonic()
        report_run(out)
        size = (out / "report.html").stat().st_size
        print(f"  report.html: {size / 1e6:.1f} MB in {time.monotonic() - start:.1f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
