"""What can be set about the backbone."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from ramify.errors import RamifyError
from ramify.pixels import Channels
from ramify.typed import Positive, Typed, Whole, shown

Stem = Literal["imagenet", "cifar"]

FEATURES = "features"  # the network's name where a dataset has features: they go to the heads as they are


@dataclass(frozen=True)
class NetworkSettings(Typed):
    """The backbone."""

    _table: ClassVar[str] = "network"

    name: str = "resnet34"
    """resnet18, resnet34, efficientnet-lite0, timm:NAME, or package.module:factory for your own."""
    width: Positive = 1.0
    """Factor on the number of channels (ResNets)."""
    stem: Stem = "imagenet"
    """7×7 stride 2 with max-pooling, or 3×3 stride 1 without (ResNets)."""
    args: str = ""
    """What a factory, or timm, is called with: '{"depth": 2}'."""
    weights: str | None = None
    """File to begin from, .safetensors or .pth; efficientnet-lite0 and timm bring their own."""
    freeze: str = "none"
    """What is not trained: none, all, or the number of stages counted from the image."""
    encode: bool = True
    """Encode each image once by what is frozen, and keep that; else keep images, and augment them."""
    hidden: Whole = 0
    """Units of a trained hidden layer between features that are not trained and the heads; 0: none."""
    lr_factor: Positive = 1.0
    """Factor on the learning rate of the backbone."""
    mean: Channels | None = None
    """Of images in 0..1, by channel; default: as the network was trained, else the dataset's."""
    std: Channels | None = None
    """As `mean`."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.freeze not in ("none", "all") and not (self.freeze.isdecimal() and int(self.freeze) > 0):
            raise RamifyError(
                f"network.freeze is {self.freeze!r}; it must be none, all or a number of stages, from 1"
            )
        self.arguments()

    def arguments(self) -> dict[str, Any]:
        """`args` as they are handed over."""
        try:
            found = json.loads(self.args or "{}")
        except (ValueError, RecursionError):
            found = None
        if not isinstance(found, dict):
            raise RamifyError(
                f"network.args is {shown(self.args)}; it must be a JSON table: '{{\"depth\": 2}}'"
            )
        return found

    @property
    def encodes(self) -> bool:
        """Whether images are encoded once, and learning sees their features alone."""
        return self.freeze != "none" and self.encode
