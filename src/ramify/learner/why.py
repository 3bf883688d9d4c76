"""Why an answer: the stored images that are nearest to an image in the network's features."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from ramify.learner.labels import Label
from ramify.memory.workbench import LOOK

if TYPE_CHECKING:
    from ramify.methods import Trainer

AT_MOST = 2 * LOOK  # stored images that are looked at for one answer
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Reason:
    """A stored image that speaks for an answer, or against it."""

    image: npt.NDArray[np.uint8] | None
    """[size, size, 3], as it is stored; None where features are stored in its place."""
    labels: dict[int, Label]
    """What it was taught as, by level."""
    similarity: float
    """Cosine of the angle between its features and those of the image that was asked, at most 1."""
    agrees: bool
    """Whether one of its labels is what was answered at that level."""


def reasons(
    trainer: Trainer, image: Tensor, answer: Ints, log: npt.NDArray[np.float64], k: int
) -> list[Reason]:
    """The `k` stored images nearest to `image` [1, …], nearest first.

    `answer` has the class of each level met, `log` the log-probability of every class. Looked at are the
    images stored under the most probable classes, whatever their level, `AT_MOST` of them, so that asking
    does not cost a pass over the whole memory.
    """
    slots = _candidates(trainer, log)
    if not len(slots):
        return []
    own = _features(trainer, image)
    parts = [trainer.memory.batch(slots[s : s + LOOK]) for s in range(0, len(slots), LOOK)]
    similar = torch.cat([_features(trainer, part.inputs) for part in parts]) @ own[0]
    trainer.cost.images_memory += len(slots)
    nearest = similar.topk(min(k, len(slots)))
    return [
        _reason(trainer, int(slots[row]), answer, float(value))
        for value, row in zip(nearest.values.tolist(), nearest.indices.tolist(), strict=True)
    ]


def _candidates(trainer: Trainer, log: npt.NDArray[np.float64]) -> Ints:
    found: list[int] = []
    for cls in np.argsort(-log, kind="stable"):
        if len(found) >= AT_MOST:
            break
        found += np.sort(trainer.memory.members(int(cls))).tolist()
    return np.array(found[:AT_MOST], np.int64)


def _features(trainer: Trainer, inputs: Tensor) -> Tensor:
    """Of length 1, as the method answers."""
    features, _ = trainer.embed(inputs, trainer.answering)
    return torch.nn.functional.normalize(features).cpu()


def _reason(trainer: Trainer, slot: int, answer: Ints, similarity: float) -> Reason:
    classes, batch = trainer.classes, trainer.memory.batch(np.array([slot]))
    own = [int(c) for c in batch.labels[0] if c >= 0]
    labels = {int(classes.level_of[c]): classes.labels[c] for c in own}
    stored = batch.inputs[0]
    image = stored.permute(1, 2, 0).contiguous().cpu().numpy() if stored.dtype == torch.uint8 else None
    return Reason(image, labels, similarity, bool(np.isin(own, answer).any()))
