"""What every registered setup keeps to, and a setup of one's own from its file to a run."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import FrozenInstanceError, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from ramify.cli import main
from ramify.errors import RamifyError
from ramify.runs import run_config
from ramify.streams import SETUPS, Stream, build_stream, default_tasks, find_setup
from ramify.streams.blurry import IBlurry
from ramify.streams.draws import draw_ranks
from ramify.streams.moves import Move
from ramify.streams.setup import Setup, setup
from ramify.streams.single_depth import SingleDepth
from ramify.taxonomy import Taxonomy, read_taxonomy
from ramify.typed import Typed
from strategies import labelled
from tiny_runs import tiny

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
TREE = read_taxonomy("cifar100")
LEAVES = np.repeat(np.arange(100), 12)


def works(rule: Setup, tasks: int, tree: Taxonomy) -> bool:
    try:
        rule.check(tasks, tree, rule.own(None))
    except RamifyError:
        return False
    return True


def path_at(tree: Taxonomy, leaf: int, moves: Sequence[Move], task: int) -> list[int]:
    """The classes of a leaf after the moves up to a task, which are of one level, one after the other."""
    path = [int(tree.leaf_to(h)[leaf]) for h in range(1, tree.depth + 1)]
    for move in moves:
        if move.task <= task and path[move.level - 1] == move.child:
            relative = tree.leaves_below(move.level - 1, move.parent)[0]
            path[: move.level - 1] = [int(tree.leaf_to(h)[relative]) for h in range(1, move.level)]
    return path


@pytest.mark.parametrize("name", SETUPS)
@settings(max_examples=40)
@given(
    case=labelled(16, min_depth=2) | labelled(16, min_depth=2, uneven=True),
    seed=st.integers(0, 2**31),
    data=st.data(),
)
def test_every_setup(name: str, case: tuple[Taxonomy, np.ndarray], seed: int, data: st.DataObject) -> None:
    tree, leaves = case
    rule = find_setup(name)
    assume(tree.depth >= (rule.levels or 1))
    used = tree if rule.levels is None else tree.restrict(range(-rule.levels, 0))
    counts = [t for t in range(1, 5) if works(rule, t, used)]
    assume(counts)
    tasks = data.draw(st.sampled_from(counts))
    stream, again, other = (build_stream(name, leaves, tree, s, tasks=tasks) for s in (seed, seed, seed + 1))
    assert set(stream.image.tolist()) <= set(range(len(leaves)))
    assert set(stream.level.tolist()) <= set(range(1, used.depth + 1))
    small, place = tree.restrict(stream.levels), tree.leaf_in(stream.levels)[leaves]
    paths = {
        (leaf, task): path_at(small, leaf, stream.moves, task)
        for leaf in np.unique(place).tolist()
        for task in range(stream.tasks)
    }
    rows = (place[stream.image], stream.task, stream.level, stream.label)
    for leaf, task, level, label in zip(*(row.tolist() for row in rows), strict=True):
        assert paths[leaf, task][level - 1] == label >= 0
    assert stream.task.tolist() == sorted(stream.task.tolist())
    assert set(stream.task.tolist()) == set(range(stream.tasks))
    assert stream.tasks <= tasks == stream.settings["tasks"]
    assert stream == again
    assert stream.fingerprint != other.fingerprint


@pytest.mark.parametrize("name", SETUPS)
def test_every_setup_says_what_it_is(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    rule = find_setup(name)
    assert rule.name == name
    assert rule.doc.endswith(".")
    assert rule.doc.count("\n") == 0
    with pytest.raises(FrozenInstanceError):
        rule.name = "other"  # type: ignore[misc]
    assert main(["stream", "list"]) == 0
    assert any(line.startswith(name) for line in capsys.readouterr().out.splitlines())
    for command in (["stream", "show"], ["run"], ["compare"]):
        with pytest.raises(SystemExit):
            main([*command, "--help"])
        text = " ".join(capsys.readouterr().out.replace("│", " ").split())
        assert name in text.split("--setup")[-1].split(" --")[0], command


def test_what_a_stream_records_of_its_settings() -> None:
    def recorded(name: str, own: Any = None) -> str:
        return json.dumps(build_stream(name, LEAVES, TREE, 0, settings=own).settings)

    assert recorded("single-depth") == '{"tasks": 6, "labels": "single"}'
    assert recorded("single-depth", SingleDepth("dual")) == '{"tasks": 6, "labels": "dual"}'
    assert recorded("multiple-depth") == '{"tasks": 5}'
    assert recorded("disjoint") == '{"tasks": 5, "n": 100.0, "m": 0.0}'
    assert recorded("blurry") == '{"tasks": 5, "n": 0.0, "m": 10.0}'
    assert recorded("i-blurry") == recorded("i-blurry", {}) == '{"tasks": 5, "n": 50.0, "m": 10.0}'
    assert recorded("i-blurry", {"n": 30}) == recorded("i-blurry", IBlurry(n=30))
    assert default_tasks("multiple-depth", TREE) == 5


@pytest.mark.parametrize(
    ("name", "own", "message"),
    [
        ("single-depth", {"label": "dual"}, "single-depth: no field 'label'; did you mean 'labels'?"),
        ("i-blurry", {"portion": 3}, "i-blurry: no field 'portion'; known: m, n"),
        ("disjoint", {"portion": 3}, "disjoint has no setting 'portion', found 3: drop it$"),
        ("disjoint", {"n": 3}, "disjoint has no setting 'n', found 3: drop it or use i-blurry, si-blurry$"),
        ("i-blurry", SingleDepth(), "settings are SingleDepth.*expected a mapping or IBlurry"),
        ("blurry", IBlurry(), "settings are IBlurry.*expected nothing"),
        ("single-depht", None, "no setup 'single-depht'; did you mean 'single-depth'?"),
    ],
)
def test_settings_that_a_setup_has_not(name: str, own: Any, message: str) -> None:
    with pytest.raises(RamifyError, match=message) as caught:
        build_stream(name, LEAVES, TREE, 0, settings=own)
    assert "\n" not in str(caught.value)


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What a test registers is gone after it."""
    before = dict(SETUPS)
    yield
    SETUPS.clear()
    SETUPS.update(before)


@pytest.fixture
def desk(registry: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a setup of one's own, where one is."""
    (tmp_path / "own_setup.py").write_text((EXAMPLES / "own_setup.py").read_text())
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "own_setup", raising=False)
    return tmp_path


def test_a_setup_of_ones_own_is_built_saved_loaded_and_run(
    desk: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name = "own_setup:spiral"
    stream = build_stream(name, LEAVES, TREE, 3)
    assert [task["levels"] for task in stream.summary()] == [
        [1],
        [1, 2],
        [1, 2, 3],
        [1, 2, 3, 4],
        [1, 2, 3, 4, 5],
    ]
    assert sorted(stream.image) == list(range(len(LEAVES)))
    stream.save(desk / "s.stream")
    assert Stream.load(desk / "s.stream") == stream
    assert stream.setup == name
    assert find_setup("spiral") is find_setup(name)  # imported, it has its name

    result = run_config(tiny("er", setup=name), desk / "run", threads=1)
    assert result.samples == 144
    records = [json.loads(line) for line in (desk / "run" / "records.jsonl").read_text().splitlines()]
    ends = [record for record in records if record["task_end"]]
    assert [sorted(record["classes_seen"]) for record in ends] == [["1"], ["1", "2"], ["1", "2", "3"]]

    assert main(["stream", "show", "--dataset", "garden", "--setup", name]) == 0
    printed = capsys.readouterr()
    assert "own_setup:spiral" in printed.out
    assert (desk / "stream-garden-own_setup-spiral-seed0.svg").exists()
    assert main(["report", "run"]) == 0


def test_code_of_ones_own_is_imported_only_when_its_stream_is_built(
    desk: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tiny("er", setup="own_setup:spiral")
    assert "own_setup" not in sys.modules
    run_config(config, desk / "run", threads=1)
    del sys.modules["own_setup"]
    (desk / "run" / "result.json").unlink()
    facts = json.loads((desk / "run" / "config.json").read_text())
    facts["config"]["network"]["name"] = "resnet18"
    (desk / "run" / "config.json").write_text(json.dumps(facts))
    capsys.readouterr()
    assert main(["resume", "run"]) == 2
    assert "own_setup:spiral" in capsys.readouterr().err
    assert "own_setup" not in sys.modules


@dataclass(frozen=True)
class Share(Typed):
    """Settings of a setup below."""

    fine_share: float = 0.5
    """Share of the images, at most 100%, that come with their leaf."""


def share(leaves: Any, tree: Taxonomy, rng: np.random.Generator, tasks: int, own: Share) -> Any:
    """All at once."""
    fine = draw_ranks(leaves * 0, rng) < own.fine_share * len(leaves)
    return np.arange(len(leaves)), np.where(fine, tree.depth, 1), leaves * 0


@pytest.mark.usefixtures("registry")
def test_settings_of_a_setup_of_ones_own_are_options(capsys: pytest.CaptureFixture[str]) -> None:
    setup("share", levels=None, tasks=lambda tree, own: 1, settings=Share)(share)
    stream = build_stream("share", LEAVES, TREE, 0, settings={"fine_share": 0.25})
    assert np.bincount(stream.level).tolist() == [0, 900, 0, 0, 0, 300]
    show = ["stream", "show", "--dataset", "garden", "--setup", "share", "--json"]
    assert main([*show, "--fine-share", "0.125"]) == 0
    assert json.loads(capsys.readouterr().out)["settings"] == {"tasks": 1, "fine_share": 0.125}
    with pytest.raises(SystemExit):
        main([*show, "--help"])
    assert "at most 100%, that come with their leaf (default: 0.5)" in " ".join(
        capsys.readouterr().out.split()
    )
    assert main([*show, "--fine-share", "much"]) == 2
    assert "fine_share is 'much'" in capsys.readouterr().err


ONES = np.ones(4, int)


@pytest.mark.usefixtures("registry")
@pytest.mark.parametrize(
    ("returned", "message"),
    [
        ((ONES, ONES), "the setup odd failed .ValueError"),
        ((ONES, ONES, ONES[:2]), r"odd returned int64\(4,\), int64\(4,\), int64\(2,\); expected image"),
        ((ONES, ONES * 1.0, ONES), "float64"),
        ((ONES[:0], ONES[:0], ONES[:0]), "equally many of each"),
        ((ONES * 1200, ONES, ONES * 0), "returned images from 1200 to 1200; expected 0 to 1199"),
        ((ONES, ONES * 0, ONES * 0), "returned levels from 0 to 0; expected 1 to 5"),
        ((ONES, ONES, ONES * 3), "returned tasks from 3 to 3; expected 0 to 2"),
        ((ONES, ONES, ONES * 2), "returned nothing for task 0"),
    ],
)
def test_what_a_setup_of_ones_own_gets_wrong_is_named(returned: Any, message: str) -> None:
    setup("odd", levels=None, tasks=lambda tree, own: 3)(lambda *_: returned)
    with pytest.raises(RamifyError, match=message) as caught:
        build_stream("odd", LEAVES, TREE, 0)
    assert "\n" not in str(caught.value)
    with pytest.raises(RamifyError, match="tasks is 0; it must be a whole number, at least 1"):
        build_stream("odd", LEAVES, TREE, 0, tasks=0)


@pytest.mark.usefixtures("registry")
def test_names_of_setups() -> None:
    with pytest.raises(RamifyError, match="'disjoint' is ramify's own"):
        setup("disjoint", levels=1, tasks=lambda tree, own: 1)(share)
    setup("share", levels=1, tasks=lambda tree, own: 1)(share)
    setup("share", levels=2, tasks=lambda tree, own: 1)(share)  # as when a notebook's cell is run again
    assert SETUPS["share"].levels == 2
    setup("clash", levels=1, tasks=lambda tree, own: 1, settings=Clash)(share)
    assert main(["stream", "show", "--dataset", "garden", "--setup", "clash"]) == 2


@dataclass(frozen=True)
class Clash(Typed):
    """A setting with the name of an option."""

    seed: int = 1
