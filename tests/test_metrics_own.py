"""Metrics of one's own: in records, results, tables and exports; every figure can be compared; pandas."""

from __future__ import annotations

import csv
import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import ramify
from made_runs import SMALL, make_run, study
from ramify.cli import main
from ramify.errors import RamifyError
from ramify.evaluation.own import METRICS, Metric, find_metric, find_metrics
from ramify.reports.data import load_run, read_runs
from ramify.reports.export import columns, record_rows, result_rows
from ramify.reports.html import report_html
from ramify.reports.measures import find_measure, measure_names
from ramify.reports.series import scenarios
from ramify.reports.tables import scenario_table
from ramify.runs import run_config
from tiny_runs import tiny

MINE = """
import ramify

@ramify.metric("answered", percent=False, lower_is_better=True)
def count(predictions, truth, tree):
    return {h: int((predictions[:, h - 1] >= 0).sum()) for h in range(1, tree.depth + 1)}

def right(predictions, truth, tree):
    return (predictions == truth).mean()

def wrong(predictions, truth, tree):
    predictions[:] = -1  # a copy: nobody else sees it
    return float("nan")

number = 3
"""


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A folder with metrics of one's own; what they register is gone afterwards."""
    (tmp_path / "own_metrics.py").write_text(MINE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "own_metrics", raising=False)
    before = dict(METRICS)
    yield tmp_path
    METRICS.clear()
    METRICS.update(before)


def test_a_metric_of_ones_own_is_in_records_result_report_and_export(desk: Path) -> None:
    config = tiny("er", metrics=("own_metrics:count", "own_metrics:right"))
    result = run_config(config, desk / "run")
    run = load_run(desk / "run")
    assert run.answers is not None
    assert result.metrics["right"] == {"all": float((run.answers.predictions == run.answers.truth).mean())}
    assert result.metrics["answered"] == dict.fromkeys(("1", "2", "3"), len(run.answers.truth))
    assert all(record.metrics.keys() == {"answered", "right"} for record in run.records)
    assert run.records[0].metrics["answered"]["3"] == 0  # not seen yet
    about = json.loads((desk / "run" / "config.json").read_text())
    assert about["config"]["metrics"] == ["own_metrics:count", "own_metrics:right"]
    assert "own_metrics" in about["code"]
    page = report_html([run])
    assert "answered at the end of the stream" in page
    assert "right, as recorded" in page  # it was given by name alone: nothing is imported for a report
    rows = result_rows([run])
    assert [row["metric.answered"] for row in rows] == [len(run.answers.truth)] * 3
    assert {row["metric.right"] for row in rows} == {result.metrics["right"]["all"]}
    assert all("metric.right" in row for row in record_rows([run]))
    assert "--own-code" in ramify.runs.folder.RunFolder(desk / "run").continue_command


def test_runs_without_metrics_are_as_they_were(tmp_path: Path) -> None:
    run_config(tiny("er"), tmp_path / "run")
    assert "metrics" not in json.loads((tmp_path / "run" / "records.jsonl").read_text().splitlines()[0])
    assert tiny("er").digest() == tiny("er", metrics=None).digest()


def test_compare_works_a_metric_out_for_runs_that_have_not_recorded_it(
    desk: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    study(desk / "runs", ("er", "clib"), seeds=3)
    (found,) = scenarios(read_runs([desk / "runs"]))
    table = scenario_table(found, "own_metrics:count")
    assert list(table.columns) == [("level 1",), ("level 2",), ("level 3",)]
    assert {entry.ours.mean for row in table.rows for entry in row.cells if entry.ours} == {60.0}
    table = scenario_table(found, "own_metrics:right")
    assert list(table.columns) == [("right",)]
    answers = [run.answers for run in found.series[0].runs]
    expected = np.mean([(a.predictions == a.truth).mean() for a in answers if a is not None])
    entry = table.rows[0].cells[0]
    assert entry.ours is not None
    assert entry.ours.mean == pytest.approx(100 * expected)


def test_every_figure_can_be_compared(tmp_path: Path) -> None:
    study(tmp_path, ("er", "clib"), seeds=2)
    for path in tmp_path.glob("*/result.json"):
        values = json.loads(path.read_text())
        values["decoded"] = {"path": {"1": 0.5}, "path, true tree": {"1": 0.75}}
        values["balanced_accuracy"] = {"1": 0.25}
        path.write_text(json.dumps(values))
    (found,) = scenarios(read_runs([tmp_path]))
    for name in measure_names():
        table = scenario_table(found, name)
        assert table.columns
    means = {
        name: scenario_table(found, name).rows[0].cells[0].ours
        for name in ("decoded.path", "decoded.path-true", "balanced_accuracy", "consistency", "seconds")
    }
    result = found.series[0].runs[0].result
    assert result is not None
    for name, value in {
        "decoded.path": 50,
        "decoded.path-true": 75,
        "balanced_accuracy": 25,
        "seconds": 60,
    }.items():
        figure = means[name]
        assert figure is not None
        assert figure.mean == pytest.approx(value)
    assert find_measure("forgetting").lower_is_better
    assert not find_measure("consistency").lower_is_better


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("final_acuracy", "no metric 'final_acuracy'; did you mean 'final_accuracy'?"),
        ("own_metrics:none", "cannot be imported"),
        ("own_metrics:number", "it must be a function"),
    ],
)
def test_a_mistaken_metric_is_told_before_anything_runs(
    name: str, words: str, desk: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["compare", "--methods", "er", "--metric", name, "--out", "out"]) == 2
    assert words in capsys.readouterr().err
    assert not (desk / "out").exists()


def test_what_a_metric_returns_is_checked(desk: Path) -> None:
    ones = np.ones((2, 3), np.int64)
    with pytest.raises(RamifyError, match="the metric wrong returned nan; it must return a finite number"):
        find_metric("own_metrics:wrong")(ones, ones, SMALL)
    assert (ones == 1).all()
    with pytest.raises(RamifyError, match="levels 1 to 3"):
        Metric("m", lambda p, t, tree: {4: 1.0})(ones, ones, SMALL)
    with pytest.raises(RamifyError, match=r"the metric m failed \(ZeroDivisionError"):
        Metric("m", lambda p, t, tree: 1 / 0)(ones, ones, SMALL)
    assert Metric("m", lambda p, t, tree: None)(ones, ones, SMALL) == {}
    with pytest.raises(RamifyError, match="two metrics are called 'right'"):
        find_metrics(["own_metrics:right", "own_metrics:right"])
    with pytest.raises(RamifyError, match="give it a name that is not ramify's own"):
        ramify.metric("forgetting")


def test_export_takes_runs_whose_settings_differ(tmp_path: Path) -> None:
    for seed, extra in enumerate([{}, {"mine": {"alpha": 0.5}}]):
        folder = make_run(tmp_path / "runs" / f"run-{seed}", seed=seed)
        about = json.loads((folder / "config.json").read_text())
        about["config"] |= {"method": "mine:mine"} | extra if extra else {}
        (folder / "config.json").write_text(json.dumps(about))
    assert main(["export", str(tmp_path / "runs"), "--out", str(tmp_path)]) == 0
    with (tmp_path / "results.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert {row["config.mine.alpha"] for row in rows} == {"", "0.5"}


def test_load_runs_is_the_exported_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    study(tmp_path, ("er",), seeds=2)
    runs = read_runs([tmp_path])
    try:
        import pandas
    except ImportError:  # the least that stands for it
        pandas = ModuleType("pandas")
        pandas.DataFrame = lambda rows, columns: (rows, columns)  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, "pandas", pandas)
        assert ramify.load_runs(tmp_path) == (result_rows(runs), columns(result_rows(runs)))
        assert ramify.load_runs(tmp_path, table="records")[0] == record_rows(runs)
    else:
        frame = ramify.load_runs(tmp_path)
        assert list(frame.columns) == columns(result_rows(runs))
        assert len(frame) == 6
        assert frame.groupby("level")["final_accuracy"].mean()[1] == pytest.approx(
            np.mean([run.result.final_accuracy["1"] for run in runs if run.result is not None])
        )
        assert len(ramify.load_runs(tmp_path, table="records")) == len(record_rows(runs))
    documented = (Path(__file__).parents[1] / "docs" / "metrics.md").read_text()
    for name in columns([*result_rows(runs), *record_rows(runs)]):
        if not name.startswith(("config.", "decoded.")):
            assert f"`{name}`" in documented, name
    with pytest.raises(RamifyError, match="table is 'all'; it must be results or records"):
        ramify.load_runs(tmp_path, table="all")  # type: ignore[arg-type]
    with pytest.raises(RamifyError, match="no folder was given"):
        ramify.load_runs()


def test_load_runs_without_pandas_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(
        RamifyError, match=r"^load_runs needs the extra `pandas`: pip install 'ramify\[pandas\]'$"
    ):
        ramify.load_runs(tmp_path)
