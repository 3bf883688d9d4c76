"""Answers worked out ahead, for a method whose every answer comes from a model trained from scratch.

GDumb's answer at a position of the stream depends on nothing but the memory there, and collecting the memory
costs next to nothing. So each answer can be worked out by a process of its own, from the beginning of the
stream, and the run then takes what it finds.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ramify.arrays import Array
from ramify.classes import Classes
from ramify.evaluation.anytime import Way
from ramify.hierarchy.decode import Said
from ramify.memory.workbench import Cost
from ramify.methods import Trainer, find_method
from ramify.named import is_own
from ramify.runs.checkpoint import refuse_differences
from ramify.runs.config import Config
from ramify.statefiles import load_state, save_state

if TYPE_CHECKING:
    from ramify.runs.run import Run

ANSWERS = "answers"  # their folder within the run's


def answers_alone(config: Config) -> bool:
    """Whether every answer of the method can be worked out without the others.

    Not known of the user's own methods and networks: they may draw from torch's generator, for one.
    """
    if is_own(config.method) or is_own(config.network.name):
        return False
    method = find_method(config.method)
    return method.memory_epochs == "answers" and not method.offline


@dataclass
class WorkedOut:
    """What a learner said of the test images at one position, and how long that took."""

    classes: Classes
    said: dict[str, Said]
    seconds: float

    def answer(self, inputs: object, ways: Mapping[str, Way]) -> dict[str, Said]:
        """As the learner would have, of the same images."""
        return {name: self.said[name] for name in ways}


class _Overheard:
    """A learner whose answers are kept."""

    def __init__(self, trainer: Trainer) -> None:
        self.trainer, self.classes = trainer, trainer.classes

    def answer(self, inputs: Array, ways: Mapping[str, Way]) -> dict[str, Said]:
        self.said = self.trainer.answer(inputs, ways)
        return self.said


def work_out(run: Run, position: int, path: Path) -> None:
    """Bring a new run to `position` without asking it anything, ask it there, and keep what it says."""
    run.collect(position)
    trainer = run.trainer
    start, updates, cost = time.perf_counter(), trainer.updates, asdict(trainer.cost)
    overheard, last = _Overheard(trainer), position == len(run.stream)
    task = int(run.stream.task[position - 1])
    run.evaluator(overheard, whole=position in run.task_end_positions, every_way=last, task=task)
    state = {
        "said": {way: said._asdict() for way, said in overheard.said.items()},
        "updates": trainer.updates - updates,
        "cost": {name: value - cost[name] for name, value in asdict(trainer.cost).items()},
        "seconds": time.perf_counter() - start,
    }
    save_state(path, state, {**run.identity(), "samples": position})


def take(run: Run, path: Path) -> WorkedOut | None:
    """The answers worked out for this run at its position, if there are any; their cost becomes the run's."""
    trainer = run.trainer
    if not path.exists() or trainer.recipe.answer.begun:  # what was begun goes on
        return None
    state, about = load_state(path)
    refuse_differences(run.identity(), about, path.name)
    trainer.flush()
    trainer.updates += state["updates"]
    trainer.cost = Cost(**{name: value + state["cost"][name] for name, value in asdict(trainer.cost).items()})
    answers = {way: Said(**said) for way, said in state["said"].items()}
    return WorkedOut(trainer.classes, answers, state["seconds"])
