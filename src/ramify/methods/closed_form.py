"""Learners in closed form: one pass, no gradient, nothing forgotten: NCM, SLDA, RanPAC and RanDumb."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import nn

from ramify.arrays import Ints
from ramify.change import Change
from ramify.classes import Classes
from ramify.errors import RamifyError
from ramify.hierarchy import Ties
from ramify.hierarchy.kin import towards_parents, with_children
from ramify.hierarchy.means import best_paths, ties_of
from ramify.memory import Nowhere, Sample, Workbench, arrived
from ramify.memory.workbench import Weights
from ramify.methods.recipe import Answer, Recipe, method
from ramify.methods.settings import Settings
from ramify.methods.trainer import Trainer
from ramify.networks import FeatureInputs, feature_size
from ramify.networks.closed_form import Gathered, Head, Moments, discriminant, ridge
from ramify.networks.random_features import RandomFourier, RandomReLU
from ramify.randomness import Generators
from ramify.rehearsal import Nothing
from ramify.training.objectives import CrossEntropy
from ramify.training.rates import Rate
from ramify.typed import Count, NotNegative, Share, Typed


@dataclass(frozen=True)
class KinSettings(Typed):
    """Learners in closed form: levels that help each other."""

    children: bool = True
    """Count the samples of a class for its parent in the found tree too."""
    parents: NotNegative = 5.0
    """Samples of its own that the mean of its parent in the found tree counts in a class's (not RanPAC)."""


@dataclass(frozen=True)
class SldaSettings(Typed):
    """SLDA."""

    shrinkage: Share | None = None
    """How far the covariance is drawn towards a multiple of the identity; 4 f / (n + 4 f) if left out."""


@dataclass(frozen=True)
class RanpacSettings(Typed):
    """RanPAC."""

    size: Count = 2000
    """Random projections of the feature."""


@dataclass(frozen=True)
class RandumbSettings(Typed):
    """RanDumb."""

    size: Count = 2000
    """Random waves over the pixels."""
    shrinkage: Share | None = None
    """How far the covariance is drawn towards a multiple of the identity; 4 f / (n + 4 f) if left out."""


@dataclass(frozen=True)
class Discriminant:
    """A mean a class and one covariance for all of them; NCM where that is a multiple of the identity.

    It is `sure`: its answers to the mean feature of a class are likelihoods, and not the larger for a class
    that has more samples.
    """

    shrinkage: float | None
    kin: KinSettings
    sure: ClassVar[bool] = True

    def __call__(self, moments: Moments, classes: Classes, ties: Ties | None) -> Head:
        """Rows and biases."""
        means = moments.means
        if ties is not None:
            helped = with_children(moments, ties) if self.kin.children else moments
            means = towards_parents(helped, ties, self.kin.parents)
        return discriminant(means, moments.covariance(self.shrinkage))


@dataclass(frozen=True)
class Ridge:
    """Ridge regression of the classes' indicators."""

    kin: KinSettings
    sure: ClassVar[bool] = False

    def __call__(self, moments: Moments, classes: Classes, ties: Ties | None) -> Head:
        """Rows and biases."""
        helped = with_children(moments, ties) if ties is not None and self.kin.children else moments
        levels = [classes.of_level(level) for level in classes.levels]
        return ridge(moments, helped.counts, helped.sums, levels)


Solve = Discriminant | Ridge
"""From moments to a head; the ties are None as long as the tree is not found."""


class Taken(Nowhere):
    """Of each sample its feature is added to the moments; the sample itself is not kept."""

    _state: ClassVar[tuple[str, ...]] = ("gathered",)

    def __init__(self, gathered: Gathered) -> None:
        self.gathered = gathered

    def settle(self, bench: Workbench, samples: Sequence[Sample]) -> None:
        """Embed the samples that have labels, and add them."""
        labelled = [sample for sample in samples if sample.labels]
        if labelled:
            features, labels = embedded(bench, labelled)
            bench.cost.images_forward += len(labelled)
            self.gathered.add(features, labels)


def sums_of(trainer: Trainer) -> dict[str, torch.Tensor]:
    """What such a method has gathered, by name, to be taught on with; nothing of any other method."""
    keep = trainer.recipe.keep
    state = keep.gathered.state() if isinstance(keep, Taken) else {}
    return {name: torch.from_numpy(values) for name, values in state.items()}


def take_sums(trainer: Trainer, sums: Mapping[str, torch.Tensor]) -> None:
    """Go on from these, where the method is such a one."""
    if sums and isinstance(trainer.recipe.keep, Taken):
        trainer.recipe.keep.gathered.restore({name: values.numpy() for name, values in sums.items()})


def embedded(bench: Workbench, samples: Sequence[Sample]) -> tuple[torch.Tensor, Ints]:
    """Features of samples, and their labels."""
    batch = arrived(samples)
    features = bench.embed(batch.inputs)[0]
    if not torch.isfinite(features).all():
        raise RamifyError(
            f"a feature is not finite at sample {bench.samples}; look for broken images, or another network. "
            "The latest samples were not taken; what came before them stays learned"
        )
    return features, batch.labels


class InClosedForm(Answer):
    """The head is worked out when it is asked for, from the moments of all samples that have arrived."""

    def __init__(self, gathered: Gathered, solve: Solve) -> None:
        self.gathered, self.solve = gathered, solve
        self._made_at = (-1, -1)
        self._weights: Weights = {}
        self._ties: Ties | None = None

    def weights(self, trainer: Trainer) -> Weights:
        """The head's rows and biases; those of a class without samples stay as they are in the network."""
        self._make(trainer)
        return dict(self._weights)

    def ties(self, trainer: Trainer) -> Ties:
        """The tree in the answers to the mean feature of each class."""
        self._make(trainer)
        return super().ties(trainer) if self._ties is None else self._ties

    def _make(self, trainer: Trainer) -> None:
        now = trainer.samples, len(self.gathered)
        if self._made_at == now:
            return
        waiting = [sample for sample in trainer.waiting if sample.labels]
        self._weights, self._ties = {}, None
        if self.gathered or waiting:
            more = embedded(trainer, waiting) if waiting else ()
            moments = self.gathered.moments(len(trainer.classes), *more)
            head = self.solve(moments, trainer.classes, None)
            self._ties = _ties(trainer, moments, head, self.solve.sure)
            head = self.solve(moments, trainer.classes, self._ties)
            self._weights = _in_place(trainer, moments, head)
        self._made_at = now

    def follow(self, change: Change) -> None:
        """The head is worked out anew."""
        self._made_at = (-1, -1)

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from `state`."""
        super().restore(state)
        self._made_at = (-1, -1)


def _ties(trainer: Trainer, moments: Moments, head: Head, sure: bool) -> Ties:
    """The tree in what the head answers to the mean feature of each class.

    The logarithms of `sure` answers are summed up as they are: divided by what is answered to everybody, as
    `ties_of` does, a class of many children would lose them.
    """
    rows, biases = head
    logits = moments.means @ rows.T + biases
    logits[:, moments.counts == 0] = torch.finfo(logits.dtype).min
    log = torch.zeros_like(logits)
    for level in trainer.classes.levels:
        own = torch.from_numpy(trainer.classes.of_level(level))
        log[:, own] = logits[:, own].log_softmax(1)
    answers = (log.exp() * (moments.counts > 0)[:, None]).numpy()
    classes = trainer.classes
    return best_paths(classes, log.numpy(), answers) if sure else ties_of(classes, answers)


def _in_place(trainer: Trainer, moments: Moments, head: Head) -> Weights:
    heads, unknown = trainer.model.heads, moments.counts == 0
    rows, biases = head[0].float(), head[1].float()
    if unknown.any():
        own = [torch.cat(list(part))[: len(rows)].detach().cpu() for part in (heads.weights, heads.biases)]
        rows[unknown], biases[unknown] = own[0][unknown], own[1][unknown]
    return heads.blocks(rows, biases)


def in_closed_form(
    settings: Settings, rng: Generators, solve: Solve, full: bool = True, **parts: Any
) -> Recipe:
    """A recipe that keeps nothing but moments."""
    gathered = Gathered(full)
    return Recipe(
        keep=Taken(gathered),
        rehearse=Nothing(rng["rehearse"]),
        minimise=CrossEntropy(),
        rate=Rate(settings.lr),
        answer=InClosedForm(gathered, solve),
        memory_size=0,
        **parts,
    )


@method("ncm", closed_form=True)
def ncm(settings: Settings, rng: Generators) -> Recipe:
    """NCM (Mensink et al. 2013): the nearest class mean at each level."""
    return in_closed_form(
        settings, rng, Discriminant(1.0, KinSettings(children=False, parents=0.0)), full=False
    )


@method("slda", settings={"kin": KinSettings, "slda": SldaSettings}, closed_form=True, decode="joint")
def slda(settings: Settings, rng: Generators) -> Recipe:
    """SLDA (Hayes & Kanan 2020): a mean per class and level and one shared covariance, shrunk.

    The covariance is exact, not a running one, so that the order of the stream plays no part.
    """
    own = settings[SldaSettings]
    return in_closed_form(settings, rng, Discriminant(own.shrinkage, settings[KinSettings]))


@method("ranpac", settings={"kin": KinSettings, "ranpac": RanpacSettings}, closed_form=True, decode="joint")
def ranpac(settings: Settings, rng: Generators) -> Recipe:
    """RanPAC (McDonnell et al. 2023) without its first stage: random projections, ReLU, ridge regression.

    The penalty is chosen at each level by generalised cross-validation, which needs nothing but the moments;
    the paper holds out a fifth of each task, and has 10,000 projections.
    """
    size = settings[RanpacSettings].size

    def features(backbone: nn.Module, inputs: FeatureInputs) -> nn.Module:
        return RandomReLU(backbone, feature_size(backbone, inputs), size, rng["projections"])

    return in_closed_form(settings, rng, Ridge(settings[KinSettings]), features=features)


@method(
    "randumb",
    settings={"kin": KinSettings, "randumb": RandumbSettings},
    closed_form=True,
    decode="joint",
    bound="floor",
)
def randumb(settings: Settings, rng: Generators) -> Recipe:
    """RanDumb (Prabhu et al. 2024): random Fourier features of the pixels and linear discriminant analysis.

    No network plays a part. The paper has 25,000 features, and images mirrored too.
    """
    own = settings[RandumbSettings]

    def features(backbone: nn.Module, inputs: FeatureInputs) -> nn.Module:
        return RandomFourier(math.prod(inputs.shape), own.size, rng["waves"])

    return in_closed_form(
        settings, rng, Discriminant(own.shrinkage, settings[KinSettings]), features=features
    )
