"""Whether a finished run can be what it says: its records, its result, its stream and its cost agree."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from pathlib import Path

from ramify.errors import RamifyError
from ramify.methods import METHODS
from ramify.reports.data import RunData, load_run
from ramify.reports.series import stream_settings
from ramify.runs.result import Result
from ramify.runs.run import prepare_dataset, prepare_stream
from ramify.sweeps.archive import Packed
from ramify.sweeps.study import StudyRun

FASTEST = 1e7  # images a second through a network: no machine that ramify runs on
PASSES = 10  # backward passes of an image of a batch in one update, at most


def check_runs(
    paths: Iterable[Path | Packed], data_dir: str | None = None
) -> tuple[list[RunData], list[str]]:
    """The runs that can be read, and a line for each thing that cannot be."""
    runs, wrong = [], []
    for path in paths:
        try:
            run = load_run(path)
        except RamifyError as error:
            wrong.append(str(error))
            continue
        runs.append(run)
        wrong += [f"{path}: {problem}" for problem in problems(run)]
    return runs, [*wrong, *_streams(runs, data_dir)]


def problems(run: RunData) -> Iterator[str]:
    """What does not agree within a run."""
    result = run.result
    if result is None or not run.records:
        yield "it is not finished: there is no result, or no record"
        return
    if isinstance(run.path, Packed) and run.path.name != (name := StudyRun(run.config).name):
        yield f"the name does not follow from its config, which gives {name}"
    yield from _records(run, result)
    yield from _figures(run, result)
    yield from _cost(run, result)


def _records(run: RunData, result: Result) -> Iterator[str]:
    last, seen = run.records[-1], [record.samples for record in run.records]
    if not last.samples == result.samples == run.samples:
        counts = f"{last.samples} samples in the records, {result.samples} in the result"
        yield f"{counts}, {run.samples} in the stream"
    if seen != sorted(set(seen)):
        yield "the records are not in the order of the stream"
    if any(record.task_end and record.samples not in run.task_ends for record in run.records):
        yield "a record says that a task ends where none does"
    if last.updates != result.updates:
        yield f"{last.updates} updates in the records, {result.updates} in the result"
    spent = last.train_seconds + sum(record.eval_seconds for record in run.records)
    if abs(spent - result.seconds) > 1 + 0.01 * spent:
        yield f"{result.seconds:.0f} seconds in the result, {spent:.0f} in the records"


def _figures(run: RunData, result: Result) -> Iterator[str]:
    """Those of the result that its records, or others of its own, give."""
    last = run.records[-1]
    if last.accuracy != result.final_accuracy:
        yield "final_accuracy is not that of the last record"
    if result.decoded and last.accuracy not in result.decoded.values():
        yield "final_accuracy is that of none of the ways in which the answers are decoded"
    if run.tree.even:  # a path that is right is right at every level, and agrees with itself
        levels = range(1, run.tree.depth + 1)
        most = min(result.consistency, *(last.accuracy.get(str(level), 0.0) for level in levels))
        if result.path_accuracy > most + 1e-9:
            yield f"path_accuracy is {result.path_accuracy}; accuracy and consistency allow {most} at most"
    due: dict[str, tuple[float | None, float | None]] = {}
    for name, kind in (("auc", "periodic"), ("average_accuracy", "task_end")):
        given = getattr(result, name)
        for level in last.accuracy:
            values = [r.accuracy[level] for r in run.records if getattr(r, kind) and level in r.accuracy]
            due[f"{name} at level {level}"] = given.get(level), _mean(values)
    finest = [r.finest for r in run.records if r.periodic and r.finest is not None]
    if result.aauc is not None:  # older runs have none of these
        due["aauc"] = result.aauc, _mean(result.auc.values())
        due["fauc"] = result.fauc, _mean(finest)
    due["finest_accuracy"] = result.finest_accuracy, last.finest
    due |= {name: (getattr(result, name), getattr(last, name)) for name in ("jaccard", "hops")}
    for name, (given, found) in due.items():
        if (given is None) != (found is None) or not math.isclose(given or 0, found or 0, abs_tol=1e-9):
            yield f"{name} is {given}; the records give {found}"


def _mean(values: Iterable[float]) -> float | None:
    found = list(values)
    return math.fsum(found) / len(found) if found else None


def _cost(run: RunData, result: Result) -> Iterator[str]:
    config, method = run.config, METHODS.get(run.config.method)
    backward, forward = result.images_backward, result.images_forward
    least = float(result.updates)
    if method is not None:  # half a batch, once memory holds as much
        half = min(config.batch_size / 2, config.memory_size)
        least = max(least, half * (result.updates - config.batch_size * max(1.0, config.updates_per_sample)))
    if not least <= backward <= PASSES * result.updates * config.batch_size:
        yield f"{backward} images backward in {result.updates} updates of {config.batch_size} images"
    if forward < backward:
        yield f"fewer images forward ({forward}) than backward ({backward})"
    if forward + backward > FASTEST * max(result.seconds, 1e-3):
        yield f"{forward + backward} images in {result.seconds} seconds"
    if method is not None and method.closed_form and not (result.updates == 0 and forward >= result.samples):
        yield f"{result.updates} updates, {forward} images forward; it has none, and {result.samples} images"
    if method is not None and method.memory_epochs == "never" and not method.closed_form:
        due = result.samples * config.updates_per_sample
        if not 0.9 * due - config.batch_size <= result.updates <= 1.01 * due + 1:
            yield f"{result.updates} updates; {result.samples} samples give {due:g} by its config"


def _streams(runs: list[RunData], data_dir: str | None) -> Iterator[str]:
    """Runs of one config of stream, seed and dataset have one stream: the one made anew, or that of most.

    Another seed has another stream.
    """
    alike: dict[str, dict[str, list[RunData]]] = {}
    seeds: dict[tuple[str, str], int] = {}
    for run in runs:
        images = run.facts.get("dataset", {}).get("fingerprint")
        settings, seed = repr((stream_settings(run), images)), run.config.seed
        found = str(run.facts["stream"].get("fingerprint"))
        alike.setdefault(f"{settings} {seed}", {}).setdefault(found, []).append(run)
        other = seeds.setdefault((settings, found), seed)
        if other != seed and _drawn(run):
            yield f"{run.path}: its stream is {found:.12}, that of seed {other}, not {seed}"
    for groups in alike.values():
        usual = max(groups, key=lambda one: len(groups[one]))
        right = _made_anew(groups[usual][0], data_dir) or usual
        for found, group in groups.items():
            if found != right:
                for run in group:
                    yield f"{run.path}: its stream is {found:.12}; its config and dataset give {right:.12}"


def _drawn(run: RunData) -> bool:
    """Whether the stream follows from the seed by a rule that is known here."""
    return run.config.stream is None and ":" not in run.config.setup


def _made_anew(run: RunData, data_dir: str | None) -> str | None:
    """The fingerprint of the stream, where the run's images are at hand."""
    if not _drawn(run):
        return None
    try:
        dataset = prepare_dataset(run.config, data_dir)
        same = dataset.fingerprint == run.facts.get("dataset", {}).get("fingerprint")
        return prepare_stream(run.config, dataset).fingerprint if same else None
    except RamifyError:
        return None
