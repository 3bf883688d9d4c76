"""Asking a learner about many image files, of which some may be bad."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

import numpy as np
import torch

from ramify.arrays import Pixels
from ramify.datasets.decode import BrokenImage, decode_image, quiet_pillow
from ramify.datasets.listing import image_files
from ramify.errors import RamifyError
from ramify.learner.labels import Label
from ramify.learner.learner import Decode, Learner
from ramify.learner.why import Reason
from ramify.taxonomy.read import read_table, read_text

CHUNK = 256  # images at a time

Told = tuple[Label, float]
"""A label and its probability on its level's head."""


@dataclass(frozen=True)
class FileAnswer:
    """What the learner says of one image: a label at each level, the best of each head, or why it is bad."""

    image: str
    levels: dict[int, Told] = field(default_factory=dict)
    top: dict[int, list[Told]] = field(default_factory=dict)
    error: str | None = None
    confidences: dict[int, float] = field(default_factory=dict)
    """How sure each label is, by the model's own log; where that is long enough."""
    new: tuple[int, ...] = ()
    """The levels at which the image looks like none of the labels."""
    pixels: Pixels | None = None
    reasons: list[Reason] = field(default_factory=list)
    """The stored images nearest to it, where that was asked."""

    def share(self, level: int) -> float:
        """How often such an answer has been right, by the log; without one, the head's own probability."""
        return self.confidences.get(level, self.levels[level][1])


@dataclass(frozen=True)
class Question:
    """How images are to be answered."""

    way: Decode
    top: int = 0
    """The best labels of each level's head, so many."""
    confidence: float | None = None
    why: int = 0
    """The nearest stored images, so many."""


def named_images(given: Iterable[str], images: Path | None = None) -> Iterator[tuple[str, Path]]:
    """The image files that are meant: files, all in a folder, the paths in a CSV, those on standard input."""
    for name in given:
        path = Path(name)
        if name == "-":
            lines = (line.rstrip("\r\n") for line in sys.stdin)
            yield from ((line, Path(line) if images is None else images / line) for line in lines if line)
        elif path.is_dir():
            found = [path.joinpath(*parts) for parts in image_files(path)]
            if not found:
                raise RamifyError(f"{path} holds no images: expected .jpg, .png, … files in it")
            yield from ((str(file), file) for file in found)
        elif path.suffix.lower() == ".csv":
            header, rows, _ = read_table(read_text(path), path.name)
            if "path" not in header:
                raise RamifyError(f"{path} line 1: the columns are {', '.join(header)}: expected path")
            at, root = header.index("path"), path.parent if images is None else images
            yield from ((row[at], root / row[at]) for row in rows)
        else:
            yield name, path


def ask(learner: Learner, files: Iterable[tuple[str, Path]], question: Question) -> Iterator[FileAnswer]:
    """The answer to each file, in order; a bad file has an error instead and harms no other."""
    waiting = iter(files)
    while part := list(islice(waiting, CHUNK)):
        pixels, errors = {}, {}
        for number, (_, path) in enumerate(part):
            try:
                with quiet_pillow():
                    pixels[number] = decode_image(path, learner.image_size)
            except BrokenImage as reason:
                errors[number] = str(reason)
        said = iter(_said(learner, [(part[n][0], value) for n, value in pixels.items()], question))
        for number, (name, _) in enumerate(part):
            yield FileAnswer(name, error=errors[number]) if number in errors else next(said)


def _said(learner: Learner, given: Sequence[tuple[str, Pixels]], question: Question) -> Iterator[FileAnswer]:
    if not given:
        return
    images = torch.from_numpy(np.stack([pixels for _, pixels in given]))
    answer = learner.predict(images, decode=question.way, confidence=question.confidence)
    best: dict[int, list[list[Told]]] = {}
    for level in answer.levels if question.top else ():
        probabilities, labels = learner.predict_proba(images, level), learner.labels(level)
        order = np.argsort(-probabilities, axis=1, kind="stable")[:, : question.top]
        best[level] = [
            [(labels[c], float(row[c])) for c in chosen]
            for row, chosen in zip(probabilities, order, strict=True)
        ]
    for i, (name, pixels) in enumerate(given):
        told = {
            level: (label, float(answer.probabilities[level][i]))
            for level in answer.levels
            if (label := answer.labels[level][i]) is not None
        }
        yield FileAnswer(
            name,
            told,
            {level: rows[i] for level, rows in best.items()},
            confidences={h: float(sure[i]) for h, sure in answer.confidences.items() if h in told},
            new=tuple(h for h, flags in answer.new.items() if flags[i]),
            pixels=pixels,
            reasons=learner.explain(images[i], question.why, question.way) if question.why else [],
        )
