"""What the tools say of published runs, and that the docs say the same."""

from __future__ import annotations

from argparse import Namespace
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

import causes
import claims
import composition
import tables
from made_runs import SMALL, make_run
from ramify.errors import RamifyError
from ramify.methods.clib import FlexibleSettings
from ramify.reports.data import load_run

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "reproduction.md").read_text("utf-8")


def test_the_docs_have_the_tables_of_the_published_runs() -> None:
    expected = [line for line in tables.tables(str(ROOT / "results" / "study")) if line]
    assert len(expected) > 40
    assert [line for line in expected if line not in PAGE.splitlines()] == []


def test_the_docs_have_every_change() -> None:
    expected = list(causes.table(str(ROOT / "results" / "study"), str(ROOT / "results" / "causes")))
    assert len(expected) > 20
    assert [line for line in expected if line not in PAGE.splitlines()] == []


@pytest.mark.parametrize(
    ("rule", "trend", "line"),
    [
        ("CLIB", 0.1, "CLIB, all three"),
        ("PL", -0.1, "PL, losses fall"),
        ("PL, newcomers at 0", 0.1, "PL, newcomers start at H = 0, losses rise"),
        ("PL, H drawn once", 0.0, "PL, each sample with a fixed H of its own"),
    ],
)
def test_the_docs_have_what_the_rules_leave_in_memory(rule: str, trend: float, line: str) -> None:
    small = Namespace(memory=1000, per_class=100, updates=1.0, seed=0)
    found = composition.shares(*composition.RULES[rule], trend, small)
    assert f"| {line} | {', '.join(f'{count:,}' for count in found)} |" in PAGE


@pytest.mark.parametrize("path", sorted((ROOT / "tools").glob("*.py")), ids=lambda path: path.stem)
def test_every_tool_finds_what_it_imports(path: Path) -> None:
    assert callable(import_module(path.stem).main)


def test_every_claim_has_evidence() -> None:
    runs = claims.Runs(str(ROOT / "results" / "study"))
    for claim, evidence in claims.CLAIMS.items():
        if evidence is not claims.newness:  # needs answers, which published runs lack
            assert list(evidence(runs)), claim


def test_a_change_stands_beside_the_run_it_has_most_in_common_with(tmp_path: Path) -> None:
    final = {"1": 0.9, "2": 0.5, "3": 0.25}
    make_run(tmp_path / "study" / "far", memory_size=7, per_class=3)
    make_run(tmp_path / "study" / "near", final=final)
    make_run(tmp_path / "study" / "as near, but unusual", lr=0.2)
    make_run(tmp_path / "study" / "other", method="clib")
    make_run(tmp_path / "causes" / "changed", lr=0.1, eval_at="task-ends", final=final | {"3": 0.5})
    lines = list(causes.table(str(tmp_path / "study"), str(tmp_path / "causes")))
    assert lines[2:] == ["| ER, multiple-depth | `lr` 0.0003 → 0.1 | 90.0, 50.0, 25.0 | 90.0, 50.0, 50.0 |"]
    make_run(tmp_path / "study" / "near, next seed", final=final, seed=1)
    make_run(tmp_path / "causes" / "changed, next seed", lr=0.1, seed=1, final=final | {"3": 0.7})
    lines = list(causes.table(str(tmp_path / "study"), str(tmp_path / "causes")))
    without, with_it = "90.0±0.0, 50.0±0.0, 25.0±0.0", "90.0±0.0, 50.0±0.0, 60.0±14.1"
    assert lines[2:] == [f"| ER, multiple-depth | `lr` 0.0003 → 0.1 | {without} | {with_it} |"]
    make_run(tmp_path / "causes" / "stray", method="mir")
    with pytest.raises(RamifyError, match=r"no run to set .*stray beside"):
        list(causes.table(str(tmp_path / "study"), str(tmp_path / "causes")))


def test_ancestors_of_the_finest_answer_are_counted_without_the_answers(tmp_path: Path) -> None:
    make_run(tmp_path / "one", dataset="cifar100", fms=FlexibleSettings(T=2000.0))
    (line,) = claims.through_the_tree(claims.Runs(str(tmp_path)))
    answers = load_run(tmp_path / "one").answers
    assert answers is not None
    leaf = answers.predictions[:, -1]
    right = [SMALL.leaf_to(level)[leaf] == answers.truth[:, level - 1] for level in (1, 2, 3)]
    assert float(line.split(", ")[2].split()[0]) == pytest.approx(100 * np.mean(right), abs=0.05)
