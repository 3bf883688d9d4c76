"""The stored samples that are nearest to a sample in the network's features: why it is answered as it is."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from ramify.arrays import Floats, Ints
from ramify.memory.held import Held
from ramify.memory.workbench import LOOK
from ramify.methods.trainer import Trainer

AT_MOST = 2 * LOOK  # stored samples that are looked at for one answer
Nearest = list[tuple[int, float]]
"""Places among those held, nearest first, and the cosine of the angle between the features, at most 1."""


def nearest_stored(trainer: Trainer, held: Held, inputs: Tensor, log: Floats, k: int) -> list[Nearest]:
    """For each of some inputs [n, …] the `k` nearest stored samples; none where nothing is stored.

    `log` has the log-probability of every class, [n, classes]. Looked at are the samples stored under the
    most probable classes, whatever their level, `AT_MOST` for each input, so that asking does not cost a pass
    over the whole memory.
    """
    candidates = [_candidates(held, row) for row in log]
    places = np.unique(np.concatenate(candidates))
    if not len(places):
        return [[] for _ in log]
    own = _features(trainer, inputs)
    parts = [held.inputs(places[s : s + LOOK]) for s in range(0, len(places), LOOK)]
    stored = torch.cat([_features(trainer, part) for part in parts])
    trainer.cost.images_memory += len(places)
    found = []
    for looked_at, features in zip(candidates, own, strict=True):
        similar = stored[torch.from_numpy(np.searchsorted(places, looked_at))] @ features
        nearest = similar.topk(min(k, len(looked_at)))
        chosen = zip(nearest.indices.tolist(), nearest.values.tolist(), strict=True)
        found.append([(int(looked_at[row]), value) for row, value in chosen])
    return found


def _candidates(held: Held, log: Floats) -> Ints:
    """Those of the most probable class first, each class in order."""
    rank = np.argsort(np.argsort(-log, kind="stable"))
    known = np.flatnonzero(held.classes >= 0)
    order: Ints = known[np.argsort(rank[held.classes[known]], kind="stable")]
    return order[:AT_MOST]


def _features(trainer: Trainer, inputs: Tensor) -> Tensor:
    """Of length 1, as the method answers."""
    features, _ = trainer.embed(inputs, trainer.answering)
    return torch.nn.functional.normalize(features).cpu()
