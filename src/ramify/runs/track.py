"""Records sent to an experiment tracker while a run goes on, through adapters as thin as can be."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ramify.errors import RamifyError
from ramify.evaluation.anytime import Record
from ramify.runs.config import Config
from ramify.typed import flat, to_dict

if TYPE_CHECKING:
    from ramify.runs.run import Run

PROJECT = "ramify"


class Tracker(NamedTuple):
    """What a tracker is asked to do."""

    log: Callable[[dict[str, float], int], object]
    """Keep values that belong to a moment of the stream."""
    close: Callable[[], object]
    """Write what is left."""


def metrics(record: Record) -> dict[str, float]:
    """The values of a record, by name."""
    values = {f"accuracy/level_{level}": value for level, value in record.accuracy.items()}
    values |= {f"memory/level_{level}": float(count) for level, count in record.memory.items()}
    values |= {f"classes_seen/level_{level}": float(count) for level, count in record.classes_seen.items()}
    seconds = {"train_seconds": record.train_seconds, "eval_seconds": record.eval_seconds}
    if record.lr is not None:
        values["lr"] = record.lr
    return values | seconds | {"updates": float(record.updates), "task": float(record.task)}


def _tensorboard(package: Any, name: str, config: dict[str, Any], folder: Path) -> Tracker:
    """Event files in the run's folder, for `tensorboard --logdir`."""
    writer = package.SummaryWriter(str(folder / "tensorboard"))
    writer.add_text("config", "\n".join(f"    {key}: {value}" for key, value in config.items()))

    def log(values: dict[str, float], step: int) -> None:
        for key, value in values.items():
            writer.add_scalar(key, value, step)
        writer.flush()

    return Tracker(log, writer.close)


# The settings of the others (WANDB_MODE=offline, MLFLOW_TRACKING_URI and the like) hold.
def _wandb(package: Any, name: str, config: dict[str, Any], folder: Path) -> Tracker:
    run = package.init(project=PROJECT, name=name, config=config, dir=str(folder))
    return Tracker(lambda values, step: run.log(values, step=step), run.finish)


def _mlflow(package: Any, name: str, config: dict[str, Any], folder: Path) -> Tracker:
    package.set_experiment(PROJECT)
    package.start_run(run_name=name)
    package.log_params(config)
    return Tracker(lambda values, step: package.log_metrics(values, step=step), package.end_run)


def _trackio(package: Any, name: str, config: dict[str, Any], folder: Path) -> Tracker:
    package.init(project=PROJECT, name=name, config=config)
    return Tracker(lambda values, step: package.log(values, step=step), package.finish)


Adapter = Callable[[Any, str, dict[str, Any], Path], Tracker]
TRACKERS: dict[str, tuple[str, Adapter]] = {
    "tensorboard": ("tensorboardX", _tensorboard),
    "wandb": ("wandb", _wandb),
    "mlflow": ("mlflow", _mlflow),
    "trackio": ("trackio", _trackio),
}


def find_tracker(name: str) -> Callable[[str, dict[str, Any], Path], Tracker]:
    """How to open a tracker; a package that is missing is named with its extra."""
    if name not in TRACKERS:
        raise RamifyError(f"no tracker {name!r}; known: {', '.join(TRACKERS)}")
    package, adapter = TRACKERS[name]
    try:
        return partial(adapter, importlib.import_module(package))
    except ImportError:
        raise RamifyError(f"--track {name} needs the extra `{name}`: pip install 'ramify[{name}]'") from None


class Tracking:
    """Sends each new record of a run once; a run that is continued sends what follows."""

    def __init__(self, tracker: str | None, config: Config, folder: Path) -> None:
        self.open = None if tracker is None else find_tracker(tracker)
        self.config, self.folder = config, folder
        self.tracker: Tracker | None = None
        self.sent = 0

    def show(self, run: Run) -> None:
        """Send the records since the last call; the first opens the tracker in the run's folder."""
        if self.open is None:
            return
        if self.tracker is None:
            self.tracker = self.open(self.folder.name, flat(to_dict(self.config)), self.folder)
            self.sent = len(run.records)
        for record in run.records[self.sent :]:
            self.tracker.log(metrics(record), record.samples)
        self.sent = len(run.records)

    def __enter__(self) -> Tracking:
        return self

    def __exit__(self, *why: object) -> None:
        if self.tracker is not None:
            self.tracker.close()
