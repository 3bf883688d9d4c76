"""The folder of a run: what it was asked to do, what happened, what came out."""

from __future__ import annotations

import dataclasses
import json
import os
import platform
import subprocess
import sys
from datetime import datetime, timezone
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from safetensors.torch import save_file

from ramify.errors import RamifyError
from ramify.evaluation.anytime import Record
from ramify.files import beside, write_atomic
from ramify.runs.config import Config, to_dict
from ramify.runs.result import Result

FORMAT = 1
Ints = npt.NDArray[np.int64]


class RunFolder:
    """config.json, stream, records.jsonl, predictions, model and, written last, result.json."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)

    def create(self, force: bool = False) -> None:
        """Make the folder; one that holds a run already is refused, or emptied of it with `force`."""
        known = ("config.json", "records.jsonl", "result.json", "model.safetensors", "stream.safetensors")
        found = [name for name in known if (self.path / name).exists()]
        if found and not force:
            state = "a finished run" if "result.json" in found else "an unfinished run"
            raise RamifyError(
                f"{self.path} holds {state} already; choose another --out, or overwrite it with --force"
            )
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            for name in reversed(found):
                (self.path / name).unlink()
        except OSError as error:
            raise RamifyError(
                f"{self.path} cannot be written: {error.strerror}; choose another --out"
            ) from None

    def write_config(self, config: Config, facts: dict[str, Any]) -> None:
        """Everything needed to know, and repeat, what was run."""
        values = {"format": FORMAT, "config": to_dict(config), **facts, **circumstances()}
        write_atomic(self.path / "config.json", json.dumps(values, indent=1) + "\n")

    def append(self, record: Record) -> None:
        """Add one line to records.jsonl."""
        with (self.path / "records.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps(dataclasses.asdict(record)) + "\n")

    def records(self) -> list[Record]:
        """All records so far."""
        lines = (self.path / "records.jsonl").read_text(encoding="utf-8").splitlines()
        return [Record.from_dict(json.loads(line)) for line in lines]

    def write_predictions(
        self, predictions: Ints, truth: Ints, task_ends: list[dict[int, npt.NDArray[np.float64]]]
    ) -> None:
        """For reports: the last answers on all test images and the truth, [n, levels], and class accuracies.

        `accuracy.LEVEL` is [tasks, classes], at each task's end; nan where a class had not been seen.
        """
        arrays = {"predictions": predictions.astype(np.int16), "truth": truth.astype(np.int16)}
        for level in sorted(task_ends[-1]):
            unseen = np.full_like(task_ends[-1][level], np.nan)
            ends = np.stack([end.get(level, unseen) for end in task_ends])
            arrays[f"accuracy.{level}"] = ends.astype(np.float32)
        with beside(self.path / "predictions.safetensors") as temporary:
            save_file({name: torch.from_numpy(array) for name, array in arrays.items()}, temporary)

    def write_model(self, weights: dict[str, torch.Tensor], about: dict[str, Any]) -> None:
        """The final network, with what is needed to use it."""
        with beside(self.path / "model.safetensors") as temporary:
            save_file(weights, temporary, {"ramify": json.dumps({"format": FORMAT, **about})})

    def write_result(self, result: Result) -> None:
        """The figures; the last file of a run, so it is there only if all others are."""
        write_atomic(self.path / "result.json", json.dumps(dataclasses.asdict(result), indent=1) + "\n")

    def result(self) -> Result:
        """The figures of a finished run."""
        return Result.from_dict(json.loads((self.path / "result.json").read_text(encoding="utf-8")))


def circumstances() -> dict[str, Any]:
    """Command, time, versions, commit and machine."""
    packages = ("ramify", "torch", "numpy", "scipy", "pillow")
    return {
        "command": ["ramify", *sys.argv[1:]],
        "started": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "versions": {"python": platform.python_version(), **{name: version(name) for name in packages}},
        "commit": _commit(),
        "machine": {
            "system": platform.platform(),
            "processor": platform.machine(),
            "cores": os.cpu_count(),
            "threads": torch.get_num_threads(),
        },
    }


def _commit() -> str | None:
    """The commit of the source tree that is running, if it is one."""
    here = Path(__file__).resolve().parent
    command = ["git", "-C", str(here), "describe", "--always", "--dirty", "--abbrev=40"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip() or None
