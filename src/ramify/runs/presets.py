"""Presets: settings as data files, one for each scale, keyed by dataset, setup and method."""

from __future__ import annotations

import tomllib
from importlib import resources
from pathlib import Path
from typing import Any

from ramify.errors import RamifyError
from ramify.runs.config import Config, config_type
from ramify.typed import from_dict


def preset_names() -> list[str]:
    """The presets that come with the package."""
    files = (resources.files("ramify.runs") / "presets").iterdir()
    return sorted(f.name.removesuffix(".toml") for f in files if f.name.endswith(".toml"))


def read_toml(path: str | Path) -> dict[str, Any]:
    """A TOML file as nested dicts."""
    try:
        return tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise RamifyError(f"{path} cannot be read: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise RamifyError(f"{path} is not a TOML file: {error}") from None


def _preset(name: str) -> dict[str, Any]:
    if name in preset_names():
        return tomllib.loads((resources.files("ramify.runs") / "presets" / f"{name}.toml").read_text("utf-8"))
    if name.endswith(".toml"):
        return read_toml(name)
    raise RamifyError(f"no preset {name!r}; use {', '.join(preset_names())} or the path of a TOML file")


def resolve(preset: str, method: str, dataset: str, setup: str, kind: type[Config] | None = None) -> Config:
    """The config of a preset for this choice: [all], then the dataset's, the setup's, the method's own.

    With the `kind` of a config that has been read, no code of one's own is imported.
    """
    tables = _preset(preset)
    kind = kind or config_type(method, setup)
    chosen = kind(method=method, dataset=dataset)
    chosen = from_dict(kind, {"setup": setup}, "setup", chosen)
    layers = [("all", tables.pop("all", {}))]
    for key, value in (("dataset", dataset), ("setup", setup), ("method", method)):
        table = tables.pop(key, {})
        if not isinstance(table, dict):
            raise RamifyError(f"preset {preset}: {key} is {table!r}; it must hold tables, [{key}.{value}]")
        layers.append((f"{key}.{value}", table.get(value, {})))
    if tables:
        raise RamifyError(
            f"preset {preset}: no table {next(iter(tables))!r}; known: all, dataset.*, setup.*, method.*"
        )
    for where, values in layers:
        if not isinstance(values, dict):
            raise RamifyError(f"preset {preset}: {where} is {values!r}; it must be a table, [{where}]")
        chosen = from_dict(kind, values, f"preset {preset} [{where}]", chosen)
    return chosen
