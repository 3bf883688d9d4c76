"""A trial of exact resume: one run left alone, one killed at random moments; both must come out the same."""

from __future__ import annotations

import dataclasses
import multiprocessing as mp
import random
import signal
import time
from dataclasses import dataclass
from multiprocessing.sharedctypes import RawValue
from pathlib import Path
from typing import Any

from ramify.errors import RamifyError
from ramify.runs.config import Config
from ramify.runs.execute import run_config
from ramify.runs.folder import RunFolder
from ramify.runs.run import Run

NOT_READY = -1


@dataclass(frozen=True)
class Outcome:
    """What a trial has shown."""

    kills: tuple[int, ...]
    """At each kill the samples that had been learned; -1 for a process that was still starting."""
    resumed: tuple[int, ...]
    """At each continuation the sample that it continued from."""
    seconds: float
    """Of the run that was left alone."""
    differences: tuple[str, ...]
    """What is not the same in both; none is as it should be."""


def soak(
    config: Config,
    folder: Path,
    kills: int,
    *,
    seed: int = 0,
    checkpoint_every: float = 0.0,
    data_dir: str | None = None,
) -> Outcome:
    """Run `config` twice below `folder`, the second time killed and continued `kills` times, and compare.

    Kills are SIGKILL, some while the process is starting, the others some moments after it has passed a
    sample drawn at random: in the midst of training, of evaluation, of writing files.
    """
    draw = random.Random(seed)
    alone, killed = RunFolder(folder / "alone"), RunFolder(folder / "killed")
    worker = _Worker(config, alone.path, checkpoint_every, data_dir)
    worker.await_sample(0)
    start = time.monotonic()
    worker.finish()
    seconds = time.monotonic() - start
    moments: list[int] = []
    samples = alone.result().samples
    targets = sorted(draw.choice((NOT_READY, *[draw.randrange(samples)] * 9)) for _ in range(kills))
    for number, target in enumerate(targets, 1):
        worker = _Worker(config, killed.path, checkpoint_every, data_dir)
        worker.await_sample(target)
        longest = seconds / (kills + 1)
        if number < kills:  # well before the end, or there would be nothing left to kill
            longest = min(longest, seconds * (1 - target / samples) / 2)
        if worker.kill_after(draw.uniform(0, longest)):
            moments.append(worker.position.value)
    _Worker(config, killed.path, checkpoint_every, data_dir).finish()
    resumed = tuple(entry["samples"] for entry in killed.about()["resumed"])
    return Outcome(tuple(moments), resumed, seconds, tuple(differences(alone, killed)))


class _Worker:
    """A process of its own that begins or continues a run."""

    def __init__(self, config: Config, out: Path, checkpoint_every: float, data_dir: str | None) -> None:
        context = mp.get_context("forkserver")
        context.set_forkserver_preload([__name__, "torch._dynamo", "scipy.stats"])  # what a run imports late
        self.position = RawValue("q", NOT_READY)
        arguments = (config, out, checkpoint_every, data_dir, self.position)
        self.process = context.Process(target=_work, args=arguments, daemon=True)
        self.process.start()

    def await_sample(self, number: int) -> None:
        """Wait until it has read its checkpoint and learned so many samples."""
        while self.process.is_alive() and self.position.value < number:
            time.sleep(0.002)

    def kill_after(self, seconds: float) -> bool:
        """Kill it, unless it ends before."""
        self.process.join(seconds)
        self.process.kill()
        self.process.join()
        if self.process.exitcode != -signal.SIGKILL:
            self.finish()
            return False
        return True

    def finish(self) -> None:
        """Let it come to its end."""
        self.process.join()
        if self.process.exitcode:
            raise RamifyError(
                f"a run of the trial ended with exit code {self.process.exitcode}; see what it printed"
            )


def _work(config: Config, out: Path, checkpoint_every: float, data_dir: str | None, position: Any) -> None:
    def watch(run: Run) -> None:
        position.value = run.position

    run_config(
        config,
        out,
        resume=True,
        threads=1,
        data_dir=data_dir,
        checkpoint_every=checkpoint_every,
        watch=watch,
    )


def differences(alone: RunFolder, killed: RunFolder) -> list[str]:
    """What differs between two finished runs, all but the seconds that they took."""
    found = []
    ours, theirs = alone.records(), killed.records()
    if len(ours) != len(theirs):
        found.append(f"{len(ours)} and {len(theirs)} records")
    for number, (one, other) in enumerate(zip(ours, theirs, strict=False), start=1):
        found += [f"record {number}: {name}" for name in _unequal(one, other)]
    found += [f"result: {name}" for name in _unequal(alone.result(), killed.result())]
    for name in ("model.safetensors", "predictions.safetensors"):
        if (alone.path / name).read_bytes() != (killed.path / name).read_bytes():
            found.append(name)
    return found


def _unequal(one: Any, other: Any) -> list[str]:
    names = (
        field.name
        for field in dataclasses.fields(one)
        if field.compare and not field.name.endswith("seconds")
    )
    return [name for name in names if getattr(one, name) != getattr(other, name)]
