"""Reading runs back, and sorting them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import numpy as np
import pytest

from made_runs import SMALL, make_run, study
from ramify.errors import RamifyError
from ramify.methods.settings import FlexibleSettings
from ramify.reports.data import find_runs, load_run, load_runs
from ramify.reports.series import differing, scenarios
from ramify.reports.write import report_run
from ramify.runs.execute import run_config
from tiny_runs import tiny


def test_a_real_run_is_read_back(tmp_path: Path) -> None:
    result = run_config(tiny("er"), tmp_path / "er", threads=1)
    run = load_run(tmp_path / "er")
    assert run.config == tiny("er")
    assert run.result == result
    assert run.samples == result.samples == run.records[-1].samples
    assert run.answers is not None
    for level, accuracy in result.final_accuracy.items():
        column = int(level) - 1
        right = run.answers.predictions[:, column] == run.answers.truth[:, column]
        assert right.mean() == pytest.approx(accuracy)
        by_class = run.answers.class_accuracy[int(level)][-1]
        truth = run.answers.truth[:, column]
        assert np.allclose(by_class, [right[truth == c].mean() for c in range(run.tree.sizes[column])])
        stored = [sum(record.memory_classes[level]) for record in run.records if level in record.memory]
        assert stored == [record.memory[level] for record in run.records if level in record.memory]


def break_config(folder: Path) -> None:
    (folder / "config.json").write_text("{")


def no_config(folder: Path) -> None:
    (folder / "config.json").unlink()


def strange_setting(folder: Path) -> None:
    facts = json.loads((folder / "config.json").read_text())
    facts["config"]["colour"] = "red"
    (folder / "config.json").write_text(json.dumps(facts))


def no_stream(folder: Path) -> None:
    facts = json.loads((folder / "config.json").read_text())
    del facts["stream"]
    (folder / "config.json").write_text(json.dumps(facts))


def break_record(folder: Path) -> None:
    path = folder / "records.jsonl"
    path.write_text(path.read_text().replace('"samples"', '"simples"', 1))


def break_result(folder: Path) -> None:
    (folder / "result.json").write_text("[]")


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (no_config, "holds no run"),
        (break_config, "config.json is damaged"),
        (strange_setting, "no field 'colour'"),
        (no_stream, "no usable 'stream'"),
        (break_record, "records.jsonl line 1 is damaged"),
        (break_result, "result.json is damaged"),
    ],
)
def test_damage_is_named(tmp_path: Path, damage: Callable[[Path], None], said: str) -> None:
    folder = make_run(tmp_path / "run")
    damage(folder)
    with pytest.raises(RamifyError, match=said) as caught:
        load_run(folder)
    assert "\n" not in str(caught.value)


def test_damaged_answers_are_named_when_they_are_needed(tmp_path: Path) -> None:
    run = load_run(make_run(tmp_path / "run"))
    (run.path / "predictions.safetensors").write_bytes(b"nonsense")
    with pytest.raises(RamifyError, match=r"predictions\.safetensors cannot be read"):
        _ = run.answers


@pytest.mark.parametrize(("method", "eval_at"), [("er", "task-ends"), ("oracle", "any-time")])
def test_without_periodic_evaluations_there_is_no_any_time_accuracy(
    method: str, eval_at: Literal["any-time", "task-ends"], tmp_path: Path
) -> None:
    config = tiny(method, eval_every=48, eval_at=eval_at)  # a task ends every 48 samples
    result = run_config(config, tmp_path / "run", threads=1)
    assert not any(record.periodic for record in load_run(tmp_path / "run").records)
    assert result.auc == {}
    assert set(result.average_accuracy) == set(result.final_accuracy)


def test_figures_can_be_passed_on_without_the_answers(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "run")
    (folder / "predictions.safetensors").unlink()
    assert load_run(folder).answers is None
    report_run(folder)
    assert (folder / "report.html").is_file()


def test_a_line_that_is_being_written_is_left_for_later(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "run", finished=False)
    before = load_run(folder).records
    with (folder / "records.jsonl").open("a") as file:
        file.write('{"samples": 99')
    assert load_run(folder).records == before
    assert load_run(folder).result is None


def test_runs_are_found_below_a_folder_and_nowhere_else(tmp_path: Path) -> None:
    study(tmp_path / "in", methods=("er",), seeds=2)
    outside = make_run(tmp_path / "out")
    (tmp_path / "in" / "link").symlink_to(outside)
    (tmp_path / "in" / "er-1" / "records.jsonl").unlink()
    (tmp_path / "in" / "er-1" / "records.jsonl").symlink_to(outside / "records.jsonl")
    found = find_runs([tmp_path / "in"], within=tmp_path / "in")
    assert [path.name for path in found] == ["er-0"]
    (tmp_path / "empty").mkdir()
    with pytest.raises(RamifyError, match="no run below"):
        load_runs([tmp_path / "empty"])
    with pytest.raises(RamifyError, match="is not a folder"):
        load_runs([tmp_path / "nowhere"])


def test_runs_that_differ_only_in_the_seed_are_one_line(tmp_path: Path) -> None:
    for seed in (2, 0, 1):
        make_run(tmp_path / f"a{seed}", "pl-fms", seed)
        make_run(tmp_path / f"b{seed}", "pl-fms", seed, fms=FlexibleSettings(T=500.0))
    make_run(tmp_path / "c", "er", 0, setup="single-depth", labels="dual")
    found = scenarios(load_runs([tmp_path]))
    assert [scenario.title for scenario in found] == [
        "garden, multiple-depth",
        "garden, single-depth, dual-label",
    ]
    labels = {series.label for series in found[0].series}
    assert labels == {"PL-FMS (fms.T 500.0)", "PL-FMS (fms.T 5000.0)"}
    assert all([run.config.seed for run in series.runs] == [0, 1, 2] for series in found[0].series)
    a, b = found[0].series
    assert a.style.color == b.style.color
    assert a.style != b.style


def test_a_repeated_run_counts_once_and_the_finished_one_wins(tmp_path: Path) -> None:
    make_run(tmp_path / "first", finished=True)
    make_run(tmp_path / "second", finished=False)
    (scenario,) = scenarios(load_runs([tmp_path]))
    assert [run.path.name for run in scenario.runs] == ["first"]


def test_settings_that_differ_are_told(tmp_path: Path) -> None:
    runs = [load_run(make_run(tmp_path / "a")), load_run(make_run(tmp_path / "b", memory_size=7))]
    assert differing(run.config for run in runs) == {"memory_size": [2000, 7]}
    assert runs[0].tree == SMALL
