"""Everything that can be set about any learner, and the settings that methods add to it.

The defaults are the paper's for CIFAR-100.
"""

from __future__ import annotations

import dataclasses
import functools
import keyword
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, TypeVar

from ramify.errors import RamifyError
from ramify.networks.settings import NetworkSettings as NetworkSettings
from ramify.training.augment import Augment
from ramify.typed import Count, Decay, Positive, Share, Typed, Whole

G = TypeVar("G")
S = TypeVar("S", bound="Settings")
Groups = tuple[tuple[str, type[Any]], ...]
RETIRED = (
    "optimizer.row_age",
    "canopy.average",
    "canopy.closed_form",
    "canopy.shrinkage",
    "canopy.every",
)  # fields of older files that no longer set anything


@dataclass(frozen=True)
class AugmentSettings(Typed):
    """What is done to training images."""

    _table: ClassVar[str] = "augment"

    padding: Whole = 4
    """Random crop after padding by this many pixels."""
    flip: bool = True
    """Mirror half of the images."""
    autoaugment: Literal["cifar10", "imagenet", "none"] = "cifar10"
    """AutoAugment policy, drawn per image."""
    cutmix: Share = 0.5
    """Probability of CutMix at an update, within each level."""

    def made(self, half: float = 0.0) -> Augment:
        """What applies them, all but CutMix; `half` as there."""
        return Augment(
            None if self.autoaugment == "none" else self.autoaugment, self.padding, self.flip, half
        )


@dataclass(frozen=True)
class Settings(Typed):
    """A learner's settings; those of a method are added as tables of their own (`with_groups`)."""

    memory_size: Count = 2000
    """Samples kept in memory."""
    batch_size: Count = 16
    """Samples in a training batch, stream and memory together."""
    updates_per_sample: Positive = 3.0
    """Training steps for each sample of the stream."""
    lr: Positive = 3e-4
    """Base learning rate of Adam."""
    lr_decay: Decay = 0.9999
    """Factor on the rate at each update, until a class comes (ER and its kin; CLIB's and RM's differ)."""
    average: Share | None = None
    """Share of the past in averaged weights that answer, an update; 0: none; default: the method's own.
    From 10,000 updates on they reach further back, up to five times."""
    precision: Literal["fp32", "bf16", "auto"] = "fp32"
    """What the backbone computes in; auto: bf16 where the device has it and the network gains by it."""
    memory_device: Literal["device", "host"] = "device"
    """Where stored samples are: beside the network, or in the host's memory, from which batches are sent."""
    network: NetworkSettings = field(default_factory=NetworkSettings)
    augment: AugmentSettings = field(default_factory=AugmentSettings)
    feature_views: Whole = 0
    """Augmented views of each image that are encoded beside it, where the network is frozen."""
    feature_dtype: Literal["float32", "float16"] = "float32"
    """How features are stored."""

    def __getitem__(self, group: type[G]) -> G:
        """The settings of this class that a method has added."""
        for value in vars(self).values():
            if type(value) is group:
                return value
        raise RamifyError(
            f"these settings have no {group.__name__}; register the method with settings={group.__name__}"
        )

    def __reduce__(self) -> Any:
        kind = type(self)
        return _rebuild, (getattr(kind, "_plain", kind), getattr(kind, "_groups", ()), vars(self))


def _rebuild(plain: type[Settings], groups: Groups, values: dict[str, Any]) -> Settings:
    """From one process to another: a class with groups has no name by which it could be found."""
    return (with_groups(plain, dict(groups)) if groups else plain)(**values)


def without_retired(values: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of an older file, without those that are no longer there."""
    kept = dict(values)
    for table, name in (one.split(".") for one in RETIRED):
        if isinstance(kept.get(table), Mapping):
            kept[table] = {key: value for key, value in kept[table].items() if key != name}
            if not kept[table]:
                del kept[table]
    return kept


def field_name(name: str) -> str:
    """A method's name as the name of a table: `der++` → derpp, `pl-fms` → pl_fms."""
    return re.sub(r"\W", "_", name.replace("+", "p"))


def add_tables(tables: Mapping[str, type[Any]], own: Mapping[str, type[Any]]) -> dict[str, type[Any]]:
    """`tables` and those of one's own beside them, none of which may stand in another's place."""
    for name, group in own.items():
        if tables.get(name, group) is not group:
            raise _taken(name, group)
    return {**tables, **own}


def _usable(name: str) -> bool:
    return name.isidentifier() and not keyword.iskeyword(name)


def _taken(name: str, group: type[Any]) -> RamifyError:
    return RamifyError(
        f"{group.__name__} cannot be the settings {name!r}: that is a name of ramify's own settings, or not "
        "a name in Python; give what they are for another name"
    )


def with_groups(kind: type[S], groups: Mapping[str, type[Any]]) -> type[S]:
    """`kind` with a table for each group, by its name; the same class for the same groups."""
    plain: Any = kind
    made: type[S] = _with_groups(plain, tuple(groups.items()))
    return made


@functools.cache
def _with_groups(kind: Any, groups: Groups) -> Any:
    fields = [(name, group, field(default_factory=group)) for name, group in groups]
    for name, group in groups:
        if hasattr(kind, name) or name in kind.__dataclass_fields__ or not _usable(name):
            raise _taken(name, group)
        if issubclass(group, Typed):
            group._table = name
    doc = {"__doc__": kind.__doc__, "_groups": groups, "_plain": kind}
    return dataclasses.make_dataclass(kind.__name__, fields, bases=(kind,), namespace=doc, frozen=True)
