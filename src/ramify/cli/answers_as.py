"""The answers of `ramify predict --as`: in the form of another program."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable
from itertools import tee
from pathlib import Path
from typing import TYPE_CHECKING

from ramify.cli.logs import tell, warn
from ramify.errors import RamifyError
from ramify.plural import counted

if TYPE_CHECKING:
    from ramify.learner import Learner
    from ramify.learner.asking import FileAnswer, Question

FORMS = ("labelstudio", "fiftyone")


def answer_as(args: argparse.Namespace, learner: Learner, question: Question) -> int:
    """Ask about images, or about the tasks of a Label Studio export, and write the answers; the exit code."""
    answers = (_tasks if args.form == "labelstudio" else _dataset)(args, learner, question)
    bad = [answer for answer in answers if answer.error is not None]
    for answer in bad:
        warn(f"{answer.image}: cannot be used: {answer.error}")
    told = f"; {counted(len(bad), 'image')} cannot be used" if bad else ""
    tell(f"{args.to} has {counted(sum(bool(a.levels) for a in answers), 'answer')}{told}")
    return 1 if bad else 0


def _tasks(args: argparse.Namespace, learner: Learner, question: Question) -> list[FileAnswer]:
    from ramify.files import write_atomic
    from ramify.learner import labelstudio
    from ramify.learner.asking import ask, named_images

    to, begin, given = args.to, args.from_dir, [Path(image) for image in args.images]
    if to.suffix.lower() != ".json":
        raise RamifyError(f"--to {to}: Label Studio imports tasks from .json; call it so")
    files: Iterable[tuple[str, Path]]
    if given[0].suffix.lower() == ".json":
        if len(given) > 1:
            raise RamifyError(f"{len(given)} sources were given; give one export of Label Studio at a time")
        tasks = labelstudio.read_tasks(given[0])
        field = args.field or labelstudio.image_field(tasks)
        root = given[0].parent if begin is None else begin
        paths = [labelstudio.image_path(str(task["data"].get(field) or "")) for task in tasks]
        files = [(path, root / path) for path in paths]
    else:
        files = list(named_images(args.images, begin))
        tasks, field = labelstudio.new_tasks(path for path, _ in files), labelstudio.OBJECT
    answers = list(ask(learner, files, question))
    tree = learner.taxonomy or (learner.hierarchy() if learner.levels else None)
    version = f"{args.model.resolve().name} ({counted(learner.samples, 'sample')})"
    done = labelstudio.with_answers(tasks, answers, learner.taxonomy, version, args.control)
    write_atomic(to, json.dumps(done, indent=1, ensure_ascii=False) + "\n")
    if tree is not None:
        config, names = to.with_suffix(".xml"), labelstudio.control_names(tasks, args.control)
        write_atomic(config, labelstudio.labelling_config(tree, names, field))
        tell(f"a labelling configuration with the model's tree is in {config}")
    return answers


def _dataset(args: argparse.Namespace, learner: Learner, question: Question) -> list[FileAnswer]:
    from ramify.learner import fiftyone
    from ramify.learner.asking import ask, named_images

    asked, again = tee(named_images(args.images, args.from_dir))
    answers = list(ask(learner, asked, question))
    good = ((a, file) for a, (_, file) in zip(answers, again, strict=True) if a.error is None)
    fiftyone.write_answers(good, args.to)
    return answers
