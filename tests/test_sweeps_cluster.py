"""Beyond one machine: a real Ray cluster that loses a node, submitit's local executor, runs behind a URL."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ramify.errors import RamifyError
from ramify.sweeps import How, Study, sweep
from ramify.sweeps.local import Local
from ramify.sweeps.store import Store
from sweeping import TOML, Deadly, died, outcome, small_study


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("study") / "study.toml"
    path.write_text(TOML + 'method = ["er", "pl-fms"]\n')
    return path


@pytest.fixture(scope="module")
def local(study: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the local engine makes of the study."""
    out = tmp_path_factory.mktemp("local") / "out"
    sweep(Study.from_toml(study), out, Local(2), quiet=True)
    return out


def same(one: Path, other: Path, study: Path) -> bool:
    return all(outcome(one / run.name) == outcome(other / run.name) for run in Study.from_toml(study))


def test_a_ray_cluster_that_loses_a_node_gives_the_same_to_the_bit(
    study: Path, local: Path, tmp_path: Path
) -> None:
    pytest.importorskip("ray", reason="ray is not installed (extra ray)")
    environment = os.environ | {"RAY_USAGE_STATS_ENABLED": "0", "RAY_worker_niceness": "0"}
    trial = [sys.executable, str(Path(__file__).with_name("ray_trial.py")), str(study), str(tmp_path / "out")]
    done = subprocess.run(trial, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    said = json.loads(done.stdout.splitlines()[-1])
    assert said["results"] == 2
    (killed,) = said["killed"]
    about = json.loads((tmp_path / "out" / killed / "config.json").read_text())
    assert len(about["resumed"]) == 1  # by another node
    assert about["resumed"][0]["samples"] > 0
    assert same(tmp_path / "out", local, study)


def test_submitit_gives_the_same_to_the_bit(study: Path, local: Path, tmp_path: Path) -> None:
    pytest.importorskip("submitit", reason="submitit is not installed (extra slurm)")
    from ramify.sweeps.slurm import Slurm

    out = tmp_path / "out"
    sweep(Study.from_toml(study), out, Slurm(out, workers=2, cluster="local"), quiet=True)
    assert same(out, local, study)


def test_a_run_goes_on_from_what_its_store_holds(study: Path, local: Path, tmp_path: Path) -> None:
    out, mark, url = tmp_path / "out", tmp_path / "mark", (tmp_path / "bucket").as_uri()
    sweep(Study.from_toml(study), out, Deadly(1, mark), How(checkpoint_every=0, store=url), quiet=True)
    about = json.loads((out / died(mark)[1] / "config.json").read_text())
    assert about["resumed"][0]["samples"] > 0
    assert same(out, local, study)
    assert not list((tmp_path / "bucket").glob("*/checkpoint-*"))


def test_a_store_can_be_continued_from_at_any_moment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, store = tmp_path / "run", Store((tmp_path / "bucket").as_uri(), "run")
    folder.mkdir()
    put: list[str] = []
    original = type(store.files).put_file

    def put_file(self: Any, here: str, there: str, **options: Any) -> None:
        put.append(Path(there).name)
        original(self, here, there, **options)

    monkeypatch.setattr(type(store.files), "put_file", put_file)
    checkpoint = ("checkpoint-000001.sha256", "checkpoint-000001.safetensors")
    for name in ("result.json", *checkpoint, "config.json", ".lock"):
        (folder / name).write_text(name)
    store.push(folder)
    assert put == ["checkpoint-000001.safetensors", "config.json", "checkpoint-000001.sha256", "result.json"]
    store.push(folder)
    assert len(put) == 4  # nothing has changed
    (folder / "checkpoint-000001.sha256").unlink()
    (folder / "config.json").write_text("changed")
    store.push(folder)
    assert put[4:] == ["config.json"]
    assert store.finished()
    Store((tmp_path / "bucket").as_uri(), "run").pull(tmp_path / "copy")
    there = {path.name: path.read_text() for path in (tmp_path / "copy").iterdir()}
    assert there == {
        "config.json": "changed",
        "result.json": "result.json",
        "checkpoint-000001.safetensors": "checkpoint-000001.safetensors",
    }


def test_a_url_of_no_known_kind_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RamifyError, match="cannot be used as a store"):
        sweep(small_study(seed=[0]), tmp_path / "out", Local(1), How(store="gopher://x/y"), quiet=True)
    assert not (tmp_path / "out").exists()
