"""PL against algorithm 1 of the supplement, written out in loops and sets."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ramify.classes import Classes
from ramify.memory import Examination, Memory, PseudoLabel, Sweep, Update
from ramify.memory.votes import Votes
from ramify.methods import METHODS
from ramify.methods.checks import Toy, learner
from ramify.methods.settings import PseudoLabelSettings

NOTHING = torch.zeros(0)
PIXEL = torch.zeros(1, 1, 1, dtype=torch.uint8)


def algorithm_1(memory, importance, predict, level_of, newcomer):
    """`memory`: list of (sample, class); `predict(sample)`: level -> class. The victim's index and I_ȳ."""
    # ȳ counts the newcomer; only a class that is stored can be chosen; of equal ones the class met first
    stored = {y for _, y in memory}
    frequency = {y: sum(1 for _, other in memory if other == y) + (y == newcomer) for y in stored}
    modal = min(y for y in stored if frequency[y] == max(frequency.values()))
    indices = {j for j, (_, y) in enumerate(memory) if y == modal}
    of_modal = [x for x, y in memory if y == modal]
    for k in sorted(set(level_of.values())):
        if k != level_of[modal]:
            s = {y: 0 for y in level_of if level_of[y] == k}
            for x in of_modal:
                s[predict(x)[k]] += 1
            best = min(y for y in s if s[y] == max(s.values()))
            indices |= {j for j, (_, y) in enumerate(memory) if y == best}
    victim = min(indices, key=lambda j: (importance[j], j))
    return victim, indices


class World:
    """Classes of several levels in random order, a full memory, and a model that answers at random."""

    def __init__(self, seed, exact=True):
        self.rng, self.examined = np.random.default_rng(seed), 0
        self.levels = int(self.rng.integers(1, 5))
        self.classes = Classes()
        self.capacity = int(self.rng.integers(1, 30))
        self.memory = Memory(self.capacity, (1, 1, 1))
        self.policy = PseudoLabel(Sweep(10**9), exact)
        self.policy.bind(self.memory, self.classes, self.examine)
        for _ in range(int(self.rng.integers(1, 5))):
            self.new_class()  # and forget `answers`, slot -> level -> class

    def new_class(self):
        self.classes.meet(int(self.rng.integers(1, self.levels + 1)), f"class {len(self.classes)}", 0)
        self.answers = {}

    def update(self):
        """A training step: every sample may be predicted otherwise."""
        none = np.empty(0, np.int64)
        self.policy.trained(
            Update(none, none, 0.0, NOTHING, lambda: NOTHING, lambda: np.empty((0, 1), np.int64))
        )
        self.answers = {}

    def draw_answer(self):
        of_level = [self.classes.of_level(h) for h in range(1, max(self.classes.levels) + 1)]
        pick = self.rng.random() if self.rng.random() < 0.7 else 0.0  # often the first, so that votes agree
        return [int(found[int(pick * len(found))]) if len(found) else -1 for found in of_level]

    def answer(self, slot):
        """The model's prediction, the same until the next update."""
        return self.answers.setdefault(slot, self.draw_answer())

    def examine(self, slots):
        self.examined += len(slots)
        return Examination(np.zeros(len(slots)), np.array([self.answer(s) for s in slots.tolist()], np.int64))

    def offer(self, cls=None):
        """Store one sample, now and then after an update or a new class."""
        if cls is None:
            if self.rng.random() < 0.1 and len(self.classes) < 25:
                self.new_class()
            if self.rng.random() < 0.3:
                self.update()
            cls = int(self.rng.integers(len(self.classes)))
        slot = self.policy.offer(PIXEL, cls)
        self.answers.pop(slot, None)
        if self.rng.random() < 0.5:
            self.memory.importance[slot] = self.rng.integers(5)  # few values, so that there are ties
        return slot


def test_the_victim_and_the_candidates_are_those_of_algorithm_1():
    compared = related = 0
    for seed in range(150):
        world = World(seed)
        for _ in range(world.capacity):
            world.offer()
        for _ in range(20):
            newcomer = int(world.rng.integers(len(world.classes)))
            if world.rng.random() < 0.4:
                world.update()
            if world.rng.random() < 0.1 and len(world.classes) < 25:
                world.new_class()
            victim, indices = algorithm_1(
                list(enumerate(world.memory.classes.tolist())),
                world.memory.importance,
                lambda slot, world=world: dict(enumerate(world.answer(slot), 1)),
                dict(enumerate(world.classes.level_of.tolist())),
                newcomer,
            )
            modal = world.memory.most_frequent(newcomer)
            found = world.policy.candidates(modal).tolist()
            assert len(found) == len(set(found))
            assert set(found) == indices
            assert world.policy.victim(newcomer) == victim
            before = world.examined
            assert world.policy.victim(newcomer) == victim
            assert world.examined == before  # what is known of the model as it is is not asked again
            assert world.offer(newcomer) == victim
            world.memory.importance[victim] = world.rng.integers(5)
            compared += 1
            related += len(indices) > len(world.memory.members(modal))
    assert compared == 3000
    assert related > 500  # the pseudo-labels matter


def recomputed(world, seen):
    """The votes by their definition, from the latest prediction of each stored sample."""
    counts = np.zeros((len(world.classes),) * 2, int)
    for slot, row in seen.items():
        for d in row:
            if d >= 0:
                counts[world.memory.classes[slot], d] += 1
    return counts


@settings(max_examples=80)
@given(seed=st.integers(0, 10**6), steps=st.lists(st.sampled_from(["offer", "train", "look"]), max_size=60))
def test_kept_votes_are_those_recomputed_from_scratch(seed, steps):
    world, seen = World(seed, exact=False), {}
    policy, rng = world.policy, world.rng
    for step in steps:
        if step == "offer":
            seen.pop(world.offer(), None)
        elif world.memory.size:
            slots = rng.integers(-1 if step == "train" else 0, world.memory.size, int(rng.integers(1, 6)))
            answer = {int(s): world.draw_answer() for s in slots}
            rows = np.array([answer[int(s)] for s in slots], np.int64)
            if step == "train":
                policy.trained(
                    Update(slots, np.ones_like(slots), 0.0, NOTHING, lambda: NOTHING, lambda rows=rows: rows)
                )
            else:
                policy.votes.see(slots, rows)
            seen |= {s: row for s, row in answer.items() if s >= 0}
        wanted = recomputed(world, seen)
        size = min(len(wanted), len(policy.votes.counts))
        assert np.array_equal(policy.votes.counts[:size, :size], wanted[:size, :size])
        assert wanted.sum() == policy.votes.counts.sum()
    other = World(seed, exact=False)
    other.policy.restore(policy.state())
    assert np.array_equal(other.policy.votes.counts, policy.votes.counts)


def test_a_tie_of_votes_goes_to_the_class_met_first_and_silence_names_none():
    classes = Classes()
    for level, label in ((1, "a"), (2, "x"), (2, "y"), (3, "z")):
        classes.meet(level, label, 0)
    memory = Memory(4, (1, 1, 1))
    for _ in range(4):
        memory.add(PIXEL, 0)
    votes = Votes(memory, classes)
    assert votes.related(0) == []
    votes.see(np.array([0, 1, 2]), np.array([[0, 2, -1], [0, 1, -1], [0, -1, -1]]))
    assert votes.related(0) == [1]
    votes.see(np.array([3, 3]), np.array([[0, 2, 3], [0, 2, 3]]))  # twice in a batch: one vote
    assert votes.related(0) == [2, 3]
    assert votes.counts[0, 2] == 2


@pytest.mark.parametrize("exact", [True, False])
def test_in_a_learner_the_victim_is_that_of_the_network(exact):
    """The candidates of PL, as the network sees them at the moment of the insertion."""
    toy = Toy.stream(60, levels=(1, 2, 1))
    engine = learner(METHODS["pl-fms"], toy, memory_size=15, pl=PseudoLabelSettings(exact))
    policy, memory, compared = engine.recipe.keep, engine.memory, 0
    for i in range(60):
        if memory.full:
            logits = engine.look(memory.images).tolist()
            levels = {c: int(h) for c, h in enumerate(engine.classes.level_of)}
            newcomer = engine.classes.find(toy.levels[i], toy.labels[i])
            if newcomer is not None:

                def predict(slot, logits=logits, levels=levels):
                    return {
                        k: max((c for c in levels if levels[c] == k), key=lambda c: logits[slot][c])
                        for k in set(levels.values())
                    }

                if not exact:  # kept votes are the network's once all of memory was looked at
                    policy.examine(np.arange(memory.size))
                victim, indices = algorithm_1(
                    list(enumerate(memory.classes.tolist())), memory.importance, predict, levels, newcomer
                )
                assert set(policy.candidates(memory.most_frequent(newcomer)).tolist()) == indices
                assert policy.victim(newcomer) == victim
                compared += 1
        engine.observe(*toy.part(i, i + 1))
    assert compared > 35


def test_samples_that_carry_their_path_vote_with_it():
    toy = Toy.stream(60)
    engine = learner(METHODS["pl-fms-t"], toy, memory_size=12)
    engine.observe(*toy.part(0, 60))
    memory, votes = engine.memory, engine.recipe.keep.votes
    wanted = np.zeros_like(votes.counts)
    for slot in range(12):
        for d in memory.paths[slot]:
            wanted[memory.classes[slot], d] += 1
    assert np.array_equal(votes.counts, wanted)
    assert (memory.paths >= 0).all()
