"""The frozen part of a network: it makes features of images, once each."""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.utils import fuse_conv_bn_eval

from ramify.allocator import keep_buffers
from ramify.arrays import Array
from ramify.errors import RamifyError
from ramify.networks.build import build_backbone, freeze, frozen_and_rest
from ramify.networks.inputs import FeatureInputs, ImageInputs, Values, as_tensor
from ramify.networks.model import Precision, computed
from ramify.networks.precision import measured_precision
from ramify.networks.resnet import BLOCKS
from ramify.networks.settings import NetworkSettings
from ramify.networks.weights import digest_of
from ramify.randomness import Generators

log = logging.getLogger("ramify")

BATCH = 32  # images in one pass: larger ones leave a processor's caches


class Encoder:
    """uint8 images → features [n, size], in evaluation mode, without gradients.

    What comes out of a network that is cut in its middle is flattened; `shape` is what it was. `digest` is
    that of the frozen weights.
    """

    def __init__(
        self,
        module: nn.Module,
        inputs: ImageInputs,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
        precision: Precision = "fp32",
    ) -> None:
        keep_buffers()
        self.device, self.inputs, self.dtype, self.precision = torch.device(device), inputs, dtype, precision
        self.digest, self._code = digest_of(module), str(module)
        self.module = folded(module.to(self.device).eval().requires_grad_(False))
        blank = torch.zeros((1, *inputs.shape), dtype=torch.uint8)
        self.shape = tuple(self._pass(blank).shape[1:])
        self.size = int(np.prod(self.shape))

    def key(self) -> dict[str, Any]:
        """What its features depend on, beside the images."""
        return {
            "weights": self.digest,
            "code": self._code,
            "mean": self.inputs.mean,
            "std": self.inputs.std,
            "dtype": str(self.dtype),
            "precision": self.precision,
        }

    @torch.inference_mode()
    def _pass(self, images: Tensor) -> Tensor:
        return computed(
            self.module, self.inputs.ready(images.to(self.device, non_blocking=True)), self.precision
        )

    def __call__(self, images: Values) -> Tensor:
        """Features [n, size] of images, on its device."""
        self.inputs.check(images)
        parts = [self._pass(as_tensor(images[at : at + BATCH])) for at in range(0, len(images), BATCH)]
        if not parts:
            return torch.empty(0, self.size, dtype=self.dtype, device=self.device)
        return torch.cat([part.flatten(1).to(self.dtype) for part in parts])

    def array(self, images: Values) -> Array:
        """The same on the host."""
        found: Array = self(images).cpu().numpy()
        return found


MakeViews = Callable[[Tensor, np.random.Generator], Tensor]


@dataclass(frozen=True, eq=False)
class EncodedInputs(FeatureInputs):
    """Images that are encoded when they arrive, and kept as features; features are taken, too.

    `augment` makes the views of an image, where there are any.
    """

    encoder: Encoder = field(kw_only=True)
    augment: MakeViews | None = field(default=None, kw_only=True)

    def check(self, values: Values, learned: bool = False) -> None:
        """Images as the encoder takes them, or features."""
        if getattr(values, "dtype", None) in (torch.uint8, np.uint8):
            self.encoder.inputs.check(values, learned)
        elif learned and self.views:
            raise RamifyError("feature_views are made of images; give images, or leave feature_views out")
        else:
            super().check(values, learned)

    def take(self, values: Values, rng: Generators) -> Tensor:
        """Encode images, and of each its views."""
        given = as_tensor(values)
        if given.dtype != torch.uint8:
            return given
        if not self.views or self.augment is None:
            return self.encoder(given)
        seen = given[:, None].repeat(1, self.views + 1, 1, 1, 1)
        for views in seen:  # image by image: the draws do not depend on how a stream is cut
            views[1:] = self.augment(views[1:], rng["views"])
        return self.encoder(seen.flatten(0, 1)).view(len(given), self.views + 1, -1)

    def ready(self, values: Tensor) -> Tensor:
        """Images that are asked about are encoded first."""
        if values.dtype == torch.uint8:
            return self.encoder(values).to(values.device).float()
        return super().ready(values)


def folded(module: nn.Module) -> nn.Module:
    """A network in evaluation mode, with normalisations folded into the convolutions before them: faster."""
    for layers in [m for m in module.modules() if type(m) is nn.Sequential]:
        for at, (conv, norm) in enumerate(pairwise(list(layers))):
            if isinstance(conv, nn.Conv2d) and type(norm) is nn.BatchNorm2d:
                layers[at], layers[at + 1] = fuse_conv_bn_eval(conv, norm), nn.Identity()
    return module


def split_network(
    settings: NetworkSettings,
    inputs: ImageInputs,
    seed: int,
    device: torch.device | str,
    dtype: torch.dtype,
    precision: Precision | Literal["auto"],
    own: nn.Module | None = None,
) -> tuple[Encoder, nn.Module | None]:
    """The frozen part of a network, and what is trained after it; None: what is made for its features.

    `own` is a module in the place of one that is built by name. What `auto` comes to is measured on the whole
    network, and is the encoder's `precision`.
    """
    backbone = copy.deepcopy(own)
    if backbone is None:
        backbone = build_backbone(settings, Generators(seed).torch("network"), inputs.size)
        if settings.name in BLOCKS and settings.weights is None:
            log.warning(
                "%s is frozen with random weights; choose efficientnet-lite0, or give --network.weights FILE "
                "(`ramify learn --set network.weights=FILE`)",
                settings.name,
            )
    else:
        freeze(backbone, settings.freeze)
    if precision == "auto":
        precision = measured_precision(backbone, inputs, BATCH, torch.device(device))
    frozen, rest = frozen_and_rest(backbone, settings, inputs)
    encoder = Encoder(frozen, inputs, dtype, device, precision)
    if rest is not None and len(encoder.shape) > 1:
        rest = nn.Sequential(nn.Unflatten(1, encoder.shape), rest)
    return encoder, rest
