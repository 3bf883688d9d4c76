"""The code behind a run: recorded, compared, and never mixed without a word."""

from __future__ import annotations

import json
import logging
import sys
from pathlib import Path

import pytest

from made_runs import make_run
from ramify.cli import main
from ramify.errors import RamifyError
from ramify.owncode import source_digest
from ramify.reports.data import read_runs
from ramify.reports.html import report_html
from ramify.reports.words import mixed_code
from ramify.runs import run_config
from ramify.runs.checkpoint import Checkpoints
from ramify.runs.code import changed_code
from ramify.runs.config import read_config
from ramify.runs.run import Run
from ramify.sweeps.experiments import ARTEFACTS, Reproduction
from ramify.sweeps.study import Study, StudyRun
from ramify.typed import to_dict
from sweeping import TOML
from tiny_runs import tiny

MINE = """
from dataclasses import replace
from mine_part import rate
from ramify.methods import find_method

def mix01(settings, rng):
    return find_method("er")(replace(settings, lr=rate()), rng)
"""
PART = "def rate():\n    return {}\n"


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a method of one's own and a part beside it."""
    (tmp_path / "mine.py").write_text(MINE)
    (tmp_path / "mine_part.py").write_text(PART.format("0.001"))
    (tmp_path / "other.py").write_text("x = 1\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in ("mine", "mine_part"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return tmp_path


def test_the_digest_follows_the_file_and_what_it_imports_from_beside_it(desk: Path) -> None:
    first = source_digest("mine")
    assert first is not None
    assert first == source_digest("mine")
    (desk / "other.py").write_text("x = 2\n")  # nobody imports it
    assert source_digest("mine") == first
    (desk / "mine_part.py").write_text(PART.format("0.01"))
    second = source_digest("mine")
    assert second != first
    (desk / "mine.py").write_text(MINE + "# more\n")
    assert source_digest("mine") not in (first, second)
    assert source_digest("no_such_module") is None
    assert source_digest("math") is None  # built in: no file


def test_relative_imports_and_packages_count(desk: Path) -> None:
    inner = desk / "pack" / "inner"
    inner.mkdir(parents=True)
    for folder in (desk / "pack", inner):
        (folder / "__init__.py").write_text("")
    (inner / "method.py").write_text("from ..parts import one\nfrom . import near\nimport other\n")
    (inner / "near.py").write_text("1\n")
    (desk / "pack" / "parts.py").write_text("one = 1\n")
    seen = {source_digest("pack.inner.method")}
    changes = [
        inner / "near.py",
        desk / "pack" / "parts.py",
        desk / "other.py",
        desk / "pack" / "__init__.py",
    ]
    for file in changes:
        file.write_text(file.read_text() + "two = 2\n")
        seen.add(source_digest("pack.inner.method"))
    assert len(seen) == 1 + len(changes)
    installed = desk / "site-packages" / "pack"  # of an installed package only the package counts
    installed.parent.mkdir()
    (desk / "pack").rename(installed)
    (installed.parent / "other.py").write_text("")
    sys.path.insert(0, str(installed.parent))
    for name in ("pack", "pack.inner"):
        sys.modules.pop(name, None)
    try:
        before = source_digest("pack.inner.method")
        (installed.parent / "other.py").write_text("y = 1\n")
        assert before is not None
        assert source_digest("pack.inner.method") == before
    finally:
        sys.path.remove(str(installed.parent))


def test_a_sweep_names_runs_of_changed_code_and_runs_them_again_when_asked(
    desk: Path, hasty: None, capsys: pytest.CaptureFixture[str]
) -> None:
    (desk / "study.toml").write_text(TOML + 'method = ["mine:mix01", "er"]\n')
    command = ["sweep", "study.toml", "--out", "runs", "--workers", "1"]

    def results() -> dict[str, str]:
        return {p.parent.name: p.read_text() for p in sorted((desk / "runs").glob("*/result.json"))}

    assert main(command) == 0
    first = results()
    (own,) = (name for name in first if name.startswith("mine"))
    assert json.loads((desk / "runs" / own / "config.json").read_text())["code"].keys() == {"ramify", "mine"}
    capsys.readouterr()
    (desk / "mine_part.py").write_text(PART.format("0.25"))
    assert main(command) == 0
    said = capsys.readouterr().err
    assert f"1 finished run is of other code than there is now (mine changed): {own}; --rerun changed" in said
    assert results() == first
    assert main([*command, "--plan"]) == 0
    assert "finished (code changed since)" in capsys.readouterr().out
    assert main([*command, "--plan", "--rerun", "changed"]) == 0
    planned = capsys.readouterr().out
    assert "1 of 2 runs to do" in planned
    assert "finished (code changed since)" not in planned
    assert main([*command, "--rerun", "changed"]) == 0
    again = results()
    assert {name for name in first if first[name] != again[name]} == {own}
    (desk / "runs" / own / "result.json").unlink()  # as if it had been killed at the end
    (desk / "mine_part.py").write_text(PART.format("0.0125"))
    capsys.readouterr()
    assert main(command) == 0
    assert f"begun with other code than they go on with: {own}" in capsys.readouterr().err
    assert "the code of mine has changed" in (desk / "runs" / own / "log.txt").read_text()
    assert main([*command, "--rerun", "changed"]) == 0
    again = results()
    capsys.readouterr()
    assert main([*command, "--rerun", "changed"]) == 0
    assert "other code" not in capsys.readouterr().err
    assert results() == again


def test_a_run_that_is_continued_with_other_code_says_so(
    desk: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(self: Checkpoints, run: Run) -> None:
        if run.position >= 64:
            self.write(run)
            raise InterruptedError

    with monkeypatch.context() as patch:
        patch.setattr(Checkpoints, "after_part", stop)
        with pytest.raises(InterruptedError):
            run_config(tiny("mine:mix01"), desk / "run")
    (desk / "mine_part.py").write_text(PART.format("0.25"))
    with caplog.at_level(logging.WARNING, "ramify"):
        run_config(tiny("mine:mix01"), desk / "run", resume=True)
    assert sum("the code of mine has changed" in record.getMessage() for record in caplog.records) == 1
    about = json.loads((desk / "run" / "config.json").read_text())
    assert about["resumed"][0]["code"]["mine"] != about["code"]["mine"]
    assert changed_code(about, about["code"]) == ["mine"]  # neither code is that of the whole run


SETTINGS = """
from dataclasses import dataclass
from ramify.methods import METHODS, method

@dataclass(frozen=True)
class Own:
    share: float = 0.5
    ways: tuple[str, ...] = ("a",)
    least: int | None = None

@method("with_settings", settings=Own)
def with_settings(settings, rng):
    return METHODS["er"](settings, rng)
"""


@pytest.mark.parametrize("share", [0.5, 0.25])
def test_a_name_does_not_depend_on_whether_the_code_is_imported(desk: Path, share: float) -> None:
    (desk / "with_settings.py").write_text(SETTINGS)
    method = "with_settings:with_settings"
    study = Study.of("own", {"method": [method]}, {"dataset": "garden", "with_settings.share": share})
    (run,) = study
    values = json.loads(json.dumps(to_dict(run.config)))
    for own_code in (False, True):
        assert StudyRun(read_config(values, "config.json", own_code)).name == run.name
    with pytest.raises(RamifyError, match=r"is not for er, .* \[\[block\]\] of their own"):
        Study.of("own", {"method": ["er", method], "with_settings.share": [0.5, 0.25]})


def test_tables_and_reports_name_runs_of_another_code(tmp_path: Path) -> None:
    for seed, code in enumerate([None, {"mine": "a"}, {"mine": "b", "ramify": "0.1.0"}, {"ramify": "0.1.0"}]):
        folder = make_run(tmp_path / f"run-{seed}", seed=seed)
        about = json.loads((folder / "config.json").read_text())
        about |= {"started": f"2026-01-0{seed + 1}"} | ({} if code is None else {"code": code})
        (folder / "config.json").write_text(json.dumps(about))
    runs = read_runs([tmp_path])
    line = "Not all runs are of one code (mine differs); of older code: run-1."
    assert mixed_code(runs) == line
    assert report_html(runs).count(line) == 1
    assert mixed_code([runs[0], *runs[2:]]) is None


def test_compare_and_reproduce_name_runs_of_another_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fill(study: Study) -> None:
        for number, run in enumerate(study):
            folder = make_run(tmp_path / run.name)
            about = json.loads((folder / "config.json").read_text())
            about |= {"config": to_dict(run.config), "started": f"2026-01-0{number + 1}"}
            about["code"] = {"ramify": f"0.{number}"}
            (folder / "config.json").write_text(json.dumps(about))

    where = ["--preset", "quick", "--no-run", "--out", str(tmp_path), "--seeds", "0,1"]
    fill(Study.of("compare", {"method": ["er"], "seed": [0, 1]}))
    for form, stream in (("text", "out"), ("csv", "err")):
        assert main(["compare", "--methods", "er", "--format", form, *where]) == 0
        assert "Not all runs are of one code (ramify differs); of older code: er-" in " ".join(
            getattr(capsys.readouterr(), stream).split()
        )
    chosen = Reproduction(ARTEFACTS["table6"], "quick", (0, 1), ["cifar100"])
    (tmp_path / "again").mkdir()
    first = next(iter(chosen.cells.values()))
    tmp_path = tmp_path / "again"
    fill(Study("few", tuple(first)))
    where[where.index("--out") + 1] = str(tmp_path)
    assert main(["reproduce", "table6", "--dataset", "cifar100", *where]) == 0
    assert "Not all runs are of one code (ramify differs)" in " ".join(capsys.readouterr().out.split())
