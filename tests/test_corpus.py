"""Files as they were once written are still read, or refused with a word on how to go on."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from ramify.errors import RamifyError
from ramify.learner import Learner
from ramify.learner.manifest import Lesson
from ramify.reports.data import load_run, read_runs
from ramify.runs.checkpoint import Checkpoints, refuse_differences
from ramify.runs.files import RunFiles
from ramify.runs.folder import RunFolder
from ramify.streams import Stream
from ramify.streams.files import read_csv
from ramify.sweeps.folder import StudyFolder
from ramify.sweeps.study import Study
from ramify.taxonomy import read_taxonomy

CORPUS = Path(__file__).parent / "corpus"
RESULTS = Path(__file__).parent.parent / "results"


def test_a_run_of_format_1() -> None:
    run = load_run(CORPUS / "run-1")
    assert (run.config.dataset, run.config.method) == ("garden", "er")
    assert run.result is not None
    assert len(run.records) == len(RunFolder(CORPUS / "run-1").records()) > 0
    assert run.answers is not None
    assert run.answers.predictions.shape == run.answers.truth.shape
    stream = Stream.load(CORPUS / "run-1" / "stream.safetensors")
    assert len(stream) == 8
    model = Learner.load(CORPUS / "run-1")
    assert model.predict(np.zeros((1, 8, 8, 3), np.uint8)).levels == model.levels


def test_a_learner_of_format_3_goes_on() -> None:
    learner = Learner.load(CORPUS / "learner-3", own_code=True)
    assert (learner.samples, set(learner.labels(1))) == (2, {"red", "blue"})
    lesson = Lesson(learner, CORPUS / "stream-learned.csv")
    assert lesson.learned == 2  # found by its rows, though its notes are older
    images = np.zeros((4, 8, 8, 3), np.uint8)
    assert learner.partial_fit(images, ["red"] * 4, 1).samples == 6


@pytest.mark.parametrize("old", [1, 2])
def test_older_states_are_refused_with_a_way_on(old: int) -> None:
    with pytest.raises(RamifyError) as caught:
        Learner.load(CORPUS / f"learner-{old}")
    told = str(caught.value)
    assert f"has format {old}; this ramify reads 3: " in told
    assert "cannot be continued" in told
    assert "model.safetensors of a finished run can be opened" in told
    assert "\n" not in told


def test_a_checkpoint_of_an_older_state_is_refused_with_a_way_on(tmp_path: Path) -> None:
    folder = RunFolder(shutil.copytree(CORPUS / "run-1", tmp_path / "run"))
    path = folder.path / "checkpoint-000008.safetensors"
    shutil.copy(CORPUS / "learner-2" / "learner.safetensors", path)
    checksum = hashlib.sha256(path.read_bytes()).hexdigest()
    path.with_suffix(".sha256").write_text(f"{checksum}  {path.name}\n")
    with pytest.raises(RamifyError, match="cannot be continued"):
        Checkpoints(folder, 60.0).restore(None)  # type: ignore[arg-type]


def test_a_setting_that_was_added_since_does_not_make_it_another_run() -> None:
    about = RunFolder(CORPUS / "run-1").about()
    here = {name: json.loads(json.dumps(about[name])) for name in ("config", "dataset", "stream")}
    for name in ("skip_broken", "pad", "any_counts"):
        del about["config"][name]
    refuse_differences(here, about, "config.json")
    here["config"]["pad"] = True
    with pytest.raises(RamifyError, match=r"config\.pad was False and is True"):
        refuse_differences(here, about, "config.json")


def test_trees_streams_and_studies() -> None:
    trees = [read_taxonomy(CORPUS / name) for name in ("tree.csv", "tree-edges.csv", "tree.json")]
    assert len({tree.fingerprint for tree in trees}) == 1
    assert len(read_csv(CORPUS / "stream.csv", trees[0], 3)) == 3
    StudyFolder(CORPUS / "study-1").check(Study.of("one", {"seed": [0], "method": ["pl-fms"]}))


@pytest.mark.skipif(not RESULTS.is_dir(), reason="the published runs are not here")
def test_all_published_runs() -> None:
    runs = read_runs([RESULTS])
    assert len(runs) >= 201
    for run in runs:
        assert RunFiles(run.path).about()["config"]
        assert run.records
        assert run.result is not None
        assert run.result.final_accuracy
        assert run.tree.depth >= 1
