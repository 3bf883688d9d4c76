"""Trees of unequal depth: what arrives, and what counts, by plain Python over the paths of the leaves."""

from __future__ import annotations

import time
import tracemalloc
from collections import Counter

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from own_streams import write_csv
from ramify.errors import RamifyError
from ramify.evaluation import metrics
from ramify.streams import SETUPS, Stream, build_stream
from ramify.streams.draws import Arrivals
from ramify.streams.files import read_csv
from ramify.streams.moves import Eras
from ramify.streams.setup import setup
from ramify.taxonomy import Taxonomy
from strategies import labelled, seven_levels, trees

FAST = settings(max_examples=60)
SEEDS = st.integers(0, 2**31)
Case = tuple[Taxonomy, np.ndarray]


def truth(tree: Taxonomy, leaf: int, levels: tuple[int, ...], level: int) -> str | None:
    """The name of a leaf at a level of the stream, from its path alone."""
    path = tree.path(leaf)
    if levels[0] < 0:
        path = path[-len(levels) :]
        return path[level - 1] if level <= len(path) else None
    return path[levels[level - 1] - 1] if levels[level - 1] <= len(path) else None


def names(tree: Taxonomy, stream: Stream) -> list[str]:
    small = tree.restrict(stream.levels)
    found = zip(stream.level.tolist(), stream.label.tolist(), strict=True)
    return [small.names(h)[label].partition(" (level")[0] for h, label in found]


def check(tree: Taxonomy, leaves: np.ndarray, stream: Stream) -> None:
    told = [
        truth(tree, int(leaves[image]), stream.levels, int(level))
        for image, level in zip(stream.image, stream.level, strict=True)
    ]
    assert names(tree, stream) == told


@FAST
@given(labelled(4, uneven=True), SEEDS, st.data())
def test_multiple_depth_deals_a_leaf_to_its_own_levels(case: Case, seed: int, data: st.DataObject) -> None:
    tree, leaves = case
    levels = data.draw(st.none() | st.sets(st.integers(1, tree.depth), min_size=1).map(sorted))
    has = [
        h for h in (levels or range(1, tree.depth + 1)) if h <= max(len(p) for p in map(tree.path, leaves))
    ]
    assume(levels is None or has == levels)
    stream = build_stream("multiple-depth", leaves, tree, seed, levels=levels)
    check(tree, leaves, stream)
    assert np.array_equal(stream.level, stream.task + 1)
    mine = tree.leaf_in(stream.levels)[leaves]
    assert sorted(stream.image) == np.flatnonzero(mine >= 0).tolist()
    small = tree.restrict(stream.levels)
    for leaf, n in Counter(mine[mine >= 0].tolist()).items():
        depth = len(small.path(leaf))
        parts = np.bincount(stream.level[mine[stream.image] == leaf], minlength=depth + 1)[1:]
        base, rest = divmod(n, depth)
        assert parts.tolist() == [base] * (depth - rest) + [base + 1] * rest


@FAST
@given(labelled(12, min_depth=2, uneven=True), SEEDS, st.booleans())
def test_single_depth_takes_each_leaf_and_its_parent(case: Case, seed: int, dual: bool) -> None:
    tree, leaves = case
    assume(tree.depth > 1 and not tree.even)
    stream = build_stream(
        "single-depth", leaves, tree, seed, settings={"labels": "dual" if dual else "single"}
    )
    check(tree, leaves, stream)
    assert stream.levels == (-2, -1)
    assert np.array_equal(stream.level, np.where(stream.task == 0, 1, 2))
    alone = tree.leaf_levels[leaves] == 1  # a leaf without a parent is one itself, and never expands
    again = np.bincount(stream.image, minlength=len(leaves))
    assert (again == np.where(alone | (not dual), 1, 2)).all()
    assert not stream.task[alone[stream.image]].any()
    small = tree.restrict(stream.levels)
    above = small.up(2, 1)
    fine = stream.level == 2
    groups = {
        (int(above[label]), int(task))
        for label, task in zip(stream.label[fine], stream.task[fine], strict=True)
    }
    assert sorted(parent for parent, _ in groups) == sorted(set(above.tolist()))  # each expands once
    assert len(set(Counter(task for _, task in groups).values())) == 1


@FAST
@given(labelled(12, uneven=True), SEEDS, st.integers(1, 3))
def test_flat_setups_have_every_leaf(case: Case, seed: int, tasks: int) -> None:
    tree, leaves = case
    assume(tasks <= tree.leaves and not tree.even)
    for name in ("disjoint", "blurry", "i-blurry"):
        stream = build_stream(name, leaves, tree, seed, tasks=tasks)
        check(tree, leaves, stream)
        assert stream.levels == (-1,)
        assert np.array_equal(stream.label, leaves[stream.image])
        assert sorted(stream.image) == list(range(len(leaves)))


def test_levels_that_some_leaves_do_not_have() -> None:
    tree = Taxonomy.from_rows([("a", "b", "c"), ("a", "b", "d"), ("a", "e"), ("f",)])
    leaves = np.repeat(np.arange(4), 20)
    stream = build_stream("disjoint", leaves, tree, 0, levels=[3], tasks=2)
    assert sorted(stream.image) == list(range(40))  # the others have no class there
    stream = build_stream("single-depth", leaves, tree, 0, levels=[2, 3], tasks=2)
    assert sorted(stream.image) == list(range(60))
    assert set(stream.task[leaves[stream.image] == 2]) == {0}
    assert build_stream("disjoint", leaves, tree, 0, levels=[-1], tasks=2).classes == (4,)
    even = tree.restrict([1])
    assert build_stream("disjoint", leaves % 2, even, 0, levels=[-1], tasks=2).levels == (1,)
    assert Eras.of(tree, (1, 3)).paths[0].tolist() == [[0, 0], [0, 1], [0, -1], [1, -1]]
    assert Eras.of(tree, (3,)).paths[0].tolist() == [[0], [1], [-1], [-1]]
    with pytest.raises(RamifyError, match="'f' with 0"):
        build_stream("disjoint", leaves[:60], tree, 0, tasks=2)


def test_a_setup_that_asks_for_a_level_below_a_leaf_is_told() -> None:
    @setup("too deep", levels=None, tasks=lambda tree, settings: 1)
    def too_deep(leaves: np.ndarray, tree: Taxonomy, *_: object) -> Arrivals:
        return np.arange(len(leaves)), np.full(len(leaves), tree.depth), np.zeros(len(leaves), np.int64)

    try:
        tree = Taxonomy.from_rows([("a", "b"), ("stone",)])
        with pytest.raises(RamifyError, match=r"level 2 for an image of 'stone', which ends at level 1"):
            build_stream("too deep", [0, 1], tree, 0)
    finally:
        del SETUPS["too deep"]


@pytest.mark.parametrize("name", ["multiple-depth", "single-depth", "disjoint"])
def test_streams_come_back_from_files(name: str, tmp_path) -> None:
    tree = Taxonomy.from_rows([("a", "b", "c"), ("a", "b", "d"), ("a", "e"), ("f",), ("g", "h"), ("a",)])
    leaves = np.repeat(np.arange(6), 20)
    stream = build_stream(name, leaves, tree, 3)
    stream.save(tmp_path / "s.safetensors")
    assert Stream.load(tmp_path / "s.safetensors") == stream
    write_csv(stream, tmp_path / "s.csv", tree)
    again = read_csv(tmp_path / "s.csv", tree, len(leaves))
    assert again.fingerprint == stream.fingerprint
    (tmp_path / "mixed.csv").write_text("image,level,label\n0,-1,c\n0,1,a\n")
    with pytest.raises(RamifyError, match="count all from 1, or all from -1"):
        read_csv(tmp_path / "mixed.csv", tree, 3)


@st.composite
def answered(draw: st.DrawFn) -> tuple[Taxonomy, np.ndarray, np.ndarray]:
    """A tree, the true paths of some images, and answers of any kind, -1 for none."""
    tree = draw(trees(uneven=True) | trees())
    n = draw(st.integers(1, 12))
    leaves = np.array(draw(st.lists(st.integers(0, tree.leaves - 1), min_size=n, max_size=n)))
    true = Eras.of(tree, range(1, tree.depth + 1)).paths[0][leaves]
    columns = [draw(st.lists(st.integers(-1, size - 1), min_size=n, max_size=n)) for size in tree.sizes]
    said = np.array(columns, np.int64).T
    right = np.array(draw(st.lists(st.booleans(), min_size=n, max_size=n)))
    return tree, true, np.where(right[:, None], true, said)


def nodes(tree: Taxonomy) -> list[tuple[str, ...]]:
    paths = map(tree.path, range(tree.leaves))
    return sorted({path[:h] for path in paths for h in range(1, len(path) + 1)})


def node(tree: Taxonomy, level: int, index: int) -> tuple[str, ...]:
    return next(n for n in nodes(tree) if len(n) == level and n[-1] == tree.names(level)[index])


@FAST
@given(answered())
def test_figures_by_plain_python(case: tuple[Taxonomy, np.ndarray, np.ndarray]) -> None:
    tree, true, said = case
    assume((said >= 0).any())
    for level in range(1, tree.depth + 1):
        seen = np.ones(tree.sizes[level - 1], bool)
        asked = [i for i in range(len(true)) if true[i, level - 1] >= 0]
        hits = [bool(said[i, level - 1] == true[i, level - 1]) for i in asked]
        got = metrics.level_accuracy(said[:, level - 1], true[:, level - 1], seen)
        assert got == (pytest.approx(np.mean(hits)) if hits else None)
        by_class = metrics.class_accuracy(said[:, level - 1], true[:, level - 1], seen)
        for c in range(len(seen)):
            mine = [hit for i, hit in zip(asked, hits, strict=True) if true[i, level - 1] == c]
            assert by_class[c] == pytest.approx(np.mean(mine)) if mine else np.isnan(by_class[c])
    assert metrics.path_accuracy(said, true) == np.mean(
        [(a == b).all() for a, b in zip(said, true, strict=True)]
    )
    whole = nodes(tree)
    one_path, heights = [], []
    for answer, path in zip(said.tolist(), true.tolist(), strict=True):
        found = [node(tree, h, c) for h, c in enumerate(answer, 1) if c >= 0]
        one_path.append(all(found[-1][: len(step)] == step for step in found))
        end = max(h for h, c in enumerate(path, 1) if c >= 0)
        leaf = node(tree, end, path[end - 1])
        upto = next((step for step in reversed(found) if len(step) <= end), ())
        shared = sum(upto[: h + 1] == leaf[: h + 1] for h in range(len(upto)))
        below = [n for n in whole if n[:shared] == leaf[:shared]]
        heights.append(0 if upto == leaf else max(map(len, below)) - shared)
    assert metrics.consistency(said, tree) == np.mean(one_path)
    assert metrics.mistake_heights(said, true, tree).tolist() == heights
    severity = metrics.mistake_severity(said, true, tree)
    if (said[:, -1] < 0).all():
        assert severity == {"mistakes": None, "all": None}
    else:
        assert severity["all"] == pytest.approx(np.mean(heights))
        wrong = [height for height in heights if height]
        assert severity["mistakes"] == (pytest.approx(np.mean(wrong)) if wrong else None)


LARGE = Taxonomy.from_rows(seven_levels(2000))


@pytest.mark.parametrize("name", SETUPS)
def test_a_large_stream_takes_little_memory_and_time(name: str) -> None:
    """The bar, ten million samples in 1 GB and 30 s, by the sample: 100 bytes and 3 µs."""
    leaves = np.arange(300_000) % LARGE.leaves
    tracemalloc.start()
    begin = time.process_time()
    stream = build_stream(name, leaves, LARGE, 0)
    seconds, peak = time.process_time() - begin, tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (LARGE.depth, len(set(LARGE.leaf_levels.tolist()))) == (7, 7)
    assert len(stream) >= len(leaves) / 2
    assert peak < 80 * len(stream)  # the leaves, 8 bytes each, and the interpreter come on top
    assert seconds < 3e-6 * len(stream)
