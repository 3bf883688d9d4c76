"""Run folders made by hand: every value in them is known, so that reports can be checked against it."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save_file

from ramify.arrays import Ints
from ramify.evaluation import metrics
from ramify.evaluation.anytime import Record
from ramify.runs.config import Config
from ramify.runs.result import Result
from ramify.taxonomy import Taxonomy, write_taxonomy
from ramify.typed import to_dict

SMALL = Taxonomy.from_rows(
    [
        ("plant", "tree", "oak"),
        ("plant", "tree", "elm"),
        ("plant", "herb", "mint"),
        ("animal", "cat", "lynx"),
        ("animal", "dog", "whippet"),
        ("animal", "dog", "beagle"),
    ]
)
EVIL = "<script>alert(1)</script>"
NASTY = Taxonomy.from_rows(
    [(EVIL, "<img src=x onerror=alert(2)>"), ("\"quoted\" & 'so'", "</style>x"), (EVIL, "]]>")]
)


def truth_of(tree: Taxonomy, images: int) -> Ints:
    """The classes of test images, leaf after leaf."""
    leaves = np.arange(images) % tree.leaves
    return np.stack([tree.leaf_to(level)[leaves] for level in range(1, tree.depth + 1)], 1)


def make_records(tree: Taxonomy, samples: int, evaluations: int, rng: np.random.Generator) -> list[Record]:
    """Evenly spaced; level h is first seen in the h-th part of the stream."""
    records = []
    for i in range(1, evaluations + 1):
        at = samples * i // evaluations
        seen = range(1, min(tree.depth, 1 + (i - 1) * tree.depth // evaluations) + 1)
        stored = {str(h): rng.integers(0, 20, tree.sizes[h - 1]).tolist() for h in seen}
        records.append(
            Record(
                samples=at,
                updates=at,
                task=len(seen),
                periodic=True,
                task_end=i * tree.depth % evaluations == 0,
                accuracy={str(h): float(rng.uniform(0.2, 0.8)) / h for h in seen},
                classes_seen={str(h): tree.sizes[h - 1] for h in seen},
                memory={level: sum(counts) for level, counts in stored.items()},
                memory_classes=stored,
                train_seconds=at / 100,
                eval_seconds=0.5,
            )
        )
    return records


def make_run(
    folder: Path,
    method: str = "er",
    seed: int = 0,
    tree: Taxonomy = SMALL,
    finished: bool = True,
    evaluations: int = 6,
    images: int = 60,
    samples: int = 1200,
    final: dict[str, float] | None = None,
    **settings: Any,
) -> Path:
    """Write a run's folder; `final` sets its final accuracies (as shares)."""
    rng = np.random.default_rng([seed, *method.encode()])
    config = Config(method=method, seed=seed, **settings)
    folder.mkdir(parents=True)
    write_taxonomy(tree, folder / "taxonomy.csv")
    task = {"samples": samples // tree.depth, "levels": [1], "new_classes": 1}
    facts = {
        "format": 1,
        "config": to_dict(config),
        "preset": "quick",
        "dataset": {"name": config.dataset, "fingerprint": "f00d", "notes": []},
        "stream": {"fingerprint": "cafe", "tasks": [task] * tree.depth},
        "command": ["ramify", "run", "--method", method, "--seed", str(seed)],
        "started": "2026-01-01T00:00:00+00:00",
        "versions": {"ramify": "0.1.0"},
        "commit": None,
    }
    (folder / "config.json").write_text(json.dumps(facts))
    records = make_records(tree, samples, evaluations, rng)
    if not finished:
        records = records[: len(records) // 2]
    (folder / "records.jsonl").write_text("".join(json.dumps(asdict(r)) + "\n" for r in records))
    if finished:
        finish(folder, tree, records, images, rng, final)
    return folder


def finish(
    folder: Path,
    tree: Taxonomy,
    records: list[Record],
    images: int,
    rng: np.random.Generator,
    final: dict[str, float] | None,
) -> None:
    """Answers that are right two times in three, and the result."""
    truth = truth_of(tree, images)
    wrong = np.stack([rng.integers(0, size, images) for size in tree.sizes], 1)
    predictions = np.where(rng.random(truth.shape) < 2 / 3, truth, wrong)
    arrays = {"predictions": predictions.astype(np.int16), "truth": truth.astype(np.int16)}
    for level, size in enumerate(tree.sizes, 1):
        ends = rng.uniform(0, 1, (tree.depth, size)).astype(np.float32)
        ends[: level - 1] = np.nan
        arrays[f"accuracy.{level}"] = ends
    arrays["probability"] = np.random.default_rng(0).uniform(0.1, 1, truth.shape).astype(np.float32)
    save_file(arrays, folder / "predictions.safetensors")
    accuracy = final or records[-1].accuracy
    result = Result(
        final_accuracy=accuracy,
        auc=accuracy,
        average_accuracy=accuracy,
        forgetting=dict.fromkeys(accuracy, 0.1),
        consistency=metrics.consistency(predictions, tree),
        path_accuracy=metrics.path_accuracy(predictions, truth),
        mistake_severity=metrics.mistake_severity(predictions, truth, tree),
        samples=records[-1].samples,
        updates=records[-1].updates,
        seconds=60.0,
        images_forward=9600,
        images_backward=9600,
        images_memory=1200 if folder.name.startswith("pl") else 0,
        images_evaluation=360,
    )
    (folder / "result.json").write_text(json.dumps(asdict(result)))


def study(root: Path, methods: tuple[str, ...] = ("er", "clib", "pl-fms"), seeds: int = 3) -> Path:
    """Several methods over several seeds."""
    for method in methods:
        for seed in range(seeds):
            make_run(root / f"{method}-{seed}", method, seed)
    return root
