"""A trial of exact resume: one run left alone, one killed at random moments; both must come out the same.

python tools/soak.py [--method pl-fms] [--kills 50]

Prints JSON; the exit code is 1 where records, result or weights differ.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import multiprocessing as mp
import random
import signal
import sys
import tempfile
import time
from dataclasses import dataclass
from multiprocessing.sharedctypes import RawValue
from pathlib import Path
from typing import Any

from ramify.errors import RamifyError
from ramify.methods import find_method
from ramify.runs.config import Config
from ramify.runs.execute import run_config
from ramify.runs.folder import RunFolder
from ramify.runs.presets import resolve
from ramify.runs.run import Run
from ramify.typed import from_dict, whole

NOT_READY = -1


@dataclass(frozen=True)
class Trial:
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
) -> Trial:
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
    return Trial(tuple(moments), resumed, seconds, tuple(differences(alone, killed)))


class _Worker:
    """A process of its own that begins or continues a run."""

    def __init__(self, config: Config, out: Path, checkpoint_every: float, data_dir: str | None) -> None:
        context = mp.get_context("forkserver")
        # What all workers need is imported once, in the process that they are forked from.
        context.set_forkserver_preload(["ramify.runs.execute", "scipy.stats"])
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


def main(argv: list[str]) -> int:
    """Try it, and print what was seen."""
    parser = argparse.ArgumentParser(
        description="Run a method twice, once left alone, once killed (SIGKILL) and continued again and "
        "again; compare records, result and weights. Exit code 1 if they differ."
    )
    parser.add_argument("--method", default="pl-fms", help="default: pl-fms")
    parser.add_argument("--preset", default="quick", help="default: quick")
    parser.add_argument("--dataset", default="garden", help="default: garden")
    parser.add_argument("--limit", type=int, help="only the first so many samples of the stream")
    parser.add_argument("--kills", type=int, default=50, help="default: 50")
    parser.add_argument("--seed", type=int, default=0, help="sets the moments of the kills (default: 0)")
    parser.add_argument(
        "--checkpoint-every", type=float, default=1.0, metavar="SECONDS", help="default: 1 second"
    )
    parser.add_argument("--data-dir", help="where datasets live")
    parser.add_argument("--out", type=Path, help="a folder for both runs (default: a temporary one)")
    args = parser.parse_args(argv)
    kills = whole("kills", args.kills, 0)
    find_method(args.method)
    config = resolve(args.preset, args.method, args.dataset, Config.setup)
    config = from_dict(Config, {"limit": args.limit}, "limit", config)
    with tempfile.TemporaryDirectory() as temporary:
        trial = soak(
            config,
            args.out or Path(temporary),
            kills,
            seed=args.seed,
            checkpoint_every=args.checkpoint_every,
            data_dir=args.data_dir,
        )
    print(json.dumps(dataclasses.asdict(trial), indent=1))
    differ = trial.differences
    sys.stderr.write(
        f"{args.method}: {len(trial.kills)} kills, continued {len(trial.resumed)} times; "
        + (f"{len(differ)} differences: {', '.join(differ[:5])}\n" if differ else "the same to the bit\n")
    )
    return 1 if differ else 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except RamifyError as error:
        sys.stderr.write(f"soak: error: {error}\n")
        sys.exit(2)
