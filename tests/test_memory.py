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

from ramify.classes import Classes
from ramify.errors import RamifyError
from ramify.memory import (
    Balanced,
    Everything,
    Examination,
    FirstOrder,
    LeastImportant,
    Memory,
    Probe,
    PseudoLabel,
    Reservoir,
    Sweep,
    Update,
)

PIXEL = (1, 1, 1)


def image(value):
    return torch.full(PIXEL, value % 256, dtype=torch.uint8)


def update(slots):
    slots = np.array(slots, np.int64)
    nothing = torch.zeros(len(slots), 1)
    return Update(
        slots, np.ones_like(slots), 0.0, nothing, lambda: nothing, lambda: np.zeros((len(slots), 0), int)
    )


def bound(policy, capacity, classes=None, examine=None):
    memory = Memory(capacity, PIXEL)
    policy.bind(memory, classes or Classes(), examine or (lambda slots: None))
    return policy


operations = st.lists(
    st.tuples(st.integers(0, 10**6), st.integers(0, 40), st.integers(0, 255)), min_size=1, max_size=120
)


@settings(max_examples=150)
@given(capacity=st.integers(1, 25), steps=operations, paths=st.booleans())
def test_the_store_is_a_list_of_samples(capacity, steps, paths):
    memory, plain = Memory(capacity, PIXEL), []
    for place, cls, value in steps:
        path = np.array([cls % 3, cls]) if paths else None
        if len(plain) < capacity:
            assert memory.add(image(value), cls, path) == len(plain)
            plain.append((cls, value))
        else:
            slot = place % capacity
            assert memory.replace(slot, image(value), cls, path) == slot
            plain[slot] = (cls, value)
        other = memory
        if place % 7 == 0:  # now and then go on with a copy
            other = Memory(capacity, PIXEL)
            other.restore(memory.state())
            orders = [(memory.members(c).tolist(), other.members(c).tolist()) for c in range(42)]
            assert all(a == b for a, b in orders)
        memory = other
        counts = Counter(c for c, _ in plain)
        assert memory.size == len(plain)
        assert memory.full == (len(plain) == capacity)
        assert [(int(c), int(v)) for c, v in zip(memory.classes, memory.images.flatten(), strict=True)][
            : memory.size
        ] == plain
        for c in range(42):
            assert sorted(memory.members(c)) == [s for s, (k, _) in enumerate(plain) if k == c]
            assert c >= len(memory.counts) or memory.counts[c] == counts[c]
        if paths:
            assert memory.paths[: memory.size].tolist() == [[c % 3, c] for c, _ in plain]


@settings(max_examples=300)
@given(stored=st.lists(st.integers(0, 20), min_size=1, max_size=40), newcomer=st.integers(0, 25))
def test_the_modal_class_counts_the_newcomer_and_breaks_ties_by_first_sight(stored, newcomer):
    memory = Memory(len(stored), PIXEL)
    for cls in stored:
        memory.add(image(0), cls)
    counts = Counter(stored)
    if newcomer in counts:  # only a class that has a sample can lose one
        counts[newcomer] += 1
    most = max(counts.values())
    assert memory.most_frequent(newcomer) == min(c for c in counts if counts[c] == most)


def test_draws_are_without_repetition_and_uniform():
    memory, rng = Memory(10, PIXEL), np.random.default_rng(0)
    assert len(memory.sample(4, rng)) == 0
    for i in range(10):
        memory.add(image(i), 0)
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
    classes = Classes()
    sizes = (2, 4, 8, 20, 100)
    for level, size in enumerate(sizes, 1):
        for label in range(size):
            classes.meet(level, label, 0)
    memory = Memory(2000, (3, 32, 32))
    policy = PseudoLabel(Sweep(24), exact=True)
    blank = torch.zeros(3, 32, 32, dtype=torch.uint8)
    policy.bind(
        memory,
        classes,
        lambda slots: Examination(np.zeros(len(slots)), np.tile([0, 2, 6, 14, 34], (len(slots), 1))),
    )
    rng = np.random.default_rng(0)
    for cls in rng.integers(len(classes), size=3000):
        policy.offer(blank, int(cls))
    raw = 2000 * 3 * 32 * 32
    tracked = [
        policy.importance.losses,
        policy.importance.marked,
        policy.votes.predictions,
        policy.votes.counts,
    ]
    assert memory.nbytes() <= 1.05 * raw
    assert policy.votes.predictions.shape == (2000, 5)
    assert memory.nbytes() + sum(a.nbytes for a in tracked) <= 1.05 * raw
    assert memory.images.nbytes == raw


def test_replacing_does_not_slow_down_with_the_size():
    def seconds(capacity):
        memory, blank = Memory(capacity, PIXEL), image(0)
        memory.images[:] = 0
        for i in range(capacity):
            memory.add(blank, i % 2)
        slots = np.random.default_rng(0).integers(capacity, size=300).tolist()
        best = np.inf
        for _ in range(5):
            start = time.process_time()
            for slot in slots:
                memory.replace(slot, blank, slot % 3)
            best = min(best, time.process_time() - start)
        return best

    assert seconds(30_000) < 5 * seconds(100)


def test_a_memory_holds_at_least_one_image():
    with pytest.raises(RamifyError, match="at least 1"):
        Memory(0, PIXEL)


@pytest.mark.parametrize(("runs", "stream", "capacity"), [(3000, 5, 2), (500, 60, 12)])
def test_the_reservoir_is_uniform_over_the_stream(runs, stream, capacity):
    kept = np.zeros(stream)
    rng = np.random.default_rng(0)
    for _ in range(runs):
        policy = bound(Reservoir(rng), capacity)
        for i in range(stream):
            policy.offer(image(i), i % 5)
        kept += np.bincount(policy.memory.images.flatten().numpy(), minlength=stream)
        assert policy.memory.size == capacity
    assert kept.sum() == runs * capacity
    assert chisquare(kept).pvalue > 0.001


@settings(max_examples=60)
@given(
    capacity=st.integers(1, 30),
    classes=st.integers(1, 12),
    seed=st.integers(0, 10**6),
    importance=st.booleans(),
)
def test_balanced_memories_are_within_one_of_balanced(capacity, classes, seed, importance):
    rng = np.random.default_rng(seed)
    policy = bound(LeastImportant(Sweep(1)) if importance else Balanced(rng), capacity)
    tail = [c for c in range(classes) for _ in range(capacity)]  # then each class offers enough, one by one
    stream = rng.permutation(np.repeat(np.arange(classes), rng.integers(1, 40, classes))).tolist() + tail
    for i, cls in enumerate(stream):
        policy.offer(image(i), cls)
    counts = policy.memory.counts[:classes]
    if classes <= capacity:
        assert counts.max() - counts.min() <= 1
    else:
        assert counts.max() == 1
    assert counts.sum() == capacity


def test_balanced_victims_are_uniform_within_their_class():
    policy = bound(Balanced(np.random.default_rng(0)), 10)
    for i in range(10):
        policy.offer(image(i), i // 6)  # six of class 0, four of class 1
    victims = [policy.victim(1) for _ in range(3000)]
    assert set(victims) == set(range(6))
    assert chisquare(np.bincount(victims)).pvalue > 0.001


def test_a_whole_stream_must_fit():
    policy = bound(Everything(), 2)
    for i in range(2):
        assert policy.offer(image(i), 0) == i
    with pytest.raises(RamifyError, match="memory_size"):
        policy.offer(image(2), 0)


class Losses:
    """A model whose losses are written down beforehand."""

    next: object = None

    def __call__(self, slots):
        return Examination(np.array([self.next[s] for s in slots], float), np.zeros((len(slots), 1), int))


def test_importance_follows_a_trace_computed_by_hand():
    losses = Losses()
    policy = bound(LeastImportant(Sweep(2)), 4, examine=losses)
    memory, sweep = policy.memory, policy.importance

    def refresh(slots, values):
        losses.next = values
        assert not policy.trained(update(slots[: len(slots) // 2]))
        assert policy.trained(update(slots[len(slots) // 2 :]))

    policy.offer(image(0), 0)
    policy.offer(image(1), 0)
    policy.offer(image(2), 1)
    assert memory.importance.tolist() == [0, 0, 0, 0]
    refresh([0, 1, -1, 1], {0: 2.0, 1: 3.0, 2: 1.0})  # the first losses: nothing to compare with
    assert memory.importance.tolist() == [0, 0, 0, 0]

    # Δ = mean(-1, -0.5, +0.3) = -0.4; trained on: 0 and 2, each once; mean H 0. H += 0.04
    refresh([0, 2, 0, -1], {0: 1.0, 1: 2.5, 2: 1.3})
    assert memory.importance == pytest.approx([0.04, 0, 0.04, 0])

    # a newcomer of class 0 starts at the mean of its class, (0.04 + 0) / 2
    policy.offer(image(3), 0)
    assert memory.importance == pytest.approx([0.04, 0, 0.04, 0.02])

    # Δ over 0, 1, 2 only (3 is new): mean(-0.5, -0.5, -0.3) = -0.4333; trained: 0, 3; mean H 0.03, number 2
    refresh([0, 3], {0: 0.5, 1: 2.0, 2: 1.0, 3: 9.0})
    step = 0.1 * (-1.3 / 3 - 0.03 / 2)
    assert memory.importance == pytest.approx([0.04 - step, 0, 0.04, 0.02 - step])

    # memory is full: ȳ = 0 (three, four with the newcomer), its least H is that of slot 1
    sweep.mark()
    assert policy.offer(image(4), 2) == 1
    # the first of its class starts at the mean over the others
    first = (0.04 - step + 0.04 + 0.02 - step) / 3
    assert memory.importance == pytest.approx([0.04 - step, first, 0.04, 0.02 - step])

    # slot 1 is trained on, slot 3 replaced; only 0 and 2 have a loss to compare with
    policy.trained(update([1]))
    assert policy.offer(image(5), 2) == 3
    losses.next = {0: 0.4, 1: 5.0, 2: 0.6, 3: 7.0}
    before = memory.importance.copy()
    policy.trained(update([2]))
    step = 0.1 * ((-0.1 - 0.4) / 2 - (before[1] + before[2]) / 2 / 2)
    assert memory.importance == pytest.approx([before[0], before[1] - step, before[2] - step, before[3]])
    # since the mark 0 and 2 survived
    assert sweep.decrease() == pytest.approx((0.1 + 0.4) / 2)


def test_importance_of_a_replaced_sample_is_not_credited_for_its_predecessor():
    losses = Losses()
    policy = bound(LeastImportant(Sweep(2)), 2, examine=losses)
    policy.offer(image(0), 0)
    policy.offer(image(1), 0)
    losses.next = {0: 1.0, 1: 1.0}
    policy.trained(update([]))
    policy.trained(update([]))
    policy.trained(update([0, 1]))
    assert policy.offer(image(2), 1) == 0
    losses.next = {0: 50.0, 1: 0.0}
    policy.trained(update([]))
    assert policy.memory.importance == pytest.approx([0, 0.1])  # Δ = -1 of slot 1 alone, credited to it alone


def test_losses_are_kept_as_they_are():
    policy = bound(LeastImportant(Sweep(1)), 3, examine=Losses())
    assert policy.importance.losses.dtype == np.float64
    assert policy.memory.importance.dtype == np.float64


def test_the_least_important_of_the_modal_class_makes_room():
    rng = np.random.default_rng(0)
    for _ in range(500):
        policy = bound(LeastImportant(Sweep(10)), 8)
        labels = rng.integers(3, size=8)
        for i, cls in enumerate(labels):
            policy.offer(image(i), int(cls))
        policy.memory.importance[:] = rng.integers(4, size=8)
        newcomer = int(rng.integers(4))
        counts = Counter(labels.tolist())
        if newcomer in counts:
            counts[newcomer] += 1
        modal = min(c for c in counts if counts[c] == max(counts.values()))
        expected = min((policy.memory.importance[s], s) for s in range(8) if labels[s] == modal)[1]
        assert policy.victim(newcomer) == expected


def test_a_probe_of_the_whole_memory_is_the_sweep():
    rng = np.random.default_rng(0)
    losses = Losses()
    policies = [
        bound(LeastImportant(i), 6, examine=losses) for i in (Sweep(1), Probe(1, 6, np.random.default_rng(1)))
    ]
    for step in range(60):
        cls, batch = int(rng.integers(3)), rng.integers(-1, min(step + 1, 6), 4)
        losses.next = rng.random(6)
        for policy in policies:
            policy.offer(image(step), cls)
            policy.trained(update(batch))
        assert np.array_equal(policies[0].memory.importance, policies[1].memory.importance)


def test_a_probe_costs_the_same_for_any_memory_and_finds_the_mean_change():
    asked, drop = [], np.zeros(400)

    def examine(slots):
        asked.append(len(slots))
        return Examination(5.0 + np.arange(400)[slots] - drop[slots], np.zeros((len(slots), 1), int))

    policy = bound(LeastImportant(Probe(1, 32, np.random.default_rng(0))), 400, examine=examine)
    for i in range(400):
        policy.offer(image(i), 0)
    policy.trained(update([]))
    policy.importance.mark()
    for _ in range(20):
        drop += 0.25
        policy.trained(update([7]))
    assert max(asked) <= 32
    assert policy.importance.decrease() == pytest.approx(20 * 0.25)  # whoever is asked, all fell alike
    assert policy.memory.importance[7] > 0
    assert not policy.memory.importance[:7].any()


def test_first_order_importance_is_the_product_of_the_heads_gradients():
    """Against autograd: each row's gradient on the heads, its product with the mean of the others'."""
    generator = torch.Generator().manual_seed(0)
    features = torch.randn(6, 5, generator=generator)
    weight = torch.randn(4, 5, generator=generator, requires_grad=True)
    bias = torch.zeros(4, requires_grad=True)
    labels = torch.tensor([0, 1, 2, 3, 1, 1])
    losses = torch.nn.functional.cross_entropy(features @ weight.T + bias, labels, reduction="none")
    gradients = torch.stack(
        [
            torch.cat([g.flatten() for g in torch.autograd.grad(x, (weight, bias), retain_graph=True)])
            for x in losses
        ]
    )
    wanted = [(gradients[n] @ gradients[[m for m in range(6) if m != n]].mean(0)).item() for n in range(6)]
    logits = (features @ weight.T + bias).detach()
    residuals = torch.softmax(logits, 1) - torch.nn.functional.one_hot(labels, 4)
    policy = bound(LeastImportant(FirstOrder(1)), 6)
    for i in range(6):
        policy.offer(image(i), 0)
    seen = []
    original = policy.importance._standardise
    policy.importance._standardise = lambda raw, levels: seen.append(raw) or original(raw, levels)
    slots = np.array([0, 1, 2, 3, 4, -1])
    policy.trained(Update(slots, np.ones(6, int), 1.0, features, lambda: residuals, lambda: None))
    assert seen[0] == pytest.approx(wanted, rel=1e-4)
    standard = (np.array(wanted) - np.mean(wanted)) / np.std(wanted)  # the first batch is its own measure
    assert policy.memory.importance[:5] == pytest.approx(0.1 * standard[:5], rel=1e-3)
    assert policy.memory.importance[5] == 0


def test_a_level_that_appears_late_is_measured_by_itself_from_its_first_batch_on():
    rng, follower = np.random.default_rng(0), FirstOrder(1)
    for step in range(600):
        levels = np.repeat([1, 3] if step >= 300 else [1], 8)
        raw = np.where(levels == 1, rng.normal(5, 1, len(levels)), rng.normal(0.01, 0.002, len(levels)))
        standard = follower._standardise(raw, levels)
        for level in set(levels.tolist()):
            assert abs(standard[levels == level].mean()) < 1.8
            assert 0.2 < standard[levels == level].std() < 2.2
