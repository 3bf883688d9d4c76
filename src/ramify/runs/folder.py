"""The folder of a run: what it was asked to do, what happened, what came out."""

from __future__ import annotations

import json
import logging
import os
import platform
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from safetensors.torch import save_file

from ramify.arrays import Floats, Ints
from ramify.errors import RamifyError
from ramify.evaluation.anytime import Evaluation, Record
from ramify.files import beside, json_text, sync, write_atomic, writing
from ramify.locks import HOLDER, LOCK, HeldLock, hold_folder
from ramify.runs.code import changed_code, code_of
from ramify.runs.files import FORMAT, RunFiles
from ramify.runs.result import Result
from ramify.taxonomy import write_taxonomy

if TYPE_CHECKING:
    from ramify.runs.run import Run

log = logging.getLogger("ramify")

FILES = (
    "config.json",
    "records.jsonl",
    "result.json",
    "model.safetensors",
    "predictions.safetensors",
    "stream.safetensors",
    "taxonomy.csv",
)
SUMS = "sums."  # in model.safetensors, before the names of what a method in closed form has gathered
NEW = ".new"  # folder in which the files that begin a run are written


class RunFolder(RunFiles):
    """config.json, stream, tree, records, checkpoints, predictions, model and, written last, result.json."""

    path: Path

    def __init__(self, path: str | Path) -> None:
        super().__init__(Path(path))
        self._lock: HeldLock | None = None

    @property
    def continue_command(self) -> str:
        """What to type to continue the run."""
        own = " --own-code" if self.begun() and self.named_code() else ""
        path = f"./{self.path}" if str(self.path).startswith("-") else str(self.path)
        return f"ramify resume {shlex.quote(path)}{own}"

    def refuse_occupied(self, resume: bool, force: bool) -> None:
        """Refuse a folder that holds a run, unless it is to be continued or overwritten."""
        if resume and force:
            raise RamifyError("--resume continues a run and --force overwrites it; give one of them")
        if resume or force or not any((self.path / name).exists() for name in FILES):
            return
        if self.finished():
            raise RamifyError(
                f"{self.path} holds a finished run; choose another --out, or overwrite it with --force"
            )
        raise RamifyError(
            f"{self.path} holds an unfinished run; continue it with --resume (or {self.continue_command}), "
            "or overwrite it with --force"
        )

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other processes out of the folder; the lock dies with this process.

        A folder that is made for it goes again if nothing else came into it.
        """
        made = not self.path.exists()
        with hold_folder(self.path) as self._lock:
            try:
                yield
            finally:
                self._lock = None
                if made and {path.name for path in self.path.glob("*")} <= {LOCK, HOLDER}:
                    with suppress(OSError):  # Windows lets nobody remove a file that is locked
                        for name in (LOCK, HOLDER):
                            (self.path / name).unlink(missing_ok=True)
                        self.path.rmdir()

    def begin(self, run: Run, preset: str | None, execution: dict[str, Any]) -> None:
        """Write what this run is, and put it in the place of any earlier one; config.json comes last."""
        facts = run.identity()
        facts["dataset"] |= {"name": run.dataset.name, "notes": list(run.learned.notes)}
        levels, depth = list(run.stream.levels), run.dataset.taxonomy.depth
        facts["stream"] |= {"tasks": run.stream.summary(), "levels": levels, "depth": depth}
        facts["stream"] |= {"moves": run.stream.moves} if run.stream.moves else {}
        where = {"preset": preset, "device": str(run.trainer.device), "execution": execution}
        code = {"code": code_of(run.config)}
        about = {"format": FORMAT, **facts, **where, **circumstances(), **code, "resumed": []}
        with writing(self.path):
            self._sweep()
        new = self.path / NEW
        try:
            run.stream.save(new / "stream.safetensors")
            write_taxonomy(run.evaluator.eras.trees[0], new / "taxonomy.csv")
            write_atomic(new / "config.json", json_text(about))
            with writing(self.path):
                for path in (*(self.path / name for name in FILES), *self.path.glob("checkpoint-*")):
                    path.unlink(missing_ok=True)
                for name in ("stream.safetensors", "taxonomy.csv", "config.json"):
                    (new / name).replace(self.path / name)
                sync(self.path)
        finally:
            shutil.rmtree(new, ignore_errors=True)

    def continue_from(self, run: Run) -> None:
        """Cut the records back to those that the run has, note that it was continued, warn if elsewhere."""
        with writing(self.path):
            self._sweep()
        write_atomic(self.path / "records.jsonl", "".join(map(_line, run.records)), make_folder=False)
        about, now, code = self.about(), circumstances(), code_of(run.config)
        if other := changed_code(about, code):
            log.warning(
                "the code of %s has changed since this run was begun: what it learned before stands; begin "
                "again with --force for one code throughout",
                ", ".join(other),
            )
        about["resumed"].append({"samples": run.position, **now, "code": code})
        self._write_json("config.json", about)
        then = {"torch": about["versions"].get("torch"), "device": about["device"], **about["machine"]}
        here = {"torch": now["versions"]["torch"], "device": str(run.trainer.device), **now["machine"]}
        changed = [
            f"{key} {then.get(key)} → {here[key]}"
            for key in ("torch", "device", "processor", "threads")
            if then.get(key) != here[key]
        ]
        if changed:
            log.warning(
                "continued elsewhere (%s): figures may differ in their last digits", ", ".join(changed)
            )

    def append(self, record: Record) -> None:
        """Add one line to records.jsonl."""
        self.check_present()
        with writing(self.path), (self.path / "records.jsonl").open("a", encoding="utf-8") as file:
            file.write(_line(record))

    def check_present(self) -> None:
        """Refuse to go on where the folder was removed or moved while the run was writing to it."""
        if not self.begun() or not self._still_ours():
            raise RamifyError(
                f"{self.path} was removed or moved while the run was writing to it; nothing more was written"
            )

    def _still_ours(self) -> bool:
        """Whether the lock in the folder is the one that this process holds, if it holds one."""
        return self._lock is None or self._lock.in_place()

    def _sweep(self) -> None:
        """Remove what killed processes left half-written."""
        for name in (*FILES, "checkpoint-*"):
            for path in self.path.glob(f".{name}.*"):
                path.unlink()
        shutil.rmtree(self.path / NEW, ignore_errors=True)

    def _write_json(self, name: str, values: dict[str, Any]) -> None:
        write_atomic(self.path / name, json_text(values), make_folder=False)

    def write_predictions(
        self, last: Evaluation, truth: Ints, task_ends: list[dict[int, Floats]], why: tuple[Ints, Ints]
    ) -> None:
        """For reports: the last answers on all test images and the truth, [n, levels], and class accuracies.

        `probability` is that of each answer, nan where there is none. `mistakes` are test images, `nearest`
        what is stored nearest to each (see `runs.why`).
        `accuracy.LEVEL` is [tasks, classes], at each task's end; nan where a class had not been seen.
        """
        arrays = {"predictions": last.predictions.astype(np.int16), "truth": truth.astype(np.int16)}
        if last.probability is not None:
            arrays["probability"] = last.probability.astype(np.float32)
        arrays |= {
            name: found.astype(np.int32) for name, found in zip(("mistakes", "nearest"), why, strict=True)
        }
        for level in sorted(task_ends[-1]):
            unseen = np.full_like(task_ends[-1][level], np.nan)
            ends = np.stack([end.get(level, unseen) for end in task_ends])
            arrays[f"accuracy.{level}"] = ends.astype(np.float32)
        with beside(self.path / "predictions.safetensors", make_folder=False) as temporary:
            tensors = {name: torch.from_numpy(array) for name, array in arrays.items()}
            save_file(tensors, temporary, {"ramify": json.dumps({"format": FORMAT})})

    def write_model(self, weights: dict[str, torch.Tensor], about: dict[str, Any]) -> None:
        """The final network, with what is needed to use it."""
        with beside(self.path / "model.safetensors", make_folder=False) as temporary:
            save_file(weights, temporary, {"ramify": json.dumps({"format": FORMAT, **about})})

    def write_result(self, result: Result) -> None:
        """The figures; the last file of a run, so it is there only if all others are."""
        with writing(self.path):
            sync(self.path / "records.jsonl")
        self._write_json("result.json", result.to_dict())


def _line(record: Record) -> str:
    return json.dumps(record.to_dict()) + "\n"


def circumstances() -> dict[str, Any]:
    """Command, time, versions, commit and machine."""
    return {
        "command": ["ramify", *sys.argv[1:]],
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
        "versions": dict(_versions()),
        "commit": _commit(),
        "machine": {
            "system": platform.platform(),
            "processor": platform.machine(),
            "cores": os.cpu_count(),
            "threads": torch.get_num_threads(),
        },
    }


@cache  # what a process runs is what it imported
def _versions() -> dict[str, str]:
    packages = ("ramify", "torch", "numpy", "scipy", "pillow")
    return {"python": platform.python_version(), **{name: version(name) for name in packages}}


@cache
def _commit() -> str | None:
    """The commit of the source tree that is running, if it is one."""
    here = Path(__file__).resolve().parent
    command = ["git", "-C", str(here), "describe", "--always", "--dirty", "--abbrev=40"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip() or None
