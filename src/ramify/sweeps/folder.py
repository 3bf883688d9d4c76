"""The folder of a study: study.json, and a folder for each run."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path

from ramify.errors import RamifyError
from ramify.files import check_format, fitting, json_text, read_json, write_atomic
from ramify.runs.code import changed_code, code_of
from ramify.runs.config import read_config
from ramify.runs.files import RunFiles
from ramify.runs.inputs import may_become
from ramify.runs.result import Result
from ramify.sweeps.archive import open_runs
from ramify.sweeps.cost import Totals
from ramify.sweeps.study import Study, StudyRun

FORMAT = 1


class StudyFolder:
    """Where a study's runs are; a run's folder has its name, so what is finished is found again.

    It may be an archive: then it is only read.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path).absolute()  # workers may have another working directory

    def of(self, run: StudyRun) -> Path:
        """The folder of a run, to write to."""
        return self.writable() / run.name

    def writable(self) -> Path:
        """The folder, which must not be an archive."""
        if self.path.is_file():
            raise RamifyError(f"{self.path} is only read: `ramify import` it, and give its folder as --out")
        return self.path

    def files(self, run: StudyRun) -> RunFiles:
        """What there is of a run."""
        return RunFiles(open_runs(self.path) / run.name)

    def result(self, run: StudyRun) -> Result | None:
        """The result of a run that is finished, None for others; a folder of another run is refused."""
        folder = self.files(run)
        if not folder.finished():
            return None
        about = folder.about()["config"]
        imported = (about.get("method"), about.get("setup")) == (run.config.method, run.config.setup)
        there = read_config(about, f"{folder.path}/config.json", own_code=imported)
        config = run.config
        if config.precision == "auto":  # the run says what was measured
            config = replace(config, precision=there.precision)
        if there.different() not in [one.different() for one in may_become(config)]:
            raise RamifyError(
                f"{folder.path} holds a run with other settings under this name; move it out of the way"
            )
        return folder.result()

    def changed(self, study: Study, finished: bool = True) -> dict[str, list[str]]:
        """The finished (or else the unfinished) runs whose code has changed, and which modules did."""
        found: dict[str, list[str]] = {}
        for run in study:
            folder = self.files(run)
            chosen = folder.begun() and folder.finished() == finished
            if chosen and (other := changed_code(folder.about(), code_of(run.config))):
                found[run.name] = other
        return found

    def results(self, study: Study) -> dict[str, Result]:
        """The results of the runs that are finished, by name."""
        found = {run.name: self.result(run) for run in study}
        return {name: result for name, result in found.items() if result is not None}

    def write_totals(self, results: dict[str, Result], paper_seconds: float | None) -> None:
        """Keep what the runs cost, and what they would with the paper's settings."""
        totals = {
            **asdict(Totals.of(results.values())),
            "paper_seconds": paper_seconds,
            "of": sorted(results),
        }
        write_atomic(self.path / "totals.json", json_text(totals))

    def paper_seconds(self, results: dict[str, Result]) -> float | None:
        """What these runs would take with the paper's settings, if that was kept."""
        try:
            totals = read_json(self.path / "totals.json")
            return float(totals["paper_seconds"]) if totals["of"] == sorted(results) else None
        except (RamifyError, KeyError, TypeError, ValueError, OverflowError):
            return None

    def check(self, study: Study) -> None:
        """Refuse a folder that belongs to another study, or that holds something else."""
        path = self.path / "study.json"
        if not path.exists():
            if self.path.exists() and (not self.path.is_dir() or self._visible()):
                raise RamifyError(f"{self.path} is not empty and holds no study; choose another --out")
            return
        there = read_json(path)
        check_format(there.get("format"), path, FORMAT)
        with fitting(path):
            name, names = there["name"], set(there["runs"])
        if names.isdisjoint(run.name for run in study):
            raise RamifyError(
                f"{self.path} belongs to another study, {name!r}: none of its {len(names)} runs is in "
                f"{study.name!r} as it is now; choose another --out"
            )

    def _visible(self) -> list[str]:
        return [path.name for path in self.path.iterdir() if not path.name.startswith(".")]

    def write(self, study: Study) -> None:
        """Say whose folder this is."""
        about = {"format": FORMAT, "name": study.name, "runs": [run.name for run in study]}
        write_atomic(self.path / "study.json", json_text(about))
