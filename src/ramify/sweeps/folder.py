"""The folder of a study: study.json, and a folder for each run."""

from __future__ import annotations

import fcntl
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ramify.errors import RamifyError
from ramify.files import write_atomic
from ramify.runs.config import Config, from_dict
from ramify.runs.folder import RunFolder
from ramify.runs.result import Result
from ramify.sweeps.study import Study, StudyRun

FORMAT = 1


class StudyFolder:
    """Where a study's runs are; a run's folder has its name, so what is finished is found again."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path).absolute()  # workers may have another working directory

    def of(self, run: StudyRun) -> Path:
        """The folder of a run."""
        return self.path / run.name

    def result(self, run: StudyRun) -> Result | None:
        """The result of a run that is finished, None for others; a folder of another run is refused."""
        folder = RunFolder(self.of(run))
        if not folder.finished():
            return None
        there = from_dict(Config, folder.about()["config"], f"{folder.path}/config.json")
        if there != run.config:
            raise RamifyError(
                f"{folder.path} holds a run with other settings under this name; move it out of the way"
            )
        return folder.result()

    def check(self, study: Study) -> None:
        """Refuse a folder that belongs to another study, or that holds something else."""
        try:
            there = json.loads((self.path / "study.json").read_text(encoding="utf-8"))
            name, names = there["name"], set(there["runs"])
        except FileNotFoundError:
            if self.path.exists() and (not self.path.is_dir() or any(self.path.iterdir())):
                raise RamifyError(
                    f"{self.path} is not empty and holds no study; choose another --out"
                ) from None
            return
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise RamifyError(f"{self.path / 'study.json'} cannot be read: {error}") from None
        if names.isdisjoint(run.name for run in study):
            raise RamifyError(
                f"{self.path} belongs to another study, {name!r}: none of its {len(names)} runs is in "
                f"{study.name!r}; choose another --out"
            )

    def write(self, study: Study) -> None:
        """Say whose folder this is."""
        about = {"format": FORMAT, "name": study.name, "runs": [run.name for run in study]}
        write_atomic(self.path / "study.json", json.dumps(about, indent=1) + "\n")

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other sweeps out; the lock ends with this process."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            file = (self.path / ".lock").open("w")
        except OSError as error:
            raise RamifyError(
                f"{self.path} cannot be written: {error.strerror}; choose another --out"
            ) from None
        with file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise RamifyError(f"another sweep is at work in {self.path}; wait for it to end") from None
            yield
