"""A run from its config and a folder: begun, or continued where it was left."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import torch

from ramify.runs.answers import ANSWERS
from ramify.runs.checkpoint import EVERY, Checkpoints, refuse_differences
from ramify.runs.config import Config
from ramify.runs.folder import RunFolder
from ramify.runs.result import Result
from ramify.runs.run import Run, prepare_dataset
from ramify.typed import whole

MOST_THREADS = 4096  # beyond it the system may refuse, and torch would not say so


def run_config(
    config: Config,
    out: str | Path,
    *,
    resume: bool = False,
    force: bool = False,
    device: str = "auto",
    threads: int | None = None,
    data_dir: str | None = None,
    checkpoint_every: float = EVERY,
    watch: Callable[[Run], None] = lambda run: None,
    preset: str | None = None,
) -> Result:
    """Run `config` in the folder `out` and return its result.

    A folder that holds a run is refused, unless `resume` continues it (a finished one gives its result) or
    `force` overwrites it. `watch` is called between parts of the stream. SIGTERM and SIGINT write a
    checkpoint and raise `Stopped`. Only `config` bears on the figures; a run that is continued keeps its
    number of threads unless told otherwise, for sums depend on it in their last bits.
    """
    folder = RunFolder(out)
    folder.refuse_occupied(resume, force)
    checkpoints = Checkpoints(folder, checkpoint_every)
    _set_threads(threads, folder.about()["machine"].get("threads") if resume and folder.begun() else None)
    if config.precision == "auto" and resume and folder.begun():  # as it was measured when the run began
        config = replace(config, precision=folder.about()["config"].get("precision", "fp32"))
    run = Run(config, prepare_dataset(config, data_dir), device)
    with folder.locked(), checkpoints.signals:
        folder.refuse_occupied(resume, force)
        if resume and folder.begun():
            refuse_differences(run.identity(), folder.about(), f"{folder.path}/config.json")
            if folder.finished():
                checkpoints.clear()  # the process may have been killed before it could
                return folder.result()
            checkpoints.restore(run)
            folder.continue_from(run)
        else:
            folder.begin(run, preset, {"data_dir": data_dir, "checkpoint_every": checkpoint_every})
        run.answers = folder.path / ANSWERS
        watch(run)
        result = run.go(folder, watch, checkpoints.after_part)
        checkpoints.clear()
        shutil.rmtree(run.answers, ignore_errors=True)
        return result


def _set_threads(wanted: int | None, before: int | None) -> None:
    number = before if wanted is None else wanted
    if number is None:
        return
    torch.set_num_threads(whole("threads", number, 1, MOST_THREADS))
