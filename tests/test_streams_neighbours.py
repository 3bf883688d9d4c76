"""The neighbours' streams by their rules: on random trees, and with the papers' counts."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from ramify.classes import Classes
from ramify.cli import main
from ramify.datasets import load_dataset
from ramify.errors import RamifyError
from ramify.hierarchy.decode import Said
from ramify.reports.data import load_run
from ramify.runs import run_config
from ramify.runs.run import Run
from ramify.streams import SETUPS, Stream, build_stream
from ramify.streams.drift import Drift
from ramify.streams.imbalance import long_tail
from ramify.streams.moves import Eras
from ramify.taxonomy import Taxonomy, read_taxonomy
from strategies import labelled
from tiny_runs import tiny

FAST = settings(max_examples=40)
SEEDS = st.integers(0, 2**31)
CIFAR = read_taxonomy("cifar100")
BALANCED = np.repeat(np.arange(100), 500)
Case = tuple[Taxonomy, np.ndarray]
UNEVEN = labelled(10, min_depth=2, uneven=True)


def first_tasks(stream: Stream) -> dict[tuple[int, int], int]:
    """The task in which each (level, class) first arrives."""
    found: dict[tuple[int, int], int] = {}
    for level, label, task in zip(
        stream.level.tolist(), stream.label.tolist(), stream.task.tolist(), strict=True
    ):
        found.setdefault((level, label), task)
    return found


def tasks_by_class(stream: Stream) -> dict[tuple[int, int], set[int]]:
    found: dict[tuple[int, int], set[int]] = {}
    for level, label, task in zip(
        stream.level.tolist(), stream.label.tolist(), stream.task.tolist(), strict=True
    ):
        found.setdefault((level, label), set()).add(task)
    return found


# ---- DHOCL


@FAST
@given(
    labelled(1) | labelled(1, uneven=True), SEEDS, st.sampled_from(("leaves", "branches")), st.integers(1, 5)
)
def test_dhocl(case: Case, seed: int, grow: str, tasks: int) -> None:
    tree, leaves = case
    assume(tasks <= (tree.leaves if grow == "leaves" else tree.sizes[0]))
    stream = build_stream("dhocl", leaves, tree, seed, settings={"grow": grow}, tasks=tasks)
    assert sorted(stream.image) == list(range(len(leaves)))
    unit = leaves if grow == "leaves" else tree.leaf_to(1)[leaves]
    pairs = {(u, t) for u, t in zip(unit[stream.image].tolist(), stream.task.tolist(), strict=True)}
    assert len(pairs) == len(np.unique(unit))  # each arrives in one task
    assert np.ptp(np.bincount([t for _, t in pairs], minlength=tasks)) <= 1


def test_dhocl_draws_levels_at_random() -> None:
    stream = build_stream("dhocl", BALANCED, CIFAR, 0)
    assert [task["samples"] for task in stream.summary()] == [10_000] * 5
    shares = np.bincount(stream.level, minlength=6)[1:] / len(stream)
    assert shares == pytest.approx(0.2, abs=5 * np.sqrt(0.2 * 0.8 / 50_000))
    place = np.arange(len(stream)) / len(stream)
    assert abs(np.corrcoef(place, stream.level)[0, 1]) < 5 / np.sqrt(len(stream))
    finer = build_stream("dhocl", BALANCED, CIFAR, 0, settings={"finer": 2})
    found = np.bincount(finer.level, minlength=6)[1:] / len(finer)
    assert found == pytest.approx(np.array([1, 2, 4, 8, 16]) / 31, abs=0.01)


def test_dhocl_goes_on_adding_classes_at_coarse_levels() -> None:
    stream = build_stream("dhocl", BALANCED, CIFAR, 0, settings={"grow": "leaves"}, tasks=20)
    firsts = first_tasks(stream)
    assert len({task for (level, _), task in firsts.items() if level == 4}) > 3


# ---- IIRC


@FAST
@given(labelled(10, min_depth=2) | UNEVEN, SEEDS, st.integers(1, 4), st.integers(0, 6))
def test_iirc(case: Case, seed: int, first: int, extra: int) -> None:
    tree, leaves = case
    assume(tree.depth > 1)
    two, place = tree.restrict([-2, -1]), tree.leaf_in([-2, -1])[leaves]
    above = two.up(2, 1)
    parents = len(np.unique(above))
    tasks = min((3 if parents > first else 2) + extra, 1 + sum(two.sizes) - min(first, parents))
    stream = build_stream("iirc", leaves, tree, seed, settings={"first": first}, tasks=tasks)
    assert stream.tasks == tasks
    by_class = tasks_by_class(stream)
    assert len(by_class) == sum(two.sizes)
    assert all(len(found) == 1 for found in by_class.values())  # each class is taught in one task
    when = {key: min(found) for key, found in by_class.items()}
    assert all(when[2, child] > when[1, above[child]] for child in range(two.sizes[1]))
    beginning = [key for key, task in when.items() if task == 0]
    assert all(level == 1 and label in above for level, label in beginning)
    assert len(beginning) == min(first, parents)
    for leaf, n in Counter(place.tolist()).items():
        mine = place[stream.image] == leaf
        coarse, fine = (stream.image[mine & (stream.level == h)].tolist() for h in (1, 2))
        alone = two.leaf_levels[leaf] == 1
        assert len(coarse) == len(set(coarse)) == (n if alone else int(0.4 * n + 1e-9))
        assert len(fine) == len(set(fine)) == (0 if alone else int(0.8 * n + 1e-9))
        assert len(set(coarse) | set(fine)) == min(n, len(coarse) + len(fine))


# The tree of IIRC-CIFAR: 15 superclasses with 77 subclasses, and 23 classes without a superclass.
IIRC_SIZES = (5, 5, 5, 5, 4, 5, 5, 4, 6, 5, 5, 5, 5, 5, 8)
IIRC_CIFAR = Taxonomy.from_rows(
    [(f"super {i}", f"sub {i}.{j}") for i, size in enumerate(IIRC_SIZES) for j in range(size)]
    + [(f"alone {i}",) for i in range(23)]
)


def test_the_papers_counts_of_iirc_cifar_on_its_own_tree() -> None:
    """Ten superclasses, then five classes a task: 22 tasks; 46,160 samples of 400 images a class."""
    for seed in range(3):
        stream = build_stream("iirc", np.repeat(np.arange(100), 400), IIRC_CIFAR, seed)
        assert [task["new_classes"] for task in stream.summary()] == [10] + [5] * 21
        assert len(stream) == 46_160
        assert len(np.unique(stream.image)) == 40_000


def test_iirc_on_the_usual_tree_of_cifar100() -> None:
    """40 % and 80 % of 400 images: 160 + 320 of each class."""
    stream = build_stream("iirc", np.repeat(np.arange(100), 400), CIFAR, 0)
    assert len(stream) == 100 * (160 + 320)
    assert stream.tasks == 1 + (20 - 10 + 100) // 5
    new = [task["new_classes"] for task in stream.summary()]
    assert new == [10] + [5] * 22
    assert len(np.unique(stream.image)) == 100 * 400


def test_iirc_caps_the_images_of_large_superclasses() -> None:
    tree = Taxonomy.from_rows([("few", f"a{i}") for i in range(4)] + [("many", f"b{i}") for i in range(16)])
    stream = build_stream("iirc", np.repeat(np.arange(20), 100), tree, 0)
    coarse = np.bincount(stream.label[stream.level == 1])
    assert coarse.tolist() == [4 * 40, 16 * 20]


# ---- Si-Blurry


@FAST
@given(
    labelled(12) | labelled(12, uneven=True),
    SEEDS,
    st.integers(0, 100),
    st.integers(0, 30),
    st.integers(1, 5),
)
def test_si_blurry(case: Case, seed: int, n: int, m: int, tasks: int) -> None:
    tree, leaves = case
    apart = round(tree.leaves * n / 100)
    assume(tasks <= max(apart, tree.leaves - apart))
    stream = build_stream("si-blurry", leaves, tree, seed, settings={"n": n, "m": m}, tasks=tasks)
    assert sorted(stream.image) == list(range(len(leaves)))
    table = np.zeros((tree.leaves, tasks), np.int64)
    np.add.at(table, (stream.label, stream.task), 1)
    assert ((table > 0).sum(1) == 1).sum() >= apart
    strays = table.sum() - table.max(1).sum()
    blurry = np.sort(table.sum(1))[apart:].sum()  # at most: the largest classes
    assert strays <= round(blurry * m / 100) + 1


def test_si_blurry_leaves_the_sizes_of_tasks_to_chance() -> None:
    sizes = []
    for seed in range(20):
        stream = build_stream("si-blurry", BALANCED, CIFAR, seed)
        table = np.zeros((100, 5), int)
        np.add.at(table, (stream.label, stream.task), 1)
        assert (table.max(1) == 500).sum() >= 50
        assert (500 * 100 - table.max(1).sum()) <= 2500  # a tenth of fifty classes' images
        sizes.append([task["samples"] for task in stream.summary()])
    assert np.std(sizes) > 3000
    assert np.mean(sizes, 0) == pytest.approx(10_000, rel=0.5)  # no place is preferred


# ---- Gaussian schedule


def test_gaussian_arrivals_stand_around_evenly_spread_peaks() -> None:
    stream = build_stream("gaussian", BALANCED, CIFAR, 0)
    place = np.arange(len(stream)) / len(stream)
    means = np.array([place[stream.label == c].mean() for c in range(100)])
    spread = np.array([place[stream.label == c].std() for c in range(100)])
    inner = (means > 0.15) & (means < 0.85)  # the ends are pressed together
    assert spread[inner] == pytest.approx(0.05, rel=0.15)
    assert np.diff(np.sort(means)[20:80]) == pytest.approx(0.01, abs=0.008)
    assert sorted(stream.image) == list(range(50_000))
    assert [task["samples"] for task in stream.summary()] == [10_000] * 5
    # Nothing happens where a task ends: neighbours in time are alike within tasks and across their ends.
    for start, end in pairwise((0, 10_000, 20_000)):
        before, after = stream.label[end - 500 : end], stream.label[end : end + 500]
        inside = stream.label[end - 1000 : end - 500]
        alike = [len(np.intersect1d(a, b)) for a, b in ((before, after), (inside, before))]
        assert start < end
        assert abs(alike[0] - alike[1]) <= 6


@FAST
@given(labelled(2), SEEDS, st.floats(0, 1), st.integers(1, 5))
def test_gaussian(case: Case, seed: int, width: float, tasks: int) -> None:
    tree, leaves = case
    assume(tasks <= len(leaves))
    stream = build_stream("gaussian", leaves, tree, seed, settings={"width": width}, tasks=tasks)
    assert sorted(stream.image) == list(range(len(leaves)))
    assert np.ptp(np.bincount(stream.task)) <= 1
    if width == 0:  # one class after the other
        assert (np.diff(stream.label) != 0).sum() == tree.leaves - 1


# ---- orders


@FAST
@given(labelled(4) | labelled(4, uneven=True), SEEDS)
def test_bottom_up_is_top_down_in_reverse(case: Case, seed: int) -> None:
    tree, leaves = case
    down = build_stream("multiple-depth", leaves, tree, seed)
    assert build_stream("top-down", leaves, tree, seed).fingerprint == down.fingerprint
    up = build_stream("bottom-up", leaves, tree, seed)
    assert np.array_equal(up.level, tree.depth - up.task)
    labels = [
        sorted(zip(s.image.tolist(), s.level.tolist(), s.label.tolist(), strict=True)) for s in (up, down)
    ]
    assert labels[0] == labels[1]


# ---- drift


@FAST
@given(
    labelled(20, min_depth=2) | labelled(20, min_depth=2, uneven=True),
    SEEDS,
    st.integers(2, 4),
    st.integers(1, 100),
    st.data(),
)
def test_drift(case: Case, seed: int, tasks: int, share: int, data: st.DataObject) -> None:
    tree, leaves = case
    assume(tree.depth > 1)
    moving = data.draw(st.integers(2, tree.depth))
    own = {"share": share, "moving": moving}
    siblings = Counter(tree.up(moving, moving - 1).tolist())
    if len(siblings) < 2 or max(siblings.values()) < 2:
        with pytest.raises(RamifyError, match=f"no class of level {moving} can move"):
            build_stream("drift", leaves, tree, seed, settings=own, tasks=tasks)
        return
    stream = build_stream("drift", leaves, tree, seed, settings=own, tasks=tasks)
    assert sorted(stream.image) == list(range(len(leaves)))
    eras = Eras.of(tree, stream.levels, stream.moves)
    assert eras.starts.tolist() == list(range(tasks))  # something moves with each task
    wanted = max(1, round(tree.sizes[moving - 1] * share / 100))
    for task, (before, after) in enumerate(pairwise(eras.trees), 1):
        moved = [move for move in stream.moves if move.task == task]
        changed = np.flatnonzero(before.up(moving, moving - 1) != after.up(moving, moving - 1))
        assert changed.tolist() == sorted(move.child for move in moved)
        assert 1 <= len(moved) <= wanted
        assert all(after.parent(move.level, move.child) == move.parent for move in moved)
        for one in (before, after):  # nobody is left alone, and what is below moves along
            assert np.array_equal(
                np.unique(one.up(moving, moving - 1)), np.unique(tree.up(moving, moving - 1))
            )
            assert np.array_equal(one.leaf_to(moving), tree.leaf_to(moving))
            assert np.array_equal(one.leaf_levels, tree.leaf_levels)
    # Each class comes at each of its levels in every task.
    depth = tree.leaf_levels
    seen = set(zip(leaves[stream.image].tolist(), stream.level.tolist(), stream.task.tolist(), strict=True))
    assert seen == {
        (leaf, h, t) for leaf in range(tree.leaves) for h in range(1, depth[leaf] + 1) for t in range(tasks)
    }


def test_drift_on_cifar100() -> None:
    stream = build_stream("drift", BALANCED, CIFAR, 0)
    assert [task["samples"] for task in stream.summary()] == [25_000] * 2
    assert len(stream.moves) == 10
    assert {move.level for move in stream.moves} == {5}
    child, parent = stream.moves[0].child, stream.moves[0].parent
    old = CIFAR.parent(5, child)
    mine = (BALANCED[stream.image] == child) & (stream.level == 4)
    assert set(stream.label[mine & (stream.task == 0)].tolist()) == {old}
    assert set(stream.label[mine & (stream.task == 1)].tolist()) == {parent}
    assert np.bincount(stream.task[mine]).tolist() == [50, 50]


def test_drift_takes_the_deepest_level_at_which_classes_can_move() -> None:
    tree = Taxonomy.from_rows([("a", "b", "only"), ("a", "c"), ("d", "e")])
    stream = build_stream("drift", np.repeat(np.arange(3), 8), tree, 0)
    assert {move.level for move in stream.moves} == {2}


def test_a_drift_stream_comes_back_and_is_checked(tmp_path: Path) -> None:
    garden = load_dataset("garden", image_size=8)
    stream = build_stream("drift", garden.train.leaves, garden.taxonomy, 3)
    stream.save(tmp_path / "s.stream")
    again = Stream.load(tmp_path / "s.stream")
    assert again == stream
    again.check(garden)
    with pytest.raises(RamifyError, match="labels of the stream are not those"):
        replace(stream, moves=()).check(garden)
    with pytest.raises(RamifyError, match="does not fit 2 tasks"):
        replace(stream, moves=(stream.moves[0]._replace(task=2),))


def test_a_run_on_a_drift_stream_has_the_truth_of_the_moment(tmp_path: Path) -> None:
    """A learner that knows each image's leaf and the first tree, and never learns of the move."""
    config = tiny("er", setup="drift", levels=(2, 4), per_class=4, drift=Drift(share=25.0))
    run = Run(config, load_dataset("garden", image_size=8), "cpu")
    evaluator, leaves = run.evaluator, run.dataset.test.leaves
    first, last = evaluator.eras.trees
    paths = evaluator.eras.paths[0][leaves]

    class Knows:
        classes = Classes()

        def answer(self, images: Any, readings: Any) -> dict[str, Any]:
            ranking = np.tile(self.classes.of_level(2), (len(images), 1))
            return dict.fromkeys(readings, Said(numbers, np.ones(numbers.shape), ranking))

    numbers = np.stack(
        [[Knows.classes.meet(h, int(c), 0) for c in column] for h, column in enumerate(paths.T, 1)], 1
    )
    for task, tree in ((0, first), (1, last), (None, last)):
        found = evaluator(Knows(), whole=True, task=task)
        stays = (tree.leaf_to(1) == first.leaf_to(1))[leaves]
        assert found.accuracy == {1: pytest.approx(stays.mean()), 2: 1.0}
    assert 0.5 < stays.mean() < 1

    folder = tmp_path / "run"
    result = run_config(config, folder, threads=1)
    assert result.moved.keys() == {"new", "old"}
    loaded = load_run(folder)
    assert loaded.tree == last
    assert np.array_equal(loaded.answers.truth, evaluator.truth)
    plain = run_config(replace(config, setup="multiple-depth", drift=Drift()), tmp_path / "plain", threads=1)
    assert plain.moved == {}
    cut = run_config(replace(config, limit=90), tmp_path / "cut", threads=1)  # ends before anything moves
    assert cut.moved == {}
    assert load_run(tmp_path / "cut").tree == first
    facts = json.loads((folder / "config.json").read_text())
    facts["stream"]["moves"][0][3] = 99
    (folder / "config.json").write_text(json.dumps(facts))
    with pytest.raises(RamifyError, match=r"config\.json is damaged: no class 99 at level 1"):
        load_run(folder)


def test_drift_says_what_moves(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    show = ["stream", "show", "--dataset", "garden", "--setup", "drift", "--out", str(tmp_path / "s.svg")]
    assert main(show) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "with task 2 move: " in printed
    assert main([*show, "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["moves"]) == 5


# ---- long tails


@pytest.mark.parametrize(("ratio", "total"), [(100, 10_847), (50, 12_608), (10, 19_573), (1, 50_000)])
def test_the_counts_of_cifar100_lt(ratio: float, total: int) -> None:
    kept = BALANCED[long_tail(BALANCED, 100, ratio, 3)]
    assert len(kept) == total
    counts = np.sort(np.bincount(kept))
    assert counts[-1] == 500
    assert counts[0] == 500 // ratio


@FAST
@given(labelled(20), SEEDS, st.sampled_from(sorted(SETUPS)), st.sampled_from((1.0, 1.5, 3.0)))
def test_every_setup_can_be_long_tailed(case: Case, seed: int, name: str, ratio: float) -> None:
    tree, leaves = case
    assume(tree.depth >= (SETUPS[name].levels or 1))
    try:
        plain = build_stream(name, leaves, tree, seed)
        tailed = build_stream(name, leaves, tree, seed, imbalance=ratio)
    except RamifyError:
        assume(False)
    if ratio == 1:
        assert tailed.fingerprint == plain.fingerprint
        return
    assert tailed.settings["imbalance"] == ratio
    kept = np.unique(tailed.image)
    had, has = (np.bincount(x, minlength=tree.leaves) for x in (leaves, leaves[np.unique(plain.image)]))
    now = np.bincount(leaves[kept], minlength=tree.leaves)
    assert (now <= had).all()
    assert (now >= 1).all()
    if tree.leaves > 1 and (has == had).all():
        share = np.sort(now / had)
        assert share[-1] == pytest.approx(1)
        assert share[0] <= 1 / ratio


def test_imbalance_on_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    show = ["stream", "show", "--dataset", "garden", "--setup", "disjoint", "--json"]
    assert main([*show, "--imbalance", "10"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["settings"]["imbalance"] == 10
    assert main([*show, "--imbalance", "0.5"]) == 2
    assert "imbalance is 0.5; it must be 1 or more" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("setup", "options", "message"),
    [
        ("dhocl", {"tasks": 101}, "101 tasks for 100 leaves: expected 1 to 100"),
        ("dhocl", {"settings": {"grow": "branches"}, "tasks": 3}, "3 tasks for 2 branches: expected 1 to 2"),
        ("dhocl", {"settings": {"finer": 0}}, "finer is 0; it must be above 0"),
        ("iirc", {"tasks": 2}, "2 tasks: expected 3 to 111 for 120 classes"),
        ("iirc", {"settings": {"coarse": 0}}, "coarse is 0; it must be a percentage above 0"),
        ("iirc", {"settings": {"first": 0}}, "first is 0; it must be a whole number, at least 1"),
        ("si-blurry", {"tasks": 51}, "51 tasks for 50 disjoint and 50 blurry classes: expected 1 to 50"),
        ("gaussian", {"settings": {"width": -1}}, "width is -1; it must be 0 or more"),
        ("gaussian", {"tasks": 100_000}, "100000 tasks for 50000 images"),
        ("drift", {"settings": {"moving": 1}}, "moving is 1: expected a level with parents, 2 to 5"),
        ("drift", {"settings": {"share": 0}}, "share is 0; it must be a percentage above 0"),
        ("drift", {"levels": [5]}, "no class of any level can move: expected two parents"),
        ("bottom-up", {"tasks": 4}, "one task a level, here 5"),
        ("disjoint", {"imbalance": float("nan")}, "imbalance is nan"),
        ("multiple-depth", {"imbalance": 1000}, "too few images"),
    ],
)
def test_what_cannot_be_done_is_said(setup: str, options: dict[str, object], message: str) -> None:
    with pytest.raises(RamifyError, match=message) as caught:
        build_stream(setup, BALANCED, CIFAR, 0, **options)  # type: ignore[arg-type]
    assert "\n" not in str(caught.value)


def test_the_page_shows_every_setup() -> None:
    docs = Path(__file__).resolve().parents[1] / "docs"
    page = (docs / "setups.md").read_text("utf-8")
    for name in (name for name, one in SETUPS.items() if one.arrivals.__module__.startswith("ramify.")):
        picture = f"images/setups/{'multiple-depth' if name == 'top-down' else name}.svg"
        assert f"({picture})" in page
        assert "<svg" in (docs / picture).read_text("utf-8")
        assert f"`{name}`" in page
