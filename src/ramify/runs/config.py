"""One typed config: the command line, the preset files and config.json all speak of these fields."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from ramify.errors import RamifyError
from ramify.hierarchy import DECODINGS
from ramify.methods import GROUPS, METHODS, find_method
from ramify.methods.settings import Settings, add_tables, field_name, with_groups, without_retired
from ramify.streams import SETUPS, find_setup
from ramify.streams.imbalance import check_imbalance
from ramify.streams.single_depth import SingleDepth
from ramify.typed import Count, from_dict, to_dict, whole_seed

# The fields that a stream depends on, beside the seed.
STREAM = (
    "dataset",
    "setup",
    "taxonomy",
    "stream",
    "tasks",
    "levels",
    "per_class",
    "imbalance",
    "limit",
    "skip_broken",
    "pad",
)


@dataclass(frozen=True)
class PlainConfig(Settings):
    """Everything that a run's result depends on."""

    method: str = "canopy"
    """A method's name (`ramify methods`), or package.module:name for your own."""
    dataset: str = "garden"
    """A dataset's name (`ramify data list`), or the path of your own images."""
    taxonomy: str | None = None
    """Tree for a dataset that does not bring one: a file or a name (`ramify taxonomy show`)."""
    setup: str = "multiple-depth"
    """Which classes arrive when: a name (`ramify stream list`), or package.module:name for your own."""
    stream: str | None = None
    """A stream of your own (CSV or a saved stream), in place of `setup`."""
    tasks: Count | None = None
    """Number of tasks, where the setup leaves a choice."""
    levels: tuple[int, ...] | None = None
    """Levels of the dataset's tree to use."""
    per_class: Count | None = None
    """Use only the first so many training images of each leaf."""
    imbalance: float | None = None
    """Long-tailed training images: the most frequent class has so many for one of the least frequent."""
    limit: Count | None = None
    """Use only the first so many samples of the stream."""
    image_size: Count | None = None
    """Side of the images; the dataset's own if left out."""
    skip_broken: bool = False
    """Leave out images that cannot be decoded."""
    pad: bool = False
    """Repeat leaves of the tree that are less deep than others downwards."""
    any_counts: bool = False
    """Accept a tree of other sizes than the published."""
    seed: int = 0
    """Sets the stream, the network and every draw."""
    eval_every: Count = 1000
    """Samples between any-time evaluations."""
    eval_images: Count | None = None
    """Test images of the periodic evaluations (a fixed random choice); task ends and the last one use all."""
    eval_at: Literal["any-time", "task-ends"] = "any-time"
    """Evaluate periodically and at task ends, or only at task ends."""
    decode: str | None = None
    """How answers are read for the figures: heads, path, crm, up, joint; default: as the method does."""

    metrics: tuple[str, ...] | None = None
    """Metrics of your own to record, package.module:name."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.imbalance is not None:
            check_imbalance(self.imbalance)
        whole_seed(self.seed)
        if self.decode not in (None, *DECODINGS):
            raise RamifyError(f"decode is {self.decode!r}; it must be one of {', '.join(DECODINGS)}")
        if ":" not in self.setup:  # your own is imported only where its stream is built: reading runs no code
            find_setup(self.setup)

    @property
    def labels(self) -> str:
        """Single or dual: whether single-depth shows each image once, or again with its child label."""
        return self[SingleDepth].labels

    def stream_fields(self) -> dict[str, Any]:
        """What the stream depends on, beside the seed."""
        return {name: getattr(self, name) for name in (*STREAM, *setup_tables(self.setup))}

    def setup_settings(self) -> Any:
        """The settings of the setup, refusing those given for another one."""
        own = field_name(find_setup(self.setup).name)
        for name, kind in setup_tables(self.setup).items():
            if name != own and getattr(self, name) != kind():
                there = next((one for one in SETUPS if field_name(one) == name), name)
                raise RamifyError(f"{name} is set, but the setup is {self.setup}; drop it or choose {there}")
        return getattr(self, own, None)

    def own(self) -> Config:
        """The same with the tables of other methods as they are by default: what the run depends on."""
        own = METHODS[self.method].settings if self.method in METHODS else GROUPS
        return dataclasses.replace(self, **{name: kind() for name, kind in GROUPS.items() if name not in own})

    def different(self) -> dict[str, Any]:
        """What differs from the first defaults: what a run is known by.

        So a field added later leaves older names as they are, and so does a default that changes. A default
        of another method's that has changed (`LATER`) plays no part. Of your own tables all values
        count: their defaults are known only where your code is imported, and names must not depend on that.
        """
        first, values = to_dict(type(self)()), to_dict(self)
        first |= {name: {} for name in values.keys() - FIELDS}
        for name, value in FIRST.items():
            first[name] = first[name] | value if isinstance(value, dict) else value
        own = METHODS[self.method].settings if self.method in METHODS else GROUPS
        for name in LATER:
            if name not in own:
                values[name] |= LATER[name]
        different = _difference(values, first)
        for name in SETUP_GROUPS:
            inside = different.pop(name, {})  # they once had no table of their own
            different |= inside if inside.keys().isdisjoint(different) else {name: inside}
        return different

    def digest(self) -> str:
        """A short name for this config, the same wherever it is computed."""
        text = json.dumps(self.different(), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:12]


def setup_tables(setup: str) -> dict[str, type[Any]]:
    """The tables of the setups here, and of your own."""
    own = find_setup(setup)
    return add_tables(SETUP_GROUPS, {} if own.settings is None else {field_name(own.name): own.settings})


SETUP_GROUPS: dict[str, type[Any]] = {
    field_name(name): one.settings for name, one in SETUPS.items() if one.settings is not None
}

# Defaults as they first were, where they have changed: for the names of runs.
LATER: dict[str, dict[str, Any]] = {"fms": {"unit": "samples"}, "kin": {"parents": 20.0}}
FIRST: dict[str, Any] = {
    "method": "pl-fms",
    "importance": {"kind": "sweep"},
    "pl": {"exact": True},
    **LATER,
}

if TYPE_CHECKING:
    Config = PlainConfig
else:
    Config = with_groups(PlainConfig, GROUPS | SETUP_GROUPS)
FIELDS = frozenset(field.name for field in dataclasses.fields(Config))  # without tables of your own


def tables_of(method: str, setup: str = "multiple-depth") -> dict[str, type[Any]]:
    """The tables of all methods and setups here, and of your own, which are imported for them."""
    return add_tables(add_tables(GROUPS | SETUP_GROUPS, find_method(method).settings), setup_tables(setup))


def config_type(method: str, setup: str = "multiple-depth") -> type[Config]:
    """Configs of a method and a setup, with the tables of their settings."""
    return with_groups(PlainConfig, tables_of(method, setup))


def read_config(values: Any, where: str, own_code: bool = False) -> Config:
    """The config of a config.json, also of an older one: what it does not name is as it first was.

    Only with `own_code` is a method of one's own imported; otherwise its tables are taken as they stand.
    """
    kind = Config
    if isinstance(values, dict):
        values = _as_now(values)
        named = [values.get(name, getattr(Config, name)) for name in ("method", "setup")]
        if all(isinstance(name, str) for name in named) and ":" in "".join(named):
            tables = {n: v for n, v in values.items() if n not in FIELDS and isinstance(v, dict)}
            standing = GROUPS | SETUP_GROUPS | _as_they_stand(tables)
            kind = config_type(*named) if own_code else with_groups(PlainConfig, standing)
    return from_dict(kind, values, where, from_dict(kind, FIRST, where, kind()))


def _as_now(values: dict[str, Any]) -> dict[str, Any]:
    """Without what is no longer set; fields that once stood outside of their setup's table, in it."""
    values = without_retired(values)
    for name, kind in SETUP_GROUPS.items():
        names = [f.name for f in dataclasses.fields(kind)]
        names = [n for n in names if not isinstance(values.get(n), dict)]  # that is a table of one's own
        inside = {name: values.pop(name) for name in names if name in values}
        given = {key: value for key, value in inside.items() if value is not None}
        if given:
            values[name] = values.get(name, {}) | given
    return values


def _as_they_stand(tables: dict[str, dict[str, Any]]) -> dict[str, type[Any]]:
    """Classes for the settings of a method that is not imported."""
    return {
        name: dataclasses.make_dataclass(
            name, [(key, Any, dataclasses.field(default=None)) for key in table], frozen=True
        )
        for name, table in tables.items()
    }


def _difference(values: dict[str, Any], default: dict[str, Any]) -> dict[str, Any]:
    """The part of `values` that is not as in `default`, which lacks what is None or a table there."""
    found: dict[str, Any] = {}
    for key, value in values.items():
        usual = default.get(key)
        if value != usual:
            found[key] = _difference(value, usual or {}) if isinstance(value, dict) else value
    return found
