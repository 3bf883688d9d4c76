"""Tables and statistics, against values worked out by hand and by other libraries."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy import stats

from made_runs import make_run
from ramify.reports.data import read_runs
from ramify.reports.paper import Place, paper_figure, paper_results
from ramify.reports.render import FORMATS, figure, to_csv, to_latex, to_markdown, to_text
from ramify.reports.reproduced import reproduced_table
from ramify.reports.series import scenarios
from ramify.reports.statistics import Figure, gap, holm, paired
from ramify.reports.tables import build_table, scenario_table
from ramify.sweeps.experiments import ARTEFACTS, Reproduction
from ramify.taxonomy import read_taxonomy

values = st.lists(st.integers(0, 1000).map(lambda i: i / 10), min_size=3, max_size=8)


def test_mean_and_spread_by_hand() -> None:
    found = Figure.over_seeds({0: 40.0, 1: 42.0, 2: 47.0})
    assert found.mean == pytest.approx(43.0)
    assert found.std == pytest.approx(np.sqrt(13.0))  # (9 + 1 + 16) / 2
    assert Figure.over_seeds({5: 40.0}).std is None


def test_difference_in_standard_deviations_by_hand() -> None:
    ours, paper = Figure(43.0, 3.0), Figure(38.0, 4.0)
    assert gap(ours, paper) == pytest.approx(5 / np.sqrt(12.5))  # √((9 + 16) / 2)
    assert gap(ours, Figure(38.0)) == pytest.approx(5 / 3)
    assert gap(Figure(43.0), Figure(38.0)) is None
    assert gap(Figure(43.0, 0.0), Figure(38.0, 0.0)) is None


@settings(max_examples=60)
@given(st.lists(st.tuples(st.integers(0, 1000), st.integers(0, 1000)), min_size=3, max_size=8))
def test_paired_test_is_scipys(pairs: list[tuple[int, int]]) -> None:
    assume(len({a - b for a, b in pairs}) > 1)
    ours, theirs = [a / 10 for a, _ in pairs], [b / 10 for _, b in pairs]
    found = paired(dict(enumerate(ours)), dict(enumerate(theirs)) | {99: 1.0})
    assert found is not None
    assert found.seeds == len(ours)
    assert found.difference == pytest.approx(np.mean(ours) - np.mean(theirs))
    assert found.p == pytest.approx(stats.ttest_rel(ours, theirs).pvalue, abs=1e-9)


def test_paired_test_needs_three_common_seeds_and_bears_no_spread() -> None:
    assert paired({0: 1.0}, {1: 2.0}) is None
    two = paired({0: 1.0, 1: 2.0, 2: 3.0}, {1: 1.0, 2: 1.0, 7: 0.0})
    assert two is not None
    assert (two.seeds, two.p) == (2, None)
    same = paired({0: 1.0, 1: 2.0, 2: 3.0}, {0: 1.0, 1: 2.0, 2: 3.0})
    assert same is not None
    assert same.p == 1.0
    constant = paired({0: 3.0, 1: 4.0, 2: 5.0}, {0: 1.0, 1: 2.0, 2: 3.0})
    assert constant is not None
    assert constant.p == 0.0


@settings(max_examples=60)
@given(st.lists(st.floats(0, 1), min_size=1, max_size=8))
def test_holm_is_its_definition(p: list[float]) -> None:
    corrected = holm(p)
    for i, value in enumerate(p):
        smaller = [q for q in p if q <= value]  # with ties the largest of them counts
        expected = max((len(p) - sorted(p).index(q)) * q for q in smaller)
        assert corrected[i] == pytest.approx(min(1.0, expected))


@settings(max_examples=60)
@given(values, values)
def test_a_difference_inside_the_noise_is_never_a_win(a: list[float], b: list[float]) -> None:
    count = min(len(a), len(b))
    x, y = dict(enumerate(a[:count])), dict(enumerate(b[:count]))
    table = build_table("t", [("H=1",)], {"A": [Figure.over_seeds(x)], "B": [Figure.over_seeds(y)]})
    comparison = paired(x, y)
    assert comparison is not None
    assert comparison.p is not None
    said = " ".join(table.notes)
    assert ("a win" in said) == (comparison.p < 0.05)
    assert ("inside the noise" in said) == (comparison.p >= 0.05)


def test_two_seeds_are_no_ground_for_a_win() -> None:
    ours = {"A": [Figure.over_seeds({0: 90.0, 1: 91.0})], "B": [Figure.over_seeds({0: 1.0, 1: 2.0})]}
    table = build_table("t", [("H=1",)], ours)
    assert table.notes == ("Best and second share fewer than 3 seeds: no test, no difference is a win.",)


def test_means_over_more_and_fewer_seeds_are_told_apart() -> None:
    ours = {"A": [Figure.over_seeds({0: 9.0, 1: 8.0, 2: 7.0})], "B": [Figure.over_seeds({0: 5.0})]}
    assert "1 to 3" in build_table("t", [("H=1",)], ours).notes[0]


FIXTURE = build_table(
    "Table <1> & co_",
    [("single", "H=1"), ("single", "H=2")],
    {
        "ER": [Figure.over_seeds({0: 37.0, 1: 38.0, 2: 39.0}), Figure(4.012, 0.061)],
        "BiC|x": [Figure(38.0, 0.5), None],
        "PL-FMS": [Figure(50.0, 15.53), Figure(3.9)],
    },
    {"ER": [Figure(37.8, 2.06), Figure(4.01, 0.06)]},
    "The caption.",
)


def test_places_follow_the_unrounded_means_and_equals_share() -> None:
    places = [[cell.place for cell in row.cells] for row in FIXTURE.rows]
    assert places == [[2, 1], [2, 0], [1, 2]]


def test_figures_are_printed_as_in_the_paper() -> None:
    assert [
        figure(f) for f in (Figure(37.84, 2.058), Figure(4.012, 0.061), Figure(50.0, 15.53), Figure(7.0))
    ] == [
        "37.8±2.06",
        "4.01±0.06",
        "50.0±15.5",
        "7.00",
    ]
    assert figure(None) == "–"


def test_text() -> None:
    text = to_text(FIXTURE, 100)
    assert "Table <1> & co_" in text
    assert "38.0±1.00'" in text
    assert "50.0±15.5*" in text
    assert "37.8±2.06" in text
    assert "+0.1σ" in text  # (38.0 - 37.8) / √((1 + 4.24) / 2)
    assert all(len(line) <= 100 for line in text.splitlines())


def test_a_narrow_terminal_gets_the_column_groups_below_each_other() -> None:
    columns = [(group, f"H={h}") for group in ("one", "two", "three") for h in (1, 2)]
    table = build_table("t", columns, {"ER": [Figure(10.0 + i, 1.0) for i in range(6)]})
    wide, narrow = to_text(table, 120), to_text(table, 40)
    assert wide.count("ER") == 1
    assert narrow.count("ER") == 3
    assert all(f"{10 + i}.0±1.00" in narrow for i in range(6))


def test_markdown_has_one_cell_a_column_whatever_the_names() -> None:
    rows = [line for line in to_markdown(FIXTURE).splitlines() if line.startswith("|")]
    assert {row.replace(r"\|", "").count("|") for row in rows} == {4}
    assert "**50.0±15.5**" in rows[-3]
    assert "<u>38.0±1.00</u>" in rows[2]


def test_latex_is_escaped_and_balanced() -> None:
    text = to_latex(FIXTURE)
    assert r"\multicolumn{2}{c}{single}" in text
    assert r"\cmidrule(lr){2-3}" in text
    assert r"\textbf{50.0$\pm$15.5}" in text
    assert r"\underline{38.0$\pm$1.00}" in text
    assert r"Table \textless{}1\textgreater{} \& co\_" in text
    assert text.count("{") == text.count("}")
    body = text.split(r"\midrule")[1].split(r"\bottomrule")[0].strip().splitlines()
    assert all(line.count(" & ") == 2 and line.endswith(r"\\") for line in body)


def test_csv_has_every_value_of_every_seed() -> None:
    rows = list(csv.DictReader(io.StringIO(to_csv(FIXTURE))))
    assert len(rows) == 6
    assert rows[0]["seeds"] == "0:37 1:38 2:39"
    assert float(rows[0]["mean"]) == 38.0
    assert float(rows[0]["sigmas"]) == pytest.approx(0.2 / np.sqrt((1 + 2.06**2) / 2))


def test_the_papers_figures() -> None:
    assert len(paper_results()) == 276
    assert paper_results()[Place(2, "multiple-depth", "single", "cifar100", "ER", 5)] == Figure(7.47, 1.61)
    assert paper_figure("i-blurry", "single", "cifar100", "fms", 1) == Figure(45.3, 1.02)
    assert paper_figure("multiple-depth", "single", "cifar100", "pl", 5) == Figure(21.5)
    assert paper_figure("multiple-depth", "single", "garden", "er", 1) is None


@pytest.mark.parametrize("number", range(1, 7))
def test_each_table_plans_exactly_the_papers_cells(number: int) -> None:
    """One run a seed for every (stream, row) of the paper's table, and nothing else."""
    found = Reproduction(ARTEFACTS[f"table{number}"], "paper", (0, 1, 2))
    cells = {(s.setup, s.labels if "depth" in s.setup else "", s.dataset, label) for s, label in found.cells}
    expected = {(c.setup, c.labels, c.dataset, c.row) for c in paper_results() if c.table == number}
    assert cells == expected
    assert all([run.config.seed for run in runs] == [0, 1, 2] for runs in found.cells.values())
    assert len(found.study) == 3 * len(expected)
    periods = {run.config.fms.T for run in found.study}
    assert (len(periods) == 5) == (number == 6)


def test_a_table_of_the_paper_from_finished_runs(tmp_path: Path) -> None:
    chosen = Reproduction(ARTEFACTS["table2"], "quick", (0, 1, 2), ["cifar100"])
    tree = read_taxonomy("cifar100")
    for (_, label), runs in chosen.cells.items():
        for run in runs[: 3 if label != "RM" else 0]:
            shift = 0.01 * run.config.seed + (0.2 if label == "PL-FMS" else 0)
            final = {str(h): 0.5 / h + shift for h in range(1, 6)}
            fixed = {"method", "seed"}
            other = {k: getattr(run.config, k) for k in run.config.__dataclass_fields__ if k not in fixed}
            make_run(tmp_path / run.name, run.config.method, run.config.seed, tree, final=final, **other)
    table = reproduced_table(chosen, tmp_path)
    assert list(table.columns) == [("cifar100", f"level {h}") for h in range(1, 6)]
    rows = {row.label: row.cells for row in table.rows}
    assert list(rows) == ["ER", "EWC++", "BiC", "RM", "CLIB", "PL-FMS"]
    ours = rows["PL-FMS"][0].ours
    assert ours is not None
    assert ours.mean == pytest.approx(71.0)
    assert ours.std == pytest.approx(1.0)
    assert rows["PL-FMS"][0].paper == Figure(74.5, 4.63)
    assert rows["PL-FMS"][0].sigmas == pytest.approx((71 - 74.5) / np.sqrt((1 + 4.63**2) / 2))
    assert rows["RM"][0].ours is None
    assert "not the paper's scale" in table.caption
    assert "quick" in table.caption
    for form in FORMATS.values():
        assert "PL-FMS" in form(table)


def test_another_dataset_takes_the_place_of_the_papers() -> None:
    found = Reproduction(ARTEFACTS["table1"], "quick", (0,), ["garden"])
    assert {condition.heading for condition in found.conditions} == {
        ("single-label", "garden"),
        ("dual-label", "garden"),
    }


def test_the_table_of_a_scenario(tmp_path: Path) -> None:
    for method, shift in (("er", 0.0), ("pl-fms", 0.1)):
        for seed in range(3):
            final = {str(h): 0.3 + 0.01 * seed + shift for h in (1, 2, 3)}
            make_run(tmp_path / f"{method}-{seed}", method, seed, final=final)
    (scenario,) = scenarios(read_runs([tmp_path]))
    table = scenario_table(scenario)
    assert [row.label for row in table.rows] == ["ER", "PL-FMS"]
    assert [round(e.ours.mean, 6) for e in table.rows[1].cells if e.ours] == [41.0, 41.0, 41.0]
    assert sum("PL-FMS +10.0 over ER, 3 seeds" in note and "a win" in note for note in table.notes) == 3
