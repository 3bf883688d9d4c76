"""Archives: what was published is still there to the byte, and is read like the folders that it was."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path

import pytest

from made_runs import make_run
from ramify.cli import main
from ramify.errors import RamifyError
from ramify.reports.data import find_runs, load_run, read_runs
from ramify.reports.export import record_rows, result_rows
from ramify.reports.live import LiveRuns
from ramify.reports.series import scenarios
from ramify.sweeps.archive import FILES, Packed, open_runs, publish, unpack

ROOT = Path(__file__).parents[1]
ARCHIVES = sorted((ROOT / "results").glob("*.jsonl"))
FOLDERS = {  # of the folders that were published, before there were archives
    "causes": "5871b927a5d9e19a3dd75f6bd37c84aa4170e8f89e160090056f62fcd1c91602",
    "importance": "bb5bdd2718645acdda13df8a40d6cd2a62e4b182426c6004dc13668e2c2e6f2c",
    "study": "63fb592736b0ed95a87606f73a33a1e4fc962e08d0890335005f09cd12bddb21",
}


def digest(folder: Path) -> str:
    """Of the names and contents of all files."""
    whole = hashlib.sha256()
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        whole.update(f"{path.relative_to(folder).as_posix()}\0".encode())
        whole.update(hashlib.sha256(path.read_bytes()).digest())
    return whole.hexdigest()


@pytest.mark.parametrize("archive", ARCHIVES, ids=lambda path: path.stem)
def test_a_published_study_becomes_its_folders_and_these_the_archive(archive: Path, tmp_path: Path) -> None:
    written, there = unpack(archive, tmp_path / "runs")
    assert (written, there) == (len(list(open_runs(archive).iterdir())), 0)
    assert digest(tmp_path / "runs") == FOLDERS.get(archive.stem, digest(tmp_path / "runs"))
    assert publish(tmp_path / "runs", tmp_path / "again.jsonl") == (written, 0)
    assert (tmp_path / "again.jsonl").read_bytes() == archive.read_bytes()
    assert unpack(archive, tmp_path / "runs") == (0, written)
    for run in [*open_runs(archive).iterdir()][::20]:
        packed, unpacked = load_run(run), load_run(tmp_path / "runs" / run.name)
        assert (packed.config, packed.facts, packed.records) == (
            unpacked.config,
            unpacked.facts,
            unpacked.records,
        )
        assert (packed.result, packed.tree.fingerprint) == (unpacked.result, unpacked.tree.fingerprint)
        assert (packed.answers, packed.failure) == (None, None)


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """Two finished runs and one that is not, each under the name that follows from its config."""
    for i, (method, finished) in enumerate([("er", True), ("clib", True), ("mir", False)]):
        made = make_run(tmp_path / "runs" / str(i), method=method, finished=finished)
        name = f"{method}-multiple-depth-s0-{load_run(made).config.digest()}"
        made.rename(made.with_name(name))
    return tmp_path / "runs"


def test_an_archive_is_read_like_a_folder(runs: Path, tmp_path: Path) -> None:
    assert publish(runs, tmp_path / "out" / "mine.jsonl") == (2, 0)
    packed, there = read_runs([tmp_path / "out"]), read_runs([runs])
    done = [run for run in there if run.result is not None]
    assert [run.path.name for run in packed] == sorted(run.path.name for run in done)
    assert result_rows(packed) == result_rows(done)
    assert record_rows(packed) == record_rows(done)
    assert [s.title for s in scenarios(packed)] == [s.title for s in scenarios(done)]
    assert len(find_runs([tmp_path / "out", tmp_path / "out" / "mine.jsonl"])) == 2  # each once
    page = LiveRuns(tmp_path / "out").view()
    assert "CLIB" in page
    assert "mine.jsonl/clib-multiple-depth" in page
    outside = tmp_path / "link"
    outside.mkdir()
    (outside / "mine.jsonl").symlink_to(tmp_path / "out" / "mine.jsonl")
    assert find_runs([outside], within=outside) == []


def test_an_archive_written_by_another_program_is_read(runs: Path, tmp_path: Path) -> None:
    archive = tmp_path / "runs.jsonl"
    publish(runs, archive)
    lines = [json.loads(line) for line in archive.read_text("utf-8").splitlines()]
    spaced = tmp_path / "spaced.jsonl"
    spaced.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
    assert [run.config for run in read_runs([spaced])] == [run.config for run in read_runs([archive])]


def test_publishing_keeps_what_is_there_and_says_what_it_did(runs: Path, tmp_path: Path) -> None:
    to = tmp_path / "mine.jsonl"
    publish(runs, to)
    before = to.read_text().splitlines()
    assert publish(runs, to) == (0, 0)
    assert to.read_text().splitlines() == before
    one = make_run(tmp_path / "one", method="bic")
    assert publish(one, to) == (1, 0)
    lines = to.read_text().splitlines()
    assert lines[:3] == before
    assert json.loads(lines[3])["run"] == f"bic-multiple-depth-s0-{load_run(one).config.digest()}"
    shutil.rmtree(one)
    make_run(one, method="bic", final={"1": 0.5, "2": 0.25, "3": 0.125})
    assert publish(one, to) == (0, 1)
    result = load_run(open_runs(to) / json.loads(lines[3])["run"]).result
    assert result is not None
    assert result.final_accuracy == {"1": 0.5, "2": 0.25, "3": 0.125}


def test_the_order_is_that_of_the_study(runs: Path, tmp_path: Path) -> None:
    names = sorted((path.name for path in runs.iterdir()), reverse=True)
    (runs / "study.json").write_text(json.dumps({"format": 1, "name": "mine", "runs": names}))
    publish(runs, tmp_path / "mine.jsonl")
    found = open_runs(tmp_path / "mine.jsonl")
    assert isinstance(found, Packed)
    assert [run.name for run in found.iterdir()] == [name for name in names if "mir" not in name]
    assert found.archive.study == "mine"


def test_the_folders_of_the_machine_stay_behind(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "run")
    about = json.loads((folder / "config.json").read_text())
    about["command"] = ["ramify", "run", "--out", "/home/someone/runs/x", "--ratio", "1/2"]
    (folder / "config.json").write_text(json.dumps(about))
    publish(folder, tmp_path / "mine.jsonl")
    assert read_runs([tmp_path / "mine.jsonl"])[0].facts["command"] == [
        "ramify",
        "run",
        "--out",
        "x",
        "--ratio",
        "1/2",
    ]


def test_the_commands_take_archives(
    runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["publish", "runs", "mine.jsonl"]) == 0
    assert "mine.jsonl: 2 new runs, 0 replaced" in capsys.readouterr().err
    assert main(["report", "mine.jsonl"]) == 0
    assert "report: mine/report.html" in capsys.readouterr().err
    assert "CLIB" in Path("mine/report.html").read_text()
    assert main(["export", "mine.jsonl"]) == 0
    assert Path("mine/results.csv").is_file()
    assert main(["import", "mine.jsonl", "--out", "back"]) == 0
    assert "back: 2 runs written, 0 there already" in capsys.readouterr().err
    for name in open_runs(Path("mine.jsonl")).iterdir():
        assert {path.name for path in Path("back", name.name).iterdir()} == set(FILES)


def test_the_published_study_is_read_and_nothing_is_run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(ROOT)
    command = "reproduce table5 --preset study --set fms.unit=samples --format markdown"
    assert main(command.split()) == 0
    told = capsys.readouterr()
    assert "from the finished runs in results/study.jsonl" in told.err
    assert "| Oracle | **" in told.out
    assert "4 of 9 runs are not in results/study.jsonl (oracle, pl-fms-t)" in told.err
    command = "reproduce table2 --preset paper --dataset cifar100 --format csv"  # hours, if it ran
    assert main(command.split()) == 0
    told = capsys.readouterr()
    assert "18 of 18 runs are not in results/paper.jsonl (er, ewc++, bic, rm, clib, pl-fms)" in told.err
    assert "71.5" in told.out
    chosen = "--methods er,clib --dataset cifar100 --preset study --out results/study.jsonl"
    assert main(f"compare {chosen} --plan".split()) == 0
    assert capsys.readouterr().out.count("finished") == 6


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("hello\n", "is not an archive of runs: give one, or the folder"),
        ("", "is not an archive of runs"),
        ('{"ramify":"runs",', "line 1 is damaged: Expecting property name"),
        ('{"ramify":"runs","format":2}\n', "has format 2; this ramify reads 1"),
        ('{"ramify":"runs","format":1}\n', "line 1 is damaged: it must have the study's name and the trees"),
        (
            '{"ramify":"runs","format":1,"study":"s","trees":{"abc":"level1\\nx\\n"}}\n',
            "the tree abc is not what it was",
        ),
        ('{"ramify":"runs","format":1,"study":"s","trees":{}}\n[]\n', "line 2 is damaged: it holds no table"),
        (
            '{"ramify":"runs","format":1,"study":"s","trees":{}}\n{"run":"../x"}\n',
            "line 2 is damaged: no usable 'tree'",
        ),
    ],
)
def test_what_is_damaged_is_refused_in_one_line(text: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.jsonl"
    path.write_text(text)
    with pytest.raises(RamifyError) as caught:
        read_runs([path])
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_no_line_of_an_archive_reaches_outside_of_its_folder(runs: Path, tmp_path: Path) -> None:
    publish(runs, tmp_path / "mine.jsonl")
    head, first, *_ = (tmp_path / "mine.jsonl").read_text().splitlines()
    for name in ("../x", "/x", ".", "..", "", "a/b", ".hidden"):
        line = json.dumps(json.loads(first) | {"run": name})
        (tmp_path / "evil.jsonl").write_text(f"{head}\n{line}\n")
        with pytest.raises(RamifyError, match=r"line 2 is damaged: no usable 'run'"):
            unpack(tmp_path / "evil.jsonl", tmp_path / "out")
    (tmp_path / "evil.jsonl").write_text(f"{head}\n{first}\n{first}\n")
    with pytest.raises(RamifyError, match=r"line 3 is damaged: no usable 'run'"):
        unpack(tmp_path / "evil.jsonl", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_mistakes_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "empty").mkdir()
    for command, said in {
        f"publish {tmp_path}/empty {tmp_path}/a.jsonl": "no finished run in",
        f"import {tmp_path}/empty": "is not a file: give an archive of runs",
        f"report {tmp_path}/nowhere": "is not there: give the folder of a run",
        f"compare --methods er --preset quick --out {ROOT}/results/study.jsonl": "is only read",
    }.items():
        assert main(command.split()) == 2, command
        told = capsys.readouterr().err.strip().splitlines()[-1]
        assert said in told


def test_a_name_given_under_other_defaults_follows_todays(runs: Path, tmp_path: Path) -> None:
    archive, lines = tmp_path / "mine.jsonl", []
    publish(runs, archive)
    published = archive.read_bytes()
    for line in map(json.loads, published.splitlines()):
        if "run" in line:
            line["run"] = f"{line['run']}0"
            line["config"]["config"]["kin"]["parents"] = 7.0  # another method's setting: it is never read
        lines.append(json.dumps(line, separators=(",", ":")) + "\n")
    archive.write_text("".join(lines))
    assert unpack(archive, tmp_path / "out") == (2, 0)
    assert {path.name for path in (tmp_path / "out").glob("*-*")} == {
        path.parent.name for path in runs.glob("*/result.json")
    }
    assert publish(runs, archive) == (0, 2)
    assert archive.read_bytes() == published
