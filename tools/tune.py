"""Try settings of a method on images held out of training, so that no figure that is reported was chosen by.

    python tools/tune.py canopy multiple-depth 10 prior 'canopy.prior=0.5' --out runs/tune.jsonl

The last hundred training images of each class of CIFAR-100 are the test; the rest is trained on as the
`study` preset says. Seeds 10 and up are for choosing. One line of JSON a try: the accuracy of every way to
read the answers.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from ramify.cli.parser import set_values
from ramify.datasets import Dataset, load_dataset
from ramify.datasets.dataset import Split
from ramify.hierarchy import ancestors_in
from ramify.runs.folder import RunFolder
from ramify.runs.presets import resolve
from ramify.runs.run import Run
from ramify.sweeps.study import as_tables
from ramify.typed import from_dict

HELD_OUT = 100


def held_out(dataset: Dataset) -> Dataset:
    """The dataset with its last training images of each class as test images."""
    leaves = dataset.train.leaves
    order = np.argsort(leaves, kind="stable")
    place = np.arange(len(leaves)) - np.searchsorted(leaves[order], leaves[order])
    counts = np.bincount(leaves)[leaves[order]]
    test, train = np.sort(order[place >= counts - HELD_OUT]), np.sort(order[place < counts - HELD_OUT])
    images = dataset.train.images
    parts = {"train": Split(images[train], leaves[train]), "test": Split(images[test], leaves[test])}
    return replace(dataset, **parts)


def dump(run: Run, path: Path) -> None:
    """What the learner knows at the end, as arrays."""
    trainer, evaluator = run.trainer, run.evaluator
    trainer.prepare()
    weights, memory = trainer.weights(), trainer.memory

    def features(images: torch.Tensor) -> np.ndarray:
        return torch.cat([trainer.embed(part, weights)[0] for part in torch.split(images, 256)]).numpy()

    def heads(kind: str) -> np.ndarray:
        blocks = [weights[name] for name in sorted(weights) if name.startswith(f"heads.{kind}")]
        return torch.cat(blocks)[: len(trainer.classes)].numpy()

    answers = getattr(trainer.recipe.answer, "answers", None)
    np.savez(
        path,
        test=features(torch.from_numpy(np.ascontiguousarray(evaluator.images))),
        truth=evaluator.truth,
        memory=features(memory["inputs"][: memory.size]),
        memory_classes=memory.classes[: memory.size],
        rows=heads("weights"),
        biases=heads("biases"),
        level_of=trainer.classes.level_of,
        labels=np.array(trainer.classes.labels),
        seen=trainer.classes.seen,
        means=np.zeros((0, 0)) if answers is None else answers.means(),
        true_ancestors=ancestors_in(evaluator.tree, trainer.classes, by_index=True),
    )


def main() -> None:
    """Run one try."""
    parser = argparse.ArgumentParser()
    parser.add_argument("method")
    parser.add_argument("setup")
    parser.add_argument("seed", type=int)
    parser.add_argument("name", help="of the try")
    parser.add_argument("changes", nargs="*", metavar="FIELD=VALUE")
    parser.add_argument("--data-dir")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--dump", type=Path, help="features, heads and answers at the end, as .npz")
    args = parser.parse_args()
    torch.set_num_threads(1)
    config = resolve("study", args.method, "cifar100", args.setup)
    values = {"seed": args.seed, "eval_at": "task-ends", **set_values(args.changes)}
    config = from_dict(type(config), as_tables(values), args.name, config)
    run = Run(config, held_out(load_dataset("cifar100", data_dir=args.data_dir)), "cpu")
    with tempfile.TemporaryDirectory() as folder:
        place = RunFolder(folder)
        place.begin(run, None, {"data_dir": None, "checkpoint_every": 0.0})
        result = run.go(place)
    line = {
        "name": args.name,
        "method": args.method,
        "setup": args.setup,
        "seed": args.seed,
        "changes": args.changes,
        "decoded": result.decoded,
        "images": result.images_forward + result.images_memory,
        "seconds": round(result.seconds),
    }
    if args.dump:
        dump(run, args.dump)
    args.out.parent.mkdir(parents=True, exist_ok=True)
    with args.out.open("a") as file:
        file.write(json.dumps(line) + "\n")
    for way in ("heads", "joint", "path", "joint, true tree"):
        print(args.name, args.seed, way, *(f"{100 * v:.1f}" for v in result.decoded[way].values()))


if __name__ == "__main__":
    main()
