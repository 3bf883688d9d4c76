"""What batches are made of: FMS against algorithm 2 written out, MIR against brute force."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binomtest, chisquare

from parts import Bench, sample
from ramify.memory import Batch, Sample, arrived
from ramify.memory.batch import Choice
from ramify.methods import METHODS
from ramify.methods.checks import Toy, learner
from ramify.methods.mir import interference, most_interfered
from ramify.rehearsal import Flexible, HalfAndHalf, MemoryOnly, Nothing, Spread, StreamOnly


def world(rng, classes=6, memory_size=40, arrivals=8, samples=None, content=None):
    """A learner with a memory of random content and classes met at random times."""
    bench = Bench(memory_size)
    bench.samples = int(rng.integers(arrivals, 500)) if samples is None else samples
    for when in sorted(rng.integers(0, bench.samples, classes)):
        bench.meet(int(rng.integers(1, 3)), int(when))
    for i in range(int(rng.integers(0, memory_size + 1)) if content is None else content):
        bench.memory.add(sample(i, int(rng.integers(classes))))
    bench.waiting = [sample(200 + i, int(cls)) for i, cls in enumerate(rng.integers(classes, size=arrivals))]
    return arrived(bench.waiting), bench


def numbers(batch):
    """Which samples a batch is made of."""
    return batch.inputs.flatten().int().tolist()


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
        arrivals, bench = world(rng)
        T = float(rng.integers(1, 900))
        draws = Draws(seed)
        batch = Flexible(draws, T, rule).compose(bench, arrivals, 16)
        horizon = T / len(bench.classes) if rule == "per-class" else T
        pairs = list(zip(numbers(arrivals), arrivals.classes.tolist(), strict=True))
        if bench.samples == len(arrivals):  # the very first stream batch is taken whole
            assert not draws.drawn
            admitted, count = numbers(arrivals), min(8, bench.memory.size)
        else:
            admitted, count = algorithm_2(
                pairs, bench.memory, bench.samples, bench.classes.first_seen, horizon, draws.drawn[0], 8
            )
        slots = batch.slots[batch.slots >= 0]
        assert batch.arrived.tolist() == (batch.slots < 0).tolist()
        assert numbers(batch)[: len(admitted)] == admitted
        assert [200 + i for i in batch.arrivals[batch.arrived]] == admitted
        assert len(slots) == count == len(batch) - len(admitted)
        assert len(set(slots.tolist())) == len(slots)  # no stored sample twice
        assert numbers(batch)[len(admitted) :] == slots.tolist()  # sample i lies in slot i
        assert batch.classes[len(admitted) :].tolist() == bench.memory.classes[slots].tolist()
        assert batch.labels[:, 0].tolist() == batch.classes.tolist()
        refused += len(admitted) < 8
    assert refused > 200


def test_arrivals_that_are_stored_already_are_not_drawn_again_and_earn_their_importance():
    toy = Toy.stream(200)
    trainer = learner(METHODS["fms"], toy, memory_size=12, fms={"T": 1.0, "unit": "samples"})
    composed, credited = [], []
    compose, learned = trainer.ahead.batches, trainer.recipe.keep.learned

    def note_batches(arrivals):
        batches = compose(arrivals)
        for batch in batches:
            rows = np.flatnonzero(batch.slots >= 0)
            assert torch.equal(batch.inputs[rows], trainer.memory["inputs"][batch.slots[rows]])
            assert len(set(batch.slots[rows])) == len(rows)
        composed.extend(batches)
        return batches

    def note_credit(bench, forward):
        credited.append(forward.batch.slots)
        learned(bench, forward)

    trainer.ahead.batches, trainer.recipe.keep.learned = note_batches, note_credit
    toy.teach(trainer, 0, 200)
    assert all((batch.slots == slots).all() for batch, slots in zip(composed, credited, strict=True))
    arrivals = np.stack([batch.slots[:4] for batch in composed])  # all are admitted
    assert all(batch.arrived[:4].all() and not batch.arrived[4:].any() for batch in composed)
    assert 0.6 < (arrivals >= 0).mean() < 1  # the others were replaced within their own stream batch


@pytest.mark.parametrize("content", [0, 3, 40])
def test_batches_of_several_updates_are_those_woven_one_by_one(content):
    rng = np.random.default_rng(content)
    arrivals, bench = world(rng, content=content)
    for slot in range(content):
        bench.memory.write("labels", slot, (int(bench.memory.classes[slot]), slot % 3)[: 1 + slot % 2])
    choices = [
        Choice(np.sort(rng.permutation(8)[:rows]), bench.memory.sample(drawn, rng))
        for rows, drawn in [(8, 8), (0, 3), (8, 0), (5, 40), (0, 0), (1, 2)]
    ]
    gathered = bench.gather(arrivals, choices)
    sizes = [len(choice.rows) + len(choice.slots) for choice in choices]
    assert len(gathered) == sum(sizes)
    for batch, (rows, slots, _) in zip(gathered.split(sizes), choices, strict=True):
        stored = bench.memory.batch(slots)
        assert numbers(batch) == [*(200 + rows), *numbers(stored)]
        assert batch.arrivals.tolist() == [*rows, *(-1,) * len(slots)]
        assert batch.slots.tolist() == [*arrivals.slots[rows], *slots]
        assert batch.classes.tolist() == [*arrivals.classes[rows], *stored.classes]
        labels = [*arrivals.labels[rows].tolist(), *stored.labels.tolist()]
        assert [[c for c in row if c >= 0] for row in batch.labels.tolist()] == [
            [c for c in row if c >= 0] for row in labels
        ]


def test_the_first_stream_batch_is_taken_whole():
    arrivals, bench = world(np.random.default_rng(0), samples=8)
    batch = Flexible(np.random.default_rng(0), 1e9).compose(bench, arrivals, 16)
    assert (batch.slots < 0).sum() == 8
    bench.samples = 9
    batch = Flexible(np.random.default_rng(0), 1e9).compose(bench, arrivals, 16)
    assert (batch.slots < 0).sum() == 0


@pytest.mark.parametrize(("rule", "T"), [("fixed", 200.0), ("per-class", 1200.0)])
def test_admission_follows_its_bernoulli_anew_at_each_update(rule, T):
    rng = np.random.default_rng(1)
    arrivals, bench = world(rng, samples=160, content=20)
    rehearsal, entered, n = Flexible(rng, T, rule), np.zeros(8, int), 2000
    for _ in range(n):
        batch = rehearsal.compose(bench, arrivals, 16)
        entered += np.isin(np.arange(200, 208), numbers(batch))
    for count, cls in zip(entered, arrivals.classes, strict=True):
        wanted = min((160 - bench.classes.first_seen[cls]) / 200, 1)
        assert 0 < wanted <= 1
        assert binomtest(int(count), n, wanted).pvalue > 1e-4


@pytest.mark.parametrize("rule", ["fixed", "per-class"])
def test_arrivals_without_a_label_are_no_newcomers(rule):
    rng = np.random.default_rng(0)
    _, bench = world(rng, samples=160)
    newest = bench.meet(1, when=160)
    bench.waiting = [sample(200), sample(201, newest), sample(202), sample(203, newest)]
    rehearsal = Flexible(rng, 1e9, rule)
    assert rehearsal.admission(bench, np.array([-1, newest, -1, newest])).tolist() == [1, 0, 1, 0]
    batch = rehearsal.compose(bench, arrived(bench.waiting), 8)
    assert numbers(batch)[:2] == [200, 202]
    assert batch.arrivals[batch.arrived].tolist() == [0, 2]
    assert batch.classes[:2].tolist() == [-1, -1]


def test_a_sample_with_several_labels_is_as_old_as_the_class_that_it_counts_for():
    bench = Bench(4, levels=(1,))
    young = bench.meet(2, when=90)
    bench.samples = 100
    both = [sample(0, 0, young, cls=0), sample(1, 0, young, cls=young)]
    admission = Flexible(np.random.default_rng(0), 50.0).admission(bench, arrived(both).classes)
    assert admission.tolist() == [1.0, 0.2]


def test_refused_places_are_filled_uniformly_from_memory():
    rng = np.random.default_rng(0)
    arrivals, bench = world(rng, samples=160, memory_size=30, content=30)
    rehearsal = Flexible(rng, 1e9)
    drawn = np.concatenate([rehearsal.compose(bench, arrivals, 16).slots for _ in range(1000)])
    assert len(drawn) == 16000
    assert chisquare(np.bincount(drawn)).pvalue > 0.001


@settings(max_examples=100)
@given(seed=st.integers(0, 10**6), batch_size=st.integers(1, 40))
def test_other_rehearsals_fill_the_batch_and_never_repeat(seed, batch_size):
    rng = np.random.default_rng(seed)
    arrivals, bench = world(rng, arrivals=HalfAndHalf(rng).buffer_size(batch_size))
    half = HalfAndHalf(rng).compose(bench, arrivals, batch_size)
    assert (half.slots < 0).sum() == half.arrived.sum() == len(arrivals)
    assert len(half) == len(arrivals) + min(batch_size - len(arrivals), bench.memory.size)
    if bench.memory.size:
        only = MemoryOnly(rng).compose(bench, arrivals, batch_size)
        assert len(only) == min(batch_size, bench.memory.size) == len(set(only.slots.tolist()))
        assert (only.slots >= 0).all()
        assert not only.arrived.any()
    assert numbers(StreamOnly(rng).compose(bench, arrivals, batch_size)) == numbers(arrivals)
    assert (StreamOnly(rng).buffer_size(batch_size), MemoryOnly(rng).buffer_size(batch_size)) == (
        batch_size,
        1,
    )
    assert Nothing(rng).updates_due(1e9) == 0


def test_credit_is_spent_in_whole_updates():
    counts, toy = {}, Toy.stream(40)
    for name, per_sample in (("er", 0.3), ("clib", 0.3), ("er", 3.0), ("rm", 3.0), ("gdumb", 3.0)):
        trainer = learner(METHODS[name], toy, updates_per_sample=per_sample)
        updates = []
        for i in range(40):
            toy.teach(trainer, i, i + 1)
            updates.append(trainer.updates)
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


def brute_force_interference(trainer, arrivals, candidates):
    """Copy the model, take one plain SGD step on the arrivals, compare each candidate's loss."""

    def losses(model, batch):
        model.eval()
        with torch.no_grad():
            logits = model(trainer.inputs.ready(batch.inputs))[1]
        return [torch.stack(cross_entropies(logits[i], row)).mean() for i, row in enumerate(batch.labels)]

    def cross_entropies(row, labels):
        found = []
        for cls in labels[labels >= 0].tolist():
            mates = trainer.classes.of_level(int(trainer.classes.level_of[cls]))
            found.append(F.cross_entropy(row[mates][None], torch.tensor([mates.tolist().index(cls)])))
        return found

    moved, still = copy.deepcopy(trainer.model), copy.deepcopy(trainer.model)
    moved.train()
    step = torch.optim.SGD(moved.parameters(), lr=trainer.recipe.rate.value(trainer))
    logits = moved(trainer.inputs.ready(arrivals.inputs))[1]
    pairs = [one for i, row in enumerate(arrivals.labels) for one in cross_entropies(logits[i], row)]
    torch.stack(pairs).mean().backward()
    step.step()
    for buffer, before in zip(moved.buffers(), still.buffers(), strict=True):
        buffer.copy_(before)
    after, before = losses(moved, candidates), losses(still, candidates)
    return np.array([(a - b).item() for a, b in zip(after, before, strict=True)])


def part_of_path(toy, i):
    """Now and then a whole path, now and then no label; else one label; of another sample, to be hard."""
    path = list(enumerate(toy.paths[7 * i % 80], 1))
    return [path, path[::-1], [], path[:1], path[1:]][i % 5]


@pytest.mark.parametrize("several", [False, True])
def test_mir_chooses_what_brute_force_chooses(several):
    toy = Toy.stream(80)
    trainer = learner(METHODS["mir"], toy, memory_size=40, mir={"candidates": 20})
    labels = [part_of_path(toy, i) if several else [(toy.levels[i], toy.labels[i])] for i in range(80)]
    trainer.observe(toy.images[:64], labels[:64])
    rehearsal, rng = trainer.recipe.rehearse, trainer.rng["rehearse"]
    for start in (64, 68, 72):
        waiting = []
        for i in range(start, start + 4):
            classes = [trainer.classes.find(*pair) for pair in labels[i]]
            waiting.append(Sample(toy.images[i], tuple(sorted(classes)), classes[0] if classes else -1))
        arrivals = arrived(waiting)
        drawn = copy.deepcopy(rng).choice(trainer.memory.size, 20, replace=False)
        candidates = trainer.memory.batch(drawn)
        before = {k: v.clone() for k, v in trainer.model.state_dict().items()}
        rises = interference(trainer, arrivals, candidates, trainer.recipe.rate.value(trainer))
        assert all(torch.equal(v, before[k]) for k, v in trainer.model.state_dict().items())
        wanted = brute_force_interference(trainer, arrivals, candidates)
        np.testing.assert_allclose(rises, wanted, atol=1e-5)
        assert np.abs(wanted).max() > 1e-3

        batch = rehearsal.compose(trainer, arrivals, 8)
        levels = trainer.classes.level_of[candidates.classes]
        shares = {h: 4 * (levels == h).mean() for h in (1, 2)}
        taken = batch.slots[4:]
        assert (batch.slots[:4] == -1).all()
        assert len(taken) == 4
        for h, share in shares.items():
            mine = [i for i in range(20) if levels[i] == h]
            best = sorted(mine, key=lambda i: -wanted[i])
            count = sum(trainer.classes.level_of[trainer.memory.classes[s]] == h for s in taken)
            assert abs(count - share) < 1
            assert {int(drawn[i]) for i in best[:count]} <= set(taken.tolist())
        trainer.observe(toy.images[start : start + 4], labels[start : start + 4])


def test_arrivals_without_a_label_interfere_with_nothing():
    toy = Toy.stream(40)
    trainer = learner(METHODS["mir"], toy)
    toy.teach(trainer, 0, 40)
    arrivals = arrived([Sample(toy.images[i], ()) for i in range(4)])
    before = {k: v.clone() for k, v in trainer.model.state_dict().items()}
    assert not interference(trainer, arrivals, trainer.memory.batch(np.arange(20)), 0.1).any()
    assert all(torch.equal(v, before[k]) for k, v in trainer.model.state_dict().items())


def rows_of(batch):
    """A batch as a list of rows, labels without padding."""
    labels = [[c for c in row if c >= 0] for row in batch.labels.tolist()]
    others = (numbers(batch), labels, batch.classes, batch.slots, batch.arrivals)
    return [(n, own, int(c), int(s), int(a)) for n, own, c, s, a in zip(*others, strict=True)]


batches = st.lists(st.lists(st.integers(0, 40), max_size=4, unique=True), min_size=1, max_size=8)


@settings(max_examples=100)
@given(first=batches, second=batches, data=st.data())
def test_batches_join_and_take_like_lists_of_rows(first, second, data):
    one, two = (
        arrived([sample(i + 100 * k, *labels) for i, labels in enumerate(rows)])
        for k, rows in enumerate((first, second))
    )
    assert rows_of(one) == [(i, own, own[0] if own else -1, -1, i) for i, own in enumerate(first)]
    joined = one.join(two)
    assert isinstance(joined, Batch)
    assert rows_of(joined) == rows_of(one) + rows_of(two)
    chosen = data.draw(st.lists(st.integers(0, len(joined) - 1), max_size=10))
    assert rows_of(joined.take(np.array(chosen, np.int64))) == [rows_of(joined)[i] for i in chosen]


def test_batches_join_and_take():
    arrivals, bench = world(np.random.default_rng(0))
    empty = arrivals.take(np.empty(0, np.int64))
    assert empty.join(arrivals) is arrivals
    assert arrivals.join(empty) is arrivals
    assert numbers(arrivals.take(np.array([3, 1]))) == [203, 201]
    assert len(bench.memory.batch(np.empty(0, np.int64))) == 0


@settings(max_examples=100)
@given(st.lists(st.integers(-1, 5), min_size=1, max_size=20))
def test_of_arrivals_that_took_one_slot_only_the_last_is_stored(slots):
    waiting = [sample(i, 0) for i in range(len(slots))]
    for one, slot in zip(waiting, slots, strict=True):
        one.slot = slot
    wanted = [s if s not in slots[i + 1 :] else -1 for i, s in enumerate(slots)]
    assert arrived(waiting).slots.tolist() == wanted


def test_whoever_overrides_compose_is_not_asked_ahead():
    class Own(HalfAndHalf):
        def compose(self, bench, arrivals, batch_size):
            return arrivals

    class Larger(HalfAndHalf):
        def buffer_size(self, batch_size):
            return batch_size

    rng = np.random.default_rng(0)
    assert [kind(rng).ahead for kind in (HalfAndHalf, Own, Larger)] == [True, False, True]


@given(st.integers(0, 2**32), st.integers(1, 4))
@settings(max_examples=20)
def test_a_batch_holds_the_arrivals_that_were_chosen_in_the_order_of_the_choice(seed, count):
    arrivals, bench = world(np.random.default_rng(seed), content=20)
    rng = np.random.default_rng(seed)
    rows = [rng.integers(len(arrivals), size=len(arrivals)) for _ in range(count)]
    choices = [Choice(chosen, bench.memory.sample(3, rng), chosen) for chosen in rows]
    batch = bench.gather(arrivals, choices)
    for part, chosen in zip(batch.split([len(arrivals) + 3] * count), rows, strict=True):
        assert part.arrivals[: len(chosen)].tolist() == arrivals.arrivals[chosen].tolist()
        assert numbers(part)[: len(chosen)] == [numbers(arrivals)[row] for row in chosen]


@settings(max_examples=50)
@given(st.integers(0, 2**32), st.integers(1, 5))
def test_batches_that_are_gathered_together_are_those_that_are_composed_one_by_one(seed, count):
    arrivals, bench = world(np.random.default_rng(seed))
    for kind in (HalfAndHalf, MemoryOnly, StreamOnly, lambda rng: Flexible(rng, 50.0)):
        one, other = kind(np.random.default_rng(seed)), kind(np.random.default_rng(seed))
        choices = [one.choose(bench, arrivals, 16) for _ in range(count)]
        gathered = bench.gather(arrivals, choices).split([len(c.rows) + len(c.slots) for c in choices])
        assert len(gathered) == count
        for batch in gathered:
            wanted = other.compose(bench, arrivals, 16)
            for name in ("inputs", "labels", "classes", "slots", "arrivals"):
                np.testing.assert_array_equal(getattr(batch, name), getattr(wanted, name), name)


@given(st.integers(0, 2**32), st.integers(0, 12))
@settings(max_examples=30)
def test_spread_takes_new_samples_first_then_any_of_its_window_and_counts(seed, stored):
    """Half of a batch from the window, those first that were never drawn; the rest from memory."""
    rng, size = np.random.default_rng(seed), 8
    bench = Bench(20, columns=Spread.columns)
    bench.meet(1, 0)
    for i in range(stored):
        bench.memory.add(sample(i, 0))
    bench.waiting = [sample(100 + i, 0) for i in range(int(rng.integers(1, 15)))]
    arrivals, times = arrived(bench.waiting), dict.fromkeys(range(200), 0)
    spread = Spread(np.random.default_rng(seed), 12)
    bench.updates = int(rng.choice([0, 10_000, 20_000, 50_000, 10**7]))  # more counts in a long stream
    reach = {0: 1, 20_000: 2, 50_000: 5, 10**7: 5}.get(bench.updates, 1)
    for _ in range(int(rng.integers(1, 9))):
        batch = spread.compose(bench, arrivals, size)
        drawn, new = numbers(batch), [n for n in numbers(arrivals) if not times[n]]
        latest = [n for n in drawn if n >= 100]
        assert batch.arrived.tolist() == [n >= 100 for n in drawn]
        assert len(set(drawn)) == len(drawn) == min(size, stored + len(latest))
        assert len(latest) == min(len(arrivals), max(size // 2, size - stored))
        assert len(set(new) & set(latest)) == min(len(new), len(latest))
        assert batch.rehearsed.tolist() == [times[n] * reach for n in drawn]
        for number in drawn:
            times[number] += 1
        if stored and rng.random() < 0.5:  # another sample in its place begins anew
            victim = int(rng.integers(stored))
            bench.memory.replace(victim, sample(victim, 0))
            times[victim] = 0
    brought = [s.values.get("rehearsed", 0) for s in bench.waiting]  # what the memory is told of them
    assert brought == [times[n] for n in numbers(arrivals)]
