"""Reading runs back from their folders."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ramify.errors import RamifyError
from ramify.evaluation.anytime import Record
from ramify.runs.config import Config
from ramify.runs.result import Result
from ramify.taxonomy import Taxonomy, read_taxonomy
from ramify.typed import from_dict

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Answers:
    """What a finished run said about every test image."""

    predictions: Ints  # [n, levels], -1 for no answer
    truth: Ints  # [n, levels]
    class_accuracy: dict[int, Floats]  # level -> [tasks, classes] at each task's end, nan for not yet seen


@dataclass(frozen=True, eq=False)
class RunData:
    """A run's folder as values. A run in progress has neither `result` nor `answers`.

    Runs that are passed on for their figures may come without their answers.
    """

    path: Path
    config: Config
    facts: dict[str, Any]  # the rest of config.json: command, versions, machine, dataset, stream
    records: tuple[Record, ...]
    result: Result | None
    tree: Taxonomy

    @property
    def samples(self) -> int:
        """Length of the whole stream."""
        return self.task_ends[-1]

    @cached_property
    def task_ends(self) -> tuple[int, ...]:
        """Samples seen at the end of each task."""
        sizes = [task["samples"] for task in self.facts["stream"]["tasks"]]
        return tuple(int(end) for end in np.cumsum(sizes))

    @cached_property
    def answers(self) -> Answers | None:
        """The last answers, read when they are first asked for."""
        path = self.path / "predictions.safetensors"
        return None if self.result is None or not path.exists() else _answers(path, self.tree)

    @property
    def command(self) -> str:
        """The command that began this run, as it could be typed again."""
        import shlex

        return shlex.join(map(str, self.facts.get("command", ())))


def load_run(path: str | Path) -> RunData:
    """Read a run's folder; what is missing or damaged is named."""
    folder = Path(path)
    if not (folder / "config.json").is_file():
        raise RamifyError(
            f"{folder} holds no run (no config.json): give the folder of a run, or one with runs below it"
        )
    facts = _json(folder / "config.json")
    try:
        config = from_dict(Config, facts.pop("config"), f"{folder / 'config.json'}")
        [int(task["samples"]) for task in facts["stream"]["tasks"]]
    except (KeyError, TypeError, ValueError) as error:
        raise RamifyError(f"{folder / 'config.json'} is damaged: no usable {error}; run it again") from None
    result = None
    if (folder / "result.json").exists():
        try:
            result = Result.from_dict(_json(folder / "result.json"))
        except TypeError as error:
            raise RamifyError(f"{folder / 'result.json'} is of another version: {error}") from None
    tree = read_taxonomy(folder / "taxonomy.csv")
    return RunData(folder, config, facts, _records(folder / "records.jsonl"), result, tree)


def find_runs(paths: Iterable[str | Path], within: Path | None = None) -> list[Path]:
    """The folders of runs among `paths` and below them, in order of name; with `within`, none outside it."""
    found: list[Path] = []
    for path in map(Path, paths):
        if not path.is_dir():
            raise RamifyError(f"{path} is not a folder: give the folder of a run, or one with runs below it")
        here = (
            [path]
            if (path / "config.json").is_file()
            else sorted(p.parent for p in path.rglob("config.json"))
        )
        found += [p for p in here if p not in found]
    if within is not None:
        root = within.resolve()
        found = [p for p in found if all(f.resolve().is_relative_to(root) for f in (p, *p.iterdir()))]
    return found


def load_runs(paths: Iterable[str | Path]) -> list[RunData]:
    """All runs among and below `paths`; none is a mistake."""
    given = list(paths)
    runs = [load_run(path) for path in find_runs(given)]
    if not runs:
        raise RamifyError(f"no run below {', '.join(map(str, given))}: make one with `ramify run --out DIR`")
    return runs


def finished(runs: Iterable[RunData]) -> list[tuple[RunData, Result]]:
    """The runs that have a result, with it."""
    return [(run, run.result) for run in runs if run.result is not None]


def _json(path: Path) -> dict[str, Any]:
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise RamifyError(f"{path} cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise RamifyError(f"{path} is damaged: {error}; run it again") from None
    if not isinstance(values, dict):
        raise RamifyError(f"{path} is damaged: it holds no table of values; run it again")
    return values


def _records(path: Path) -> tuple[Record, ...]:
    """The whole lines of records.jsonl; a last line without its end is still being written."""
    if not path.exists():
        return ()
    *lines, _unfinished = path.read_bytes().split(b"\n")
    records = []
    for number, line in enumerate(lines, 1):
        try:
            records.append(Record.from_dict(json.loads(line)))
        except (ValueError, TypeError) as error:
            raise RamifyError(f"{path} line {number} is damaged: {error}; run it again") from None
    return tuple(records)


def _answers(path: Path, tree: Taxonomy) -> Answers:
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    try:
        arrays = load_file(path)
        predictions, truth = (arrays[name].astype(np.int64) for name in ("predictions", "truth"))
    except (SafetensorError, OSError, KeyError) as error:
        raise RamifyError(f"{path} cannot be read: {error}; run it again") from None
    if predictions.shape != truth.shape or predictions.shape[1:] != (tree.depth,):
        raise RamifyError(f"{path} holds answers {predictions.shape} for {tree.depth} levels: it is damaged")
    accuracy = {
        level: arrays[f"accuracy.{level}"].astype(np.float64)
        for level in range(1, tree.depth + 1)
        if f"accuracy.{level}" in arrays
    }
    return Answers(predictions, truth, accuracy)
