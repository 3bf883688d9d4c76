"""The worst mistakes: test images whose answer lies farthest away in the tree."""

from __future__ import annotations

import base64
import io
from dataclasses import dataclass

import numpy as np

from ramify.arrays import Floats, Ints, Pixels
from ramify.datasets import Dataset
from ramify.errors import RamifyError
from ramify.evaluation.metrics import deepest_answers, farthest, mistake_heights
from ramify.reports.data import RunData
from ramify.reports.series import Series
from ramify.taxonomy import Taxonomy

THUMBNAIL = 96
SHOWN = 8


@dataclass(frozen=True)
class Mistake:
    """An image with its path, the path of the answer at the level of its end, and what else was answered."""

    image: int
    truth: tuple[str, ...]
    answer: tuple[str, ...]
    height: int  # of the lowest common ancestor
    levels: tuple[str | None, ...]  # the answer of each level, None for none
    nearest: tuple[tuple[int, str], ...] = ()
    """The stored training images most like it, and what each was taught as."""


def worst_mistakes(series: Series) -> list[Mistake]:
    """The farthest mistakes of the first finished seed, one a class.

    Of equal ones those come first of which it is known what they were near to, then those on which seeds
    agree.
    """
    run = next((run for run in series.results() if run.answers is not None), None)
    if run is None or run.answers is None:
        return []
    tree, predictions, truth = run.tree, run.answers.predictions, run.answers.truth
    if (predictions[:, -1] < 0).all():
        return []
    heights = mistake_heights(predictions, truth, tree)
    answers = deepest_answers(np.where(truth >= 0, predictions, -1), tree)
    near = run.answers.nearest
    unexplained = ~np.isin(np.arange(len(truth)), list(near))
    then = unexplained * (tree.depth + 1.0) - _mean_height(series, truth)
    found: list[Mistake] = []
    for image in farthest(heights, truth, SHOWN, then).tolist():
        said = (_names(tree, row[image]) for row in (truth, answers))
        true, answer = (tuple(name for name in names if name is not None) for names in said)
        like = tuple((int(i), tree.names(int(h))[c]) for i, h, c in near.get(image, ()))
        levels = _names(tree, predictions[image])
        found.append(Mistake(image, true, answer, int(heights[image]), levels, like))
    return found


def _names(tree: Taxonomy, classes: Ints) -> tuple[str | None, ...]:
    return tuple(tree.names(h)[c] if c >= 0 else None for h, c in enumerate(classes.tolist(), 1))


def _mean_height(series: Series, truth: Ints) -> Floats:
    """Mean height of the mistake on each image over the seeds that were asked about the same images."""
    found = [
        mistake_heights(run.answers.predictions, truth, run.tree)
        for run in series.results()
        if run.answers is not None and np.array_equal(run.answers.truth, truth)
    ]
    return np.asarray(np.mean(found, 0))


def images_of(run: RunData, data_dir: str | None = None) -> Dataset | None:
    """The run's dataset, or None where it is not at hand or is not the one that was learned."""
    from ramify.runs.run import prepare_dataset

    try:
        dataset = prepare_dataset(run.config, data_dir)
    except RamifyError:
        return None
    return dataset if dataset.fingerprint == run.facts.get("dataset", {}).get("fingerprint") else None


def thumbnail(pixels: Pixels) -> str:
    """A test image [3, size, size] as data URI: PNG where it is small, WebP where it had to be reduced."""
    from PIL import Image

    image = Image.fromarray(np.ascontiguousarray(pixels.transpose(1, 2, 0)))
    data = io.BytesIO()
    if image.width > THUMBNAIL:
        image.thumbnail((THUMBNAIL, THUMBNAIL))
        image.save(data, "WEBP", quality=70)
        kind = "webp"
    else:
        image.save(data, "PNG", optimize=True)
        kind = "png"
    return f"data:image/{kind};base64," + base64.b64encode(data.getvalue()).decode()
