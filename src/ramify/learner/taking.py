"""What a learner takes: images, which a frozen network encodes as they come, or features."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ramify.arrays import Array
from ramify.errors import RamifyError
from ramify.methods import Settings
from ramify.methods.settings import AugmentSettings
from ramify.networks import FeatureInputs, ImageInputs
from ramify.networks.encoder import EncodedInputs, Encoder, split_network
from ramify.networks.inputs import DTYPES
from ramify.pixels import IMAGENET_MEAN, IMAGENET_STD, Channels
from ramify.runs.inputs import augmentation, image_inputs, on_features

Features = Array | Tensor


@dataclass(frozen=True)
class Taking:
    """The settings as they apply, the inputs of the trainer, and the part of the network that it trains."""

    settings: Settings
    inputs: FeatureInputs
    network: nn.Module | None

    @property
    def encoder(self) -> Encoder | None:
        """The frozen part of the network, where images go through it once."""
        return self.inputs.encoder if isinstance(self.inputs, EncodedInputs) else None

    @property
    def images(self) -> ImageInputs | None:
        """How images are normalised; None where only features are taken."""
        seen = self.inputs if self.encoder is None else self.encoder.inputs
        return seen if isinstance(seen, ImageInputs) else None


def taking(
    settings: Settings,
    given: Mapping[str, Any],
    image_size: int,
    features: int | None,
    normalise: tuple[Channels | None, Channels | None],
    seed: int,
    device: torch.device,
    own: nn.Module | None,
) -> Taking:
    """What a learner with these settings takes; `given` are those that the user gave."""
    dtype, chosen = DTYPES[settings.feature_dtype], settings.network
    if features is not None:
        _refuse_pixels(given, settings, "the learner takes features")
        if normalise != (None, None):
            raise RamifyError("mean and std are of images, and the learner takes features: leave them out")
        return Taking(
            dataclasses.replace(settings, **on_features(settings)), FeatureInputs(features, dtype), own
        )
    images = image_inputs(chosen, image_size, IMAGENET_MEAN, IMAGENET_STD)
    mean, std = normalise
    images = dataclasses.replace(
        images, mean=images.mean if mean is None else mean, std=images.std if std is None else std
    )
    if not chosen.encodes:
        return Taking(settings, images, own)
    if not settings.feature_views:
        _refuse_pixels(given, settings, "the network is frozen")
    encoder, rest = split_network(chosen, images, seed, device, dtype, settings.precision, own)
    settings = dataclasses.replace(settings, augment=augmentation(settings), precision=encoder.precision)
    augment = settings.augment.made()

    def view(one: Tensor, rng: np.random.Generator) -> Tensor:
        return augment.apply(one, augment.draw(len(one), rng))

    inputs = EncodedInputs(encoder.size, dtype, settings.feature_views, encoder=encoder, augment=view)
    return Taking(settings, inputs, rest)


def _refuse_pixels(given: Mapping[str, Any], settings: Settings, why: str) -> None:
    """Refuse an augmentation that was asked for; the default one is left out."""
    asked = given.get("augment")
    names = vars(asked) if isinstance(asked, AugmentSettings) else asked or {}
    told = [name for name in names if getattr(settings.augment, name) not in (0, False, "none")]
    if told:
        raise RamifyError(
            f"augment.{told[0]} needs pixels, and {why}: leave it out, or encode augmented views of images "
            "(feature_views=4), or keep images (network.encode=False)"
        )


def as_features(values: Any, inputs: FeatureInputs) -> Tensor:
    """Features that a user gives, in the type in which they are kept."""
    if isinstance(inputs, ImageInputs):
        raise RamifyError(
            "features were given, and the learner takes images; make it with Learner(features=SIZE), or "
            "with a frozen network"
        )
    if not isinstance(values, np.ndarray | Tensor):
        values = np.asarray(values)
    if isinstance(values, np.ndarray) and values.dtype.kind != "f":
        raise RamifyError(f"features are {values.dtype}; they must be floats of shape (n, {inputs.size})")
    tensor = torch.from_numpy(values.copy()) if isinstance(values, np.ndarray) else values
    if not tensor.is_floating_point():
        raise RamifyError(f"features are {tensor.dtype}; they must be floats of shape (n, {inputs.size})")
    if not bool(torch.isfinite(tensor).all()):
        raise RamifyError("features hold NaN or infinite values; leave those samples out")
    return tensor.to(inputs.dtype)
