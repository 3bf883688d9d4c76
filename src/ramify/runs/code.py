"""The code that a run's figures come from: ramify's version, and the user's own by a digest of its source."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ramify.errors import RamifyError
from ramify.methods import find_method
from ramify.named import is_own
from ramify.owncode import source_digest
from ramify.runs.config import Config
from ramify.streams import find_setup


def code_of(config: Config) -> dict[str, str]:
    """What config.json records as `code`: ramify's version, and a digest for each module of one's own."""
    from ramify import __version__

    digests = {module: source_digest(module) for module in _modules(config)}
    return {"ramify": __version__} | {name: digest for name, digest in digests.items() if digest is not None}


def _modules(config: Config) -> list[str]:
    """The modules of one's own behind a config; a method may also be registered under a plain name."""
    named = [config.method, config.network.name, config.setup, *(config.metrics or ())]
    modules = [name.partition(":")[0] for name in named if is_own(name)]
    for name, find in ((config.method, find_method), (config.setup, find_setup)):
        if ":" not in name:
            try:
                found: Any = find(name)
            except RamifyError:
                continue
            module = getattr(
                getattr(found, "build", None) or getattr(found, "arrivals", None), "__module__", ""
            )
            if module and module.split(".")[0] != "ramify":
                modules.append(module)
    return list(dict.fromkeys(modules))


def codes_in(about: Mapping[str, Any]) -> list[dict[str, str]]:
    """The code of each stretch of a run, as its config.json says; none of runs that are older than that."""
    resumed = about.get("resumed")
    stretches = [about, *(resumed if isinstance(resumed, list) else [])]
    found = [one.get("code") for one in stretches if isinstance(one, Mapping)]
    return [{str(k): str(v) for k, v in code.items()} for code in found if isinstance(code, Mapping)]


def changed_code(about: Mapping[str, Any], now: Mapping[str, str]) -> list[str]:
    """The modules of a recorded run whose code is another one now."""
    recorded = codes_in(about)
    return [
        name for name, digest in now.items() if any(code.get(name, digest) != digest for code in recorded)
    ]
