"""A study: axes and fixed settings, multiplied out into the configs of its runs."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ramify.errors import RamifyError
from ramify.methods import find_method
from ramify.runs.config import Config, config_type
from ramify.runs.presets import read_toml, resolve
from ramify.typed import flat, from_dict, no_field

Overrides = Mapping[str, Any]
KEYS = ("name", "preset", "fixed", "axes", "block")


@dataclass(frozen=True)
class StudyRun:
    """One run of a study. Its name, and so its folder, follows from its config alone."""

    config: Config
    preset: str = "quick"

    @functools.cached_property
    def name(self) -> str:
        """Method, setup and seed to be read, and the digest of the whole config to be unique."""
        config = self.config
        words = f"{config.method}-{config.setup}-s{config.seed}"
        return f"{re.sub(r'[^A-Za-z0-9.+-]+', '-', words)}-{config.digest()}"


@dataclass(frozen=True)
class Study:
    """An ordered set of runs.

    >>> study = Study.of("seeds", axes={"method": ["er", "pl-fms"], "seed": [0, 1, 2]}, fixed={"limit": 400})
    >>> len(study), study.runs[0].config.method, study.runs[-1].config.seed
    (6, 'er', 2)
    """

    name: str
    runs: tuple[StudyRun, ...]

    def __post_init__(self) -> None:
        if not self.runs:
            raise RamifyError(f"study {self.name}: it has no runs; give it at least one axis or block")
        seen: set[str] = set()
        for run in self.runs:
            if run.name in seen:
                raise RamifyError(
                    f"study {self.name}: the run {run.name} occurs twice; take one of them out, or where an "
                    f"axis is not for {run.config.method}, give those that it is for a [[block]] of their own"
                )
            seen.add(run.name)

    def __len__(self) -> int:
        return len(self.runs)

    def __iter__(self) -> Iterator[StudyRun]:
        return iter(self.runs)

    @classmethod
    def of(
        cls,
        name: str,
        axes: Overrides | None = None,
        fixed: Overrides | None = None,
        preset: str = "quick",
        blocks: Iterable[Overrides] = (),
    ) -> Study:
        """Every choice of one value from each axis, the last axis fastest, over `fixed` over the preset.

        Axes and fixed settings are config fields (`fms.T` for a field within a field). Each block, with
        `axes`, `fixed` and `preset` of its own over these, gives runs of its own: so some methods can have
        more seeds than others.
        """
        common = {"axes": axes or {}, "fixed": fixed or {}, "preset": preset}
        parts = [_block(name, common)]
        listed = list(blocks)
        if listed:
            parts = [_block(f"{name} block {i}", common, own) for i, own in enumerate(listed, 1)]
        return cls(name, tuple(itertools.chain.from_iterable(parts)))

    @classmethod
    def from_toml(cls, path: str | Path) -> Study:
        """The study of a TOML file; its name is the file's unless it gives one."""
        tables = read_toml(path)
        _check_keys(tables, KEYS, str(path))
        name = tables.get("name", Path(path).stem)
        blocks = tables.get("block", [])
        if not isinstance(name, str) or not isinstance(blocks, list):
            raise RamifyError(f"{path}: name must be a text, and blocks are written [[block]]")
        rest = {key: tables[key] for key in ("axes", "fixed", "preset") if key in tables}
        return cls.of(name, **rest, blocks=blocks)


def _block(where: str, common: Overrides, own: Overrides | None = None) -> list[StudyRun]:
    """The runs of one block, its own axes, settings and preset over the common ones."""
    own = {} if own is None else own
    if not isinstance(own, Mapping):
        raise RamifyError(f"study {where} is {own!r}; it must be a table with axes and fixed")
    _check_keys(own, KEYS[1:4], f"study {where}")
    preset = own.get("preset", common["preset"])
    if not isinstance(preset, str):
        raise RamifyError(f"study {where}: preset is {preset!r}; it must be a text")
    tables: dict[str, dict[str, Any]] = {}
    for key in ("axes", "fixed"):
        if not all(isinstance(table.get(key, {}), Mapping) for table in (common, own)):
            raise RamifyError(f"study {where}: {key} must be a table of fields")
        tables[key] = {**_flat(common[key]), **_flat(own.get(key, {}))}
    axes, fixed = tables["axes"], tables["fixed"]
    axes = {axis: values for axis, values in axes.items() if axis not in _flat(own.get("fixed", {}))}
    for axis, values in axes.items():
        _check_axis(where, axis, values)
    fixed = {field: value for field, value in fixed.items() if field not in axes}
    kinds = _kinds(axes, fixed)
    _check_fields(kinds, fixed, f"study {where} [fixed]")
    for axis, values in axes.items():
        for value in values:
            _check_fields(kinds, {axis: value}, f"study {where} [axes]")
    look_up = functools.cache(functools.partial(_preset, preset))  # a preset is read once for each choice
    return [
        _resolved(where, preset, look_up, fixed | _flat(dict(zip(axes, choice, strict=True))), kinds)
        for choice in itertools.product(*axes.values())
    ]


def _kinds(axes: Overrides, fixed: Overrides) -> list[type[Config]]:
    """The configs of all methods and setups of a block, each with the tables of their own settings."""
    named = [axes.get(key, [fixed.get(key, getattr(Config, key))]) for key in ("method", "setup")]
    texts = [[name for name in names if isinstance(name, str)] for names in named]
    return [config_type(method, setup) for method, setup in itertools.product(*texts)] or [Config]


def _check_fields(kinds: list[type[Config]], values: Overrides, where: str) -> None:
    """An unknown field or a value of the wrong type is named before any run is made.

    A table may belong to some of the methods only; the others pass over it.
    """
    known = set().union(*map(_fields, kinds))
    for name in as_tables(values):
        if name not in known:
            raise no_field(where, name, known)
    for kind in kinds:
        from_dict(kind, _passed_over(values, kind, kinds), where)


def _passed_over(values: Overrides, kind: type[Config], kinds: Iterable[type[Config]]) -> dict[str, Any]:
    """Nested values without the tables that only others have."""
    own, all_known = _fields(kind), set().union(*map(_fields, kinds))
    return {name: v for name, v in as_tables(values).items() if name in own or name not in all_known}


def _fields(kind: type[Config]) -> set[str]:
    return {field.name for field in dataclasses.fields(kind)}


def _check_axis(where: str, axis: str, values: Any) -> None:
    if not isinstance(values, list | tuple):
        raise RamifyError(
            f"study {where} [axes]: {axis} is {values!r}; an axis is a list (one value goes into [fixed])"
        )
    if not values:
        raise RamifyError(f"study {where} [axes]: {axis} is empty; give it a value or take it out")


def _resolved(
    where: str, preset: str, look_up: Callable[..., Config], values: Overrides, kinds: list[type[Config]]
) -> StudyRun:
    """One choice of values, over what the preset says for its method, dataset and setup."""
    default = Config()
    base = look_up(*(values.get(key, getattr(default, key)) for key in ("method", "dataset", "setup")))
    nested = _passed_over(values, type(base), kinds)
    return StudyRun(from_dict(type(base), nested, f"study {where}", base), preset)


def _preset(preset: str, method: str, dataset: str, setup: str) -> Config:
    find_method(method)
    return resolve(preset, method, dataset, setup)


def _check_keys(table: Overrides, known: tuple[str, ...], where: str) -> None:
    for key in table:
        if key not in known:
            raise RamifyError(
                f"{where}: no key {key!r}; known: {', '.join(known)} (settings go into fixed or axes)"
            )


def _flat(table: Overrides) -> dict[str, Any]:
    """Fields within fields as dotted names: {"fms": {"T": 1}} is {"fms.T": 1}."""
    return {name.replace("-", "_"): value for name, value in flat(table).items()}


def as_tables(dotted: Overrides) -> dict[str, Any]:
    """Dotted names as fields within fields."""
    nested: dict[str, Any] = {}
    for name, value in dotted.items():
        *outer, last = name.split(".")
        table = nested
        for key in outer:
            table = table.setdefault(key, {})
        table[last] = value
    return nested
