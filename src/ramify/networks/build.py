"""Backbones by name: with which weights they begin, what of them is frozen, and where they are cut."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

from ramify.errors import RamifyError
from ramify.named import blamed, find_named, is_own
from ramify.networks.efficientnet import EfficientNetLite0, from_published, published_weights
from ramify.networks.inputs import FeatureInputs
from ramify.networks.resnet import BLOCKS, ResNet
from ramify.networks.settings import NetworkSettings
from ramify.networks.timm_models import TIMM, timm_model, timm_normalisation, timm_stages
from ramify.networks.weights import load_into, read_weights
from ramify.pixels import IMAGENET_MEAN, IMAGENET_STD, Channels

LITE = "efficientnet-lite0"
KNOWN = (*BLOCKS, LITE, "timm:NAME")
LITES: tuple[Channels, Channels] = ((127 / 255,) * 3, (128 / 255,) * 3)  # EfficientNet-Lite: (x - 127) / 128


def build_backbone(
    settings: NetworkSettings, generator: torch.Generator | None = None, image_size: int | None = None
) -> nn.Module:
    """A network for images of any size or of one, with its weights; what is frozen takes no gradient."""
    with _drawing_from(generator):
        backbone = _built(settings, generator, image_size)
    freeze(backbone, settings.freeze)
    return backbone


@contextmanager
def _drawing_from(generator: torch.Generator | None) -> Iterator[None]:
    """A factory draws its weights from torch's global generator, which is set from this one meanwhile."""
    with torch.random.fork_rng(devices=[]):
        if generator is not None:
            torch.manual_seed(generator.initial_seed())
        yield


def _built(settings: NetworkSettings, generator: torch.Generator | None, image_size: int | None) -> nn.Module:
    name, weights = settings.name, settings.weights
    backbone: nn.Module
    if name in BLOCKS:
        backbone = ResNet(BLOCKS[name], settings.stem, settings.width, generator, image_size)
        if weights is not None and not _without_values(backbone):
            load_into(backbone, read_weights(weights), weights, backbone.from_standard)
        return backbone
    if name == LITE:
        backbone, path = EfficientNetLite0(), weights or published_weights()
        load_into(backbone, read_weights(path), path, from_published)
        return backbone
    if name.startswith(TIMM):
        backbone = timm_model(name, settings.arguments(), pretrained=weights is None)
    else:
        backbone = _built_by_user(name, settings.arguments())
    if weights is not None:
        load_into(backbone, read_weights(weights), weights)
    return backbone


def _without_values(backbone: nn.Module) -> bool:
    return any(p.is_meta for p in backbone.parameters())


def _built_by_user(name: str, arguments: dict[str, Any]) -> nn.Module:
    factory = find_named(name, dict.fromkeys(KNOWN), "network")
    with blamed(f"network {name!r}"):
        built = factory(**arguments)
    if not isinstance(built, nn.Module):
        raise RamifyError(
            f"network {name!r} returned {type(built).__name__}; it must return a torch.nn.Module"
        )
    return built


def feature_backbone(settings: NetworkSettings, generator: torch.Generator | None, size: int) -> nn.Module:
    """What is trained on features of this size, before the heads: nothing, a hidden layer, or your own."""
    with _drawing_from(generator):
        if is_own(settings.name) and not settings.encodes:
            return _built_by_user(settings.name, settings.arguments())
        if settings.hidden:
            return nn.Sequential(nn.Linear(size, settings.hidden), nn.ReLU())
        return nn.Identity()


def own_normalisation(settings: NetworkSettings) -> tuple[Channels, Channels] | None:
    """Mean and standard deviation that the network was trained with, where that is known."""
    if settings.name == LITE:
        return LITES
    if settings.name.startswith(TIMM):
        return timm_normalisation(settings.name)
    if settings.name in BLOCKS and settings.weights is not None:
        return IMAGENET_MEAN, IMAGENET_STD
    return None


# ---- freezing


def freeze(backbone: nn.Module, what: str) -> None:
    """Take the gradient from all of a network, or from its first stages."""
    if what == "none":
        return
    for parameter in backbone.parameters() if what == "all" else _first(backbone, int(what)):
        parameter.requires_grad = False


def _first(backbone: nn.Module, count: int) -> list[nn.Parameter]:
    """The parameters of the stem and of `count` stages; some of those after them must learn."""
    stages = stages_of(backbone)
    most = max(n for n, parameters in enumerate(stages) if parameters)
    if count >= most:
        raise RamifyError(
            f"network.freeze is {count}; the network has {most} stages after its stem: freeze fewer, or all"
        )
    return [parameter for parameters in stages[: count + 1] for parameter in parameters]


def stages_of(backbone: nn.Module) -> list[list[nn.Parameter]]:
    """The parameters of a network from the image on: the stem's, then each stage's."""
    if hasattr(backbone, "group_matcher"):  # as timm has its models know their stages
        return timm_stages(backbone)
    return [list(part.parameters()) for part in parts_of(backbone)]


def parts_of(backbone: nn.Module) -> list[nn.Module]:
    """The modules of a network in the order in which they are written down."""
    own = getattr(backbone, "stages", None)
    if callable(own) and not isinstance(own, nn.Module):
        return list(own())
    parts: list[nn.Module] = []
    for child in backbone.children():
        inside = isinstance(child, nn.ModuleList) or (
            isinstance(child, nn.Sequential) and not isinstance(backbone, nn.Sequential)
        )
        parts += child.children() if inside else [child]
    return parts


def frozen_and_rest(
    backbone: nn.Module, settings: NetworkSettings, inputs: FeatureInputs
) -> tuple[nn.Module, nn.Module | None]:
    """The frozen part, and what comes after it; None where that is to be made for its features."""
    if settings.freeze == "all":
        return backbone, None
    if settings.hidden:
        raise RamifyError(
            "network.hidden is for a network that is frozen whole; leave it out, or give --network.freeze "
            "all (`ramify learn --freeze all`)"
        )
    parts = parts_of(backbone)
    learns = [any(parameter.requires_grad for parameter in part.parameters()) for part in parts]
    at = learns.index(True) if True in learns else 0
    frozen, rest = nn.Sequential(*parts[:at]), nn.Sequential(*parts[at:])
    if not at or not _same(backbone, nn.Sequential(frozen, rest), inputs):
        raise RamifyError(
            f"{settings.name} cannot be cut after stage {settings.freeze}, for only its own code "
            "knows how its parts follow: give --network.freeze all, or --network.no-encode "
            "(`ramify learn --set network.encode=false`)"
        )
    return frozen, rest


@torch.inference_mode()
def _same(backbone: nn.Module, parts: nn.Module, inputs: FeatureInputs) -> bool:
    """Whether a network answers a made-up image as its parts do, one after the other."""
    image = torch.arange(math.prod(inputs.shape)).mul(7).remainder(256).to(torch.uint8)
    values, was_training = inputs.ready(image.view(1, *inputs.shape)), backbone.training
    backbone.eval()
    try:
        wanted, found = backbone(values), parts(values)
        close = 1e-3 * float(wanted.abs().max())
        return wanted.shape == found.shape and torch.allclose(wanted, found, rtol=0, atol=close)
    except Exception:  # the network is the user's: its parts need not follow one another at all
        return False
    finally:
        backbone.train(was_training)
