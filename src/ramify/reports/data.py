"""Reading runs back from their folders."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from importlib.resources.abc import Traversable
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np

from ramify.arrays import Floats, Ints
from ramify.errors import RamifyError
from ramify.evaluation.anytime import Record
from ramify.files import check_format, fitting, read_json
from ramify.reports.checks import (
    check_class_accuracy,
    check_classes,
    check_facts,
    check_nearest,
    check_probability,
    check_record,
    check_result,
    moved_tree,
    told_tree,
)
from ramify.runs.config import Config, read_config
from ramify.runs.files import FORMAT, RunFiles
from ramify.runs.result import Result
from ramify.sweeps.archive import SUFFIX, Packed, is_archive, open_runs
from ramify.sweeps.jobs import ERRORS, PROGRESS
from ramify.taxonomy import Taxonomy, read_taxonomy
from ramify.taxonomy.read import parse_csv

LONGEST = 4096  # bytes of errors.txt that are looked at, from its end


@dataclass(frozen=True, eq=False)
class FinalAnswers:
    """What a finished run said about every test image."""

    predictions: Ints  # [n, levels], -1 for no answer
    truth: Ints  # [n, levels], -1 below the end of a leaf
    class_accuracy: dict[int, Floats]  # level -> [tasks, classes] at each task's end, nan for not yet seen
    probability: Floats | None = None  # [n, levels] of each answer, nan for none; older runs have not kept it
    nearest: dict[int, Ints] = field(default_factory=dict)
    """Of the worst mistakes, by test image, the nearest stored samples [k, 3]: the training image, and the
    level and class that it was taught as."""


@dataclass(frozen=True, eq=False)
class RunData:
    """A run's folder as values. A run in progress has neither `result` nor `answers`.

    Runs that are passed on for their figures may come without their answers.
    """

    path: Traversable
    config: Config
    facts: dict[str, Any]  # the rest of config.json: command, versions, machine, dataset, stream
    records: tuple[Record, ...]
    result: Result | None
    tree: Taxonomy  # at the end of the stream, where classes move on the way

    @property
    def samples(self) -> int:
        """Length of the whole stream."""
        return self.task_ends[-1]

    @cached_property
    def task_ends(self) -> tuple[int, ...]:
        """Samples seen at the end of each task."""
        return tuple(accumulate(task["samples"] for task in self.facts["stream"]["tasks"]))

    @cached_property
    def answers(self) -> FinalAnswers | None:
        """The last answers, read when they are first asked for."""
        path = self.path / "predictions.safetensors"
        if self.result is None or not isinstance(path, Path) or not path.exists():  # an archive has none
            return None
        return _answers(path, self.tree)

    @property
    def failure(self) -> str | None:
        """What a sweep noted when the run last failed, unless it has gone on since."""
        return failure_in(self.path) if isinstance(self.path, Path) else None

    @property
    def command(self) -> str:
        """The command that began this run, as it could be typed again."""
        import shlex

        return shlex.join(map(str, self.facts.get("command", ())))


def load_run(path: str | Traversable) -> RunData:
    """Read a run's folder; what is missing or damaged is named."""
    folder = Path(path) if isinstance(path, str) else path
    if not (folder / "config.json").is_file():
        raise RamifyError(
            f"{folder} holds no run (no config.json): give the folder of a run, or one with runs below it"
        )
    facts = _facts(folder / "config.json")
    config = read_config(facts.pop("config", None), f"{folder / 'config.json'}")
    damaged = f"{folder / 'config.json'} is damaged"
    tree = told_tree(moved_tree(_tree(folder), facts, damaged), facts, config, damaged)
    records = _records(folder, tree)
    return RunData(folder, config, facts, records, _result(folder / "result.json", tree), tree)


def find_runs(paths: Iterable[str | Path], within: Path | None = None) -> list[Path | Packed]:
    """The runs among `paths` and below them, in folders and archives, in order of name.

    With `within`, none outside it.
    """
    found: dict[str, Path | Packed] = {}
    for path in map(Path, paths):
        if not path.exists():
            raise RamifyError(
                f"{path} is not there: give the folder of a run, one with runs below it, or an archive"
            )
        if path.is_file() or (path / "config.json").is_file():
            here = [path]
        else:
            here = [p.parent for p in path.rglob("config.json")]
            here += [p for p in path.rglob(f"*{SUFFIX}") if is_archive(p)]
        for one in sorted(here):
            if within is None or _lies_within(one, within.resolve()):
                there = open_runs(one)
                found |= {str(run): run for run in (there.iterdir() if isinstance(there, Packed) else [one])}
    return list(found.values())


def _lies_within(path: Path, root: Path) -> bool:
    files = (path, *path.iterdir()) if path.is_dir() else (path,)
    return all(file.resolve().is_relative_to(root) for file in files)


def failure_in(folder: Path) -> str | None:
    """The last line of errors.txt, if that is the latest thing that happened in a run's folder.

    A sweep writes it also for a run that fails before it has begun, whose folder holds nothing else.
    """
    if (folder / "result.json").exists():
        return None
    later = ("config.json", "records.jsonl", PROGRESS)
    try:
        with (folder / ERRORS).open("rb") as file:
            when = os.fstat(file.fileno()).st_mtime_ns
            file.seek(max(0, os.fstat(file.fileno()).st_size - LONGEST))
            lines = file.read().decode(errors="replace").split("\n")
        gone_on = any((folder / n).stat().st_mtime_ns > when for n in later if (folder / n).exists())
    except OSError:
        return None
    told = [" ".join(line.split()) for line in lines if line.strip()]
    return None if gone_on or not told else told[-1].partition(" ")[2] or told[-1]


def find_failed(root: Path) -> list[Path]:
    """The folders below `root` of runs that failed before they had begun: none of its files is there."""
    whole = root.resolve()
    return sorted(
        path.parent
        for path in root.rglob(ERRORS)
        if not (path.parent / "config.json").exists() and path.resolve().is_relative_to(whole)
    )


def read_runs(paths: Iterable[str | Path]) -> list[RunData]:
    """All runs among and below `paths`; none is a mistake."""
    given = list(paths)
    runs = [load_run(path) for path in find_runs(given)]
    if not runs:
        raise RamifyError(f"no run below {', '.join(map(str, given))}: make one with `ramify run --out DIR`")
    return runs


def finished(runs: Iterable[RunData]) -> list[tuple[RunData, Result]]:
    """The runs that have a result, with it."""
    return [(run, run.result) for run in runs if run.result is not None]


def _facts(path: Traversable) -> dict[str, Any]:
    facts = read_json(path)
    check_format(facts.pop("format", None), path, FORMAT)
    check_facts(facts, f"{path} is damaged")
    return facts


def _tree(folder: Traversable) -> Taxonomy:
    path = folder / "taxonomy.csv"
    return read_taxonomy(path) if isinstance(path, Path) else parse_csv(path.read_text("utf-8"), str(path))


def _records(folder: Traversable, tree: Taxonomy) -> tuple[Record, ...]:
    records = tuple(RunFiles(folder).records())
    for number, record in enumerate(records, 1):
        check_record(record, tree, f"{folder / 'records.jsonl'} line {number} is damaged")
    return records


def _result(path: Traversable, tree: Taxonomy) -> Result | None:
    if not path.is_file():
        return None
    result = Result.from_dict(read_json(path), path)
    check_result(result, tree, f"{path} is damaged")
    return result


def _answers(path: Path, tree: Taxonomy) -> FinalAnswers:
    from safetensors import safe_open

    with fitting(path), safe_open(path, framework="np") as file:
        about = json.loads((file.metadata() or {}).get("ramify", "{}"))
        check_format(about.get("format", FORMAT), path, FORMAT)  # older files have no format: it is 1
        arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        predictions, truth = arrays["predictions"], arrays["truth"]
    where = f"{path} is damaged"
    check_classes(predictions, "predictions", -1, tree, where)
    check_classes(truth, "truth", -1, tree, where)
    if predictions.shape != truth.shape:
        raise RamifyError(f"{where}: {len(predictions)} predictions for {len(truth)} images; run it again")
    accuracy: dict[int, Floats] = {}
    for level in range(1, tree.depth + 1):
        shares = arrays.get(f"accuracy.{level}")
        if shares is not None:
            check_class_accuracy(shares, level, tree, where)
            accuracy[level] = shares.astype(np.float64)
    probability = arrays.get("probability")
    if probability is not None:
        check_probability(probability, predictions, where)
        probability = probability.astype(np.float64)
    near: dict[int, Ints] = {}
    if "mistakes" in arrays and "nearest" in arrays:
        check_nearest(arrays["mistakes"], arrays["nearest"], len(truth), tree, where)
        stored = arrays["nearest"].astype(np.int64)
        near = {i: rows[rows[:, 0] >= 0] for i, rows in zip(arrays["mistakes"].tolist(), stored, strict=True)}
    return FinalAnswers(predictions.astype(np.int64), truth.astype(np.int64), accuracy, probability, near)
