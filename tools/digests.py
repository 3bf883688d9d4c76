"""Fingerprints of what is learned, to show that a change of the code changes no figure.

    python tools/digests.py before.json             # every method on every setup, a short garden stream
    python tools/digests.py after.json before.json  # the same, and what differs

There is a digest of each field of the records but their seconds, of the final weights, and of each array of
the answers, so that a field that has come since moves none of the others. They hold on one machine only.
"""

from __future__ import annotations

import hashlib
import json
import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load_file

SETUPS = {
    "single-depth": {},
    "single-depth, dual": {"single_depth": {"labels": "dual"}},
    "multiple-depth": {},
    "disjoint": {},
    "blurry": {},
    "i-blurry": {},
}
METHODS = (
    *("er", "ewc++", "bic", "mir", "rm", "gdumb", "clib", "fms", "pl", "pl-fms", "pl-fms-t", "oracle"),
    *("canopy", "der++", "er-ace", "er-las"),
)
VARIANTS: dict[str, dict[str, Any]] = {
    "sweep, exact": {"importance": {"kind": "sweep"}, "pl": {"exact": True}},
    "first-order": {"importance": {"kind": "first-order"}},
    "per-class": {"fms": {"rule": "per-class"}},
}
SHORT = {
    "network": {"name": "resnet18", "width": 0.125},
    "per_class": 8,
    "memory_size": 60,
    "updates_per_sample": 1.5,
    "eval_every": 100,
    "eval_images": 200,
    "augment": {"autoaugment": "cifar10"},
    "epochs": {"count": 2},
    "bic": {"epochs": 5},
    "mir": {"candidates": 20},
    "fms": {"T": 200.0},
}


def values(array: Any) -> str:
    """A digest of an array's type, shape and values."""
    array = np.ascontiguousarray(array)
    return hashlib.sha256(f"{array.dtype}{array.shape}".encode() + array.tobytes()).hexdigest()


def short(text: str) -> str:
    """The digest of a text."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def digest(name: str, method: str, setup: str, changes: dict[str, Any]) -> tuple[str, dict[str, str]]:
    """Run one and take its fingerprints."""
    import torch

    from ramify.runs.config import Config
    from ramify.runs.execute import run_config
    from ramify.runs.presets import resolve
    from ramify.typed import from_dict

    torch.set_num_threads(1)
    base = resolve("quick", method, "garden", setup)
    for layer in (SHORT, changes):
        base = from_dict(type(base), layer, name, base)
    assert isinstance(base, Config)
    with tempfile.TemporaryDirectory() as folder:
        run_config(base, folder, threads=1, device="cpu")
        lines = (Path(folder) / "records.jsonl").read_text().splitlines()
        records = [
            {key: value for key, value in json.loads(line).items() if not key.endswith("_seconds")}
            for line in lines
        ]
        weights = load_file(Path(folder) / "model.safetensors")
        answers = load_file(Path(folder) / "predictions.safetensors")
    fields = dict.fromkeys(key for record in records for key in record)
    said = {f"records.{key}": short(json.dumps([one.get(key) for one in records])) for key in fields}
    said |= {f"answers.{key}": short(values(array)) for key, array in answers.items()}
    said["weights"] = short("".join(f"{key}{values(weights[key])}" for key in sorted(weights)))
    return name, said


def main(out: str, before: str | None = None) -> int:
    """Write the digests and compare them with earlier ones."""
    jobs = [
        (f"{method} · {setup}", method, setup.partition(",")[0], changes)
        for method in METHODS
        for setup, changes in SETUPS.items()
    ]
    jobs += [
        (f"{method} · multiple-depth · {name}", method, "multiple-depth", changes)
        for name, changes in VARIANTS.items()
        for method in ("clib", "pl-fms")
    ]
    with ProcessPoolExecutor(2) as pool:
        found = dict(pool.map(digest, *zip(*jobs, strict=True)))
    Path(out).write_text(json.dumps(found, indent=1) + "\n")
    known = json.loads(Path(before).read_text()) if before else {}
    both = {name: (said, known[name]) for name, said in found.items() if name in known}
    moved = [
        f"{name}: {kind}"
        for name, (now, then) in both.items()
        for kind in sorted(now.keys() & then)
        if now[kind] != then[kind]
    ]
    other = sorted({kind for now, then in both.values() for kind in now.keys() ^ then.keys()})
    print(*moved, f"{len(found)} runs, {len(moved)} digests differ", sep="\n")
    if other:
        print(f"in one of both only: {', '.join(other)}")
    return len(moved) > 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
