"""Everything that can be set about a learner.

The defaults are the paper's for CIFAR-100, but for the importance and the votes: those are the cheapest that
are as good (docs/importance.md). The `paper` preset has the published ones.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Literal

from ramify.errors import RamifyError
from ramify.typed import Typed


@dataclass(frozen=True)
class NetworkSettings(Typed):
    """The backbone."""

    name: str = "resnet34"
    """resnet18, resnet34, or package.module:factory for a module that returns a feature."""
    width: float = 1.0
    """Factor on the number of channels."""
    stem: Literal["imagenet", "cifar"] = "imagenet"
    """7×7 stride 2 with max-pooling, or 3×3 stride 1 without."""


@dataclass(frozen=True)
class AugmentSettings(Typed):
    """What is done to training images."""

    padding: int = 4
    """Random crop after padding by this many pixels."""
    flip: bool = True
    """Mirror half of the images."""
    autoaugment: Literal["cifar10", "imagenet", "none"] = "cifar10"
    """AutoAugment policy, drawn per image."""
    cutmix: float = 0.5
    """Probability of CutMix at an update, within each level."""


@dataclass(frozen=True)
class ImportanceSettings(Typed):
    """CLIB, FMS, PL, PL-FMS: how the importance of stored samples is followed."""

    kind: Literal["sweep", "probe", "first-order"] = "probe"
    """The loss of all of memory (as published), of a random probe of it, or head gradients of the batch."""
    period: int = 0
    """Updates between refreshes; 0 means the updates of one stream batch."""
    probe: int = 32
    """Samples in the probe."""


@dataclass(frozen=True)
class PseudoLabelSettings(Typed):
    """PL and PL-FMS: algorithm 1."""

    exact: bool = False
    """Vote with predictions of the model as it is at each insertion, as printed, or with the latest known."""


@dataclass(frozen=True)
class FlexibleSettings(Typed):
    """FMS and PL-FMS: equation 4."""

    T: float = 5000.0
    """Stream samples until a new class is taken from the stream without refusal."""
    rule: Literal["fixed", "per-class"] = "fixed"
    """T as it is, or divided by the number of classes seen."""


@dataclass(frozen=True)
class EwcSettings(Typed):
    """EWC++."""

    strength: float = 100.0
    """Weight of the penalty."""
    decay: float = 0.5
    """Share of the newest batch in the running Fisher information."""


@dataclass(frozen=True)
class BicSettings(Typed):
    """BiC."""

    validation: float = 0.1
    """Share of the memory that is a class-balanced validation set."""
    temperature: float = 2.0
    """Softening of the distilled answers."""
    weight: float = 1.0
    """Weight of the distillation."""
    epochs: int = 256
    """Epochs of fitting the bias layers."""


@dataclass(frozen=True)
class MirSettings(Typed):
    """MIR."""

    candidates: int = 50
    """Memory samples among which the most interfered are chosen."""


@dataclass(frozen=True)
class EpochSettings(Typed):
    """RM, GDumb and Oracle: training on the whole of memory."""

    count: int = 100
    """Epochs."""


@dataclass(frozen=True)
class Settings(Typed):
    """A learner's settings."""

    memory_size: int = 2000
    """Images kept in memory."""
    batch_size: int = 16
    """Images in a training batch, stream and memory together."""
    updates_per_sample: float = 3.0
    """Training steps for each sample of the stream."""
    lr: float = 3e-4
    """Base learning rate of Adam."""
    lr_decay: float = 0.9999
    """Factor on the rate at each update (ER, EWC++, BiC, MIR)."""
    network: NetworkSettings = field(default_factory=NetworkSettings)
    augment: AugmentSettings = field(default_factory=AugmentSettings)
    importance: ImportanceSettings = field(default_factory=ImportanceSettings)
    pl: PseudoLabelSettings = field(default_factory=PseudoLabelSettings)
    fms: FlexibleSettings = field(default_factory=FlexibleSettings)
    ewc: EwcSettings = field(default_factory=EwcSettings)
    bic: BicSettings = field(default_factory=BicSettings)
    mir: MirSettings = field(default_factory=MirSettings)
    epochs: EpochSettings = field(default_factory=EpochSettings)

    def __post_init__(self) -> None:
        super().__post_init__()
        positive = {
            "memory_size": self.memory_size,
            "batch_size": self.batch_size,
            "updates_per_sample": self.updates_per_sample,
            "lr": self.lr,
            "lr_decay": self.lr_decay,
            "network.width": self.network.width,
            "fms.T": self.fms.T,
            "mir.candidates": self.mir.candidates,
            "epochs.count": self.epochs.count,
            "bic.temperature": self.bic.temperature,
            "importance.probe": self.importance.probe,
        }
        for name, value in positive.items():
            if not 0 < value < math.inf:
                raise RamifyError(f"{name} is {value}; it must be above 0")
        shares = {
            "augment.cutmix": self.augment.cutmix,
            "ewc.decay": self.ewc.decay,
            "lr_decay": self.lr_decay,
        }
        for name, value in shares.items():
            if not 0 <= value <= 1:
                raise RamifyError(f"{name} is {value}; it must lie between 0 and 1")
        least = {
            "augment.padding": self.augment.padding,
            "importance.period": self.importance.period,
            "ewc.strength": self.ewc.strength,
            "bic.weight": self.bic.weight,
            "bic.epochs": self.bic.epochs,
        }
        for name, value in least.items():
            if not 0 <= value < math.inf:
                raise RamifyError(f"{name} is {value}; it must be 0 or more")

    def importance_period(self, arrivals: int) -> int:
        """Updates between refreshes of the importance, for a stream batch of `arrivals` samples."""
        return self.importance.period or max(1, round(arrivals * self.updates_per_sample))
