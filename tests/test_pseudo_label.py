"""PL against algorithm 1 of the supplement, written out in loops and sets."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parts import NUMBER, Bench, sample
from ramify.classes import Classes
from ramify.memory import Memory, PseudoLabel, Sweep
from ramify.memory.votes import Votes
from ramify.methods import METHODS
from ramify.methods.checks import Toy, learner


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
    """Classes of several levels in random order, a full memory, and a model that answers at random.

    With `paths` samples may carry labels at several levels, and count for any of them.
    """

    def __init__(self, seed, exact=True, paths=False):
        self.rng, self.paths = np.random.default_rng(seed), paths
        self.levels = int(self.rng.integers(1, 5))
        self.capacity = int(self.rng.integers(1, 30))
        self.policy = PseudoLabel(Sweep(10**9), exact)
        self.bench = Bench(self.capacity, self.policy, samples=200)
        self.memory, self.classes = self.bench.memory, self.bench.classes
        self.importance = self.memory["importance"]
        self.offered = 0
        self.answers = {}  # number of a sample -> class at each level
        for _ in range(int(self.rng.integers(1, 5))):
            self.new_class()

    def new_class(self):
        self.bench.meet(int(self.rng.integers(1, self.levels + 1)))
        self.answer_anew()

    def update(self):
        """A training step: every sample may be predicted otherwise."""
        self.policy.learned(self.bench, self.bench.passed([]))
        self.answer_anew()

    def answer_anew(self):
        for slot in range(self.memory.size):
            self.draw_answer(self.bench.number(slot))

    def draw_answer(self, number):
        of_level = [self.classes.of_level(h) for h in range(1, max(self.classes.levels) + 1)]
        pick = self.rng.random() if self.rng.random() < 0.7 else 0.0  # often the first, so that votes agree
        answer = [int(found[int(pick * len(found))]) if len(found) else -1 for found in of_level]
        self.answers[number] = answer
        self.bench.tell_answer(number, answer)
        return answer

    def carried(self, slot):
        """Level -> true class, of a stored sample that carries several."""
        labels = [int(c) for c in self.memory["labels"][slot] if c >= 0]
        return {int(self.classes.level_of[c]): c for c in labels} if len(labels) > 1 else {}

    def vote(self, slot):
        """Level -> class: the model's prediction, the same until the next update, or what is known."""
        return dict(enumerate(self.answers[self.bench.number(slot)], 1)) | self.carried(slot)

    def newcomer(self, cls):
        """A sample that counts for this class."""
        labels = {int(self.classes.level_of[cls]): cls}
        if self.paths and self.rng.random() < 0.7:
            for level in self.classes.levels:
                if self.rng.random() < 0.7:
                    labels.setdefault(level, int(self.rng.choice(self.classes.of_level(level))))
        self.offered += 1
        return sample(self.offered, *(labels[h] for h in sorted(labels)), cls=cls)

    def offer(self, cls=None):
        """Store one sample, now and then after an update or a new class."""
        if cls is None:
            if self.rng.random() < 0.1 and len(self.classes) < 25:
                self.new_class()
            if self.rng.random() < 0.3:
                self.update()
            cls = int(self.rng.integers(len(self.classes)))
        newcomer = self.newcomer(cls)
        slot = self.policy.offer(self.bench, newcomer)
        self.draw_answer(self.offered)
        if self.rng.random() < 0.5:
            self.importance[slot] = self.rng.integers(5)  # few values, so that there are ties
        return slot


@pytest.mark.parametrize("paths", [False, True])
def test_the_victim_and_the_candidates_are_those_of_algorithm_1(paths):
    compared = related = unasked = 0
    for seed in range(150):
        world = World(seed, paths=paths)
        bench, policy, memory = world.bench, world.policy, world.memory
        for _ in range(world.capacity):
            world.offer()
        for _ in range(20):
            newcomer = int(world.rng.integers(len(world.classes)))
            if world.rng.random() < 0.4:
                world.update()
            if world.rng.random() < 0.1 and len(world.classes) < 25:
                world.new_class()
            victim, indices = algorithm_1(
                list(enumerate(memory.classes.tolist())),
                world.importance,
                world.vote,
                dict(enumerate(world.classes.level_of.tolist())),
                newcomer,
            )
            modal = memory.most_frequent(newcomer)
            before = bench.cost.images_memory
            found = policy.candidates(bench, modal, newcomer).tolist()
            asked = bench.cost.images_memory - before
            whole = sum(len(world.carried(s)) == len(world.classes.levels) for s in memory.members(modal))
            assert asked <= len(memory.members(modal)) - whole  # whose classes are all known is not asked
            unasked += whole
            assert len(found) == len(set(found))
            assert set(found) == indices
            assert policy.victim(bench, newcomer) == victim
            before = bench.cost.images_memory
            assert policy.victim(bench, newcomer) == victim
            assert (
                bench.cost.images_memory == before
            )  # what is known of the model as it is is not asked again
            assert world.offer(newcomer) == victim
            world.importance[victim] = world.rng.integers(5)
            compared += 1
            related += len(indices) > len(memory.members(modal))
    assert compared == 3000
    assert related > 500  # the pseudo-labels matter
    assert (unasked > 500) == paths


def recomputed(world, seen):
    """The votes by their definition, from the latest prediction of each stored sample."""
    counts = np.zeros((len(world.classes),) * 2, int)
    for slot, votes in seen.items():
        for d in votes.values():
            if d >= 0:
                counts[world.memory.classes[slot], d] += 1
    return counts


def counted(votes, memory, classes):
    """[class, class]: how many stored samples of the one vote for the other."""
    counts = np.zeros((classes,) * 2, int)
    for slot, cast in enumerate(votes.predictions.tolist()):
        for d in cast:
            if d >= 0:
                counts[memory.classes[slot], d] += 1
    return counts


@settings(max_examples=80)
@given(
    seed=st.integers(0, 10**6),
    steps=st.lists(st.sampled_from(["offer", "train", "look"]), max_size=60),
    paths=st.booleans(),
)
def test_kept_votes_are_those_recomputed_from_scratch(seed, steps, paths):
    world, seen = World(seed, exact=False, paths=paths), {}
    bench, policy, rng = world.bench, world.policy, world.rng
    for step in steps:
        if step != "train":
            bench.readings.fetch()  # as before new classes and refreshes
        if step == "offer":
            slot = world.offer()
            seen[slot] = world.carried(slot)  # of several labels it has votes at once, else none
        elif world.memory.size:
            slots = rng.integers(-1 if step == "train" else 0, world.memory.size, int(rng.integers(1, 6)))
            answers = {s: world.draw_answer(bench.number(s)) for s in set(slots.tolist()) if s >= 0}
            if step == "train":
                policy.learned(bench, bench.passed(slots))
                seen |= {s: dict(enumerate(row, 1)) | world.carried(s) for s, row in answers.items()}
                if rng.random() < 0.5:  # the votes of several updates wait
                    continue
            else:
                rows = np.array([answers[s] for s in slots.tolist()], np.int64)
                policy.votes.see(world.memory, slots, rows)
                seen |= {s: dict(enumerate(row, 1)) for s, row in answers.items()}
        bench.readings.fetch()
        wanted = recomputed(world, seen)
        assert np.array_equal(counted(policy.votes, world.memory, len(wanted)), wanted)
        for cls in range(len(wanted)):
            best = [
                int(rivals[wanted[cls, rivals].argmax()])
                for rivals in map(world.classes.of_level, world.classes.levels)
                if wanted[cls, rivals].any()
            ]
            assert policy.votes.related(world.memory, cls, world.classes, but=0) == best
    other = World(seed, exact=False)
    other.policy.restore(policy.state())
    assert np.array_equal(other.policy.votes.predictions, policy.votes.predictions)


@pytest.mark.parametrize("exact", [True, False])
def test_the_pass_of_the_importance_gives_votes(exact):
    policy = PseudoLabel(Sweep(2), exact)
    bench = Bench(4, policy, levels=(1, 2, 2, 3, 3))
    for i, labels in enumerate([(0,), (0,), (0, 2), (1,)]):
        policy.offer(bench, sample(i, *labels))
        bench.tell_answer(i, (0, 1, 3))
    assert policy.votes.related(bench.memory, 0, bench.classes, but=1) == [
        2
    ]  # of one sample it is known already
    policy.candidates(bench, 0, 0)
    assert bench.cost.images_memory == (3 if exact else 0)
    policy.learned(bench, bench.passed([]))
    for i in range(4):
        bench.tell_answer(i, (0, 1, 4))
    policy.learned(bench, bench.passed([]))
    counts = counted(policy.votes, bench.memory, 5)
    assert counts[0].tolist() == [3, 2, 1, 0, 3]  # it votes with its own class at level 2
    assert counts[1].tolist() == [1, 1, 0, 0, 1]
    assert set(policy.candidates(bench, 0, 0).tolist()) == {0, 1, 2, 3}
    assert bench.cost.images_memory == (3 if exact else 0) + 4  # those of the refresh, and no other


def test_a_tie_of_votes_goes_to_the_class_met_first_and_silence_names_none():
    classes = Classes()
    for level, label in ((1, "a"), (2, "x"), (2, "y"), (3, "z")):
        classes.meet(level, label, 0)
    memory = Memory(4, {"inputs": NUMBER})
    for i in range(4):
        memory.add(sample(i, 0))
    votes = Votes()
    assert votes.related(memory, 0, classes, but=1) == []
    votes.see(memory, np.array([0, 1, 2]), np.array([[0, 2, -1], [0, 1, -1], [0, -1, -1]]))
    assert votes.related(memory, 0, classes, but=1) == [1]
    # twice in a batch: one vote
    votes.see(memory, np.array([3, 3]), np.array([[0, 2, 3], [0, 2, 3]]))
    assert votes.related(memory, 0, classes, but=1) == [2, 3]
    assert counted(votes, memory, 4)[0, 2] == 2


@pytest.mark.parametrize("exact", [True, False])
def test_in_a_learner_the_victim_is_that_of_the_network(exact):
    """The candidates of PL, as the network sees them at the moment of the insertion."""
    toy = Toy.stream(60, levels=(1, 2, 1))
    trainer = learner(METHODS["pl-fms"], toy, memory_size=15, pl={"exact": exact})
    policy, memory, compared = trainer.recipe.keep, trainer.memory, 0
    for i in range(60):
        if memory.full:
            logits = trainer.look(memory["inputs"]).tolist()
            levels = {c: int(h) for c, h in enumerate(trainer.classes.level_of)}
            newcomer = trainer.classes.find(toy.levels[i], toy.labels[i])
            if newcomer is not None:

                def predict(slot, logits=logits, levels=levels):
                    return {
                        k: max((c for c in levels if levels[c] == k), key=lambda c: logits[slot][c])
                        for k in set(levels.values())
                    }

                if not exact:  # kept votes are the network's once all of memory was looked at
                    seen = trainer.examine(np.arange(memory.size))
                    policy.votes.see(memory, seen.slots, seen.predictions)
                victim, indices = algorithm_1(
                    list(enumerate(memory.classes.tolist())), memory["importance"], predict, levels, newcomer
                )
                modal = memory.most_frequent(newcomer)
                assert set(policy.candidates(trainer, modal, newcomer).tolist()) == indices
                assert policy.victim(trainer, newcomer) == victim
                compared += 1
        toy.teach(trainer, i, i + 1)
    assert compared > 35


def test_samples_that_carry_their_path_vote_with_it():
    toy = Toy.stream(60)
    trainer = learner(METHODS["pl-fms-t"], toy, memory_size=12)
    toy.teach(trainer, 0, 60)
    memory, votes = trainer.memory, trainer.recipe.keep.votes
    wanted = np.zeros((len(trainer.classes),) * 2, int)
    for slot in range(12):
        for d in memory["labels"][slot]:
            wanted[memory.classes[slot], d] += 1
    assert np.array_equal(counted(votes, memory, len(wanted)), wanted)
    assert memory["labels"].shape == (12, 2)
    assert (memory["labels"] >= 0).all()
