"""The store against plain lists, policies against their statistics, importance against hand-made traces."""

from __future__ import annotations

import time
from collections import Counter

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

from parts import NUMBER, Bench, sample
from ramify.errors import RamifyError
from ramify.memory import (
    Balanced,
    Column,
    Everything,
    FirstOrder,
    LeastImportant,
    Memory,
    Probe,
    Reservoir,
    Sample,
    Sweep,
    arrived,
)
from ramify.methods import METHODS, Trainer, make_settings
from ramify.methods.checks import Toy, ToyNetwork, learner
from ramify.networks import ImageInputs

PLAIN = {"inputs": NUMBER}
DECLARED = PLAIN | {
    "weight": Column(np.float64, (), -1.0),
    "seen": Column(np.bool_),
    "answers": Column(torch.float16, (0,), float("nan")),
    "table": Column(np.int16, (2, 1), 7),
}

labels_of_samples = st.lists(st.integers(0, 40), min_size=1, max_size=4, unique=True)
brought = st.fixed_dictionaries(
    {},
    optional={
        "weight": st.integers(-9, 9).map(float),
        "seen": st.booleans(),
        "answers": st.lists(st.integers(0, 99), max_size=6).map(lambda x: torch.tensor(x).half()),
        "table": st.integers(1, 3).map(lambda n: np.arange(2 * n, dtype=np.int16).reshape(2, n)),
    },
)
operations = st.lists(st.tuples(st.integers(0, 10**6), labels_of_samples, brought), min_size=1, max_size=60)


def filled(fill, value, width):
    """A row of a column by hand: the value, then its fill."""
    rows = np.atleast_2d(np.asarray(value, float))
    return np.pad(rows, ((0, 0), (0, width - rows.shape[1])), constant_values=fill)


def agrees(memory, plain):
    """Every column of the store holds what the list says, and nothing else."""
    size = len(plain)
    assert memory["inputs"][:size, 0].tolist() == [s.inputs.item() for s in plain]
    assert memory.classes[:size].tolist() == [s.cls for s in plain]
    assert memory["weight"][:size].tolist() == [s.values.get("weight", -1.0) for s in plain]
    assert memory["seen"][:size].tolist() == [s.values.get("seen", False) for s in plain]
    for slot, s in enumerate(plain):
        wanted = {
            "labels": filled(-1, s.labels, memory["labels"].shape[1]),
            "answers": filled(np.nan, s.values.get("answers", []), memory["answers"].shape[1]),
            "table": filled(7, s.values.get("table", [[], []]), memory["table"].shape[2]),
        }
        for name, rows in wanted.items():
            assert np.array_equal(np.atleast_2d(memory[name][slot]), rows, equal_nan=True)
    assert memory["answers"][size:].isnan().all()
    assert (memory["table"][size:] == 7).all()


@settings(max_examples=150)
@given(capacity=st.integers(1, 25), steps=operations)
def test_the_store_is_a_list_of_samples(capacity, steps):
    memory, plain = Memory(capacity, DECLARED), []
    for number, (place, labels, values) in enumerate(steps):
        newcomer = sample(number, *labels, cls=labels[place % len(labels)], **values)
        if len(plain) < capacity:
            assert memory.add(newcomer) == len(plain)
            plain.append(newcomer)
        else:
            slot = place % capacity
            assert memory.replace(slot, newcomer) == slot
            plain[slot] = newcomer
        if place % 7 == 0:  # now and then go on with a copy: a fresh memory, or one that has grown otherwise
            other = Memory(capacity, DECLARED)
            if place % 2:
                for _ in range(place % capacity + 1):
                    other.add(sample(99, *range(6), answers=torch.ones(9), table=np.ones((2, 4)), weight=5.0))
            other.restore(memory.state())
            orders = [(memory.members(c).tolist(), other.members(c).tolist()) for c in range(42)]
            assert all(a == b for a, b in orders)
            memory = other
        counts = Counter(s.cls for s in plain)
        assert memory.size == len(plain)
        assert memory.full == (len(plain) == capacity)
        agrees(memory, plain)
        for c in range(42):
            assert sorted(memory.members(c)) == [i for i, s in enumerate(plain) if s.cls == c]
            assert memory.counted(c).tolist() == [counts[i] for i in range(c)]


def test_a_batch_from_memory_has_all_that_belongs_to_its_samples():
    memory = Memory(4, PLAIN)
    memory.add(sample(10, 3))
    memory.add(sample(11, 1, 5, cls=5))
    memory.add(sample(12, 0, 2, 4))
    batch = memory.batch(np.array([2, 0, 1]))
    assert batch.inputs.flatten().tolist() == [12, 10, 11]
    assert batch.labels.tolist() == [[0, 2, 4], [3, -1, -1], [1, 5, -1]]
    assert batch.classes.tolist() == [0, 3, 5]
    assert batch.slots.tolist() == [2, 0, 1]
    assert not batch.arrived.any()


@settings(max_examples=100)
@given(widths=st.lists(st.integers(0, 30), max_size=12), on_device=st.booleans())
def test_a_column_grows_and_keeps_what_it_holds(widths, on_device):
    kind = torch.float32 if on_device else np.float32
    memory = Memory(3, PLAIN | {"growing": Column(kind, (2, 1), -3.0)})
    memory.add(sample(0, 0, growing=torch.tensor([[1.0], [2.0]])))
    allocations = 0
    for width in widths:
        before = memory["growing"]
        memory.widen("growing", width)
        after = np.asarray(memory["growing"])
        allocations += memory["growing"] is not before
        assert after.shape[:2] == (3, 2)
        assert after.shape[2] >= max(width, before.shape[2])
        assert after[0, :, 0].tolist() == [1, 2]
        assert (after[0, :, 1:] == -3).all()
        assert (after[1:] == -3).all()
        assert after.dtype == np.float32
    assert allocations <= len(set(widths))
    for width in range(1, 200):
        before = memory["growing"]
        memory.widen("growing", width)
        allocations += memory["growing"] is not before
    assert allocations <= len(set(widths)) + 14  # not one by one


def test_what_a_sample_does_not_bring_is_reset_when_it_takes_a_slot():
    memory = Memory(2, DECLARED)
    memory.add(sample(0, 1, 2, 3, weight=4.0, seen=True, answers=torch.tensor([1.0, 2.0])))
    memory["weight"][0] = 9.0
    memory.replace(0, sample(1, 5, answers=torch.tensor([3.0])))
    assert memory["weight"][0] == -1.0
    assert not memory["seen"][0]
    assert memory["labels"][0].tolist() == [5, -1, -1]
    assert memory["answers"][0, 0] == 3
    assert memory["answers"][0, 1:].isnan().all()
    memory.write("answers", 0, torch.tensor([8.0, 8.0]))
    memory.write("answers", 0, torch.tensor([6.0]))  # shorter: the rest of the row stays
    assert memory["answers"][0].tolist()[:2] == [6, 8]


def test_a_memory_that_was_never_used_restores_to_an_empty_one():
    memory = Memory(3, DECLARED)
    memory.add(sample(0, 1, weight=3.0, answers=torch.ones(3)))
    memory.restore(Memory(3, DECLARED).state())
    assert memory.size == 0
    assert len(memory.members(1)) == 0
    assert not memory.counts.any()
    agrees(memory, [])
    assert (memory["weight"] == -1).all()


def test_a_sample_that_does_not_fit_is_refused_and_nothing_changes():
    memory = Memory(2, PLAIN)
    with pytest.raises(RamifyError, match="holds no sample"):
        memory.replace(0, sample(0, 0))
    memory.add(sample(7, 1))
    before = memory.state()
    wrong = [
        (Sample(torch.zeros(2), (0,), 0), "shape"),
        (Sample(torch.zeros(1, dtype=torch.uint8), (0,), 0), "uint8"),
        (sample(0), "has a label"),
    ]
    for bad, words in wrong:
        for store in (memory.add, lambda s: memory.replace(0, s)):
            with pytest.raises(RamifyError, match=words):
                store(bad)
    with pytest.raises(RamifyError, match="holds no sample"):
        memory.replace(1, sample(0, 0))
    memory.add(sample(8, 1))
    with pytest.raises(RamifyError, match="full"):
        memory.add(sample(9, 1))
    assert memory.size == 2
    assert memory["inputs"].flatten().tolist() == [7, 8]
    assert before["counts"].tolist()[1] + 1 == memory.counts[1]


@settings(max_examples=300)
@given(stored=st.lists(st.integers(0, 20), min_size=1, max_size=40), newcomer=st.integers(0, 25))
def test_the_modal_class_counts_the_newcomer_and_breaks_ties_by_first_sight(stored, newcomer):
    memory = Memory(len(stored), PLAIN)
    for cls in stored:
        memory.add(sample(0, cls))
    counts = Counter(stored)
    if newcomer in counts:  # only a class that has a sample can lose one
        counts[newcomer] += 1
    most = max(counts.values())
    assert memory.most_frequent(newcomer) == min(c for c in counts if counts[c] == most)


def test_draws_are_without_repetition_and_uniform():
    memory, rng = Memory(10, PLAIN), np.random.default_rng(0)
    assert len(memory.sample(4, rng)) == 0
    for i in range(10):
        memory.add(sample(i, 0))
    drawn = [memory.sample(4, rng) for _ in range(2000)]
    assert all(len(set(d)) == 4 for d in drawn)
    assert chisquare(np.bincount(np.concatenate(drawn), minlength=10)).pvalue > 0.001
    assert sorted(memory.sample(99, rng)) == list(range(10))
    others = [memory.sample(4, rng, np.array([2, 7])) for _ in range(2000)]
    assert all(len(set(d)) == 4 for d in others)
    counts = np.bincount(np.concatenate(others), minlength=10)
    assert counts[[2, 7]].sum() == 0
    assert chisquare(np.delete(counts, [2, 7])).pvalue > 0.001
    assert sorted(memory.sample(99, rng, np.array([2, 7]))) == [0, 1, 3, 4, 5, 6, 8, 9]


def test_the_store_costs_little_beside_its_images():
    chosen = make_settings(
        memory_size=2000,
        updates_per_sample=1e-6,  # none at all
        importance={"kind": "sweep"},
        pl={"exact": True},
    )
    trainer = Trainer(METHODS["pl"], chosen, ImageInputs(32), network=ToyNetwork())
    classes = [(level, label) for level, size in enumerate((2, 4, 8, 20, 100), 1) for label in range(size)]
    blank, rng = torch.zeros(1, 3, 32, 32, dtype=torch.uint8), np.random.default_rng(0)
    for cls in rng.integers(len(classes), size=3000):
        trainer.observe(blank, [[classes[cls]]])
    raw = 2000 * 3 * 32 * 32
    memory, policy = trainer.memory, trainer.recipe.keep
    tracked = [policy.votes.predictions, policy.current]
    assert memory.full
    assert memory.nbytes() <= 1.05 * raw
    assert policy.votes.predictions.shape == (2000, 5)
    assert memory.nbytes() + sum(a.nbytes for a in tracked) <= 1.05 * raw
    assert memory["inputs"].nbytes == raw


def test_the_bytes_of_a_store_are_those_of_its_columns_and_lists():
    memory = Memory(100, PLAIN | {"wide": Column(torch.float16, (0,)), "one": Column(np.float64)})
    before = memory.nbytes()
    assert before >= 100 * (4 + 4 + 8)  # inputs, labels, one
    memory.widen("wide", 50)
    assert memory.nbytes() == before + 100 * 50 * 2
    memory.add(sample(0, 1, 2, 3))
    labels = memory["labels"]
    assert labels.shape[1] >= 3
    lists = sum(slots.nbytes for slots in memory._members)
    assert lists > 0
    assert memory.nbytes() == before + 100 * 50 * 2 + (labels.shape[1] - 1) * 100 * 4 + lists


def test_replacing_does_not_slow_down_with_the_size():
    def seconds(capacity):
        memory, blank = Memory(capacity, DECLARED), sample(0, 0)
        memory["inputs"][:] = 0
        for i in range(capacity):
            memory.add(sample(0, i % 2))
        slots = np.random.default_rng(0).integers(capacity, size=300).tolist()
        best = np.inf
        for _ in range(5):
            start = time.process_time()
            for slot in slots:
                blank.cls = slot % 3
                memory.replace(slot, blank)
            best = min(best, time.process_time() - start)
        return best

    assert seconds(30_000) < 5 * seconds(100)


def test_a_memory_without_places_is_full_and_holds_nothing():
    memory = Memory(0, {"inputs": Column(torch.uint8, (3, 8, 8))})
    assert memory.full
    assert len(memory.batch(memory.sample(4, np.random.default_rng(0)))) == 0
    with pytest.raises(RamifyError, match="at least 0"):
        Memory(-1, {"inputs": Column(torch.uint8, (3, 8, 8))})


@pytest.mark.parametrize(
    ("runs", "stream", "capacity", "unlabelled"),
    [(1500, 5, 2, ()), (250, 60, 12, ()), (1500, 8, 2, (0, 1, 5)), (250, 60, 12, range(0, 60, 3))],
)
def test_the_reservoir_is_uniform_over_the_stream(runs, stream, capacity, unlabelled):
    """Over the samples of it that can be stored: those with a label."""
    kept = np.zeros(stream)
    rng = np.random.default_rng(0)
    for _ in range(runs):
        policy = Reservoir(rng)
        bench = Bench(capacity, policy, samples=1)
        for i in range(stream):
            slot = policy.offer(bench, sample(i) if i in unlabelled else sample(i, i % 5))
            assert slot is None or bench.number(slot) == i
        kept += np.bincount(bench.numbers, minlength=stream)
        assert bench.memory.size == capacity
    assert kept.sum() == runs * capacity
    assert not kept[list(unlabelled)].any()
    assert chisquare(np.delete(kept, list(unlabelled))).pvalue > 0.001


@settings(max_examples=60)
@given(
    capacity=st.integers(1, 30),
    classes=st.integers(1, 12),
    seed=st.integers(0, 10**6),
    importance=st.booleans(),
)
def test_balanced_memories_are_within_one_of_balanced(capacity, classes, seed, importance):
    rng = np.random.default_rng(seed)
    policy = LeastImportant(Sweep(1)) if importance else Balanced(rng)
    bench = Bench(capacity, policy)
    tail = [c for c in range(classes) for _ in range(capacity)]  # then each class offers enough, one by one
    stream = rng.permutation(np.repeat(np.arange(classes), rng.integers(1, 40, classes))).tolist() + tail
    for i, cls in enumerate(stream):
        policy.offer(bench, sample(i, cls))
    counts = bench.memory.counts[:classes]
    if classes <= capacity:
        assert counts.max() - counts.min() <= 1
    else:
        assert counts.max() == 1
    assert counts.sum() == capacity


def test_balanced_victims_are_uniform_within_their_class():
    policy = Balanced(np.random.default_rng(0))
    bench = Bench(10, policy)
    for i in range(10):
        policy.offer(bench, sample(i, i // 6))  # six of class 0, four of class 1
    victims = [policy.victim(bench, 1) for _ in range(3000)]
    assert set(victims) == set(range(6))
    assert chisquare(np.bincount(victims)).pvalue > 0.001


def test_a_whole_stream_must_fit():
    policy = Everything()
    bench = Bench(2, policy)
    for i in range(2):
        assert policy.offer(bench, sample(i, 0)) == i
    with pytest.raises(RamifyError, match="memory_size"):
        policy.offer(bench, sample(2, 0))


@pytest.mark.parametrize("store_first", [True, False])
def test_a_sample_is_stored_before_it_is_trained_on_or_after(store_first):
    policy = LeastImportant(Sweep(1)) if store_first else Balanced(np.random.default_rng(0))
    bench = Bench(4, policy)
    newcomer, unlabelled = sample(5, 0), sample(6)
    for one in (newcomer, unlabelled):
        assert policy.arrive(bench, one)  # both are trained on
    assert bench.numbers == ([5] if store_first else [])
    assert newcomer.slot == (0 if store_first else -1)
    assert unlabelled.slot == -1
    policy.settle(bench, [newcomer, unlabelled])
    assert bench.numbers == [5]


def follow(bench, policy, slots, losses=None):
    """One update on these samples, after which memory has these losses (by slot)."""
    forward = bench.passed(slots)
    bench.tell_losses(losses or {})
    policy.learned(bench, forward)
    return policy.importance.refreshed


def close(values):
    """Losses are computed in single precision."""
    return pytest.approx(values, rel=1e-6, abs=1e-6)


def test_importance_follows_a_trace_computed_by_hand():
    policy = LeastImportant(Sweep(2))
    bench = Bench(4, policy, levels=(1, 1, 1))
    importance, sweep = bench.memory["importance"], policy.importance

    def refresh(slots, losses):
        assert not follow(bench, policy, slots[: len(slots) // 2])
        assert follow(bench, policy, slots[len(slots) // 2 :], losses)

    policy.offer(bench, sample(0, 0))
    policy.offer(bench, sample(1, 0))
    policy.offer(bench, sample(2, 1))
    assert importance.tolist() == [0, 0, 0, 0]
    refresh([0, 1, -1, 1], {0: 2.0, 1: 3.0, 2: 1.0})  # the first losses: nothing to compare with
    assert importance.tolist() == [0, 0, 0, 0]

    # Δ = mean(-1, -0.5, +0.3) = -0.4; trained on: 0 and 2, each once; mean H 0. H += 0.04
    refresh([0, 2, 0, -1], {0: 1.0, 1: 2.5, 2: 1.3})
    assert importance == close([0.04, 0, 0.04, 0])

    # a newcomer of class 0 starts at the mean of its class, (0.04 + 0) / 2
    policy.offer(bench, sample(3, 0))
    assert importance == close([0.04, 0, 0.04, 0.02])

    # Δ over 0, 1, 2 only (3 is new): mean(-0.5, -0.5, -0.3) = -0.4333; trained: 0, 3; mean H 0.03, number 2
    refresh([0, 3], {0: 0.5, 1: 2.0, 2: 1.0, 3: 9.0})
    step = 0.1 * (-1.3 / 3 - 0.03 / 2)
    assert importance == close([0.04 - step, 0, 0.04, 0.02 - step])

    # memory is full: ȳ = 0 (three, four with the newcomer), its least H is that of slot 1
    sweep.mark(bench)
    assert policy.offer(bench, sample(4, 2)) == 1
    # the first of its class starts at the mean over the others
    first = (0.04 - step + 0.04 + 0.02 - step) / 3
    assert importance == close([0.04 - step, first, 0.04, 0.02 - step])

    # slot 1 is trained on, slot 3 replaced; only 0 and 2 have a loss to compare with
    follow(bench, policy, [1])
    assert policy.offer(bench, sample(5, 2)) == 3
    before = importance.copy()
    follow(bench, policy, [2], {0: 0.4, 1: 5.0, 2: 0.6, 3: 7.0})
    step = 0.1 * ((-0.1 - 0.4) / 2 - (before[1] + before[2]) / 2 / 2)
    assert importance == close([before[0], before[1] - step, before[2] - step, before[3]])
    # since the mark 0 and 2 survived
    assert sweep.decrease(bench) == close((0.1 + 0.4) / 2)


def test_importance_of_a_replaced_sample_is_not_credited_for_its_predecessor():
    policy = LeastImportant(Sweep(2))
    bench = Bench(2, policy, levels=(1, 1))
    policy.offer(bench, sample(0, 0))
    policy.offer(bench, sample(1, 0))
    follow(bench, policy, [])
    follow(bench, policy, [], {0: 1.0, 1: 1.0})
    follow(bench, policy, [0, 1])
    assert policy.offer(bench, sample(2, 1)) == 0
    follow(bench, policy, [], {0: 50.0, 1: 0.0})
    # Δ = -1 of slot 1 alone, credited to it alone
    assert bench.memory["importance"] == close([0, 0.1])


def test_losses_are_kept_as_they_are():
    memory = Bench(3, LeastImportant(Sweep(1))).memory
    for name in ("importance", "loss", "marked"):
        assert memory[name].dtype == np.float64


def test_the_least_important_of_the_modal_class_makes_room():
    rng = np.random.default_rng(0)
    policy = LeastImportant(Sweep(10))
    for _ in range(500):
        bench = Bench(8, policy, samples=1)
        labels = rng.integers(3, size=8)
        for i, cls in enumerate(labels.tolist()):
            policy.offer(bench, sample(i, cls))
        importance = bench.memory["importance"]
        importance[:] = rng.integers(4, size=8)
        newcomer = int(rng.integers(4))
        counts = Counter(labels.tolist())
        if newcomer in counts:
            counts[newcomer] += 1
        modal = min(c for c in counts if counts[c] == max(counts.values()))
        expected = min((importance[s], s) for s in range(8) if labels[s] == modal)[1]
        assert policy.victim(bench, newcomer) == expected


def test_a_probe_of_the_whole_memory_is_the_sweep():
    rng = np.random.default_rng(0)
    policies = [LeastImportant(i) for i in (Sweep(1), Probe(1, 6, np.random.default_rng(1)))]
    benches = [Bench(6, policy, levels=(1, 1, 1)) for policy in policies]
    for step in range(60):
        cls, slots = int(rng.integers(3)), rng.integers(-1, min(step + 1, 6), 4)
        losses = rng.random(6)
        for policy, bench in zip(policies, benches, strict=True):
            policy.offer(bench, sample(step, cls))
            follow(bench, policy, slots, dict(enumerate(losses[: bench.memory.size].tolist())))
        assert np.array_equal(benches[0].memory["importance"], benches[1].memory["importance"])
    assert benches[0].memory["importance"].any()


def test_a_probe_costs_the_same_for_any_memory_and_finds_the_mean_change():
    policy = LeastImportant(Probe(1, 32, np.random.default_rng(0)))
    bench = Bench(400, policy, levels=(1, 1))
    for i in range(400):
        policy.offer(bench, sample(i, 0))
    losses = 6.0 + np.arange(400) / 100
    follow(bench, policy, [], dict(enumerate(losses)))
    policy.importance.mark(bench)
    for _ in range(20):
        losses = losses - 0.25
        asked = bench.cost.images_memory
        follow(bench, policy, [7], dict(enumerate(losses)))
        assert 0 < bench.cost.images_memory - asked <= 32
    # whoever is asked, all fell alike
    assert policy.importance.decrease(bench) == pytest.approx(20 * 0.25, rel=1e-5)
    assert bench.memory["importance"][7] > 0
    assert not bench.memory["importance"][:7].any()


@pytest.mark.parametrize(
    ("levels", "labels"),
    [
        ((1, 1, 1, 1), [(0,), (1,), (2,), (3,), (1,), (1,)]),
        ((1, 1, 2, 2), [(0,), (1, 2), (3,), (0, 3), (1,), (1, 2)]),
        ((1, 1, 2, 2), [(0,), (1, 2), (), (0, 3), (1,), (1, 2)]),
    ],
)
def test_first_order_importance_is_the_product_of_the_heads_gradients(levels, labels):
    """Against autograd: each row's gradient on the heads, its product with the mean of the others'."""
    generator = torch.Generator().manual_seed(0)
    features = torch.randn(6, 5, generator=generator)
    weight = torch.randn(4, 5, generator=generator, requires_grad=True)
    bias = torch.zeros(4, requires_grad=True)

    def gradient(row):
        """Of the mean over the row's levels of its cross-entropy among the classes of each."""
        logits, losses = features[row] @ weight.T + bias, [(0 * (weight.sum() + bias.sum()))]
        for cls in labels[row]:
            mates = [c for c in range(4) if levels[c] == levels[cls]]
            losses.append(-torch.log_softmax(logits[mates], 0)[mates.index(cls)] / len(labels[row]))
        return torch.cat([g.flatten() for g in torch.autograd.grad(sum(losses), (weight, bias))])

    gradients = torch.stack([gradient(row) for row in range(6)])
    wanted = [(gradients[n] @ gradients[[m for m in range(6) if m != n]].mean(0)).item() for n in range(6)]
    policy = LeastImportant(FirstOrder(1))
    bench = Bench(6, policy, levels)
    bench.told.table[:6, :5] = features
    with torch.no_grad():
        bench.model.heads.weights[0].zero_()
        bench.model.heads.weights[0][:4, :5] = weight
    rows = [sample(i, *pairs) for i, pairs in enumerate(labels)]
    for one in rows[:5]:  # the last one is not stored
        policy.arrive(bench, one)
    seen = []
    original = policy.importance._standardise
    policy.importance._standardise = lambda raw, levels: seen.append(raw) or original(raw, levels)
    policy.learned(bench, bench.forward(arrived(rows)))
    labelled = [i for i in range(6) if labels[i]]
    assert seen[0] == pytest.approx([wanted[i] for i in labelled], rel=1e-4, abs=1e-6)
    values = np.array(wanted)
    for i in labelled[:-1]:  # within each level the first batch is its own measure
        mates = values[[j for j in labelled if levels[labels[j][0]] == levels[labels[i][0]]]]
        standard = (values[i] - mates.mean()) / max(np.std(mates), 1e-6)
        assert bench.memory["importance"][rows[i].slot] == pytest.approx(0.1 * standard, rel=1e-3, abs=1e-6)
    assert not bench.memory["importance"][bench.memory.size :].any()


def test_a_level_that_appears_late_is_measured_by_itself_from_its_first_batch_on():
    rng, follower = np.random.default_rng(0), FirstOrder(1)
    for step in range(600):
        levels = np.repeat([1, 3] if step >= 300 else [1], 8)
        raw = np.where(levels == 1, rng.normal(5, 1, len(levels)), rng.normal(0.01, 0.002, len(levels)))
        standard = follower._standardise(raw, levels)
        for level in set(levels.tolist()):
            assert abs(standard[levels == level].mean()) < 1.8
            assert 0.2 < standard[levels == level].std() < 2.2


# ---- samples with several labels, part of a path, or none


def mean_over_levels(bench, logits, labels):
    """The loss of one sample by its definition."""
    losses = []
    for cls in labels:
        mates = bench.classes.of_level(int(bench.classes.level_of[cls])).tolist()
        losses.append(-torch.log_softmax(logits[mates].double(), 0)[mates.index(cls)].item())
    return float(np.mean(losses)) if losses else 0.0


partial_paths = st.lists(
    st.lists(st.sampled_from([None, 0, 1, 2]), min_size=3, max_size=3), min_size=1, max_size=300
)


@settings(max_examples=40)
@given(paths=partial_paths, seed=st.integers(0, 10**6))
def test_the_loss_of_a_stored_sample_is_the_mean_over_its_levels(paths, seed):
    policy = LeastImportant(Sweep(1))
    bench = Bench(len(paths), policy, levels=[1, 2, 3] * 3)  # class = 3 · choice + level - 1
    bench.told.table.normal_(0, 2, generator=torch.Generator().manual_seed(seed))
    labels = [tuple(3 * c + h for h, c in enumerate(path) if c is not None) for path in paths]
    slots = [policy.offer(bench, sample(i, *own)) for i, own in enumerate(labels)]
    kept = [own for own in labels if own]
    assert [slot is None for slot in slots] == [not own for own in labels]  # without a label: not stored
    assert bench.memory.size == len(kept) == bench.memory.counts.sum()
    assert Counter(bench.memory.classes[: len(kept)].tolist()) == Counter(own[0] for own in kept)
    if not kept:
        return
    found = bench.examine(np.arange(len(kept)))
    logits = bench.told.table[bench.numbers]
    wanted = [mean_over_levels(bench, row, own) for row, own in zip(logits, kept, strict=True)]
    np.testing.assert_allclose(found.losses, wanted, rtol=1e-5, atol=1e-6)
    for level in (1, 2, 3):
        mates = bench.classes.of_level(level)
        assert found.predictions[:, level - 1].tolist() == mates[logits[:, mates].argmax(1).numpy()].tolist()
    policy.importance.refresh(bench)
    np.testing.assert_allclose(bench.memory["loss"][: len(kept)], wanted, rtol=1e-5, atol=1e-6)
    every = bench.losses(
        bench.look(torch.arange(float(len(labels)))[:, None]),
        arrived([sample(i, *own) for i, own in enumerate(labels)]),
    )
    wanted = [mean_over_levels(bench, bench.told.table[i], own) for i, own in enumerate(labels)]
    np.testing.assert_allclose(every, wanted, rtol=1e-5, atol=1e-6)  # 0 without a label


def test_importance_with_several_labels_follows_the_change_of_the_mean_over_levels():
    policy = LeastImportant(Sweep(1))
    bench = Bench(3, policy, levels=(1, 1, 2, 2))
    for i, labels in enumerate([(0, 2), (1,), (0, 3)]):
        policy.offer(bench, sample(i, *labels))
    logits = torch.randn(2, 3, 4, generator=torch.Generator().manual_seed(0))
    bench.told.table[:3, :4] = logits[0]
    policy.learned(bench, bench.passed([0, 1, 2]))
    bench.told.table[:3, :4] = logits[1]
    policy.learned(bench, bench.passed([0, 2]))
    before, after = (
        [mean_over_levels(bench, row, own) for row, own in zip(told, [(0, 2), (1,), (0, 3)], strict=True)]
        for told in logits
    )
    change = np.mean(after) - np.mean(before)
    assert abs(change) > 0.01
    assert bench.memory["importance"] == close([-0.1 * change, 0, -0.1 * change])


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("unlabelled", [range(1), range(30), range(6, 30), range(0, 60, 3), range(60)])
def test_any_mixture_of_labels_is_learned_and_only_labelled_samples_are_stored(name, unlabelled):
    toy = Toy.stream(60)
    trainer = learner(METHODS[name], toy, memory_size=10, updates_per_sample=0.25)
    rng, classes = np.random.default_rng(0), {}
    for i in range(60):
        path = list(enumerate(toy.paths[i], 1))
        chosen = [] if i in unlabelled else [path, path[::-1], path[:1], path[1:]][rng.integers(4)]
        trainer.observe(toy.images[i : i + 1], [chosen])
        for pair in chosen:
            classes.setdefault(pair, len(classes))
    trainer.task_end()
    trainer.flush()
    memory = trainer.memory
    assert len(trainer.classes) == len(classes)
    images = {toy.images[i].numpy().tobytes(): i for i in range(60)}
    found = [images[image.numpy().tobytes()] for image in memory["inputs"][: memory.size]]
    assert not set(found) & set(unlabelled)
    assert memory.size == min(memory.capacity, memory.size if name == "bic" else 60 - len(unlabelled))
    assert memory.counts.sum() == memory.size
    for slot, i in enumerate(found):
        labels = [c for c in memory["labels"][slot] if c >= 0]
        assert 1 <= len(labels) <= 2
        assert memory.classes[slot] in labels
        assert all(trainer.classes.labels[c] in toy.paths[i] for c in labels)
        levels = trainer.classes.level_of[labels]
        assert levels.tolist() == sorted(set(levels.tolist()))
    if classes:
        assert (trainer.predict(toy.images) >= 0).all()
        assert bool(trainer.updates) != METHODS[name].closed_form
    else:
        assert trainer.updates == 0


# ---- what the workbench keeps for its parts


@pytest.mark.parametrize("dtype", [torch.float16, np.float32])
def test_what_is_noted_of_a_batch_is_found_with_its_samples(dtype):
    """Stored rows get their value at once, waiting ones bring it along, others have no place for it."""
    bench = Bench(4, columns={"answers": Column(dtype, (0,), -1.0)}, levels=(1, 1))
    for i in range(3):
        bench.memory.add(sample(i, 0))
    bench.waiting = [sample(7, 1), sample(8), sample(9, 0)]
    batch = arrived(bench.waiting).join(bench.memory.batch(np.array([2, 0])))
    values = torch.arange(10.0).view(5, 2)
    bench.note(batch, np.array([0, 1, 3, 4]), "answers", values)
    assert bench.stored(batch, np.array([4, 3]), "answers").tolist() == [[8, 9], [6, 7]]
    assert np.asarray(bench.memory["answers"]).tolist() == [[8, 9], [-1, -1], [6, 7], [-1, -1]]
    assert [list(one.values) for one in bench.waiting] == [["answers"], ["answers"], []]
    slot = bench.memory.add(bench.waiting[0])
    assert np.asarray(bench.memory["answers"])[slot].tolist() == [0, 1]
    bench.note(bench.memory.batch(np.array([slot])), np.array([0]), "answers", torch.ones(1, 3))  # grows
    assert np.asarray(bench.memory["answers"])[slot].tolist()[:3] == [1, 1, 1]
    assert np.asarray(bench.memory["answers"])[1].tolist() == [-1] * bench.memory["answers"].shape[1]
    bench.memory.replace(0, sample(10, 1))
    assert np.asarray(bench.memory["answers"])[0].tolist() == [-1] * bench.memory["answers"].shape[1]


def test_a_row_that_neither_waits_nor_is_stored_is_noted_nowhere():
    bench = Bench(1, columns={"answers": Column(np.float64)}, levels=(1,))
    bench.waiting = [sample(0, 0), sample(1, 0)]
    bench.waiting[0].slot = bench.memory.add(bench.waiting[0])
    bench.waiting[1].slot = bench.memory.replace(0, bench.waiting[1])  # its slot went to the later one
    batch = arrived(bench.waiting)
    assert batch.slots.tolist() == [-1, 0]
    bench.note(batch, np.arange(2), "answers", np.array([3.0, 4.0]))
    assert bench.memory["answers"].tolist() == [4.0]
    assert bench.waiting[1].values == {}
    gone = bench.memory.batch(np.array([0])).take(np.array([0]))
    gone.slots[:] = -1
    bench.note(gone, np.array([0]), "answers", np.array([5.0]))
    assert bench.memory["answers"].tolist() == [4.0]
