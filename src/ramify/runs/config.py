"""One typed config: the command line, the preset files and config.json all speak of these fields."""

from __future__ import annotations

import dataclasses
import difflib
import hashlib
import json
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from ramify.errors import RamifyError
from ramify.methods.settings import Settings
from ramify.typed import field_types, shown, typed, whole, whole_seed

T = TypeVar("T")


@dataclass(frozen=True)
class Config(Settings):
    """Everything that a run's result depends on."""

    method: str = "pl-fms"
    """A method's name (`ramify methods`), or package.module:name for your own."""
    dataset: str = "garden"
    """A dataset's name (`ramify data list`), or the path of your own images."""
    taxonomy: str | None = None
    """Tree for a dataset that does not bring one: a file or a name (`ramify taxonomy show`)."""
    setup: Literal["single-depth", "multiple-depth", "disjoint", "blurry", "i-blurry"] = "multiple-depth"
    """Which classes arrive when."""
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

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("tasks", "per_class", "limit", "image_size", "eval_every", "eval_images"):
            if getattr(self, name) is not None:
                whole(name, getattr(self, name), 1)
        whole_seed(self.seed)

    def digest(self) -> str:
        """A short name for this config, the same wherever it is computed.

        Only what differs from the defaults counts, so a field added later leaves older names as they are.
        """
        text = json.dumps(_difference(to_dict(self), to_dict(Config())), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:12]


def _difference(values: dict[str, Any], default: dict[str, Any]) -> dict[str, Any]:
    """The part of `values` that is not as in `default`."""
    found: dict[str, Any] = {}
    for key, value in values.items():
        if value != default[key]:
            found[key] = _difference(value, default[key]) if isinstance(value, dict) else value
    return found


def to_dict(config: Any) -> dict[str, Any]:
    """A config as plain JSON values."""
    values: dict[str, Any] = json.loads(json.dumps(dataclasses.asdict(config)))
    return values


def from_dict(cls: type[T], values: dict[str, Any], where: str, base: T | None = None) -> T:
    """A config from nested values, over `base` where one is given; unknown and ill-typed fields are refused.

    `where` names the source in errors.
    """
    hints = field_types(cls)  # type: ignore[arg-type]
    known = {f.name for f in dataclasses.fields(cls)}  # type: ignore[arg-type]
    given: dict[str, Any] = {}
    for key, value in values.items():
        name = key.replace("-", "_")
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(sorted(known))}"
            raise RamifyError(f"{where}: no field {key!r}; {hint}")
        if dataclasses.is_dataclass(hints[name]):
            if not isinstance(value, dict):
                raise RamifyError(f"{where}: {key} is {shown(value)}; it must be a table of fields")
            current = None if base is None else getattr(base, name)
            value = from_dict(hints[name], value, f"{where}: {key}", current)
        else:
            value = typed(hints[name], value, f"{where}: {key}")
        given[name] = value
    return cls(**given) if base is None else dataclasses.replace(base, **given)  # type: ignore[type-var]
