"""What batches are made of: FMS against algorithm 2 written out, MIR against brute force."""

from __future__ import annotations

import copy
from types import SimpleNamespace

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binomtest, chisquare

from ramify.classes import Classes
from ramify.memory import Memory
from ramify.methods import METHODS
from ramify.methods.checks import Toy, learner
from ramify.methods.settings import FlexibleSettings, MirSettings
from ramify.rehearsal import Batch, Flexible, HalfAndHalf, MemoryOnly, StreamOnly, stored
from ramify.rehearsal.rehearsals import most_interfered


def world(rng, classes=6, memory_size=40, arrivals=8, samples=None):
    """A learner with a memory of random content and classes met at random times."""
    known = Classes()
    samples = int(rng.integers(arrivals, 500)) if samples is None else samples
    for when in sorted(rng.integers(0, samples, classes)):
        known.meet(int(rng.integers(1, 3)), len(known), int(when))
    memory = Memory(memory_size, (1, 1, 1))
    for i in range(int(rng.integers(0, memory_size + 1))):
        memory.add(torch.full((1, 1, 1), i, dtype=torch.uint8), int(rng.integers(classes)))
    images = torch.arange(200, 200 + arrivals, dtype=torch.uint8).view(-1, 1, 1, 1)
    batch = Batch(images, rng.integers(classes, size=arrivals), np.full(arrivals, -1))
    return batch, SimpleNamespace(memory=memory, classes=known, samples=samples, updates=0)


class Draws:
    """A generator whose uniform draws are told to the test."""

    def __init__(self, seed):
        self.rng, self.drawn = np.random.default_rng(seed), []

    def random(self, n):
        self.drawn.append(self.rng.random(n))
        return self.drawn[-1]

    def choice(self, *args, **kwargs):
        return self.rng.choice(*args, **kwargs)


def algorithm_2(arrivals, memory, t, first_seen, T, draws, memory_share):
    """Which arrivals enter, and how many samples come from memory. `arrivals`: list of (x, y)."""
    admitted, from_memory = [], min(memory_share, memory.size)
    for (x, y), u in zip(arrivals, draws, strict=True):
        if u < min((t - first_seen[y]) / T, 1):
            admitted.append(x)
        elif from_memory < memory.size:
            from_memory += 1
    return admitted, from_memory


@pytest.mark.parametrize("rule", ["fixed", "per-class"])
def test_flexible_batches_are_those_of_algorithm_2(rule):
    rng, refused = np.random.default_rng(0), 0
    for seed in range(1000):
        arrivals, learning = world(rng)
        T = float(rng.integers(1, 900))
        draws = Draws(seed)
        batch = Flexible(draws, T, rule).compose(arrivals, 16, learning)
        horizon = T / len(learning.classes) if rule == "per-class" else T
        pairs = list(zip(arrivals.images.flatten().tolist(), arrivals.classes.tolist(), strict=True))
        if learning.samples == len(arrivals):  # the very first stream batch is taken whole
            assert not draws.drawn
            admitted, count = arrivals.images.flatten().tolist(), min(8, learning.memory.size)
        else:
            admitted, count = algorithm_2(
                pairs,
                learning.memory,
                learning.samples,
                learning.classes.first_seen,
                horizon,
                draws.drawn[0],
                8,
            )
        stream, slots = batch.slots < 0, batch.slots[batch.slots >= 0]
        assert batch.images.flatten()[torch.from_numpy(stream)].tolist() == admitted
        assert len(slots) == count
        assert len(set(slots.tolist())) == len(slots)  # no stored sample twice
        assert batch.images.flatten().tolist()[len(admitted) :] == slots.tolist()  # image i lies in slot i
        assert batch.classes[len(admitted) :].tolist() == learning.memory.classes[slots].tolist()
        refused += len(admitted) < 8
    assert refused > 200


def test_arrivals_that_are_stored_already_are_not_drawn_again_and_earn_their_importance():
    toy = Toy.stream(200)
    engine = learner(METHODS["fms"], toy, memory_size=12, fms=FlexibleSettings(1.0))
    composed, credited = [], []
    compose, trained = engine.recipe.rehearse.compose, engine.recipe.keep.trained

    def note_batch(*args):
        composed.append(batch := compose(*args))
        rows = np.flatnonzero(batch.slots >= 0)
        assert torch.equal(batch.images[rows], engine.memory.images[batch.slots[rows]])
        assert len(set(batch.slots[rows])) == len(rows)
        return batch

    def note_credit(update):
        credited.append(update.slots)
        return trained(update)

    engine.recipe.rehearse.compose, engine.recipe.keep.trained = note_batch, note_credit
    engine.observe(*toy.part(0, 200))
    assert all((batch.slots == slots).all() for batch, slots in zip(composed, credited, strict=True))
    arrivals = np.stack([batch.slots[:4] for batch in composed])  # all are admitted
    assert 0.6 < (arrivals >= 0).mean() < 1  # the others were replaced within their own stream batch


def test_the_first_stream_batch_is_taken_whole():
    arrivals, learning = world(np.random.default_rng(0), samples=8)
    batch = Flexible(np.random.default_rng(0), 1e9).compose(arrivals, 16, learning)
    assert (batch.slots < 0).sum() == 8
    learning.samples = 9
    batch = Flexible(np.random.default_rng(0), 1e9).compose(arrivals, 16, learning)
    assert (batch.slots < 0).sum() == 0


@pytest.mark.parametrize(("rule", "T"), [("fixed", 200.0), ("per-class", 1200.0)])
def test_admission_follows_its_bernoulli_anew_at_each_update(rule, T):
    rng = np.random.default_rng(1)
    arrivals, learning = world(rng, samples=160)
    for _ in range(16):
        learning.memory.add(torch.zeros(1, 1, 1, dtype=torch.uint8), 0)
    rehearsal, entered, n = Flexible(rng, T, rule), np.zeros(8, int), 2000
    for _ in range(n):
        batch = rehearsal.compose(arrivals, 16, learning)
        entered += np.isin(np.arange(200, 208), batch.images.flatten().numpy())
    for count, cls in zip(entered, arrivals.classes, strict=True):
        wanted = min((160 - learning.classes.first_seen[cls]) / 200, 1)
        assert 0 < wanted <= 1
        assert binomtest(int(count), n, wanted).pvalue > 1e-4


def test_refused_places_are_filled_uniformly_from_memory():
    rng = np.random.default_rng(0)
    arrivals, learning = world(rng, samples=160)
    memory = Memory(30, (1, 1, 1))
    for i in range(30):
        memory.add(torch.full((1, 1, 1), i, dtype=torch.uint8), i % 6)
    learning.memory = memory
    rehearsal = Flexible(rng, 1e9)
    drawn = np.concatenate([rehearsal.compose(arrivals, 16, learning).slots for _ in range(1000)])
    assert len(drawn) == 16000
    assert chisquare(np.bincount(drawn)).pvalue > 0.001


@settings(max_examples=100)
@given(seed=st.integers(0, 10**6), batch_size=st.integers(1, 40))
def test_other_rehearsals_fill_the_batch_and_never_repeat(seed, batch_size):
    rng = np.random.default_rng(seed)
    arrivals, learning = world(rng, arrivals=HalfAndHalf(rng).buffer_size(batch_size))
    half = HalfAndHalf(rng).compose(arrivals, batch_size, learning)
    assert (half.slots < 0).sum() == len(arrivals)
    assert len(half) == len(arrivals) + min(batch_size - len(arrivals), learning.memory.size)
    if learning.memory.size:
        only = MemoryOnly(rng).compose(arrivals, batch_size, learning)
        assert len(only) == min(batch_size, learning.memory.size) == len(set(only.slots.tolist()))
        assert (only.slots >= 0).all()
    assert StreamOnly(rng).compose(arrivals, batch_size, learning) is arrivals
    assert (StreamOnly(rng).buffer_size(batch_size), MemoryOnly(rng).buffer_size(batch_size)) == (
        batch_size,
        1,
    )


def test_credit_is_spent_in_whole_updates():
    counts, toy = {}, Toy.stream(40)
    for name, per_sample in (("er", 0.3), ("clib", 0.3), ("er", 3.0), ("rm", 3.0), ("gdumb", 3.0)):
        engine = learner(METHODS[name], toy, updates_per_sample=per_sample)
        updates = []
        for i in range(40):
            engine.observe(*toy.part(i, i + 1))
            updates.append(engine.updates)
        counts[name, per_sample] = updates
    buffers = [4 * (i // 4) for i in range(1, 41)]
    assert counts["er", 0.3] == [int(0.3 * n + 1e-6) for n in buffers]
    assert counts["clib", 0.3] == [int(0.3 * n + 1e-6) for n in range(1, 41)]  # as soon as there is credit
    assert counts["er", 3.0] == [3 * n for n in buffers]
    assert counts["rm", 3.0] == [n // 8 for n in range(1, 41)]  # one update a full batch
    assert counts["gdumb", 3.0][-1] == 0


@settings(max_examples=150)
@given(data=st.data())
def test_the_most_interfered_are_chosen_within_each_level(data):
    levels = np.array(data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=40)))
    rises = np.array(
        data.draw(st.lists(st.integers(-5, 5), min_size=len(levels), max_size=len(levels))), float
    )
    places = data.draw(st.integers(0, len(levels)))
    chosen = most_interfered(rises, levels, places)
    assert len(set(chosen.tolist())) == len(chosen) == places
    for level in set(levels.tolist()):
        rows = set(np.flatnonzero(levels == level).tolist())
        taken, left = rows & set(chosen.tolist()), rows - set(chosen.tolist())
        assert abs(len(taken) - places * len(rows) / len(levels)) < 1
        assert all(rises[t] >= rises[r] for t in taken for r in left)


def brute_force_interference(engine, arrivals, candidates):
    """Copy the model, take one plain SGD step on the arrivals, compare each candidate's loss."""

    def losses(model, batch):
        model.eval()
        with torch.no_grad():
            logits = model(engine.normalize(batch.images))[1]
        return [cross_entropy(logits[i], int(c)) for i, c in enumerate(batch.classes)]

    def cross_entropy(row, cls):
        mates = engine.classes.of_level(int(engine.classes.level_of[cls]))
        return F.cross_entropy(row[mates][None], torch.tensor([mates.tolist().index(cls)]))

    moved, still = copy.deepcopy(engine.model), copy.deepcopy(engine.model)
    moved.train()
    step = torch.optim.SGD(moved.parameters(), lr=engine.recipe.rate.value)
    logits = moved(engine.normalize(arrivals.images))[1]
    torch.stack([cross_entropy(logits[i], int(c)) for i, c in enumerate(arrivals.classes)]).mean().backward()
    step.step()
    for buffer, before in zip(moved.buffers(), still.buffers(), strict=True):
        buffer.copy_(before)
    after, before = losses(moved, candidates), losses(still, candidates)
    return np.array([(a - b).item() for a, b in zip(after, before, strict=True)])


def test_mir_chooses_what_brute_force_chooses():
    toy = Toy.stream(80)
    engine = learner(METHODS["mir"], toy, memory_size=40, mir=MirSettings(20))
    engine.observe(*toy.part(0, 64))
    rehearsal, rng = engine.recipe.rehearse, engine.rng["rehearse"]
    for start in (64, 68, 72):
        arrivals = Batch(
            toy.images[start : start + 4],
            np.array([engine.classes.find(toy.levels[i], toy.labels[i]) for i in range(start, start + 4)]),
            np.full(4, -1),
        )
        drawn = copy.deepcopy(rng).choice(engine.memory.size, 20, replace=False)
        candidates = stored(engine.memory, drawn)
        before = {k: v.clone() for k, v in engine.model.state_dict().items()}
        rises = engine.interference(arrivals, candidates)
        assert all(torch.equal(v, before[k]) for k, v in engine.model.state_dict().items())
        wanted = brute_force_interference(engine, arrivals, candidates)
        np.testing.assert_allclose(rises, wanted, atol=1e-5)
        assert np.abs(wanted).max() > 1e-3

        batch = rehearsal.compose(arrivals, 8, engine)
        levels = engine.classes.level_of[candidates.classes]
        shares = {h: 4 * (levels == h).mean() for h in (1, 2)}
        taken = batch.slots[4:]
        assert (batch.slots[:4] == -1).all()
        assert len(taken) == 4
        for h, share in shares.items():
            mine = [i for i in range(20) if levels[i] == h]
            best = sorted(mine, key=lambda i: -wanted[i])
            count = sum(engine.classes.level_of[engine.memory.classes[s]] == h for s in taken)
            assert abs(count - share) < 1
            assert {int(drawn[i]) for i in best[:count]} <= set(taken.tolist())
        engine.observe(*toy.part(start, start + 4))


def test_batches_join_and_take():
    rng = np.random.default_rng(0)
    arrivals, learning = world(rng)
    empty = arrivals.take(np.empty(0, np.int64))
    assert empty.join(arrivals) is arrivals
    assert arrivals.join(empty) is arrivals
    assert arrivals.take(np.array([3, 1])).images.flatten().tolist() == [203, 201]
    assert len(stored(learning.memory, np.empty(0, np.int64))) == 0
