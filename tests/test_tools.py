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
import wordnet_tree
from made_runs import SMALL, make_run
from ramify.errors import RamifyError
from ramify.methods.clib import FlexibleSettings
from ramify.reports.data import load_run

ROOT = Path(__file__).parents[1]
PAGE = "".join((ROOT / "docs" / f"{page}.md").read_text("utf-8") for page in ("reproduction", "study"))


def test_the_docs_have_the_tables_of_the_published_runs() -> None:
    expected = [line for line in tables.tables(str(ROOT / "results" / "study.jsonl")) if line]
    assert len(expected) > 40
    assert [line for line in expected if line not in PAGE.splitlines()] == []


def test_the_docs_have_the_tables_of_frozen_features() -> None:
    page = (ROOT / "docs" / "pretrained.md").read_text("utf-8")
    *rows, slda, ranpac = tables.pretrained(str(ROOT / "results" / "pretrained.jsonl"))
    assert len(rows) > 40
    assert [line for line in rows if line and line not in page.splitlines()] == []
    assert slda in page
    assert ranpac in page


def test_the_docs_have_every_change() -> None:
    expected = list(
        causes.table(str(ROOT / "results" / "study.jsonl"), str(ROOT / "results" / "causes.jsonl"))
    )
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
    runs = claims.Runs(str(ROOT / "results" / "study.jsonl"))
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


NOUNS = """  1 This software and database is being provided to you
00001740 03 n 01 entity 0 001 ~ 00001930 n 0000 | that which is perceived
00001930 03 n 01 physical_entity 0 001 @ 00001740 n 0000 | an entity that has physical existence
00000003 05 n 02 animal 0 beast 0 002 @ 00001930 n 0000 ~ 00000005 n 0000 | a living organism
00000004 05 n 01 mammal 0 001 @ 00000003 n 0000 | warm-blooded
00000005 05 n 02 dog 0 domestic_dog 0 002 @ 00000004 n 0000 @ 00000008 n 0000 | a member of the genus Canis
00000006 05 n 01 toy_dog 0 001 @ 00000005 n 0000 | small
00000007 05 n 01 hunting_dog 0 001 @ 00000005 n 0000 | used in hunting
00000008 05 n 01 pet 0 001 @ 00000003 n 0000 | kept for companionship
00000009 05 n 02 newt 0 triton 0 001 @i 00000003 n 0000 | small semiaquatic
00000010 13 n 02 food 0 nutrient 0 001 @ 00001930 n 0000 | energy
00000011 13 n 02 food 0 solid_food 0 001 @ 00001930 n 0000 | any solid substance
00000012 13 n 01 soup 0 001 @ 00000010 n 0000 | liquid
00000013 13 n 01 stew 0 001 @ 00000010 n 0000 | thick
00000014 13 n 01 bread 0 001 @ 00000011 n 0000 | baked
00000015 13 n 01 cheese 0 001 @ 00000011 n 0000 | made of milk
"""


def test_a_tree_out_of_wordnet(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "data.noun").write_text(NOUNS)
    (tmp_path / "ids").write_text("\n".join(f"n{i:08d}" for i in (6, 7, 9, 12, 13, 14, 15)))
    wordnet_tree.main([str(tmp_path / "data.noun"), str(tmp_path / "ids")])
    assert capsys.readouterr().out.splitlines() == [
        "level1,level2,level3,wnid",
        "animal,dog,toy dog,n00000006",
        "animal,dog,hunting dog,n00000007",
        "animal,newt,,n00000009",
        '"food, nutrient",soup,,n00000012',
        '"food, nutrient",stew,,n00000013',
        '"food, solid food",bread,,n00000014',
        '"food, solid food",cheese,,n00000015',
    ]
