"""The leaderboard: it is what the published runs give, and runs that cannot be are refused."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from browsers import chromium, looking_at
from made_runs import make_run
from ramify.cli import main
from ramify.reports.data import read_runs
from ramify.reports.leaderboard import leaderboard
from ramify.reports.series import scenarios
from ramify.reports.tables import scenario_table
from ramify.sweeps.archive import unpack

ROOT = Path(__file__).parents[1]
LEVELS = ("1", "2", "3")


def test_the_page_is_what_the_published_runs_give(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(ROOT)
    assert main(["leaderboard", "results"]) == 0
    page = (ROOT / "docs" / "leaderboard.md").read_text("utf-8")
    assert capsys.readouterr().out == page, "ramify leaderboard results/ --out docs/leaderboard.md"


def test_published_runs_pass_the_check(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(ROOT)
    assert main(["leaderboard", "--check", "results"]) == 0
    told = capsys.readouterr()
    assert told.out == ""
    assert "runs: all is as it should be" in told.err


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The published runs on importance, as folders."""
    out = tmp_path_factory.mktemp("runs")
    unpack(ROOT / "results" / "importance.jsonl", out)
    return out


def lines(count: int, change: Callable[[list[Any]], None]) -> Callable[[Path], None]:
    """A change to the records, of which there must be so many at least."""

    def tamper(run: Path) -> None:
        records = [json.loads(line) for line in (run / "records.jsonl").read_text().splitlines()]
        assert len(records) >= count
        change(records)
        (run / "records.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))

    return tamper


def values(file: str, change: Callable[[dict[str, Any]], object]) -> Callable[[Path], None]:
    """A change to a JSON file."""

    def tamper(run: Path) -> None:
        found = json.loads((run / file).read_text())
        change(found)
        (run / file).write_text(json.dumps(found))

    return tamper


@pytest.mark.parametrize(
    ("tamper", "said"),
    [
        (values("result.json", lambda r: r["final_accuracy"].update({"5": 0.9})), "final_accuracy is not"),
        (
            values("result.json", lambda r: r["auc"].update({"1": 0.99})),
            "auc at level 1 is 0.99; the records",
        ),
        (
            values("result.json", lambda r: r.update(path_accuracy=0.99)),
            "path_accuracy is 0.99; accuracy",
        ),
        (values("result.json", lambda r: r.update(consistency=0.0)), "path_accuracy is"),
        (values("result.json", lambda r: r["final_accuracy"].update({"5": 1.5})), "is damaged"),
        (
            lambda run: [
                lines(2, lambda r: r[-1].update(accuracy=dict.fromkeys("12345", 0.9)))(run),
                values("result.json", lambda r: r.update(final_accuracy=dict.fromkeys("12345", 0.9)))(run),
            ],
            "average_accuracy at level 1|auc at level 1",
        ),
        (values("result.json", lambda r: r.update(aauc=0.99, fauc=0.99)), "aauc is 0.99; the records give"),
        (values("result.json", lambda r: r.update(hops=0.99)), "hops is 0.99; the records give None"),
        (
            values("result.json", lambda r: r.update(decoded={"heads": dict.fromkeys("12345", 0.9)})),
            "none of the ways",
        ),
        (values("result.json", lambda r: r.update(samples=10)), "10 in the result"),
        (values("result.json", lambda r: r.update(updates=1)), "1 in the result"),
        (values("result.json", lambda r: r.update(seconds=1.0)), "1 seconds in the result"),
        (values("result.json", lambda r: r.update(images_backward=7)), "7 images backward in"),
        (
            values("result.json", lambda r: r.update(images_backward=r["updates"] + 1)),
            "10001 images backward in 10000 updates",
        ),
        (values("result.json", lambda r: r.update(images_forward=7)), "fewer images forward (7) than"),
        (values("result.json", lambda r: r.pop("auc")), "is damaged"),
        (values("config.json", lambda c: c["config"].update(updates_per_sample=0.01)), "samples give"),
        (values("config.json", lambda c: c["config"].update(lr="fast")), "lr is 'fast'"),
        (
            values("config.json", lambda c: c["stream"].update(fingerprint="0" * 64)),
            "its stream is 000000000000",
        ),
        (lines(2, lambda r: r.reverse()), "not in the order of the stream"),
        (
            lines(2, lambda r: r[0]["accuracy"].update({"1": 0.999})),
            "average_accuracy at level 1|auc at level 1",
        ),
        (lines(2, lambda r: r[0].update(task_end=True, samples=3)), "a task ends where none does"),
        (lambda run: (run / "result.json").unlink(), "it is not finished"),
    ],
)
def test_what_was_tampered_with_is_refused(
    tamper: Callable[[Path], None],
    said: str,
    folders: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for run in sorted(folders.glob("*-s?-*"))[:3]:  # one of them is changed
        (tmp_path / run.name).mkdir()
        for path in run.iterdir():
            (tmp_path / run.name / path.name).write_bytes(path.read_bytes())
    changed = sorted(tmp_path.iterdir())[0]
    tamper(changed)
    assert main(["leaderboard", "--check", str(tmp_path)]) == 1
    told = capsys.readouterr().out.splitlines()
    assert told
    assert all(changed.name in line for line in told)
    assert any(re.search(said if "|" in said else re.escape(said), line) for line in told), told


def test_a_copy_under_another_seed_is_refused(
    folders: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAMIFY_DATA", str(tmp_path / "none"))
    first = sorted(folders.glob("*-s0-*"))[0]
    for seed in (0, 1):
        copy = tmp_path / f"runs/{seed}"
        copy.mkdir(parents=True)
        for path in first.iterdir():
            (copy / path.name).write_bytes(path.read_bytes())
    values("config.json", lambda c: c["config"].update(seed=1))(copy)
    assert main(["leaderboard", "--check", str(tmp_path / "runs")]) == 1
    (told,) = capsys.readouterr().out.splitlines()
    assert "that of seed 0, not 1" in told


def test_updates_of_a_learner_in_closed_form_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    head, *runs = (ROOT / "results" / "pretrained.jsonl").read_text().splitlines()
    run = next(one for one in map(json.loads, runs) if one["config"]["config"]["method"] == "slda")
    run["result"]["images_forward"] = 100
    (tmp_path / "mine.jsonl").write_text(f"{head}\n{json.dumps(run)}\n")
    assert main(["leaderboard", "--check", str(tmp_path / "mine.jsonl")]) == 1
    assert "100 images forward; it has none, and 50000 images" in capsys.readouterr().out


def test_a_run_under_another_name_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    head, first, *_ = (ROOT / "results" / "importance.jsonl").read_text().splitlines()
    renamed = json.dumps(json.loads(first) | {"run": "better"})
    (tmp_path / "mine.jsonl").write_text(f"{head}\n{renamed}\n")
    assert main(["leaderboard", "--check", str(tmp_path / "mine.jsonl")]) == 1
    assert "the name does not follow from its config" in capsys.readouterr().out


def made(folder: Path) -> Path:
    """A floor, a ceiling, one that leads, one that is near, one that is far off and one below the floor."""
    far = {"naive": 0.3, "oracle": 0.9, "er": 0.8, "clib": 0.79, "mir": 0.6, "bic": 0.2}
    for method, final in far.items():
        for seed in range(3):
            noise = {"er": (0, 1, 2), "clib": (2, 0, 1)}.get(method, (0, 1, 2))[seed] / 100
            make_run(
                folder / f"{method}{seed}",
                method=method,
                seed=seed,
                final=dict.fromkeys(LEVELS, final + noise),
            )
    return folder


def test_the_leader_those_as_good_and_those_below_the_floor(tmp_path: Path) -> None:
    lines = leaderboard(read_runs([made(tmp_path)])).splitlines()

    def row(method: str) -> str:
        (found,) = [line for line in lines if line.startswith(f"| {method} ")]
        return found

    assert "| **81.0±1.00** |" in row("ER")
    assert "| <u>80.0±1.00</u> |" in row("CLIB")
    assert "| 61.0±1.00 |" in row("MIR")
    assert "| 21.0±1.00 ↓ |" in row("BiC")
    assert "| 31.0±1.00 |" in row("naive")
    assert "*floor* |" in row("naive")
    assert "| 91.0±1.00 |" in row("Oracle")
    assert "*ceiling* |" in row("Oracle")


def test_one_lucky_seed_does_not_lead(tmp_path: Path) -> None:
    make_run(tmp_path / "lucky", "fms", 0, final=dict.fromkeys(LEVELS, 0.88))
    lines = leaderboard(read_runs([made(tmp_path)])).splitlines()
    assert any("| **81.0±1.00** |" in line for line in lines)
    assert any(line.startswith("| FMS ") and "| 88.0 |" in line for line in lines)


def test_equal_means_lead_together(tmp_path: Path) -> None:
    for method in ("er", "mir"):
        for seed in range(2):
            make_run(tmp_path / f"{method}-{seed}", method, seed, final={"1": 0.5 + seed / 10})
    page = leaderboard(read_runs([tmp_path]))
    assert page.count(" **55.0±7.07** |") == 2 * 2  # level 1 and A_AUC of both


def test_rows_of_ones_own_method_tell_its_settings_and_code(tmp_path: Path) -> None:
    for seed, share in enumerate((0.5, 0.5, 0.25)):
        path = make_run(tmp_path / f"run-{seed}", method="mine:best", seed=seed, lr=0.002) / "config.json"
        about = json.loads(path.read_text())
        about["config"]["mine"] = {"share": share, "least": 3}
        about |= {"code": {"mine": "b" if seed else "a"}, "started": f"2026-01-0{seed + 1}"}
        path.write_text(json.dumps(about))
    page = leaderboard(read_runs([tmp_path]))
    assert re.search(r"\| mine:best \(.*lr 0.002.*, mine.share 0.5, mine.least 3\) \| 2 \|", page)
    assert re.search(r"\| mine:best \(.*mine.share 0.25, mine.least 3\) \| 1 \|", page)
    assert "Not all runs are of one code (mine differs); of older code: run-0." in page


def test_precision_is_told_where_it_tells_rows_apart(tmp_path: Path) -> None:
    for method, precisions in (("er", ("fp32", "bf16")), ("clib", ("bf16",))):
        for precision in precisions:
            make_run(tmp_path / f"{method}-{precision}", method, precision=precision)
    rows = re.findall(r"^\| ((?:ER|CLIB) \([^|]*) \|", leaderboard(read_runs([tmp_path])), re.MULTILINE)
    assert sorted(re.sub(r" \(.*\)", "", row) for row in rows) == ["CLIB", "ER, bf16", "ER, fp32"]


def test_tables_of_reports_mark_floors_ceilings_and_what_is_below(tmp_path: Path) -> None:
    (scenario,) = scenarios(read_runs([made(tmp_path)]))
    table = scenario_table(scenario)
    rows = {row.label: row.cells[0] for row in table.rows}
    assert {label for label, cell in rows.items() if cell.below} == {"BiC"}
    assert {label: cell.place for label, cell in rows.items() if cell.place} == {"ER": 1, "CLIB": 2}
    assert {"naive (floor)", "Oracle (ceiling)"} <= rows.keys()
    assert table.notes[0].startswith("↓ below the floor (naive)")


def test_labels_of_single_depth_are_scenarios_of_their_own() -> None:
    titles = [s.title for s in scenarios(read_runs([ROOT / "results" / "study.jsonl"]))]
    assert any("dual-label" in title for title in titles)
    assert any("single-label" in title for title in titles)


def test_the_readme_has_figures_of_published_runs_alone() -> None:
    """Each row of its tables is a method's final accuracy, the mean over three seeds of equal settings."""
    found: dict[tuple[str, str], list[list[float]]] = {}
    for run in read_runs(sorted((ROOT / "results").glob("*.jsonl"))):
        accuracy = [100 * value for value in run.result.final_accuracy.values()]
        settings = replace(run.config.own(), seed=0)
        found.setdefault((settings.method, repr(settings)), []).append(accuracy)
    means: dict[str, list[list[float]]] = {}
    for (method, _), runs in found.items():
        if len(runs) != 3:
            continue
        means.setdefault(method, []).append([sum(level) / len(level) for level in zip(*runs, strict=True)])
    section = (ROOT / "README.md").read_text("utf-8").split("## How well")[1].split("\n## ")[0]
    table = [line for line in section.splitlines() if line[:2] == "| " and line[:3] != "| |"]
    rows = [line.strip("| ").split(" | ") for line in table]
    assert rows
    for name, *cells in rows:
        method = re.split(r"[ ,(]", name.strip("*").lower())[0]
        shown = [float(re.split("[ ±]", cell.strip("*"))[0]) for cell in cells]
        fits = [
            all(abs(one - mean) < 0.051 for one, mean in zip(shown, levels, strict=True))
            for levels in means.get(method, [])
            if len(levels) == len(shown)
        ]
        assert any(fits), f"README: {name} {cells}"


def html(heads: str, *rows: str) -> str:
    """A table as the site has it."""
    lines = [f"<tr>{''.join(f'<td>{cell}' for cell in row.split('|'))}" for row in rows]
    head = "".join(f"<th>{name}" for name in heads.split("|"))
    return f"<div><table><thead><tr>{head}</thead><tbody>{''.join(lines)}</tbody></table></div>"


def test_a_click_on_a_heading_sorts_its_table(tmp_path: Path) -> None:
    rows = ("ER|<u>9.5±1.2</u>", "CLIB|–", "naive <em>floor</em>|1,200", "Canopy|<strong>81.0±0.3</strong> ↓")
    tables = html("method|level 1", *rows) + html("other", "b", "a")
    script = (ROOT / "docs" / "sort.js").read_text("utf-8")
    page = f"<meta charset=utf-8><h1 id=leaderboard>Leaderboard</h1>{tables}<script>{script}</script>"
    (tmp_path / "page.html").write_text(page, "utf-8")
    with (
        chromium() as browser,
        looking_at(browser, (tmp_path / "page.html").as_uri()) as seen,
    ):

        def order() -> str:
            return " ".join(text.split()[0] for text in seen.locator("td:first-child").all_inner_texts())

        level = seen.get_by_text("level 1")
        level.click()
        assert order() == "naive Canopy ER CLIB b a"
        assert level.get_attribute("aria-sort") == "descending"
        level.press("Enter")
        assert order() == "CLIB ER Canopy naive b a"
        seen.get_by_text("method").click()
        assert order() == "Canopy CLIB ER naive b a"
        assert seen.locator("[aria-sort]").count() == 1
