"""Reading and writing label trees: every form comes back, every mistake is named with its place."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ramify.cli import main
from ramify.errors import RamifyError
from ramify.taxonomy import (
    Taxonomy,
    builtin_trees,
    from_nested,
    read_taxonomy,
    to_csv,
    to_edges,
    to_nested,
    write_folders,
    write_taxonomy,
)
from ramify.taxonomy.nested import parse_json
from ramify.taxonomy.read import parse_csv
from strategies import tree_rows, uneven_rows

FAST = settings(max_examples=60)


@FAST
@given(tree_rows() | uneven_rows(), st.data())
def test_text_forms_come_back(rows: list[tuple[str, ...]], data: st.DataObject) -> None:
    awkward = (
        st.text(st.characters(blacklist_categories=("Cc", "Cs")), min_size=1).map(str.strip).filter(bool)
    )
    words = {name for row in rows for name in row}
    spelled = dict(
        zip(
            words,
            data.draw(st.lists(awkward, min_size=len(words), max_size=len(words), unique=True)),
            strict=True,
        )
    )
    tree = Taxonomy.from_rows(
        [[spelled[name] for name in row] for row in rows], {"wnid": ['q"u,o'] * len(rows)}
    )
    assert parse_csv(to_csv(tree), "t") == tree
    assert parse_csv(to_csv(tree), "t").leaf_attributes == tree.leaf_attributes
    if tree.leaf_open.any():
        with pytest.raises(RamifyError, match="an edge list cannot say"):
            to_edges(tree)
    else:
        assert parse_csv(to_edges(tree), "t") == tree
    assert from_nested(to_nested(tree)) == tree
    assert parse_json(json.dumps(to_nested(tree)), "t") == tree


@pytest.mark.parametrize("name", builtin_trees())
def test_files_come_back(name: str, tmp_path: Path) -> None:
    tree = read_taxonomy(name)
    for file in ("a.csv", "a.edges.csv", "a.json"):
        write_taxonomy(tree, tmp_path / file)
        assert read_taxonomy(tmp_path / file) == tree
    with pytest.raises(RamifyError, match=r"a\.txt.*\.csv"):
        write_taxonomy(tree, tmp_path / "a.txt")


def test_folders_come_back_in_order_of_name(tmp_path: Path) -> None:
    tree = read_taxonomy("cifar100")
    write_folders(tree, tmp_path)
    (tmp_path / ".git").mkdir()
    (tmp_path / "living" / "note.txt").write_text("no class")
    again = read_taxonomy(tmp_path)
    assert {again.path(i) for i in range(100)} == {tree.path(i) for i in range(100)}
    assert again.names(1) == ("living", "non_living")
    uneven = Taxonomy.from_rows([("animal", "cat"), ("stone",)])
    write_folders(uneven, tmp_path / "uneven")
    assert read_taxonomy(tmp_path / "uneven") == uneven
    (tmp_path / "uneven" / "animal" / "1.JPG").touch()  # of which no more is known
    (tmp_path / "uneven" / "0.jpg").touch()  # of no class at all
    known = Taxonomy.from_rows([("animal",), ("animal", "cat"), ("stone",)])
    assert read_taxonomy(tmp_path / "uneven") == known
    with pytest.raises(RamifyError, match="'stone' is a leaf and has classes below it"):
        write_folders(Taxonomy.from_rows([("stone",), ("stone", "flint")]), tmp_path / "b")
    with pytest.raises(RamifyError, match="C/V"):
        write_folders(Taxonomy.from_rows([("van", "Ram C/V")]), tmp_path / "b")
    assert not (tmp_path / "b").exists()


def test_plain_forms() -> None:
    expected = Taxonomy.from_rows([("plant", "rose"), ("animal", "cat"), ("animal", "dog")])
    assert from_nested({"plant": ["rose"], "animal": {"cat": None, "dog": {}}}) == expected
    assert from_nested({"animal": {"cat": 1, "dog": 2}, "plant": {"rose": 0}}) == expected
    assert from_nested(["a", "b"]).sizes == (2,)
    uneven = Taxonomy.from_rows([("plant",), ("animal", "cat"), ("animal",)])
    assert from_nested({"plant": None, "animal": {"cat": None, "": None}}) == uneven
    assert parse_csv("level1,level2\nplant\nanimal,cat\nanimal,\n", "t") == uneven
    assert parse_csv("parent,child\n,plant\nanimal,cat\n", "t") == uneven.from_rows(
        [("plant",), ("animal", "cat")]
    )
    edges = "parent,child\n,plant\nplant,rose\n,animal\nanimal,cat\nanimal,dog\n"
    assert parse_csv(edges, "t") == parse_csv(edges.replace(",plant\n", "", 1), "t") == expected
    columns = "﻿Level2, wnid ,level1\r\nrose,n1,plant\r\n\r\ncat,n2, animal \r\ndog,n3,animal\r\n"
    assert parse_csv(columns.removeprefix("﻿"), "t") == expected
    assert parse_csv(columns.removeprefix("﻿"), "t").leaf_attributes == {"wnid": ("n1", "n2", "n3")}


def test_padding_repeats_the_leaf_downwards() -> None:
    tree = parse_csv("level1,level2,level3\na,b,c\nd,,\na,e\n", "t", pad=True)
    assert [tree.path(i) for i in range(3)] == [("a", "b", "c"), ("d", "d", "d"), ("a", "e", "e")]
    assert from_nested({"a": {"b": ["c"]}, "d": None}, pad=True).path(1) == ("d", "d", "d")


MISTAKES = {
    "two parents": (
        "level1,level2,level3\na,b,x\nc,b,y\n",
        r"line 3: 'b' at level 2 .*'a' \(t line 2\) and 'c'",
    ),
    "leaf under two parents": ("level1,level2\na,x\nb,x\n", r"line 3: 'x' at level 2 has two parents"),
    "leaf twice": ("level1,level2\na,x\na,y\na,x\n", r"line 4: the leaf 'x' is already in t line 2"),
    "empty level": ("level1,level2,level3\na,b,c\na,,d\n", r"line 3: level 2 is empty"),
    "no level 1": ("level1,level2\n,x\n", "level 1 is empty in every row"),
    "empty row": ("level1,level2\na,x\n,\n", "line 3: level 1 is empty"),
    "missing level": ("level1,level3\na,b\n", "line 1: no column level2"),
    "a level far off": ("level1,level999999999\na,b\n", "line 1: no column level2"),
    "a level beyond all": (f"level{'9' * 5000},name\na,b\n", "line 1: no column level1"),
    "empty column": ("level1,level2\na,\nb,\n", "level 2 is empty in every row"),
    "leaf with children twice": (
        "level1,level2\na,\na,x\na,\n",
        r"line 4: the leaf 'a' is already in t line 2",
    ),
    "no rows": ("level1,level2\n", "the tree is empty"),
    "nothing": ("", "empty"),
    "no header": ("a,x\nb,y\n", "line 1: no column level1.*parent,child"),
    "too many cells": ("level1,level2\na,x,y\n", "line 2: 3 cells below 2 columns"),
    "column twice": ("level1,level1\na,x\n", "line 1: column 'level1' stands twice"),
    "open quote": ('level1,level2\na,"x\n', "line 2: not valid CSV"),
    "control character": ("level1,level2\na,x\x1b[2J\n", "line 2: .*control character"),
    "edge: two parents": (
        "parent,child\na,x\nb,x\n",
        r"line 3: 'x' has two parents, 'a' and 'b' \(see line 2\)",
    ),
    "edge twice": ("parent,child\na,x\na,x\n", "line 3: this edge is already there"),
    "edge: cycle": ("parent,child\na,b\nb,c\nc,a\n", r"line 4 closes a cycle \(b < a < c < b\)"),
    "edge: cycle above leaves": ("parent,child\na,b\nb,a\nb,leaf\n", "line 3 closes a cycle"),
    "edge: itself": ("parent,child\n,a\nb,b\n", r"line 3 closes a cycle \(b < b\)"),
    "edge: no child": ("parent,child\na,\n", "line 2: the child has no name"),
    "edge: none": ("parent,child\n", "the tree is empty"),
    "edge: level missing": ("level,parent,child\n1,,a\n3,b,c\n", "line 3: add a row for 'b' at level 2"),
    "edge: level not a number": ("level,parent,child\nx,,a\n", "line 2: level 'x'"),
    "edge: orphan": ("level,parent,child\n2,,a\n", "line 2: a class of level 2 needs a parent"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_in_csv_are_named(mistake: str) -> None:
    text, message = MISTAKES[mistake]
    with pytest.raises(RamifyError, match=message) as caught:
        parse_csv(text, "t")
    assert "\n" not in str(caught.value)


def test_mistakes_in_nested_forms_are_named(tmp_path: Path) -> None:
    cycle: dict[str, object] = {}
    cycle["a"] = {"b": cycle}
    for nested, message in [
        (cycle, "at a/b: the dict contains itself"),
        ({}, "empty"),
        ([], "empty"),
        ({"a": {"x": None}, "b": {"x": None}}, "at b/x: 'x' at level 2 has two parents"),
        ({"a": {"": {"x": None}}}, "level 2 is empty"),
        ({"": None}, "level 1 is empty"),
        ({"a": "x"}, "at a: found 'x'"),
        ({"a": {1: None}}, "expected class names as text"),
        ({"a": {"x": 0, "y": 0}}, "leaf indices must be 0 to 1"),
        ({"a": {"x": 0, "y": None}}, "leaf indices"),
    ]:
        with pytest.raises(RamifyError, match=message):
            from_nested(nested)
    for text, message in [
        ('{"a": {"x": 0}, "a": {"y": 1}}', "t: 'a' stands twice"),
        ('{"a"', "not valid JSON.*line 1"),
        ('{"a": {"\\ud800": null}}', "control character"),
        ("[" * 100_000, "nested too deeply"),
    ]:
        with pytest.raises(RamifyError, match=message):
            parse_json(text, "t")


def test_mistakes_on_disk_are_named(tmp_path: Path) -> None:
    (tmp_path / "latin.csv").write_bytes("level1,level2\na,x\nb,caf\xe9\n".encode("latin-1"))
    (tmp_path / "notes.txt").write_text("a")
    (tmp_path / "empty").mkdir()
    (tmp_path / "loop" / "a").mkdir(parents=True)
    (tmp_path / "loop" / "a" / "b").symlink_to(tmp_path / "loop")
    for name, message in [
        ("latin.csv", r"latin\.csv line 3: byte 0xe9 is not UTF-8"),
        ("notes.txt", "not a .csv or .json"),
        ("absent.csv", "no tree .*cifar100"),
        ("empty", "no folders"),
        ("loop", "a cycle"),
    ]:
        with pytest.raises(RamifyError, match=message):
            read_taxonomy(tmp_path / name)


@FAST
@given(st.text(st.sampled_from('level123,parent child\n"ab\x00é\r'), max_size=80), st.booleans())
def test_any_text_is_a_tree_or_a_named_mistake(text: str, pad: bool) -> None:
    for head in ("", "level1,level2\n", "parent,child\n", "level,parent,child\n"):
        try:
            tree = parse_csv(head + text, "t", pad)
        except RamifyError:
            continue
        assert parse_csv(to_csv(tree), "t") == tree


@FAST
@given(
    st.recursive(
        st.none() | st.integers(-1, 3) | st.booleans() | st.text("ab", max_size=2),
        lambda inner: (
            st.lists(inner, max_size=3) | st.dictionaries(st.text("abc", max_size=2), inner, max_size=3)
        ),
    )
)
def test_any_json_is_a_tree_or_a_named_mistake(nested: object) -> None:
    try:
        tree = parse_json(json.dumps(nested), "t")
    except RamifyError:
        return
    assert from_nested(to_nested(tree)) == tree


def test_the_command_shows_a_folded_tree(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["taxonomy", "show", "cifar100"]) == 0
    folded = capsys.readouterr().out
    assert "134 nodes, 100 leaves, branching factor 3.83, mean leaf distance 7.83" in folded
    assert "flowers  5  orchid, poppy, rose, sunflower, tulip" in folded
    assert len(folded.splitlines()) == 2 + 34
    assert main(["taxonomy", "show", "cifar100", "--all"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 2 + 134
    (tmp_path / "flat.csv").write_text("level1\n" + "\n".join(f"[red]{i}" for i in range(1000)))
    assert main(["taxonomy", "show", str(tmp_path / "flat.csv")]) == 0
    flat = capsys.readouterr().out
    assert "… 940 more" in flat
    assert "[red]59" in flat
    (tmp_path / "uneven.csv").write_text(
        "level1,level2,level3\nplant,rose,tea rose\nstone\nplant,moss\nplant\n"
    )
    assert main(["taxonomy", "show", str(tmp_path / "uneven.csv")]) == 0
    uneven = " ".join(capsys.readouterr().out.split())
    assert "levels of 2/2/1 classes" in uneven
    assert "5 nodes, 4 leaves, " in uneven
    assert "of the leaves 2 end at level 1, 1 at level 2, 1 at level 3; 1 of them at a class that" in uneven
    assert main(["taxonomy", "show", str(tmp_path / "uneven.csv"), "--pad"]) == 0
    assert "levels of 2/4/4 classes" in " ".join(capsys.readouterr().out.split())
    assert main(["taxonomy", "show", "cifar10"]) == 2
    assert capsys.readouterr().err.startswith("ramify: error: no tree 'cifar10'")
