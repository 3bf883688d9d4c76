"""Files say their format, and a reader takes no other than its own."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

from ramify.errors import RamifyError
from ramify.learner import Learner
from ramify.methods.settings import NetworkSettings
from ramify.reports.data import load_run
from ramify.runs import run_config
from ramify.runs.folder import RunFolder
from ramify.streams import Stream
from ramify.sweeps.folder import StudyFolder
from ramify.sweeps.study import Study
from tiny_runs import tiny


class _Absent:
    def __repr__(self) -> str:
        return "absent"


ABSENT = _Absent()
STUDY = Study.of("one", {"seed": [0]})


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a file of every kind."""
    folder = tmp_path_factory.mktemp("formats") / "all"
    run_config(tiny(limit=8, network=NetworkSettings("resnet18", 0.02)), folder, threads=1)
    StudyFolder(folder).write(STUDY)
    Learner(image_size=8, network={"name": "resnet18", "width": 0.02}).save(folder / "learner")
    return folder


# file -> its readers, and whether older files say nothing and count as format 1
FILES: dict[str, tuple[tuple[Callable[[Path], Any], ...], bool]] = {
    "config.json": ((load_run, lambda folder: RunFolder(folder).about()), False),
    "result.json": ((load_run, lambda folder: RunFolder(folder).result()), True),
    "predictions.safetensors": ((lambda folder: load_run(folder).answers,), True),
    "model.safetensors": ((Learner.load,), False),
    "stream.safetensors": ((lambda folder: Stream.load(folder / "stream.safetensors"),), False),
    "study.json": ((lambda folder: StudyFolder(folder).check(STUDY),), False),
    "learner/learner.safetensors": ((lambda folder: Learner.load(folder / "learner"),), False),
}


READS = {"learner/learner.safetensors": 3}  # all others: 1


def say(path: Path, value: Any, reads: int) -> None:
    """Have a file, now of the format that is read, say that it is of this one, or nothing."""

    def changed(text: str) -> str:
        values = json.loads(text)
        key = "version" if "version" in values else "format"
        assert values[key] == reads
        return json.dumps({k: v for k, v in (values | {key: value}).items() if v is not ABSENT})

    if path.suffix == ".json":
        path.write_text(changed(path.read_text()))
        return
    with safe_open(path, framework="np") as file:
        header = {key: changed(text) for key, text in file.metadata().items()}
    save_file(load_file(path), path, header)


@pytest.mark.parametrize("value", [ABSENT, 0, 2, 99, True, "1", []], ids=repr)
@pytest.mark.parametrize("name", FILES)
def test_another_format_is_refused(name: str, value: Any, written: Path, tmp_path: Path) -> None:
    (readers, older), reads = FILES[name], READS.get(name, 1)
    folder = Path(shutil.copytree(written, tmp_path / "all"))
    for read in readers:
        read(folder)
    say(folder / name, value, reads)
    for read in readers:
        if value is ABSENT and older:
            read(folder)
            continue
        with pytest.raises(RamifyError) as caught:
            read(folder)
        found = None if value is ABSENT else value
        assert f"{folder / name} has format {found!r}; this ramify reads {reads}:" in str(caught.value)
