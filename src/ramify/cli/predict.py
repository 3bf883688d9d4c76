"""`ramify predict`: ask a saved model about images."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from ramify.cli.parser import Parser, add_own_code
from ramify.errors import RamifyError


def main(argv: list[str]) -> int:
    """Run `ramify predict`."""
    parser = Parser(
        prog="ramify predict", description="Ask a model about images: its best label at each level."
    )
    parser.add_argument(
        "model", metavar="MODEL", type=Path, help="a folder written by `ramify learn`, or a run's"
    )
    parser.add_argument("images", metavar="IMAGE", nargs="+", help="image files")
    parser.add_argument("--level", type=int, help="answer at this level only")
    parser.add_argument("--json", action="store_true", help="print JSON")
    way = parser.add_mutually_exclusive_group()
    way.add_argument("--consistent", action="store_true", help="the most probable path through the tree")
    way.add_argument("--crm", action="store_true", help="the labels of least expected tree distance")
    parser.add_argument("--device", choices=("auto", "cpu", "cuda", "mps"), default="auto")
    add_own_code(parser)
    args = parser.parse_args(argv)

    from ramify.learner import Learner

    learner = Learner.load(args.model, device=args.device, network=args.network, own_code=args.own_code)
    answer = learner.predict(args.images, args.consistent, "crm" if args.crm else None)
    if args.level is not None and args.level not in answer.levels:
        raise RamifyError(
            f"the model knows no level {args.level}; it knows {', '.join(map(str, answer.levels))}"
        )
    levels = answer.levels if args.level is None else (args.level,)
    found = []
    for i, image in enumerate(args.images):
        told = [h for h in levels if answer.labels[h][i] is not None]
        found.append(
            {
                "image": image,
                "levels": {
                    str(h): {
                        "label": answer.labels[h][i],
                        "probability": round(float(answer.probabilities[h][i]), 4),
                    }
                    for h in told
                },
            }
        )
        if not args.json:
            parts = (f"{answer.labels[h][i]} {answer.probabilities[h][i]:.2f}" for h in told)
            sys.stdout.write(f"{image}: {' > '.join(parts)}\n")
    if args.json:
        sys.stdout.write(json.dumps(found, indent=1) + "\n")
    return 0
