"""`ramify predict`: ask a saved model about images."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ramify.cli.answers_as import FORMS, answer_as
from ramify.cli.logs import tell, warn
from ramify.cli.parser import Parser, add_own_code, importing
from ramify.errors import RamifyError
from ramify.plural import counted

if TYPE_CHECKING:
    from ramify.learner import Learner
    from ramify.learner.asking import FileAnswer
    from ramify.learner.learner import Decode


def main(argv: list[str]) -> int:
    """Run `ramify predict`."""
    args = _parser().parse_args(argv)

    with importing():
        from ramify.cli.answers import as_dict, check_kind, level_names, line, run_levels, tree_levels_of
        from ramify.files import json_text
        from ramify.learner import Learner
        from ramify.learner.asking import Question, ask, named_images
        from ramify.learner.sure import ONE_PATH, check_confidence

    if args.form is not None and args.to is None:
        raise RamifyError(f"--as {args.form} writes files; say with --to where")
    if args.to is not None and args.form is None:
        check_kind(args.to)
    for name, value in (("top", args.top), ("why", args.why)):
        if value is not None and value < 1:
            raise RamifyError(f"--{name} is {value}; it is a number from 1")
    learner = Learner.load(args.model, device=args.device, network=args.network, own_code=args.own_code)
    if args.level is not None and args.level not in learner.levels:
        raise RamifyError(
            f"the model knows no level {args.level}; it knows {', '.join(map(str, learner.levels))}"
        )
    levels = learner.levels if args.level is None else (args.level,)
    if told := run_levels(args.model):
        tell(told)
    if args.confidence is not None:
        check_confidence(learner._trainer, args.confidence)
    way: Decode = args.decode or "path"
    names = level_names(learner, levels)
    question = Question(way, args.top or 0, args.confidence, args.why or 0)
    if args.form is not None:
        return answer_as(args, learner, question)
    answers: list[FileAnswer] = []
    for answer in ask(learner, named_images(args.images, args.from_dir), question):
        answers.append(answer)
        if answer.error is not None:
            warn(line(answer, names, False))
        elif not args.json and args.to is None:
            sys.stdout.write(f"{line(answer, names, way in ONE_PATH)}\n")
    if not answers:
        raise RamifyError("no images were given; name files, a folder, a CSV, or - for standard input")
    if args.json:
        sys.stdout.write(json_text([as_dict(answer, levels, tree_levels_of(learner)) for answer in answers]))
    return _tell_of(answers, args, learner, levels)


def _tell_of(
    answers: list[FileAnswer], args: argparse.Namespace, learner: Learner, levels: Sequence[int]
) -> int:
    """Say what the figures are, which answers are missing and why, and where the others went."""
    from ramify.cli.answers import figures, write
    from ramify.learner.sure import limits
    from ramify.learner.why import none_stored

    top, bad = args.top or 0, sum(answer.error is not None for answer in answers)
    if not args.json and args.to is None and any(answer.levels for answer in answers):
        tell(figures(learner, levels, top > 0))
    if args.why and not any(answer.reasons for answer in answers) and bad < len(answers):
        tell(f"--why: {none_stored(learner._trainer)}")
    unsure = sum(answer.error is None and not answer.levels for answer in answers)
    if unsure:
        told = limits(learner._trainer)
        tell(f"no answer is as sure for {unsure:,} of {counted(len(answers), 'image')}: {told}")
    if args.to is not None:
        write(answers, levels, top, args.to, learner)
        tell(f"{args.to} has {counted(len(answers) - bad, 'answer')}")
    if bad:
        others = "; the others are answered" if bad < len(answers) else ""
        warn(f"{bad:,} of {counted(len(answers), 'image')} cannot be used{others}")
    return 1 if bad else 0


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="ramify predict",
        description="Ask a model about images: the most probable path through the label tree, or each level. "
        "An image that cannot be used is reported, the others are answered; the exit code is 1 then.",
    )
    add = parser.add_argument
    add("model", metavar="MODEL", type=Path, help="a folder written by `ramify learn`, or a run's")
    add(
        "images",
        metavar="IMAGE",
        nargs="+",
        help="image files, folders of them, a .csv with a column path, or - for paths on standard input",
    )
    add("--images", dest="from_dir", metavar="DIR", type=Path, help="where the paths of a .csv or - begin")
    add("--level", type=int, help="answer at this level only")
    add("--top", type=int, metavar="K", help="the K most probable labels of each level's head")
    add(
        "--confidence",
        type=float,
        metavar="SHARE",
        help="answer only as finely as the model is sure, 0.9: nine of ten right (by its own log of answers "
        "before learning)",
    )
    add(
        "--why",
        type=int,
        metavar="K",
        help="the K stored images most like it; --to .html shows them",
    )
    add("--json", action="store_true", help="print JSON")
    add(
        "--to",
        metavar="FILE",
        type=Path,
        help="write .csv, .json, .jsonl, .parquet or a page .html instead of printing",
    )
    add(
        "--as",
        dest="form",
        choices=FORMS,
        help="write --to as tasks with predictions for Label Studio (IMAGE may be its export, a .json: the "
        "tasks come back as they are, each with a prediction), or as a folder that FiftyOne reads",
    )
    add("--field", metavar="NAME", help="where the data of a task have the image, if that is not clear")
    add("--control", metavar="NAME", help="the Taxonomy control of the tasks, if there are several")
    way = parser.add_mutually_exclusive_group()
    way.add_argument(
        "--decode",
        choices=("heads", "path", "crm", "up", "joint"),
        help="how answers are read: the most probable path through the tree (default), each level's head by "
        "itself, the labels of least expected tree distance, the finest answer and its ancestors, or all "
        "heads together",
    )
    way.add_argument(
        "--consistent", dest="decode", action="store_const", const="path", help="the same as --decode path"
    )
    way.add_argument("--crm", dest="decode", action="store_const", const="crm", help="as --decode crm")
    add("--device", choices=("auto", "cpu", "cuda", "mps"), default="auto")
    add_own_code(parser)
    return parser
