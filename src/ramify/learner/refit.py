"""Rows fitted to stored samples, where an edit of labels has made one class of several, or several of one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from ramify.arrays import Ints
from ramify.memory.held import Held
from ramify.memory.workbench import LOOK, Weights
from ramify.methods.trainer import Trainer
from ramify.networks.heads import ROWS

AT_MOST = 1024  # stored samples that are looked at
STEPS = 50
HELD = 1e-4  # weight of the way from where a row begins


@dataclass(frozen=True)
class Answers:
    """What was said of stored samples at one level before an edit."""

    features: Tensor  # [n, f]
    probabilities: Tensor  # [n, classes of the level]
    rows: Ints  # these classes
    numbers: list[int]  # the samples


def answers(trainer: Trainer, level: int, classes: Ints) -> list[Answers]:
    """Of the network, and of its average where the method answers with one; samples of `classes` first."""
    held, rows = Held(trainer), trainer.classes.of_level(level)
    order = np.lexsort([~np.isin(held.labels, rows).any(1), ~np.isin(held.labels, classes).any(1)])
    places = np.sort(order[:AT_MOST])
    if not len(places):
        return []
    numbers = held.numbers[places].tolist()
    found = []
    for weights in _weights(trainer):
        parts = [places[start : start + LOOK] for start in range(0, len(places), LOOK)]
        passed = [trainer.embed(held.inputs(part), weights) for part in parts]
        features, logits = (torch.cat(values).float() for values in zip(*passed, strict=True))
        said = logits[:, torch.from_numpy(rows).to(logits.device)].softmax(1)
        found.append(Answers(features, said, rows, numbers))
    trainer.cost.images_memory += len(places) * len(found)
    return found


def refit(weights: Weights, features: Tensor, targets: Tensor, rows: Ints, free: Ints) -> None:
    """Change the rows of the classes `free` so that the level's `rows` answer `targets` [n, rows], in place.

    The least cross-entropy, which is convex in these rows; the others and the network stay.
    """
    matrix = torch.stack([_row(weights, cls) for cls in rows.tolist()])  # [rows, f + 1]
    places = torch.from_numpy(np.flatnonzero(np.isin(rows, free))).to(matrix.device)
    inputs = torch.nn.functional.pad(features, (0, 1), value=1.0)
    start = matrix[places].clone()
    moving = start.clone().requires_grad_()
    search = torch.optim.LBFGS([moving], max_iter=STEPS, line_search_fn="strong_wolfe")

    def loss() -> Tensor:
        search.zero_grad()
        logits = inputs @ matrix.index_copy(0, places, moving).T
        value = torch.nn.functional.cross_entropy(logits, targets) + HELD * (moving - start).square().sum()
        value.backward()  # type: ignore[no-untyped-call]
        return value

    search.step(loss)  # type: ignore[no-untyped-call]
    if bool(moving.isfinite().all()):
        for place, values in zip(places.tolist(), moving.detach(), strict=True):
            block, row = divmod(int(rows[place]), ROWS)
            weights[f"heads.weights.{block}"][row] = values[:-1]
            weights[f"heads.biases.{block}"][row] = values[-1]


def carry_over(
    trainer: Trainer,
    before: list[Answers],
    level: int,
    becomes: Mapping[int, Mapping[int, float]],
    labels: Mapping[int, int] | None = None,
) -> None:
    """Let classes that came of others answer together as those did.

    `becomes`: class → the classes that it has become, with their shares. What was said for it goes to the
    class that a stored sample has now (`labels`, by number), or else to all of them by their shares.
    """
    rows = trainer.classes.of_level(level)
    place = {cls: k for k, cls in enumerate(rows.tolist())}
    free = np.array(sorted({cls for parts in becomes.values() for cls in parts}), np.int64)
    for weights, said in zip(_weights(trainer), before, strict=False):
        own = [(labels or {}).get(number, -1) for number in said.numbers]
        targets = said.probabilities.new_zeros(len(own), len(rows))
        for column, cls in enumerate(said.rows.tolist()):
            parts = becomes.get(cls, {cls: 1.0})
            for to, share in parts.items():
                shares = [float(mine == to) if mine in parts else share for mine in own]
                targets[:, place[to]] += said.probabilities[:, column] * targets.new_tensor(shares)
        refit(weights, said.features, targets, rows, free)


def _weights(trainer: Trainer) -> list[Weights]:
    """The trained ones, and their average where one is kept."""
    live = {name: p.detach() for name, p in trainer.model.named_parameters()}
    return [weights for weights in (live, trainer.averaged()) if weights]


def _row(weights: Weights, cls: int) -> Tensor:
    block, row = divmod(cls, ROWS)
    return torch.cat([weights[f"heads.weights.{block}"][row], weights[f"heads.biases.{block}"][row][None]])
