"""Nothing grows with the number of samples. `tools/load.py` does the same with ten million of them."""

from __future__ import annotations

from pathlib import Path

from loading import SEVEN, deep_run, push
from ramify.reports.data import load_run
from ramify.reports.write import report_run
from ramify.runs.folder import RunFolder


def test_memory_and_time_stay_constant() -> None:
    load = push(60_000)
    assert load.bytes_per_million < 20e6  # 20 bytes a sample: less than its four numbers
    assert load.slowdown < 2


def test_a_run_of_1189_classes_and_many_evaluations_stays_small(tmp_path: Path) -> None:
    run = deep_run(tmp_path, 120)
    records = RunFolder(tmp_path).records()
    assert len(records) == len(run.records) > 120
    assert sum(records[-1].classes_seen.values()) == sum(SEVEN) == 1189
    assert (tmp_path / "records.jsonl").stat().st_size < 6000 * len(records)
    assert len(load_run(tmp_path).records) == len(records)
    report_run(tmp_path)
    assert (tmp_path / "report.html").stat().st_size < 5e6
