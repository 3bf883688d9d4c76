"""Killed and continued any number of times, a run comes out as if it had been left alone, to the bit."""

from __future__ import annotations

import json
import os
import pickle
import shlex
import signal
import subprocess
import sys
import time
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from ramify import Learner
from ramify.cli import main
from ramify.cli.progress import RunProgress
from ramify.errors import RamifyError
from ramify.methods import METHODS
from ramify.methods.clib import ImportanceSettings, PseudoLabelSettings
from ramify.methods.epochs import MemoryEpochs
from ramify.methods.settings import NetworkSettings
from ramify.networks import precision as precisions
from ramify.runs import Stopped, run_config
from ramify.runs.config import read_config
from ramify.runs.folder import RunFolder
from ramify.runs.run import Run
from soak import differences, soak
from soak import main as try_resume
from tiny_runs import PYTHONPATH, tiny, unsynced

KILLS = 3


@pytest.fixture(autouse=True)
def _unsynced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("soak._work", unsynced)


CONFIGS = {method: tiny(method, updates_per_sample=0.5) for method in METHODS} | {
    "pl-fms, as published": tiny(
        "pl-fms", importance=ImportanceSettings("sweep"), pl=PseudoLabelSettings(exact=True)
    ),
    "clib, first-order": tiny("clib", importance=ImportanceSettings("first-order")),
}


@pytest.mark.parametrize("name", CONFIGS)
def test_a_run_that_is_killed_and_continued_is_the_same_to_the_bit(name: str, tmp_path: Path) -> None:
    trial = soak(CONFIGS[name], tmp_path, KILLS, seed=zlib.crc32(name.encode()))
    assert trial.differences == ()
    assert trial.kills, "the run ended before the first kill"


def test_a_resnet_is_continued_to_the_bit(tmp_path: Path) -> None:
    config = tiny("pl-fms", network=NetworkSettings("resnet18", 0.125), limit=60, eval_images=20)
    assert soak(config, tmp_path, 2, seed=1, checkpoint_every=0.5).differences == ()


def test_the_trial_sees_a_difference(tmp_path: Path) -> None:
    for name, seed in (("one", 0), ("other", 1)):
        run_config(tiny(seed=seed), tmp_path / name, threads=1)
    found = differences(RunFolder(tmp_path / "one"), RunFolder(tmp_path / "other"))
    assert {"model.safetensors", "result: final_accuracy", "record 1: accuracy"} <= set(found)


def test_the_tool_tries_it_and_refuses_what_it_cannot_do(capsys: pytest.CaptureFixture[str]) -> None:
    assert try_resume(["--method", "er", "--limit", "64", "--kills", "1", "--checkpoint-every", "0"]) == 0
    said = capsys.readouterr()
    assert json.loads(said.out)["differences"] == []
    assert "the same to the bit" in said.err
    with pytest.raises(RamifyError, match="kills is -1"):
        try_resume(["--kills", "-1"])
    with pytest.raises(RamifyError, match="no method 'ear'"):
        try_resume(["--method", "ear"])


class Crash(Exception):
    pass


def crash(run: Run) -> None:
    if run.position >= 20:
        raise Crash


CUT = NetworkSettings("made_features:frozen", freeze="2")


@pytest.mark.parametrize("network", [tiny().network, CUT], ids=["trained", "encoded"])
def test_a_precision_is_measured_once(network, tmp_path, monkeypatch) -> None:
    """What it was when a run began holds when it is continued, or done again from its config."""
    seconds = {"fp32": 2.0, "bf16": 1.0}
    monkeypatch.setattr(precisions, "has_bf16", lambda device: True)
    monkeypatch.setattr(precisions, "_seconds", lambda model, batch, precision: seconds[precision])
    config = tiny(precision="auto", network=network, limit=48, eval_every=16)
    with pytest.raises(Crash):
        run_config(config, tmp_path / "crashed", checkpoint_every=0, watch=crash, threads=1)
    seconds["bf16"] = 3.0  # another day, another load
    run_config(config, tmp_path / "crashed", resume=True, threads=1)
    told = RunFolder(tmp_path / "crashed").about()["config"]
    assert told["precision"] == "bf16"
    run_config(read_config(told, "config.json", own_code=True), tmp_path / "again", threads=1)
    one, two = ((tmp_path / name / "model.safetensors").read_bytes() for name in ("crashed", "again"))
    assert one == two
    learner = Learner.load(tmp_path / "crashed", network=network.name, own_code=True)
    assert learner.settings.precision == learner._trainer.model.precision == "bf16"
    assert learner._taking.encoder is None or learner._taking.encoder.precision == "bf16"


@pytest.mark.parametrize(
    ("method", "step"), [("rm", "end task"), ("gdumb", "evaluate"), ("oracle", "evaluate")]
)
def test_long_training_on_memory_is_continued_in_its_midst(method: str, step: str, tmp_path: Path) -> None:
    at = []

    def passes_of(run: Run) -> MemoryEpochs:
        passes = run.trainer.recipe.answer
        assert isinstance(passes, MemoryEpochs)
        return passes

    def crash(run: Run) -> None:
        passes = passes_of(run)
        if passes.epoch == 1 and passes.place == 16:
            raise Crash

    def look(run: Run) -> None:
        at.append((run.step, passes_of(run).epoch, passes_of(run).place))

    with pytest.raises(Crash):
        run_config(tiny(method), tmp_path / "crashed", threads=1, checkpoint_every=0, watch=crash)
    run_config(tiny(method), tmp_path / "crashed", threads=1, resume=True, watch=look)
    run_config(tiny(method), tmp_path / "alone", threads=1)
    assert at[0] == (step, 1, 8)
    assert differences(RunFolder(tmp_path / "alone"), RunFolder(tmp_path / "crashed")) == []


ARGUMENTS = [
    *("--method", "pl-fms", "--threads", "1", "--network.name", "tiny_runs:network", "--image-size", "8"),
    *("--per-class", "10", "--limit", "120", "--memory-size", "30", "--eval-images", "60"),
]


@pytest.fixture
def stop_at(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Send the process signals once a run has reached a sample."""

    def stop_at(sample: int, *signals: signal.Signals) -> None:
        show = RunProgress.show

        def show_and_stop(self: RunProgress, run: Run) -> None:
            show(self, run)
            if run.position >= sample:
                for number in signals:
                    os.kill(os.getpid(), number)

        monkeypatch.setattr(RunProgress, "show", show_and_stop)

    return stop_at


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_writes_a_checkpoint_and_says_how_to_continue(
    number: signal.Signals,
    code: int,
    tmp_path: Path,
    stop_at: Callable[..., None],
    capsys: pytest.CaptureFixture[str],
) -> None:
    out, before = tmp_path / "a run", signal.getsignal(number)
    stop_at(40, number)
    assert main(["run", *ARGUMENTS, "--out", str(out)]) == code
    said = capsys.readouterr().err.splitlines()[-1]
    assert said == f"ramify: stopped at sample 40 of 120; continue with: ramify resume '{out}' --own-code"
    assert len(list(out.glob("checkpoint-*.safetensors"))) == 1
    assert signal.getsignal(number) == before


def test_a_second_signal_stops_at_once_with_what_is_on_disk(
    tmp_path: Path, stop_at: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    stop_at(40, signal.SIGTERM, signal.SIGTERM)
    assert main(["run", *ARGUMENTS, "--out", str(tmp_path)]) == 143
    said = capsys.readouterr().err.splitlines()[-1]
    assert said == f"ramify: stopped at once; continue with: ramify resume {tmp_path} --own-code"
    assert not list(tmp_path.glob("checkpoint-*"))


def test_a_stop_crosses_from_one_process_to_another() -> None:
    stop = pickle.loads(pickle.dumps(Stopped(signal.SIGTERM, "stopped")))
    assert (str(stop), stop.code) == ("stopped", 143)


def test_the_command_that_is_printed_continues_in_a_process_of_its_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stopped, alone = tmp_path / "stopped", tmp_path / "alone"
    environment = os.environ | {"PYTHONPATH": PYTHONPATH, "TINY_RUNS_SLEEP": "0.05"}
    command = [sys.executable, "-m", "ramify", "run", *ARGUMENTS, "--out", str(stopped)]
    process = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)
    while not (stopped / "config.json").exists() and process.poll() is None:
        time.sleep(0.02)
    process.send_signal(signal.SIGTERM)
    _, said = process.communicate()
    assert process.returncode == 143, said
    assert main(shlex.split(said.splitlines()[-1].split("continue with: ramify ")[1])) == 0
    assert main(["run", *ARGUMENTS, "--out", str(alone)]) == 0
    assert differences(RunFolder(stopped), RunFolder(alone)) == []
