"""What a learner is built of: its network, the columns of its memory, the changes of its training samples."""

from __future__ import annotations

import copy

import torch
from torch import nn

from ramify.memory import Column
from ramify.memory.store import SAMPLE, Columns
from ramify.methods.recipe import Augmentation, Mixing, Recipe
from ramify.methods.settings import Settings
from ramify.networks import (
    FeatureInputs,
    Heads,
    ImageInputs,
    Model,
    build_backbone,
    feature_backbone,
    feature_size,
)
from ramify.networks.precision import measured_precision
from ramify.randomness import Generators
from ramify.training.augment import as_it_is, one_view
from ramify.training.cutmix import CutMix


def new_model(
    recipe: Recipe,
    settings: Settings,
    inputs: FeatureInputs,
    rng: Generators,
    device: torch.device,
    own: nn.Module | None,
) -> Model:
    """The network before its first sample; `auto` precision is measured."""
    backbone = new_backbone(recipe, settings, inputs, rng, own)
    heads = Heads(feature_size(backbone, inputs), rng["heads"])
    precision = settings.precision
    if precision == "auto":
        precision = measured_precision(backbone, inputs, settings.batch_size, device)
    return Model(backbone, heads, precision).to(device)


def new_backbone(
    recipe: Recipe, settings: Settings, inputs: FeatureInputs, rng: Generators, own: nn.Module | None
) -> nn.Module:
    """A backbone with fresh weights, the user's own or one built by name, as the method uses it."""
    if own is not None:
        backbone = copy.deepcopy(own)
    else:
        build = build_backbone if isinstance(inputs, ImageInputs) else feature_backbone
        backbone = build(settings.network, rng.torch("network"), inputs.size)
    return backbone if recipe.features is None else recipe.features(backbone, inputs)


def columns_of(recipe: Recipe, inputs: FeatureInputs) -> Columns:
    """What is kept with each sample: for every method, and for the parts of this one."""
    columns = {"inputs": Column(*inputs.kept), "sample": SAMPLE}
    for part in recipe.parts().values():
        columns |= getattr(part, "columns", {})
    return columns


def changes_of(
    recipe: Recipe, settings: Settings, inputs: FeatureInputs
) -> tuple[Augmentation, Mixing | None]:
    """How training samples are augmented and mixed: images by the settings, unless the method has its own."""
    if isinstance(inputs, ImageInputs):
        mix = recipe.mix or CutMix(settings.augment.cutmix, half=recipe.ripe)
        return recipe.augment or settings.augment.made(recipe.ripe), mix
    return recipe.augment or (one_view if inputs.views else as_it_is), recipe.mix
