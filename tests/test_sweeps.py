"""Many runs on the cores of this machine: the same figures as alone, whatever happens on the way."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ramify.cli import main
from ramify.errors import RamifyError
from ramify.runs import run_config
from ramify.sweeps import How, Study, sweep
from ramify.sweeps.engines import Watcher, drive
from ramify.sweeps.jobs import Job, Outcome
from ramify.sweeps.local import Local, usable_cores
from sweeping import TOML, Deadly, WhereJob, died, outcome, small_study
from tiny_runs import PYTHONPATH


class NoEngine:
    """Must not be needed."""

    places = 2

    def start(self, job: Job) -> None:
        raise AssertionError(f"{job.name} was started")


class Counting(Local):
    """Keeps the names of what it starts."""

    def __init__(self, workers: int = 2) -> None:
        super().__init__(workers)
        self.names: list[str] = []

    def start(self, job: Job) -> None:
        self.names.append(job.name)
        super().start(job)


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The runs of `small_study(method=["er", "clib"])`, done one by one in this process."""
    torch.set_num_threads(1)
    out = tmp_path_factory.mktemp("alone")
    for run in small_study(method=["er", "clib"]):
        run_config(run.config, out / run.name, threads=1)
    return out


def test_a_killed_run_is_tried_again_while_the_others_go_on(alone: Path, tmp_path: Path) -> None:
    out, mark = tmp_path / "out", tmp_path / "mark"
    study = small_study(method=["er", "clib"])
    results = sweep(study, out, Deadly(2, mark), How(checkpoint_every=0), quiet=True)
    assert list(results) == [run.name for run in study]
    for name in results:
        assert outcome(out / name) == outcome(alone / name)
    (failed,) = out.glob("*/errors.txt")
    assert failed.parent.name == died(mark)[1]
    assert "SIGKILL (out of memory?)" in failed.read_text()

    assert sweep(study, out, NoEngine(), quiet=True) == results  # type: ignore[arg-type]
    grown, engine = small_study(method=["er", "clib"], seed=[0, 1]), Counting()
    sweep(grown, out, engine, quiet=True)
    assert sorted(engine.names) == sorted({run.name for run in grown} - results.keys())


def test_one_broken_run_does_not_stop_the_others_and_its_error_is_kept(tmp_path: Path) -> None:
    study = small_study(method=["sweeping:broken", "er"])
    with pytest.raises(
        RamifyError, match=r"1 of 2 failed, sweeping-broken-.* first: ZeroDivisionError: a bug of"
    ):
        sweep(study, tmp_path / "out", Local(2), retries=2, quiet=True)
    broken, er = (tmp_path / "out" / run.name for run in study)
    assert (er / "result.json").exists()
    assert len((broken / "errors.txt").read_text().splitlines()) == 3
    assert "Traceback" in (broken / "log.txt").read_text()


def start(study: Path, out: Path, sleep: float) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", "import sys; from ramify.cli import main; sys.exit(main())"]
    command += ["sweep", str(study), "--out", str(out), "--checkpoint-every", "0"]
    return subprocess.Popen(
        command,
        env=os.environ | {"PYTHONPATH": PYTHONPATH, "SWEEPING_SLEEP": str(sleep)},
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )


def test_killed_and_interrupted_sweeps_go_on_where_they_were(tmp_path: Path) -> None:
    path, out = tmp_path / "study.toml", tmp_path / "out"
    path.write_text(TOML + 'method = ["sweeping:slow_er", "sweeping:slow_clib"]\n[fixed.epochs]\ncount = 1\n')

    process = start(path, out, sleep=0.3)
    while len(begun := list(out.glob("*/progress.json"))) < 1:
        assert process.poll() is None
        time.sleep(0.02)
    process.kill()
    process.communicate()
    worker = int((begun[0].parent / ".lock.pid").read_text())
    for _ in range(3000):  # nothing goes on without the sweep
        if not Path(f"/proc/{worker}").exists():
            break
        time.sleep(0.02)
    else:
        raise AssertionError("the worker outlived its sweep")
    before = begun[0].read_text() if begun[0].exists() else ""

    process = start(path, out, sleep=0.3)
    while not begun[0].exists() or begun[0].read_text() == before:
        assert process.poll() is None
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    said = process.communicate()[1]
    assert process.returncode == 130, said
    assert "the same command goes on" in said
    assert not list(out.glob("*/errors.txt"))

    process = start(path, out, sleep=0)
    said = process.communicate()[1]
    assert process.returncode == 0, said
    assert "with the paper's settings" in said
    for run in Study.from_toml(path):
        run_config(run.config, tmp_path / "alone" / run.name, threads=1)
        assert outcome(out / run.name) == outcome(tmp_path / "alone" / run.name)


def test_answers_worked_out_side_by_side_are_the_same(tmp_path: Path) -> None:
    study = small_study(method=["gdumb"])
    sweep(study, tmp_path / "one", Local(1), quiet=True)
    engine = Counting(2)
    sweep(study, tmp_path / "two", engine, quiet=True)
    name = study.runs[0].name
    assert engine.names == [f"{name}@16", f"{name}@32", f"{name}@48", name]
    assert outcome(tmp_path / "one" / name) == outcome(tmp_path / "two" / name)
    assert not (tmp_path / "two" / name / "answers").exists()


def test_a_worker_has_its_own_cores_threads_and_group() -> None:
    done = drive(Local(2), [WhereJob("a"), WhereJob("b")], Watcher())
    assert all(one.error is None for one in done.values())
    cores = [one.value[0] for one in done.values()]
    assert set.union(*cores) <= set(usable_cores())
    assert [len(one) for one in cores] == [1, 1]
    if len(usable_cores()) > 1:
        assert cores[0] != cores[1]
    assert all(one.value[1] for one in done.values())


class Pretend:
    """An engine that does nothing: jobs end in the order and with the outcomes that it was given."""

    def __init__(self, places: int, outcomes: dict[str, list[bool]]) -> None:
        self.places, self.outcomes = places, outcomes
        self.busy: list[WhereJob] = []
        self.started: list[str] = []
        self.finished: list[str] = []

    def start(self, job: Job) -> None:
        assert isinstance(job, WhereJob)
        assert len(self.busy) < self.places
        assert job.after <= {*self.finished}
        self.busy.append(job)
        self.started.append(job.name)

    def ended(self, seconds: float) -> list[tuple[Job, Outcome]]:
        job = self.busy.pop(0)
        fine = self.outcomes[job.name].pop(0) if self.outcomes[job.name] else True
        if fine or not self.outcomes[job.name]:
            self.finished.append(job.name)
        return [(job, Outcome() if fine else Outcome("no", again=True))]

    def stop(self) -> None: ...

    def close(self) -> None: ...


@settings(max_examples=50)
@given(
    places=st.integers(1, 4),
    retries=st.integers(0, 3),
    failures=st.lists(st.integers(0, 4), min_size=1, max_size=8),
)
def test_every_job_is_done_in_order_and_tried_again_as_often_as_allowed(
    places: int, retries: int, failures: list[int]
) -> None:
    jobs = [WhereJob(f"{i}", frozenset({f"{i - 1}"} if i % 3 == 2 else ())) for i in range(len(failures))]
    plan = {f"{i}": [False] * min(n, retries + 1) + [True] * (n <= retries) for i, n in enumerate(failures)}
    engine = Pretend(places, plan)
    done = drive(engine, jobs, Watcher(), retries)
    assert {name: one.error is None for name, one in done.items()} == {
        f"{i}": n <= retries for i, n in enumerate(failures)
    }
    assert Counter(engine.started) == {f"{i}": min(n, retries) + 1 for i, n in enumerate(failures)}


@pytest.mark.parametrize(
    ("axes", "options", "words"),
    [
        ("sed = [1]", (), "did you mean 'seed'?"),
        ("method = []", (), "method is empty"),
        ("seed = [0, 0]", (), "occurs twice"),
        (
            "seed = [0]",
            ("--engine", "ray", "--address", "127.0.0.1:1"),
            "no Ray cluster answers at '127.0.0.1:1'",
        ),
        ("seed = [0]", ("--engine", "ray", "--address", "nowhere.invalid:6379"), "no Ray cluster answers"),
        ("seed = [0]", ("--engine", "slurm"), "Slurm cannot be used here"),
        ("seed = [0]", ("--engine", "mpi"), "invalid choice: 'mpi'"),
        ("seed = [0]", ("--workers", "0"), "they start at 1"),
        ("seed = [0]", ("--retries", "-1"), "retries is -1"),
        ("dataset = ['nothing-there']", (), "nothing-there"),
    ],
)
def test_mistakes_start_nothing(
    axes: str, options: tuple[str, ...], words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if "ray" in options:
        pytest.importorskip("ray")
    if "slurm" in options:
        pytest.importorskip("submitit")
    path, out = tmp_path / "study.toml", tmp_path / "out"
    path.write_text(TOML + axes)
    assert main(["sweep", str(path), "--out", str(out), *options]) == 2
    said = capsys.readouterr().err
    assert said.startswith("ramify: error: ")
    assert len(said.splitlines()) == 1
    assert words.lower() in said.lower()
    assert not out.exists()


def test_a_folder_of_another_study_is_left_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, out = tmp_path / "study.toml", tmp_path / "out"
    path.write_text(TOML + "seed = [3]")
    out.mkdir()
    about = {"format": 1, "name": "theirs", "runs": ["er-multiple-depth-s0-000000000000"]}
    (out / "study.json").write_text(json.dumps(about))
    assert main(["sweep", str(path), "--out", str(out)]) == 2
    assert "belongs to another study, 'theirs'" in capsys.readouterr().err
    assert [one.name for one in out.iterdir()] == ["study.json"]


def test_two_sweeps_do_not_work_in_one_folder(tmp_path: Path) -> None:
    from ramify.locks import hold_folder
    from ramify.sweeps.folder import StudyFolder

    study = Study.of("s", {"seed": [0]})
    with hold_folder(tmp_path / "out"):
        StudyFolder(tmp_path / "out").write(study)
        with pytest.raises(RamifyError, match="is in use by process"):
            sweep(study, tmp_path / "out", NoEngine(), quiet=True)  # type: ignore[arg-type]
