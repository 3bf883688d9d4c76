"""The answers of `ramify predict --as`: in the form of another program."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from itertools import tee
from pathlib import Path
from typing import TYPE_CHECKING

from ramify.errors import RamifyError

if TYPE_CHECKING:
    from ramify.learner import Learner
    from ramify.learner.asking import Answer, Question

FORMS = ("labelstudio", "fiftyone")


def answer_as(
    form: str,
    learner: Learner,
    images: list[str],
    begin: Path | None,
    question: Question,
    name: str,
    to: Path,
) -> int:
    """Ask about images, or about the tasks of a Label Studio export, and write the answers; the exit code."""
    if form == "labelstudio":
        answers = _tasks(learner, images, begin, question, name, to)
    else:
        answers = _dataset(learner, images, begin, question, to)
    bad = [answer for answer in answers if answer.error is not None]
    for answer in bad:
        sys.stderr.write(f"{answer.image}: cannot be used: {answer.error}\n")
    told = f"; {len(bad):,} images cannot be used" if bad else ""
    sys.stderr.write(f"{sum(bool(a.levels) for a in answers):,} answers are in {to}{told}\n")
    return 1 if bad else 0


def _tasks(
    learner: Learner, images: list[str], begin: Path | None, question: Question, name: str, to: Path
) -> list[Answer]:
    from ramify.files import write_atomic
    from ramify.learner import labelstudio
    from ramify.learner.asking import ask, named_images

    if to.suffix.lower() != ".json":
        raise RamifyError(f"--to {to}: Label Studio imports tasks from .json; call it so")
    given = [Path(image) for image in images]
    files: Iterable[tuple[str, Path]]
    if given[0].suffix.lower() == ".json":
        if len(given) > 1:
            raise RamifyError(f"{len(given)} sources were given; give one export of Label Studio at a time")
        tasks = labelstudio.read_tasks(given[0])
        field = labelstudio.image_field(tasks)
        root = given[0].parent if begin is None else begin
        paths = [labelstudio.image_path(str(task["data"].get(field) or "")) for task in tasks]
        files = [(path, root / path) for path in paths]
    else:
        files = list(named_images(images, begin))
        tasks = labelstudio.new_tasks(path for path, _ in files)
    answers = list(ask(learner, files, question))
    tree = learner.taxonomy or (learner.hierarchy() if learner.levels else None)
    done = labelstudio.with_answers(tasks, answers, learner.taxonomy, f"{name} ({learner.samples} samples)")
    write_atomic(to, json.dumps(done, indent=1, ensure_ascii=False) + "\n")
    if tree is not None:
        config = to.with_suffix(".xml")
        write_atomic(config, labelstudio.labelling_config(tree))
        sys.stderr.write(f"a labelling configuration with the model's tree is in {config}\n")
    return answers


def _dataset(
    learner: Learner, images: list[str], begin: Path | None, question: Question, to: Path
) -> list[Answer]:
    from ramify.learner import fiftyone
    from ramify.learner.asking import ask, named_images

    asked, again = tee(named_images(images, begin))
    answers = list(ask(learner, asked, question))
    good = ((a, file) for a, (_, file) in zip(answers, again, strict=True) if a.error is None)
    fiftyone.write_answers(good, to)
    return answers
