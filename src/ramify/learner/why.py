"""Why an answer: the stored images that are nearest to an image in the network's features."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from ramify.arrays import Floats, Ints, Pixels
from ramify.evaluation.nearest import nearest_stored
from ramify.learner.labels import Label
from ramify.learner.relabel import remembers
from ramify.learner.samples import Names
from ramify.memory.held import Held

if TYPE_CHECKING:
    from ramify.methods import Trainer


@dataclass(frozen=True, eq=False)
class Reason:
    """A stored image that speaks for an answer, or against it."""

    image: Pixels | None
    """[size, size, 3], as it is stored; None where features are stored in its place."""
    labels: dict[int, Label]
    """What it was taught as, by level."""
    similarity: float
    """Cosine of the angle between its features and those of the image that was asked, at most 1."""
    agrees: bool
    """Whether one of its labels is what was answered at that level."""
    number: int
    """Its place in the stream, as `stored` and `relabel` have it."""
    id: str | None
    """What it was called when it was taught."""

    @property
    def name(self) -> str:
        """Its id, or else its number, as `ramify edit MODEL relabel` takes them; older ones have neither."""
        numbered = f"sample {self.number}" if self.number >= 0 else "a stored sample"
        return numbered if self.id is None else self.id


def reasons(trainer: Trainer, names: Names, image: Tensor, answer: Ints, log: Floats, k: int) -> list[Reason]:
    """The `k` stored images nearest to `image` [1, …], nearest first.

    `answer` has the class of each level met, `log` the log-probability of every class.
    """
    held = Held(trainer)
    (nearest,) = nearest_stored(trainer, held, image, log[None], k)
    return [_reason(trainer, held, names, place, answer, similarity) for place, similarity in nearest]


def none_stored(trainer: Trainer) -> str:
    """Why there are no reasons to show."""
    if not remembers(trainer):
        return f"{trainer.method.name} stores no images, so there are none to show beside an answer"
    return "the model's memory is empty, so there are no stored images to show beside an answer"


def _reason(
    trainer: Trainer, held: Held, names: Names, place: int, answer: Ints, similarity: float
) -> Reason:
    number = int(held.numbers[place])
    own = [int(c) for c in held.labels[place] if c >= 0]
    (stored,) = held.inputs(np.array([place]))
    image = stored.permute(1, 2, 0).contiguous().cpu().numpy() if stored.dtype == torch.uint8 else None
    labels, agrees = trainer.classes.by_level(own), bool(np.isin(own, answer).any())
    return Reason(image, labels, similarity, agrees, number, names.of(number)[0])
