"""Records sent to an experiment tracker while a run goes on, through adapters as thin as can be."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Protocol

from ramify.errors import RamifyError
from ramify.evaluation.anytime import Record
from ramify.runs.config import Config
from ramify.typed import flat, to_dict

if TYPE_CHECKING:
    from ramify.runs.run import Run

PROJECT = "ramify"


class Tracker(Protocol):
    """What a tracker is asked to do."""

    def log(self, values: dict[str, float], step: int) -> None:
        """Keep values that belong to a moment of the stream."""

    def close(self) -> None:
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


class Tensorboard:
    """Event files in the run's folder, for `tensorboard --logdir`."""

    def __init__(self, package: ModuleType, name: str, config: dict[str, Any], folder: Path) -> None:
        self.writer = package.SummaryWriter(str(folder / "tensorboard"))
        self.writer.add_text("config", "\n".join(f"    {key}: {value}" for key, value in config.items()))

    def log(self, values: dict[str, float], step: int) -> None:
        """One scalar a value."""
        for key, value in values.items():
            self.writer.add_scalar(key, value, step)
        self.writer.flush()

    def close(self) -> None:
        """Close the event file."""
        self.writer.close()


class Wandb:
    """Weights & Biases; its own settings (WANDB_MODE=offline and the like) hold."""

    def __init__(self, package: ModuleType, name: str, config: dict[str, Any], folder: Path) -> None:
        self.run = package.init(project=PROJECT, name=name, config=config, dir=str(folder))

    def log(self, values: dict[str, float], step: int) -> None:
        """All values at once."""
        self.run.log(values, step=step)

    def close(self) -> None:
        """Finish the run there."""
        self.run.finish()


class Mlflow:
    """MLflow; its own settings (MLFLOW_TRACKING_URI and the like) hold."""

    def __init__(self, package: ModuleType, name: str, config: dict[str, Any], folder: Path) -> None:
        self.package = package
        package.set_experiment(PROJECT)
        package.start_run(run_name=name)
        package.log_params(config)

    def log(self, values: dict[str, float], step: int) -> None:
        """All values at once."""
        self.package.log_metrics(values, step=step)

    def close(self) -> None:
        """Finish the run there."""
        self.package.end_run()


class Trackio:
    """Trackio, on this machine unless its own settings say otherwise."""

    def __init__(self, package: ModuleType, name: str, config: dict[str, Any], folder: Path) -> None:
        self.package = package
        package.init(project=PROJECT, name=name, config=config)

    def log(self, values: dict[str, float], step: int) -> None:
        """All values at once."""
        self.package.log(values, step=step)

    def close(self) -> None:
        """Finish the run there."""
        self.package.finish()


Adapter = Callable[[ModuleType, str, dict[str, Any], Path], Tracker]
TRACKERS: dict[str, tuple[str, Adapter]] = {
    "tensorboard": ("tensorboardX", Tensorboard),
    "wandb": ("wandb", Wandb),
    "mlflow": ("mlflow", Mlflow),
    "trackio": ("trackio", Trackio),
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

    def __exit__(self, *error: object) -> None:
        if self.tracker is not None:
            self.tracker.close()
