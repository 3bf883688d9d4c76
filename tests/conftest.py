"""Fixtures for all tests: where datasets live, and the real images where they are at hand."""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from PIL import Image

from ramify.datasets import garden
from ramify.locks import hold

# A busy machine is no defect of the code.
settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")
settings.register_profile("same", derandomize=True)  # a change is judged by the same examples each time;
settings.register_profile("new")  # HYPOTHESIS_PROFILE=new looks for others
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "same"))

REAL = Path(__file__).resolve().parents[2] / "shared" / "data"


@pytest.fixture(scope="session", autouse=True)
def data_home(pytestconfig: pytest.Config) -> Iterator[Path]:
    """Decoded images are kept in pytest's cache, never in the user's, and shared by all workers."""
    home = Path(pytestconfig.cache.mkdir("ramify-data"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAMIFY_DATA", str(home))
        patch.setattr(garden, "contents", cache(garden.contents))  # drawn once, whatever sizes are made of it
        yield home


@pytest.fixture(scope="session", autouse=True)
def unsynced() -> Iterator[None]:
    """No test outlives a power cut: none waits for the disk. `fstat` refuses what `fsync` would."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", os.fstat)
        yield


@pytest.fixture(scope="session", autouse=True)
def sources() -> Iterator[None]:
    """For each command line tyro looks again for the source of classes that have none: half of its time."""
    getsource, missing = inspect.getsource, {}

    def remembered(thing: Any) -> str:
        if isinstance(thing, type) and thing in missing:
            raise missing[thing]
        try:
            return getsource(thing)
        except OSError as error:
            if isinstance(thing, type):
                missing[thing] = error.with_traceback(None)
            raise

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(inspect, "getsource", remembered)
        yield


def _unpack(config: pytest.Config, name: str) -> Path:
    """Unpack real images once; workers that come at the same time wait."""
    if not (REAL / "unpack").exists():
        pytest.skip(f"the real images of {name} are not at hand (no shared/data beside the project)")
    folder = Path(config.cache.mkdir("real-data"))
    with hold(folder / f"{name}.lock"):
        done = folder / f"{name}.done"
        if not done.exists():
            subprocess.run(
                [sys.executable, str(REAL / "unpack"), name, str(folder)], check=True, capture_output=True
            )
            done.touch()
    return folder


@pytest.fixture(scope="session")
def cifar100_dir(pytestconfig: pytest.Config) -> Path:
    """A data folder that holds `cifar-100-python`."""
    return _unpack(pytestconfig, "cifar100")


@pytest.fixture(scope="session")
def cars64_dir(pytestconfig: pytest.Config) -> Path:
    """The folder of Stanford Cars at 64×64: `train/CLASS` and `test/CLASS`."""
    return _unpack(pytestconfig, "cars64") / "cars64"


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plans time their runs for a moment."""
    from ramify.sweeps import plan

    monkeypatch.setattr(plan, "ProbeJob", partial(plan.ProbeJob, seconds=0.02))


@pytest.fixture
def paint() -> Callable[..., Path]:
    """Write a small picture of one colour (mode RGB) to a path, with the folders above it."""

    def paint(path: Path, colour: tuple[int, int, int] = (200, 100, 50), size: int = 8) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.full((size, size, 3), colour, dtype=np.uint8)).save(path)
        return path

    return paint


os.environ.setdefault("OMP_NUM_THREADS", "1")
