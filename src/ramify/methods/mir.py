"""MIR."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch

from ramify.arrays import Floats, Ints
from ramify.memory import Batch, Workbench
from ramify.methods.er import er
from ramify.methods.recipe import Recipe, method
from ramify.methods.settings import Settings
from ramify.networks import Targets, cross_entropy
from ramify.randomness import Generators
from ramify.rehearsal import Rehearsal
from ramify.training.rates import Rate
from ramify.typed import Count, Typed


@dataclass(frozen=True)
class MirSettings(Typed):
    """MIR."""

    candidates: Count = 50
    """Memory samples among which the most interfered are chosen."""


class MostInterfered(Rehearsal):
    """Of some candidates those whose loss a step on the arrivals raises most.

    Each level gets the share of the places that it has among the candidates (largest remainder).
    """

    def __init__(self, rng: np.random.Generator, candidates: int, rate: Rate) -> None:
        super().__init__(rng)
        self.candidates, self.rate = candidates, rate

    def compose(self, bench: Workbench, arrivals: Batch, batch_size: int) -> Batch:
        """The batch of one update."""
        candidates = bench.memory.batch(bench.memory.sample(self.candidates, self.rng))
        places = min(batch_size - len(arrivals), len(candidates))
        if places == len(candidates):
            return arrivals.join(candidates)
        rises = interference(bench, arrivals, candidates, self.rate.value(bench))
        levels = bench.classes.level_of[candidates.classes]
        return arrivals.join(candidates.take(most_interfered(rises, levels, places)))


def interference(bench: Workbench, arrivals: Batch, candidates: Batch, rate: float) -> Floats:
    """How much the loss of each candidate rises by a virtual SGD step on the arrivals."""
    if not (arrivals.labels >= 0).any():
        return np.zeros(len(candidates))
    model = bench.model
    model.set_training(True)
    free = {n: p for n, p in model.named_parameters() if p.requires_grad}
    model.remember_statistics()
    doubled = arrivals if len(arrivals) > 1 else arrivals.join(arrivals)
    _, logits = model(bench.inputs.ready(bench.send(doubled.inputs)))
    loss = cross_entropy(logits, Targets.of(doubled.labels), bench.levels).mean()
    gradients = torch.autograd.grad(loss, list(free.values()), materialize_grads=True)
    model.recall_statistics()
    with torch.no_grad():
        stepped = {n: p - rate * g for (n, p), g in zip(free.items(), gradients, strict=True)}
    before = bench.losses(bench.look(candidates.inputs), candidates)
    after = bench.losses(bench.look(candidates.inputs, stepped), candidates)
    bench.cost.images_forward += len(doubled) + 2 * len(candidates)
    bench.cost.images_backward += len(doubled)
    return after - before


def most_interfered(rises: Floats, levels: Ints, places: int) -> Ints:
    """The rows that rise most within each level, levels in proportion to their number of rows."""
    present, counts = np.unique(levels, return_counts=True)
    shares = places * counts / len(levels)
    quotas = shares.astype(int)
    for index in np.argsort(quotas - shares, kind="stable")[: places - quotas.sum()]:
        quotas[index] += 1
    chosen = []
    for level, quota in zip(present, quotas, strict=True):
        rows = np.flatnonzero(levels == level)
        chosen.append(rows[np.argsort(-rises[rows], kind="stable")[:quota]])
    return np.concatenate(chosen)


@method("mir", settings={"mir": MirSettings})
def mir(settings: Settings, rng: Generators) -> Recipe:
    """MIR (Aljundi et al. 2019): ER, but the memory's half are the samples that the arrivals would hurt most.

    The virtual step is plain SGD at the current rate on the arrivals, not augmented; the candidates' losses
    are compared in evaluation mode. Each level keeps its share of the candidates.
    """
    recipe = er(settings, rng)
    rehearse = MostInterfered(rng["rehearse"], settings[MirSettings].candidates, recipe.rate)
    return replace(recipe, rehearse=rehearse)
