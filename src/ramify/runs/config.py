"""One typed config: the command line, the preset files and config.json all speak of these fields."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any, Literal

from ramify.methods.settings import ImportanceSettings, PseudoLabelSettings, Settings
from ramify.streams import find_setup
from ramify.typed import to_dict, whole, whole_seed

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
class Config(Settings):
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

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("tasks", "per_class", "limit", "image_size", "eval_every", "eval_images"):
            if getattr(self, name) is not None:
                whole(name, getattr(self, name), 1)
        whole_seed(self.seed)
        if ":" not in self.setup:  # your own is imported only where its stream is built: reading runs no code
            find_setup(self.setup)

    def digest(self) -> str:
        """A short name for this config, the same wherever it is computed.

        Only what differs from the first defaults counts, so a field added later leaves older names as they
        are, and so does a default that changes.
        """
        text = json.dumps(_difference(to_dict(self), to_dict(FIRST)), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:12]


# Defaults as they first were, for the names of runs.
FIRST = Config(importance=ImportanceSettings("sweep"), pl=PseudoLabelSettings(exact=True))


def _difference(values: dict[str, Any], default: dict[str, Any]) -> dict[str, Any]:
    """The part of `values` that is not as in `default`."""
    found: dict[str, Any] = {}
    for key, value in values.items():
        if value != default[key]:
            found[key] = _difference(value, default[key]) if isinstance(value, dict) else value
    return found
