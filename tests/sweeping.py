"""What the tests of sweeps share: a small study, what a run gave, a job and a method of their own."""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch

from ramify.methods import Settings, find_method
from ramify.methods.recipe import Recipe
from ramify.randomness import Generators
from ramify.rehearsal import HalfAndHalf
from ramify.runs.folder import RunFolder
from ramify.sweeps import Study
from ramify.sweeps.jobs import Outcome

FIXED = {"limit": 64, "eval_every": 16, "eval_images": 20, "memory_size": 20, "network": {"width": 0.125}}
TOML = """
[fixed]
limit = 64
eval_every = 16
eval_images = 20
memory_size = 20
network.width = 0.125
[axes]
"""


def small_study(**axes: list[Any]) -> Study:
    """A study of runs of a few seconds."""
    return Study.of("small", axes, FIXED | {"epochs": {"count": 1}})


def outcome(folder: Path) -> dict[str, Any]:
    """All that a run gave but the time and memory that it took."""
    run = RunFolder(folder)
    values = [*map(asdict, run.records()), asdict(run.result())]
    for one in values:
        for name in ("train_seconds", "eval_seconds", "seconds", "peak_memory"):
            one.pop(name, None)
    files = ("model.safetensors", "predictions.safetensors")
    return {"values": values, **{name: (folder / name).read_bytes() for name in files}}


class Buggy(HalfAndHalf):
    """Fails at the first update."""

    def updates_due(self, credit: float) -> int:
        raise ZeroDivisionError("a bug\nof two lines")


def broken(settings: Settings, rng: Generators) -> Recipe:
    """A method with a bug."""
    return replace(find_method("er")(settings, rng), rehearse=Buggy(rng["rehearse"]))


@dataclass(frozen=True)
class WhereJob:
    """Says where it runs."""

    name: str
    after: frozenset[str] = frozenset()

    def work(self) -> Outcome:
        return Outcome(value=(os.sched_getaffinity(0), os.getpgrp() == os.getpid(), torch.get_num_threads()))

    def lost(self, why: str) -> Outcome:
        return Outcome(why)
