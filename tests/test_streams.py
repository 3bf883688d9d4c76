"""The streams by their rules: on random trees with uneven classes, and with the paper's own counts."""

from __future__ import annotations

import time
from collections import Counter
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from ramify.errors import RamifyError
from ramify.streams import SETUPS, Stream, build_stream, default_tasks
from ramify.streams.draws import draw_ranks, draw_shuffle
from ramify.taxonomy import Taxonomy, read_taxonomy
from strategies import labelled

FAST = settings(max_examples=60)
SEEDS = st.integers(0, 2**31)
BALANCED = np.repeat(np.arange(100), 500)


def arrivals(stream: Stream) -> list[tuple[int, int, int, int]]:
    columns = (stream.image, stream.level, stream.label, stream.task)
    return list(zip(*(column.tolist() for column in columns), strict=True))


def truth(tree: Taxonomy, leaves: np.ndarray, stream: Stream) -> list[str]:
    """The name of each arrival by the leaf's own path."""
    return [tree.path(leaves[i])[stream.levels[h - 1] - 1] for i, h, *_ in arrivals(stream)]


def shown(tree: Taxonomy, stream: Stream) -> list[str]:
    return [tree.names(stream.levels[h - 1])[label] for _, h, label, _ in arrivals(stream)]


@FAST
@given(labelled(12, min_depth=2), SEEDS, st.booleans(), st.data())
def test_single_depth(case: tuple[Taxonomy, np.ndarray], seed: int, dual: bool, data: st.DataObject) -> None:
    tree, leaves = case
    parents = tree.sizes[-2]
    groups = data.draw(st.sampled_from([d for d in range(1, 13) if parents % d == 0]))
    labels = {"labels": "dual" if dual else "single"}
    stream = build_stream("single-depth", leaves, tree, seed, settings=labels, tasks=groups + 1)
    assert stream.tasks == groups + 1
    assert shown(tree, stream) == truth(tree, leaves, stream)
    assert stream.levels == (tree.depth - 1, tree.depth)
    assert np.array_equal(stream.level, np.where(stream.task == 0, 1, 2))
    assert set(stream.label[stream.task == 0].tolist()) == set(range(parents))  # every parent is seen first
    above = tree.up(tree.depth, tree.depth - 1)
    expansions = {(above[label].item(), task) for _, level, label, task in arrivals(stream) if level == 2}
    assert sorted(parent for parent, _ in expansions) == list(range(parents))  # and expands once
    assert set(Counter(task for _, task in expansions).values()) == {parents // groups}
    counts = Counter(leaves.tolist())
    children = Counter(leaves[stream.image[stream.level == 2]].tolist())
    if dual:
        assert sorted(stream.image[stream.level == 1]) == sorted(stream.image[stream.level == 2])
        assert sorted(stream.image[stream.level == 1]) == list(range(len(leaves)))
    else:
        assert sorted(stream.image) == list(range(len(leaves)))
        share = Fraction(groups, groups + 1)
        assert children == {leaf: round(n * share) for leaf, n in counts.items()}  # half to even


@FAST
@given(labelled(4), SEEDS, st.data())
def test_multiple_depth(case: tuple[Taxonomy, np.ndarray], seed: int, data: st.DataObject) -> None:
    tree, leaves = case
    levels = data.draw(st.none() | st.sets(st.integers(1, tree.depth), min_size=1).map(sorted))
    stream = build_stream("multiple-depth", leaves, tree, seed, levels=levels)
    used = tuple(levels or range(1, tree.depth + 1))
    assert stream.levels == used
    assert shown(tree, stream) == truth(tree, leaves, stream)
    assert np.array_equal(stream.level, stream.task + 1)
    assert sorted(stream.image) == list(range(len(leaves)))
    classes = tree.up(tree.depth, used[-1])[leaves]
    for leaf, n in Counter(classes.tolist()).items():
        parts = np.bincount(stream.level[classes[stream.image] == leaf], minlength=len(used) + 1)[1:]
        base, rest = divmod(n, len(used))
        assert parts.tolist() == [base] * (len(used) - rest) + [base + 1] * rest


@FAST
@given(labelled(12), SEEDS, st.integers(0, 100), st.integers(0, 30), st.integers(1, 5))
def test_flat_setups(case: tuple[Taxonomy, np.ndarray], seed: int, n: int, m: int, tasks: int) -> None:
    tree, leaves = case
    assume(tasks <= tree.leaves)
    stream = build_stream("i-blurry", leaves, tree, seed, settings={"n": n, "m": m}, tasks=tasks)
    assert stream.levels == (tree.depth,)
    assert shown(tree, stream) == truth(tree, leaves, stream)
    assert sorted(stream.image) == list(range(len(leaves)))
    table = np.zeros((tree.leaves, tasks), np.int64)
    np.add.at(table, (stream.label, stream.task), 1)
    sizes, major = table.sum(1), table.argmax(1)  # with m <= 30 and 12 images, most stay in the main task
    assert np.ptp(np.bincount(major, minlength=tasks)) <= 1
    disjoint = round(Fraction(tree.leaves * n, 100))
    assert ((table > 0).sum(1) == 1).sum() >= disjoint
    assert (sizes - table.max(1) <= sizes * m / 100 + 1).all()
    pool = round(Fraction(int(np.sort(sizes)[disjoint:].sum()) * m, 100))  # at most: the largest classes
    strays = [int(table[major != task, task].sum()) for task in range(tasks)]
    assert max(strays) <= -(-pool // tasks)


@FAST
@given(labelled(1), SEEDS, st.integers(1, 5))
def test_all_strays_are_dealt_evenly(case: tuple[Taxonomy, np.ndarray], seed: int, tasks: int) -> None:
    tree, leaves = case
    assume(tasks <= min(tree.leaves, len(leaves)))
    stream = build_stream("i-blurry", leaves, tree, seed, settings={"n": 0, "m": 100}, tasks=tasks)
    assert np.ptp(np.bincount(stream.task, minlength=tasks)) <= 1


@FAST
@given(st.lists(st.integers(0, 300), min_size=0, max_size=60), SEEDS, st.integers(1, 2**53))
def test_shuffles_are_sorts_of_draws(groups: list[int], seed: int, steps: int) -> None:
    """By the plain sort, also where draws are equal: here of a generator with so many steps only."""

    class Coarse:
        def random(self, n: int) -> np.ndarray:
            return np.floor(np.random.default_rng(seed).random(n) * steps) / steps

    group = np.array(groups, np.int64)
    expected = np.lexsort((Coarse().random(len(group)), group))
    assert draw_shuffle(group, Coarse()).tolist() == expected.tolist()  # type: ignore[arg-type]
    ranks = draw_ranks(group, Coarse())  # type: ignore[arg-type]
    for one in set(groups):
        assert ranks[expected[group[expected] == one]].tolist() == list(range(groups.count(one)))


@pytest.mark.parametrize("setup", SETUPS)
def test_same_seed_same_stream(setup: str) -> None:
    tree = read_taxonomy("cifar100")
    leaves = np.repeat(np.arange(100), 20)
    first, again, other = (build_stream(setup, leaves, tree, seed) for seed in (7, 7, 8))
    assert first == again
    assert first.fingerprint == again.fingerprint != other.fingerprint


# A change here changes every stream that users have recorded: raise the version and say so in the changelog.
HASHES = {
    ("single-depth", "single"): "e68d659bcf2e09ad",
    ("single-depth", "dual"): "889b4cc2403d113e",
    ("multiple-depth", "single"): "434f4f9486220ba8",
    ("disjoint", "single"): "5e235296c5a94a78",
    ("blurry", "single"): "c1c16407f53dea54",
    ("i-blurry", "single"): "391ff75f7a126443",
    ("bottom-up", "single"): "83fd3ef0e89e5a61",
    ("dhocl", "single"): "696ff47f3a133144",
    ("iirc", "single"): "a8240543a947cd62",
    ("si-blurry", "single"): "e23a07f4a5c493a1",
    ("drift", "single"): "bbe715e979f90073",
    ("gaussian", "single"): "eb8b636f45af3f3b",
}


@pytest.mark.parametrize(("setup", "labels"), HASHES)
def test_streams_are_the_same_on_every_platform(setup: str, labels: str) -> None:
    own = {"labels": labels} if setup == "single-depth" else None
    stream = build_stream(setup, BALANCED, read_taxonomy("cifar100"), seed=1, settings=own)
    assert stream.fingerprint[:16] == HASHES[setup, labels]


def counts(setup: str, **settings: object) -> list[dict[str, object]]:
    return build_stream(setup, BALANCED, read_taxonomy("cifar100"), 3, settings=settings).summary()


def test_the_papers_counts_on_cifar100() -> None:
    task = {"samples": 8340, "levels": [2], "new_classes": 20}
    assert counts("single-depth") == [{"samples": 8300, "levels": [1], "new_classes": 20}, *[task] * 5]
    dual = {"samples": 10_000, "levels": [2], "new_classes": 20}
    assert counts("single-depth", labels="dual") == [
        {"samples": 50_000, "levels": [1], "new_classes": 20},
        *[dual] * 5,
    ]
    assert counts("multiple-depth") == [
        {"samples": 10_000, "levels": [h], "new_classes": n}
        for h, n in enumerate((2, 4, 8, 20, 100), start=1)
    ]
    stream = build_stream("multiple-depth", BALANCED, read_taxonomy("cifar100"), 3)
    table = np.zeros((5, 100), int)
    np.add.at(table, (stream.level - 1, BALANCED[stream.image]), 1)
    assert (table == 100).all()
    assert counts("disjoint") == [{"samples": 10_000, "levels": [1], "new_classes": 20}] * 5
    assert [task["samples"] for task in counts("blurry")] == [10_000] * 5
    assert [task["samples"] for task in counts("i-blurry")] == [10_000] * 5


@pytest.mark.parametrize(
    ("name", "tasks", "first"), [("stanford-cars", 10, 9), ("imagenet-hier100", 6, 10), ("cifar100-2", 6, 20)]
)
def test_the_papers_task_counts(name: str, tasks: int, first: int) -> None:
    tree = read_taxonomy(name)
    summary = build_stream("single-depth", np.repeat(np.arange(tree.leaves), 30), tree, 0).summary()
    assert len(summary) == tasks
    assert summary[0]["new_classes"] == first


def test_blurry_shares_are_as_expected() -> None:
    tree = read_taxonomy("cifar100")
    for setup, blurry in (("blurry", 100), ("i-blurry", 50)):
        stream = build_stream(setup, BALANCED, tree, 0)
        table = np.zeros((100, 5), int)
        np.add.at(table, (stream.label, stream.task), 1)
        mixed = table[table.max(1) < 500]
        assert len(mixed) == blurry
        # 50 of 500 are dealt over five tasks: 450 stay for certain, and on average a fifth of the others.
        assert mixed.max(1).min() >= 450
        assert mixed.max(1).mean() / 500 == pytest.approx(1 - 0.1 * 4 / 5, abs=0.004)
        assert np.bincount(table.argmax(1)).tolist() == [20] * 5
        assert (np.bincount(table[table.max(1) == 500].argmax(1), minlength=5) == (100 - blurry) // 5).all()


@pytest.mark.parametrize("setup", [name for name in SETUPS if name != "gaussian"])  # it has no tasks
def test_tasks_are_fully_shuffled(setup: str) -> None:
    leaves = np.sort(np.random.default_rng(0).integers(0, 100, 50_000))
    stream = build_stream(setup, leaves, read_taxonomy("cifar100"), 0)
    bounds = [*stream.task_starts, len(stream)]
    for start, end in pairwise(bounds):
        place = np.arange(end - start) / (end - start)
        # Neither the image's place in the dataset nor its leaf says anything about when it comes.
        for property_ in (stream.image[start:end], leaves[stream.image[start:end]]):
            assert abs(np.corrcoef(place, property_)[0, 1]) < 5 / np.sqrt(end - start)
        for label in np.unique(stream.label[start:end])[:5]:
            mine = place[stream.label[start:end] == label]
            assert abs(mine.mean() - 0.5) < 5 * np.sqrt(1 / 12 / len(mine))


def test_default_task_counts() -> None:
    def tree(parents: int) -> Taxonomy:
        return Taxonomy.from_rows([(f"p{i}", f"c{i}") for i in range(parents)])

    found = {
        parents: default_tasks("single-depth", tree(parents)) for parents in (1, 2, 7, 9, 10, 12, 20, 101)
    }
    assert found == {1: 2, 2: 3, 7: 8, 9: 4, 10: 6, 12: 5, 20: 6, 101: 102}
    assert default_tasks("i-blurry", tree(3)) == 5


TWO = Taxonomy.from_rows([(f"p{i // 2}", f"c{i}") for i in range(24)])
ONE = TWO.restrict([2])
MANY = np.repeat(np.arange(24), 10)


@pytest.mark.parametrize(
    ("setup", "leaves", "tree", "options", "message"),
    [
        ("single", MANY, TWO, {}, "no setup 'single'; did you mean 'single-depth'"),
        (
            "single-depth",
            MANY,
            TWO,
            {"tasks": 6},
            r"12 parents equally; task counts that work: 2, 3, 4, 5, 7, 13$",
        ),
        ("single-depth", MANY, TWO, {"tasks": 1}, "task counts that work"),
        ("single-depth", MANY, ONE, {}, "needs 2 levels and this tree has 1: .*disjoint"),
        ("single-depth", MANY, TWO, {"levels": [2]}, "uses 2 levels, 1 given"),
        ("single-depth", MANY, TWO, {"settings": {"labels": "both"}}, "labels is 'both'; .*single, dual"),
        ("single-depth", MANY, TWO, {"settings": {"n": 1}}, "use i-blurry"),
        ("multiple-depth", MANY, TWO, {"settings": {"labels": "dual"}}, "'dual': .*use single-depth"),
        ("multiple-depth", MANY, TWO, {"tasks": 3}, "one task a level, here 2"),
        ("multiple-depth", MANY, TWO, {"levels": [1, 3]}, "levels 1 to 2"),
        (
            "multiple-depth",
            np.append(MANY[10:], 0),
            TWO,
            {},
            r"1 of 24 classes, such as 'c0' with 1, .*the 2 that",
        ),
        (
            "single-depth",
            np.append(MANY[10:], 0),
            TWO,
            {"tasks": 5},
            "fewer than the 3 that single-depth with 5",
        ),
        ("disjoint", MANY[10:], TWO, {}, "too few images: .*'c0' with 0"),
        ("disjoint", MANY, TWO, {"tasks": 25}, "expected 1 to 24"),
        ("disjoint", MANY, TWO, {"tasks": 0}, "at least 1"),
        ("blurry", MANY, TWO, {"settings": {"m": 20}}, "use i-blurry"),
        ("i-blurry", MANY, TWO, {"settings": {"m": 101}}, "percentage"),
        ("i-blurry", MANY, TWO, {"settings": {"n": float("nan")}}, "percentage"),
        ("disjoint", MANY, TWO, {"seed": -1}, "seed is -1"),
        ("disjoint", MANY + 1, TWO, {}, "leaf indices run from 1 to 24, the tree has 0 to 23"),
        ("disjoint", MANY * 1.0, TWO, {}, "class indices, found float64"),
        ("disjoint", [], TWO, {}, "class indices"),
    ],
)
def test_what_cannot_be_done_is_said(
    setup: str, leaves: np.ndarray, tree: Taxonomy, options: dict[str, object], message: str
) -> None:
    with pytest.raises(RamifyError, match=message) as caught:
        build_stream(setup, leaves, tree, **{"seed": 0, **options})  # type: ignore[arg-type]
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("tasks", range(2, 14))
def test_the_least_images_of_a_class_is_exact(tasks: int) -> None:
    tree = Taxonomy.from_rows([(f"p{i}", f"c{i}") for i in range(tasks - 1)])
    works = []
    for n in range(1, 2 * tasks):
        try:
            stream = build_stream("single-depth", np.repeat(np.arange(tasks - 1), n), tree, 0, tasks=tasks)
        except RamifyError:
            continue
        works.append(n)
        assert stream.summary()[0]["new_classes"] == tasks - 1
    expected = [n for n in range(1, 2 * tasks) if 0 < round(Fraction(n * (tasks - 1), tasks)) < n]
    assert works == expected


def test_time_grows_with_the_images_alone() -> None:
    rows = [[f"{i // 14 // 2**k}" for k in (6, 5, 4, 3, 2, 0)] + [f"species {i}"] for i in range(1010)]
    tree = Taxonomy.from_rows(rows)

    def seconds(images: int) -> float:
        best = float("inf")
        for _ in range(2):
            start = time.process_time()
            for setup in SETUPS:
                build_stream(setup, np.arange(images) % 1010, tree, 0)
            best = min(best, time.process_time() - start)
        return best

    assert seconds(160_000) < 8 * seconds(40_000)
