"""Reading runs back, and sorting them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from made_runs import SMALL, make_run, study
from ramify.errors import RamifyError
from ramify.methods.clib import FlexibleSettings
from ramify.reports.data import find_runs, load_run, read_runs
from ramify.reports.html import report_html
from ramify.reports.series import differing, scenarios
from ramify.reports.write import report_run
from ramify.runs.execute import run_config
from ramify.streams.single_depth import SingleDepth
from tiny_runs import tiny


def test_a_real_run_is_read_back(tmp_path: Path) -> None:
    given = run_config(tiny("er"), tmp_path / "er", threads=1)
    run = load_run(tmp_path / "er")
    assert run.config == tiny("er")
    assert run.result == given
    assert run.samples == given.samples == run.records[-1].samples
    assert run.answers is not None
    for level, accuracy in given.final_accuracy.items():
        column = int(level) - 1
        right = run.answers.predictions[:, column] == run.answers.truth[:, column]
        assert right.mean() == pytest.approx(accuracy)
        by_class = run.answers.class_accuracy[int(level)][-1]
        truth = run.answers.truth[:, column]
        assert np.allclose(by_class, [right[truth == c].mean() for c in range(run.tree.sizes[column])])
        picked = run.answers.probability[:, column]
        assert ((picked > 0) & (picked <= 1)).all()
        risks = [1 - right[picked >= least].mean() for least in picked]
        assert given.aurc[level] == pytest.approx(np.mean(risks), abs=1e-6)
        stored = [sum(record.memory_classes[level]) for record in run.records if level in record.memory]
        assert stored == [record.memory[level] for record in run.records if level in record.memory]


Damage = Callable[[Path], object]
DEEP = "[" * 100_000 + "\n"


def text(name: str, content: str) -> Damage:
    return lambda folder: (folder / name).write_text(content)


def facts(**changes: Any) -> Damage:
    """Other values in config.json."""

    def damage(folder: Path) -> None:
        path = folder / "config.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | changes))

    return damage


def record(**changes: Any) -> Damage:
    """Other values in the last line of records.jsonl."""

    def damage(folder: Path) -> None:
        path = folder / "records.jsonl"
        *lines, last = path.read_text().splitlines()
        path.write_text("\n".join([*lines, json.dumps(json.loads(last) | changes)]) + "\n")

    return damage


def result(**changes: Any) -> Damage:
    """Other values in result.json."""

    def damage(folder: Path) -> None:
        path = folder / "result.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | changes))

    return damage


def answers(**changes: Any) -> Damage:
    """Other arrays in predictions.safetensors; one that is None goes."""

    def damage(folder: Path) -> None:
        path = folder / "predictions.safetensors"
        arrays = {name.replace("_", "."): value for name, value in changes.items()}
        whole = load_file(path) | arrays
        save_file({name: value for name, value in whole.items() if value is not None}, path)

    return damage


TASK = {"samples": 400}
MISTAKES = {"mistakes": 1.0, "all": 0.5}
REFUSED: list[tuple[Damage, str]] = [
    (lambda folder: (folder / "config.json").unlink(), "holds no run"),
    (text("config.json", "{"), "config.json is damaged"),
    (text("config.json", DEEP), "config.json is damaged"),
    (facts(config=5), "it must be a table"),
    (facts(config={"colour": "red"}), "no field 'colour'"),
    (facts(config={"memory_size": 2**70}), "must lie below"),
    (facts(stream=None), "no usable 'stream'"),
    (facts(stream={"tasks": []}), "no usable 'stream'"),
    (facts(stream={"tasks": 5}), "no usable 'stream'"),
    (facts(stream={"tasks": [TASK, 5]}), "no usable 'stream'"),
    (facts(stream={"tasks": [TASK, {"samples": "400"}]}), "no usable 'stream'"),
    (facts(stream={"tasks": [TASK, {"samples": 0}]}), "no usable 'stream'"),
    (facts(versions=5), "no usable 'versions'"),
    (facts(command=5), "no usable 'command'"),
    (facts(dataset=5), "no usable 'dataset'"),
    (facts(preset=["quick"]), "no usable 'preset'"),
    (text("records.jsonl", DEEP), "records.jsonl line 1 is damaged"),
    (text("records.jsonl", "5\n"), "records.jsonl line 1 is damaged"),
    (text("records.jsonl", "{}\n"), "records.jsonl line 1 is damaged: 'samples' is missing"),
    (record(simples=5), "no field 'simples'; did you mean 'samples'"),
    (record(samples="x"), "line 6 is damaged: samples is 'x'"),
    (record(samples=-1), "samples is -1"),
    (record(samples=10**400), "must lie below"),
    (record(train_seconds="a"), "train_seconds is 'a'"),
    (record(train_seconds=float("nan")), "train_seconds is nan"),
    (record(lr="a"), "lr is 'a'"),
    (record(lr=-1.0), "lr is -1.0"),
    (record(accuracy=5), "accuracy is 5; it must be a table"),
    (record(accuracy={"1": 1.5}), "between 0 and 1"),
    (record(accuracy={"1": float("nan")}), "between 0 and 1"),
    (record(accuracy={"4": 0.5}), "accuracy has level '4'; the tree has 1 to 3"),
    (record(accuracy={"one": 0.5}), "accuracy has level 'one'"),
    (record(classes_seen={}), "classes_seen lacks a level"),
    (record(memory={"9": 1}), "memory has level '9'"),
    (record(memory_classes={"9": [1]}), "memory_classes has level '9'"),
    (record(memory_classes={"1": [1]}), "memory_classes.1 has 1 counts; it must have 2"),
    (record(memory_classes={"1": [1, -1]}), "0 or more"),
    (text("result.json", "[]"), "result.json is damaged"),
    (text("result.json", DEEP), "result.json is damaged"),
    (text("result.json", "{}"), "is missing"),
    (result(seconds="long"), "seconds is 'long'"),
    (result(updates=1.5), "updates is 1.5"),
    (result(final_accuracy={"1": "good"}), "final_accuracy.1 is 'good'"),
    (result(auc={"7": 0.5}), "auc has level '7'"),
    (result(forgetting={"1": -2.0}), "between -1 and 1"),
    (result(consistency=float("inf")), "consistency is inf"),
    (result(mistake_severity={}), "mistake_severity"),
    (result(mistake_severity=MISTAKES | {"all": 9.0}), "all is 9.0"),
    (text("taxonomy.csv", "level1\na\nb\n"), "records.jsonl line"),
    (text("taxonomy.csv", "level1,level2,level3\na,b,c\nd,e,f\n"), "records.jsonl line"),
    (text("predictions.safetensors", "nonsense"), "predictions.safetensors does not fit together"),
    (answers(truth=None), "predictions.safetensors does not fit together"),
    (answers(predictions=np.full((60, 3), 6)), "classes that the tree (2, 4, 6) does not have"),
    (answers(predictions=np.full((60, 3), -2)), "does not have"),
    (answers(predictions=np.zeros((60, 3))), "must be whole numbers [n, 3]"),
    (answers(predictions=np.zeros((59, 3), np.int16)), "59 predictions for 60 images"),
    (answers(predictions=np.zeros((60, 2), np.int16)), "must be whole numbers [n, 3]"),
    (answers(probability=np.ones((60, 2), np.float32)), "probability is float32 (60, 2); it must be floats"),
    (
        answers(mistakes=np.zeros(2, int), nearest=np.zeros((1, 3, 3), int)),
        "mistakes (2,) and nearest (1, 3, 3)",
    ),
    (answers(mistakes=np.zeros((1, 2), int), nearest=np.ones((1, 1, 2, 1, 3), int)), "whole numbers [m]"),
    (answers(mistakes=np.array([60]), nearest=np.ones((1, 3, 3), int)), "mistakes has images"),
    (answers(mistakes=np.array([0]), nearest=np.full((1, 3, 3), 9)), "levels that are not there"),
    (answers(mistakes=np.array([0]), nearest=np.array([[[0, 1, 2]]])), "nearest has classes"),
    (answers(probability=np.full((60, 3), np.nan)), "probability has answers outside 0..1"),
    (answers(truth=np.full((60, 3), -2)), "does not have"),
    (answers(accuracy_1=np.zeros(2)), "must be floats [tasks, 2]"),
    (answers(accuracy_2=np.zeros((3, 3))), "must be floats [tasks, 4]"),
    (answers(accuracy_2=np.zeros((0, 4))), "must be floats [tasks, 4]"),
    (answers(accuracy_3=np.full((3, 6), np.inf)), "outside 0..1"),
]


@pytest.mark.parametrize(("damage", "said"), REFUSED)
def test_damage_is_named(tmp_path: Path, damage: Damage, said: str) -> None:
    folder = make_run(tmp_path / "run")
    damage(folder)
    with pytest.raises(RamifyError) as caught:
        report_html([load_run(folder)])
    assert str(folder) in str(caught.value)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_run_that_made_no_update_can_be_shown(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "run")
    result(images_forward=0, images_backward=0, images_memory=0)(folder)
    assert "Accuracy against compute" in report_html([load_run(folder)])


@pytest.mark.parametrize(("method", "eval_at"), [("er", "task-ends"), ("oracle", "any-time")])
def test_without_periodic_evaluations_there_is_no_any_time_accuracy(
    method: str, eval_at: Literal["any-time", "task-ends"], tmp_path: Path
) -> None:
    config = tiny(method, eval_every=48, eval_at=eval_at)  # a task ends every 48 samples
    given = run_config(config, tmp_path / "run", threads=1)
    assert not any(record.periodic for record in load_run(tmp_path / "run").records)
    assert given.auc == {}
    assert set(given.average_accuracy) == set(given.final_accuracy)


def test_figures_can_be_passed_on_without_the_answers(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "run")
    (folder / "predictions.safetensors").unlink()
    assert load_run(folder).answers is None
    report_run(folder)
    assert (folder / "report.html").is_file()


def test_answers_that_were_kept_without_their_probabilities_are_read(tmp_path: Path) -> None:
    kept, older = make_run(tmp_path / "kept"), make_run(tmp_path / "older")
    answers(probability=None)(older)
    given = load_run(older).answers
    assert given.probability is None
    np.testing.assert_array_equal(given.predictions, load_run(kept).answers.predictions)
    for folder in (kept, older):
        report_run(folder)
    assert "risk–coverage" in (kept / "report.html").read_text()
    assert "risk–coverage" not in (older / "report.html").read_text()


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
        read_runs([tmp_path / "empty"])
    with pytest.raises(RamifyError, match="is not there: give the folder of a run"):
        read_runs([tmp_path / "nowhere"])


def test_runs_that_differ_only_in_the_seed_are_one_line(tmp_path: Path) -> None:
    for seed in (2, 0, 1):
        make_run(tmp_path / f"a{seed}", "pl-fms", seed)
        make_run(tmp_path / f"b{seed}", "pl-fms", seed, fms=FlexibleSettings(T=500.0))
    make_run(tmp_path / "c", "er", 0, setup="single-depth", single_depth=SingleDepth("dual"))
    found = scenarios(read_runs([tmp_path]))
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
    (scenario,) = scenarios(read_runs([tmp_path]))
    assert [run.path.name for run in scenario.runs] == ["first"]


@pytest.mark.parametrize("levels", [[1], [1, 2, "3"], [1, 2, 3.0], {"1": 2}, "123", [True, 2, 3]])
def test_levels_that_do_not_fit_the_tree_are_damage(tmp_path: Path, levels: Any) -> None:
    run = make_run(tmp_path / "run")
    about = json.loads((run / "config.json").read_text())
    about["stream"]["levels"] = levels
    (run / "config.json").write_text(json.dumps(about))
    with pytest.raises(RamifyError, match=r"damaged: no usable 'stream.levels'"):
        load_run(run)
    about["stream"] |= {"levels": [1, 2, 3], "depth": "3"}
    (run / "config.json").write_text(json.dumps(about))
    with pytest.raises(RamifyError, match=r"damaged: no usable 'stream.depth'"):
        load_run(run)


@pytest.mark.parametrize("file", ["result.json", "records.jsonl"])
def test_levels_told_otherwise_than_by_the_stream_are_damage(tmp_path: Path, file: str) -> None:
    path = make_run(tmp_path / "run") / file
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    path.write_text("".join(json.dumps(line | {"tree_levels": {"1": 2}}) + "\n" for line in lines))
    with pytest.raises(RamifyError, match=r"damaged: tree_levels is \{'1': 2\}; its config gives none"):
        load_run(tmp_path / "run")


def test_older_published_runs_tell_the_levels_of_their_dataset_s_tree() -> None:
    """They have not written them; CIFAR-100's tree has five, of which these setups use the last."""
    told: dict[str, set[tuple[int, ...]]] = {}
    for run in read_runs([Path(__file__).parents[1] / "results" / "study.jsonl"]):
        assert "levels" not in run.facts["stream"]
        if run.config.dataset == "cifar100":
            told.setdefault(run.config.setup, set()).add(run.tree.level_numbers)
    assert told["single-depth"] == {(4, 5)}
    assert told["disjoint"] == {(5,)}
    assert told["multiple-depth"] == {(1, 2, 3, 4, 5)}


def test_settings_that_differ_are_told(tmp_path: Path) -> None:
    runs = [load_run(make_run(tmp_path / "a")), load_run(make_run(tmp_path / "b", memory_size=7))]
    assert differing(run.config for run in runs) == {"memory_size": [2000, 7]}
    assert runs[0].tree == SMALL
