"""Answers worked out ahead, for a method whose every answer comes from a model trained from scratch.

GDumb's answer at a position of the stream depends on nothing but the memory there, and collecting the memory
costs next to nothing. So each answer can be worked out by a process of its own, from the beginning of the
stream, and the run then takes what it finds.
"""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from ramify.classes import Classes
from ramify.methods import Engine, find_method
from ramify.methods.engine import Cost
from ramify.methods.epochs import FreshModel
from ramify.randomness import Generators
from ramify.runs.checkpoint import refuse_differences
from ramify.runs.config import Config
from ramify.statefiles import load_state, save_state

if TYPE_CHECKING:
    from ramify.runs.run import Run

ANSWERS = "answers"  # their folder within the run's
Ints = npt.NDArray[np.int64]


def answers_alone(config: Config) -> bool:
    """Whether every answer of the method can be worked out without the others.

    Not known of the user's own methods and networks: they may draw from torch's generator, for one.
    """
    if ":" in config.method or ":" in config.network.name:
        return False
    recipe = find_method(config.method)(config, Generators(config.seed))
    return isinstance(recipe.answer, FreshModel) and not recipe.offline


@dataclass
class Answers:
    """What a learner said of the test images at one position, and how long that took."""

    classes: Classes
    said: Ints
    seconds: float

    def predict(self, images: npt.NDArray[np.uint8]) -> Ints:
        """As the learner would have, of the same images."""
        return self.said


class _Overheard:
    """A learner whose answers are kept."""

    def __init__(self, engine: Engine) -> None:
        self.engine, self.classes = engine, engine.classes

    def predict(self, images: npt.NDArray[np.uint8]) -> Ints:
        self.said = self.engine.predict(images)
        return self.said


def work_out(run: Run, position: int, path: Path) -> None:
    """Bring a new run to `position` without asking it anything, ask it there, and keep what it says."""
    run.collect(position)
    engine = run.engine
    start, updates, cost = time.perf_counter(), engine.updates, asdict(engine.cost)
    overheard = _Overheard(engine)
    run.evaluator(overheard, whole=position in run.task_end_positions)
    state = {
        "said": overheard.said,
        "updates": engine.updates - updates,
        "cost": {name: value - cost[name] for name, value in asdict(engine.cost).items()},
        "seconds": time.perf_counter() - start,
    }
    save_state(path, state, {**run.identity(), "samples": position})


def take(run: Run, path: Path) -> Answers | None:
    """The answers worked out for this run at its position, if there are any; their cost becomes the run's."""
    if run.engine.passes.begun or not path.exists():  # what was begun is continued
        return None
    state, about = load_state(path)
    refuse_differences(run.identity(), about, path.name)
    engine = run.engine
    engine.flush()
    engine.updates += state["updates"]
    engine.cost = Cost(**{name: value + state["cost"][name] for name, value in asdict(engine.cost).items()})
    return Answers(engine.classes, state["said"], state["seconds"])
