"""Try settings of a method on images held out of training, so that no figure that is reported was chosen by.

    python tools/tune.py canopy multiple-depth 10 prior 'canopy.prior=0.5' --out runs/tune.jsonl
    python tools/tune.py slda single-depth 10 few slda.shrinkage=0.3 --preset pretrained --dataset photos

The last fifth of the training images of each class is the test (of CIFAR-100: the last hundred); the rest is
trained on as the preset says. Where its network is frozen, all images are encoded once, as for any run.
Seeds 10 and up are for choosing. One line of JSON a try: the accuracy of every way to read the answers.
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
from ramify.datasets import Dataset
from ramify.datasets.dataset import Split
from ramify.hierarchy import ancestors_in
from ramify.runs.config import Config
from ramify.runs.folder import RunFolder
from ramify.runs.inputs import prepare_inputs
from ramify.runs.presets import resolve
from ramify.runs.run import Run, prepare_dataset
from ramify.sweeps.study import as_tables
from ramify.typed import from_dict

HELD_OUT = 5  # one image of so many


def held_out(dataset: Dataset) -> Dataset:
    """The dataset with its last training images of each class as test images."""
    leaves = dataset.train.leaves
    order = np.argsort(leaves, kind="stable")
    place = np.arange(len(leaves)) - np.searchsorted(leaves[order], leaves[order])
    counts = np.bincount(leaves)[leaves[order]]
    held = place >= counts - np.maximum(1, counts // HELD_OUT)
    test, train = np.sort(order[held]), np.sort(order[~held])
    images = dataset.train.images
    parts = {"train": Split(images[train], leaves[train]), "test": Split(images[test], leaves[test])}
    return replace(dataset, **parts)


def features_of(config: Config, dataset: Dataset) -> Dataset:
    """What the frozen network of a config makes of all its images; these themselves, where none is frozen."""
    return prepare_inputs(config, dataset, torch.device("cpu")).dataset if config.network.encodes else dataset


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
    parser.add_argument("--preset", default="study")
    parser.add_argument("--dataset", default="cifar100")
    parser.add_argument("--data-dir")
    parser.add_argument("--out", type=Path, help="a file to which the line is added")
    parser.add_argument("--dump", type=Path, help="features, heads and answers at the end, as .npz")
    args = parser.parse_args()
    torch.set_num_threads(1)
    config = resolve(args.preset, args.method, args.dataset, args.setup)
    values = {"seed": args.seed, "eval_at": "task-ends", **set_values(args.changes)}
    config = from_dict(type(config), as_tables(values), args.name, config)
    dataset = features_of(config, prepare_dataset(config, args.data_dir))
    run = Run(config, held_out(dataset), "cpu")
    with tempfile.TemporaryDirectory() as folder:
        place = RunFolder(folder)
        place.begin(run, None, {"data_dir": None, "checkpoint_every": 0.0})
        result = run.go(place)
    line = {
        "name": args.name,
        "method": args.method,
        "dataset": args.dataset,
        "setup": args.setup,
        "seed": args.seed,
        "changes": args.changes,
        "decoded": result.decoded,
        "images": result.images_forward + result.images_memory,
        "seconds": round(result.seconds),
    }
    if args.dump:
        dump(run, args.dump)
    if args.out:
        args.out.parent.mkdir(parents=True, exist_ok=True)
        with args.out.open("a") as file:
            file.write(json.dumps(line) + "\n")
    for way in ("heads", "joint", "path", "joint, true tree"):
        print(args.name, args.seed, way, *(f"{100 * v:.1f}" for v in result.decoded[way].values()))


if __name__ == "__main__":
    main()
