"""Runs as plain tables, for notebooks and other tools."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ramify.errors import RamifyError
from ramify.evaluation.own import ALL
from ramify.files import beside, write_atomic
from ramify.reports.data import RunData, finished
from ramify.reports.measures import WAYS
from ramify.typed import flat, to_dict

Rows = list[dict[str, Any]]
BY_LEVEL = ("final_accuracy", "auc", "average_accuracy", "forgetting", "balanced_accuracy", "aurc")
SCALARS = (
    *("finest_accuracy", "aauc", "fauc", "jaccard", "hops", "updates", "seconds"),
    *("images_forward", "images_backward", "images_memory", "images_evaluation", "peak_memory"),
)


def record_rows(runs: Iterable[RunData]) -> Rows:
    """One row for each evaluation and level."""
    return [
        {
            **_identity(run),
            **_taken(record, "samples", "updates", "task", "periodic", "task_end"),
            **_level(run, level),
            "accuracy": accuracy,
            "classes_seen": record.classes_seen[level],
            "memory": record.memory.get(level, 0),
            **_taken(record, "train_seconds", "eval_seconds", "lr"),
            **_own(record.metrics, level),
        }
        for run in runs
        for record in run.records
        for level, accuracy in record.accuracy.items()
    ]


def result_rows(runs: Iterable[RunData]) -> Rows:
    """One row for each finished run and level, with all its settings."""
    return [
        {
            **_identity(run),
            **_level(run, level),
            **{name: values.get(level) for name, values in _taken(result, *BY_LEVEL).items()},
            **_taken(result, "consistency", "path_accuracy"),
            "severity_mistakes": result.mistake_severity["mistakes"],
            "severity_all": result.mistake_severity["all"],
            **_taken(result, *SCALARS),
            **{name: result.decoded.get(way, {}).get(level) for name, way in WAYS.items()},
            **_own(result.metrics, level),
            **{f"config.{name}": _plain(value) for name, value in flat(to_dict(run.config)).items()},
        }
        for run, result in finished(runs)
        for level in result.final_accuracy
    ]


def export(runs: list[RunData], folder: Path, kind: str) -> list[Path]:
    """Write records and results as CSV or Parquet (extra `parquet`)."""
    paths = []
    for name, rows in (("records", record_rows(runs)), ("results", result_rows(runs))):
        path = folder / f"{name}.{kind}"
        if kind == "csv":
            write_atomic(path, csv_text(rows))
        else:
            write_parquet(rows, path)
        paths.append(path)
    return paths


def _own(metrics: dict[str, dict[str, float]], level: str) -> dict[str, float | None]:
    """Metrics of one's own at a level; one that is not of a level stands in every row."""
    return {f"metric.{name}": values.get(level, values.get(ALL)) for name, values in metrics.items()}


def columns(rows: Rows) -> list[str]:
    """All names of columns, in the order of first sight: runs may have settings that others have not."""
    return list(dict.fromkeys(name for row in rows for name in row))


def _identity(run: RunData) -> dict[str, Any]:
    chosen = _taken(run.config, "method", "dataset", "setup", "labels", "seed")
    return {"run": run.path.name, **chosen, "preset": run.facts.get("preset")}


def _level(run: RunData, level: str) -> dict[str, int]:
    """The level as the run counts it and as the dataset's tree does; below 0 counted from the leaf."""
    return {"level": int(level), "tree_level": run.tree.level_numbers[int(level) - 1]}


def _taken(values: object, *names: str) -> dict[str, Any]:
    """Some attributes by their names."""
    return {name: getattr(values, name) for name in names}


def _plain(value: Any) -> Any:
    """Lists as text: a cell holds one value."""
    return " ".join(map(str, value)) if isinstance(value, list) else value


def csv_text(rows: Rows) -> str:
    """Rows as CSV; all have the columns of the first."""
    text = io.StringIO()
    if rows:
        writer = csv.DictWriter(text, columns(rows), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    return text.getvalue()


def write_parquet(rows: Rows, path: Path) -> None:
    """Rows as a Parquet file."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise RamifyError("Parquet needs the extra `parquet`: pip install 'ramify[parquet]'") from None
    with beside(path) as temporary:
        pq.write_table(pa.Table.from_pylist([dict.fromkeys(columns(rows)) | row for row in rows]), temporary)
