"""One typed config: the command line, the preset files and config.json all speak of these fields."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from ramify.errors import RamifyError
from ramify.hierarchy import DECODINGS
from ramify.methods import GROUPS, find_method
from ramify.methods.settings import Settings, with_groups
from ramify.streams import find_setup
from ramify.typed import from_dict, to_dict, whole, whole_seed

# The fields that a stream depends on, beside the seed.
STREAM = (
    "dataset",
    "setup",
    "labels",
    "taxonomy",
    "stream",
    "tasks",
    "levels",
    "n",
    "m",
    "per_class",
    "limit",
)


@dataclass(frozen=True)
class PlainConfig(Settings):
    """Everything that a run's result depends on."""

    method: str = "pl-fms"
    """A method's name (`ramify methods`), or package.module:name for your own."""
    dataset: str = "garden"
    """A dataset's name (`ramify data list`), or the path of your own images."""
    taxonomy: str | None = None
    """Tree for a dataset that does not bring one: a file or a name (`ramify taxonomy show`)."""
    setup: str = "multiple-depth"
    """Which classes arrive when: a name (`ramify stream list`), or package.module:name for your own."""
    stream: str | None = None
    """A stream of your own (CSV or a saved stream), in place of `setup`."""
    labels: Literal["single", "dual"] = "single"
    """single-depth: each image once, or again with its child label."""
    tasks: int | None = None
    """Number of tasks, where the setup leaves a choice."""
    levels: tuple[int, ...] | None = None
    """Levels of the dataset's tree to use."""
    n: float | None = None
    """i-blurry: percentage of disjoint classes."""
    m: float | None = None
    """i-blurry: percentage of images that stray."""
    per_class: int | None = None
    """Use only the first so many training images of each leaf."""
    limit: int | None = None
    """Use only the first so many samples of the stream."""
    image_size: int | None = None
    """Side of the images; the dataset's own if left out."""
    seed: int = 0
    """Sets the stream, the network and every draw."""
    eval_every: int = 1000
    """Samples between any-time evaluations."""
    eval_images: int | None = None
    """Test images of the periodic evaluations (a fixed random choice); task ends and the last one use all."""
    eval_at: Literal["any-time", "task-ends"] = "any-time"
    """Evaluate periodically and at task ends, or only at task ends."""
    decode: str = "heads"
    """How answers are read for the figures of merit: heads, path, crm, up, joint (docs/decoding.md)."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("tasks", "per_class", "limit", "image_size", "eval_every", "eval_images"):
            if getattr(self, name) is not None:
                whole(name, getattr(self, name), 1)
        whole_seed(self.seed)
        if self.decode not in DECODINGS:
            raise RamifyError(f"decode is {self.decode!r}; it must be one of {', '.join(DECODINGS)}")
        if ":" not in self.setup:  # your own is imported only where its stream is built: reading runs no code
            find_setup(self.setup)

    def digest(self) -> str:
        """A short name for this config, the same wherever it is computed.

        Only what differs from the first defaults counts, so a field added later leaves older names as they
        are, and so does a default that changes.
        """
        first = to_dict(type(self)())
        for name, values in FIRST.items():
            first[name] |= values
        text = json.dumps(_difference(to_dict(self), first), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:12]


# Defaults as they first were, where they have changed: for the names of runs.
FIRST: dict[str, dict[str, Any]] = {"importance": {"kind": "sweep"}, "pl": {"exact": True}}

if TYPE_CHECKING:
    Config = PlainConfig
else:
    Config = with_groups(PlainConfig, GROUPS)


def config_type(method: str) -> type[Config]:
    """Configs of a method, with the tables of its own settings; one's own method is imported for them."""
    return with_groups(PlainConfig, GROUPS | dict(find_method(method).settings))


def read_config(values: Any, where: str, own_code: bool = False) -> Config:
    """The config of a config.json, also of an older one: what it does not name is as it first was.

    Only with `own_code` is a method of one's own imported; otherwise its tables are taken as they stand.
    """
    method = values.get("method") if isinstance(values, dict) else None
    kind = Config
    if isinstance(method, str) and ":" in method:
        known = {f.name for f in dataclasses.fields(Config)}
        tables = {n: v for n, v in values.items() if n not in known and isinstance(v, dict)}
        kind = config_type(method) if own_code else with_groups(PlainConfig, GROUPS | _as_they_stand(tables))
    return from_dict(kind, values, where, from_dict(kind, FIRST, where, kind()))


def _as_they_stand(tables: dict[str, dict[str, Any]]) -> dict[str, type[Any]]:
    """Classes for the settings of a method that is not imported."""
    return {
        name: dataclasses.make_dataclass(
            name, [(key, Any, dataclasses.field(default=None)) for key in table], frozen=True
        )
        for name, table in tables.items()
    }


def _difference(values: dict[str, Any], default: dict[str, Any]) -> dict[str, Any]:
    """The part of `values` that is not as in `default`."""
    found: dict[str, Any] = {}
    for key, value in values.items():
        if value != default[key]:
            found[key] = _difference(value, default[key]) if isinstance(value, dict) else value
    return found
