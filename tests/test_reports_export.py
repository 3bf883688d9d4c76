"""Export, tracking, and the commands that make runs on the way to a table."""

from __future__ import annotations

import csv
import struct
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from made_runs import make_run, study
from ramify.cli import main
from ramify.errors import RamifyError
from ramify.reports.data import read_runs
from ramify.reports.export import record_rows, result_rows
from ramify.runs.execute import run_config
from ramify.runs.track import TRACKERS, Tracking, find_tracker, metrics
from tiny_runs import tiny


def test_csv_has_every_accuracy_of_every_record(tmp_path: Path) -> None:
    study(tmp_path / "runs", ("er", "clib"), seeds=2)
    assert main(["export", str(tmp_path / "runs"), "--out", str(tmp_path)]) == 0
    runs = read_runs([tmp_path / "runs"])
    with (tmp_path / "records.csv").open() as file:
        rows = list(csv.DictReader(file))
    expected = [
        (run.path.name, record.samples, level, accuracy)
        for run in runs
        for record in run.records
        for level, accuracy in record.accuracy.items()
    ]
    assert [(r["run"], int(r["samples"]), r["level"], float(r["accuracy"])) for r in rows] == expected
    with (tmp_path / "results.csv").open() as file:
        results = list(csv.DictReader(file))
    assert len(results) == 4 * 3
    assert {row["config.memory_size"] for row in results} == {"2000"}


def test_parquet_is_the_same_table(tmp_path: Path) -> None:
    pq = pytest.importorskip("pyarrow.parquet", reason="Parquet needs the extra `parquet`")
    study(tmp_path / "runs", ("er",), seeds=2)
    assert main(["export", str(tmp_path / "runs"), "--to", "parquet", "--out", str(tmp_path)]) == 0
    runs = read_runs([tmp_path / "runs"])
    assert pq.read_table(tmp_path / "records.parquet").to_pylist() == record_rows(runs)
    assert pq.read_table(tmp_path / "results.parquet").to_pylist() == result_rows(runs)


def test_parquet_without_its_extra_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    make_run(tmp_path / "run")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert main(["export", str(tmp_path), "--to", "parquet"]) == 2
    assert capsys.readouterr().err == (
        "ramify: error: Parquet needs the extra `parquet`: pip install 'ramify[parquet]'\n"
    )


def scalars(folder: Path) -> dict[tuple[str, int], float]:
    """The scalars in TensorBoard event files: length, checksum, event, checksum, one after the other."""
    from tensorboardX.proto.event_pb2 import Event

    found = {}
    for path in folder.glob("events.*"):
        data, at = path.read_bytes(), 0
        while at < len(data):
            (length,) = struct.unpack_from("<Q", data, at)
            event = Event.FromString(data[at + 12 : at + 12 + length])
            at += length + 16
            for value in event.summary.value:
                if value.WhichOneof("value") == "simple_value":
                    found[value.tag, event.step] = value.simple_value
    return found


def test_tensorboard_receives_the_records_of_a_real_run(tmp_path: Path) -> None:
    pytest.importorskip("tensorboardX", reason="TensorBoard needs the extra `tensorboard`")
    folder = tmp_path / "run"
    with Tracking("tensorboard", tiny("er"), folder) as tracking:
        run_config(tiny("er"), folder, threads=1, watch=tracking.show)
    (run,) = read_runs([folder])
    expected = {
        (name, record.samples): pytest.approx(value, rel=1e-6)
        for record in run.records
        for name, value in metrics(record).items()
    }
    assert scalars(folder / "tensorboard") == expected
    assert ("accuracy/level_1", run.records[0].samples) in expected


class Recorder(ModuleType):
    """Stands in for a tracker's package and writes down every call."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.calls: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = []

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)

        def call(*args: Any, **kwargs: Any) -> Any:
            self.calls.append((name, args, kwargs))
            return self

        return call


@pytest.mark.parametrize(
    ("tracker", "logged", "closed"),
    [("wandb", "log", "finish"), ("mlflow", "log_metrics", "end_run"), ("trackio", "log", "finish")],
)
def test_each_record_is_sent_once(
    tracker: str, logged: str, closed: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = Recorder(tracker)
    monkeypatch.setitem(sys.modules, TRACKERS[tracker][0], package)
    (run,) = read_runs([make_run(tmp_path / "run")])
    progress: Any = SimpleNamespace(records=list(run.records[:1]))
    with Tracking(tracker, run.config, run.path) as tracking:
        tracking.show(progress)  # one record is there already: the run is being continued
        for count in (1, 2, 2, len(run.records)):
            progress.records = list(run.records[:count])
            tracking.show(progress)
    sent = [(args[0], kwargs["step"]) for name, args, kwargs in package.calls if name == logged]
    assert sent == [(metrics(record), record.samples) for record in run.records[1:]]
    assert package.calls[-1][0] == closed


@pytest.mark.parametrize("tracker", list(TRACKERS))
def test_a_missing_tracker_is_one_line(tracker: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, TRACKERS[tracker][0], None)
    with pytest.raises(RamifyError, match=rf"pip install 'ramify\[{tracker}\]'"):
        find_tracker(tracker)
    with pytest.raises(RamifyError, match="known: tensorboard"):
        find_tracker("paper")


PRESET = """
[all]
network = { name = "resnet18", width = 0.125 }
image_size = 8
per_class = 4
updates_per_sample = 0.1
memory_size = 20
eval_every = 96
eval_images = 48
augment = { autoaugment = "none" }
"""


def test_compare_does_the_runs_once_and_prints_their_table(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "tiny.toml").write_text(PRESET)
    command = ["compare", "--methods", "er,clib", "--seeds", "0", "--preset", str(tmp_path / "tiny.toml")]
    command += ["--out", str(tmp_path / "out"), "--workers", "2", "--format", "csv"]
    assert main(command) == 0
    printed = capsys.readouterr().out
    rows = list(csv.DictReader(printed.splitlines()))
    runs = {run.config.method: run for run in read_runs([tmp_path / "out"])}
    assert len(rows) == 2 * 4
    for row in rows:
        result = runs[row["row"].lower()].result
        assert result is not None
        assert float(row["mean"]) == pytest.approx(100 * result.final_accuracy[row["column"][-1]])
    assert (tmp_path / "out" / "report.html").exists()
    capsys.readouterr()
    assert main([*command[:2], "er,gdumb", *command[3:], "--no-run"]) == 0
    told = capsys.readouterr()
    assert "not finished, so not in the table: gdumb-multiple-depth-s0-" in told.err
    assert "gdumb" not in told.out.lower()
    stamps = {path: path.stat().st_mtime_ns for path in (tmp_path / "out").rglob("result.json")}
    assert main([*command, "--to", str(tmp_path / "table.csv")]) == 0
    assert (tmp_path / "table.csv").read_text() == printed
    assert {path: path.stat().st_mtime_ns for path in stamps} == stamps


def test_reproduce_without_running_makes_do_with_what_is_finished(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["reproduce", "table2", "--dataset", "cifar100", "--preset", "quick", "--out", str(tmp_path)]
    assert main([*command, "--no-run", "--format", "markdown"]) == 0
    text = capsys.readouterr().out
    assert "No run is finished" in text
    assert "74.5±4.63" in text
    assert main(["reproduce", "fig5", "--no-run", "--out", str(tmp_path)]) == 2
    assert "leave out --no-run" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (["reproduce", "tabel1"], "did you mean 'table1'?"),
        (["reproduce", "fig4", "--format", "latex"], "choose svg, png"),
        (["reproduce", "table1", "--set", "x"], "expected FIELD=VALUE"),
        (["reproduce", "table1", "--seeds", "0,0"], "expected different numbers"),
        (["compare", "--methods", "nope", "--no-run"], "nope"),
        (["compare", "--methods", "er", "--set", "colour=1", "--no-run"], "no field 'colour'"),
    ],
)
def test_mistakes_are_one_line(command: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(command) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1


def test_a_figure_of_the_paper_from_finished_runs(tmp_path: Path) -> None:
    from ramify.sweeps.experiments import ARTEFACTS, Reproduction

    chosen = Reproduction(ARTEFACTS["fig4"], "quick", (0,))
    for run in chosen.study:
        fixed = {"method", "seed"}
        other = {k: getattr(run.config, k) for k in run.config.__dataclass_fields__ if k not in fixed}
        make_run(tmp_path / run.name, run.config.method, run.config.seed, **other)
    command = ["reproduce", "fig4", "--preset", "quick", "--seeds", "0"]
    assert main([*command, "--no-run", "--out", str(tmp_path)]) == 0
    text = (tmp_path / "fig4.svg").read_text()
    assert "Figure 4 of the paper" in text
    assert all(name in text for name in ("GDumb", "PL-FMS", "EWC++"))
    assert text.count(">cifar100: level ") == text.count(">stanford-cars: level ") == 3
