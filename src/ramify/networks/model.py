"""The network that learns: a backbone and the heads of all levels on its feature."""

from __future__ import annotations

import importlib

import torch
from torch import Tensor, nn

from ramify.errors import RamifyError
from ramify.networks.heads import Heads
from ramify.networks.resnet import BLOCKS, ResNet, Stem
from ramify.state import State


class Model(nn.Module):
    """`backbone` maps normalised images to features, `heads` map these to the logits of all classes seen."""

    def __init__(self, backbone: nn.Module, heads: Heads) -> None:
        super().__init__()
        self.backbone = backbone
        self.heads = heads
        self._running: list[Tensor] = []
        self._before: list[Tensor] = []

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """Features [n, f] and logits [n, classes] of normalised float images."""
        features = self.backbone(images)
        return features, self.heads(features)

    def set_training(self, mode: bool) -> None:
        """Switch between training and evaluation, at no cost where nothing changes."""
        if self.training != mode:
            self.train(mode)

    @torch.no_grad()
    def remember_statistics(self) -> None:
        """Keep the running statistics as they are, for a step that may fail (one copy for all of them)."""
        if not self._before:
            self._running = [b for b in self.buffers() if b.numel()]
            self._before = [torch.empty_like(b) for b in self._running]
        if self._before:
            torch._foreach_copy_(self._before, self._running)

    @torch.no_grad()
    def recall_statistics(self) -> None:
        """Put back what was kept."""
        if self._before:
            torch._foreach_copy_(self._running, self._before)

    def renew(self, backbone: nn.Module) -> None:
        """Become a fresh model, with the weights of `backbone` and newly drawn heads."""
        self.backbone.load_state_dict(backbone.state_dict())
        for cls in range(self.heads.classes):
            self.heads.draw(cls)

    def state(self) -> State:
        """All weights and running statistics, and how many classes the heads have."""
        values = {name: value.detach().clone() for name, value in self.state_dict().items()}
        return {"classes": self.heads.classes, "weights": values}

    def restore(self, state: State) -> None:
        """Continue from `state`."""
        self.heads.reserve(state["classes"])
        self.load_state_dict(state["weights"])


def build_backbone(
    name: str,
    stem: Stem,
    width: float,
    generator: torch.Generator | None = None,
    image_size: int | None = None,
) -> nn.Module:
    """A ResNet by name, for any images or those of one size, or what `package.module:factory` returns.

    A factory draws its weights from torch's global generator, which is set from `generator` meanwhile.
    """
    with torch.random.fork_rng(devices=[]):
        if generator is not None:
            torch.manual_seed(generator.initial_seed())
        if name in BLOCKS:
            return ResNet(BLOCKS[name], stem, width, generator, image_size)
        return _built_by_user(name)


def _built_by_user(name: str) -> nn.Module:
    if ":" not in name:
        raise RamifyError(f"no network {name!r}; use {', '.join(BLOCKS)} or package.module:factory")
    module, _, attribute = name.partition(":")
    try:
        factory = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise RamifyError(
            f"network {name!r} cannot be imported ({error}); it must be package.module:factory"
        ) from None
    try:
        built = factory()
    except Exception as error:
        raise RamifyError(f"network {name!r} failed ({type(error).__name__}: {error})") from error
    if not isinstance(built, nn.Module):
        raise RamifyError(
            f"network {name!r} returned {type(built).__name__}; it must return a torch.nn.Module"
        )
    return built


def feature_size(backbone: nn.Module, image_size: int) -> int:
    """How many features the backbone returns, asked with one blank image."""
    if any(p.is_meta for p in backbone.parameters()):
        raise RamifyError("the network's weights are on the device 'meta'; give it weights with values")
    known = getattr(backbone, "feature_size", None)
    if isinstance(known, int):
        return known
    was_training = backbone.training
    backbone.eval()
    shape = (1, 3, image_size, image_size)
    try:
        with torch.inference_mode():
            device = next((p.device for p in backbone.parameters()), torch.device("cpu"))
            out = backbone(torch.zeros(shape, device=device))
    except Exception as error:  # the network is the user's
        words = f"{type(error).__name__}: {error}".partition("\n")[0]
        raise RamifyError(
            f"the network failed on an image {shape} ({words}); it must return features of shape (1, n)"
        ) from error
    finally:
        backbone.train(was_training)
    if not isinstance(out, Tensor) or out.ndim != 2:
        found = tuple(out.shape) if isinstance(out, Tensor) else type(out).__name__
        raise RamifyError(
            f"the network returned {found} for one image; it must return features of shape (1, n)"
        )
    return int(out.shape[1])
