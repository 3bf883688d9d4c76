"""Parts, generators and classes are saved and restored exactly."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from parts import NUMBER, sample
from ramify.classes import Classes
from ramify.errors import RamifyError
from ramify.memory import Column, Memory
from ramify.memory.held import Held
from ramify.methods import METHODS, Method, Recipe
from ramify.methods.checks import Toy, learner, same, through_a_file, weights
from ramify.randomness import Generators
from ramify.rehearsal import HalfAndHalf
from ramify.state import Stateful, moved
from ramify.statefiles import load_state, save_state
from ramify.training.objectives import CrossEntropy
from ramify.training.rates import Rate


class Part(Stateful):
    _state = ("number", "array", "tensor", "nested", "inner")

    def __init__(self, number, inner=None):
        self.number, self.array = number, np.full(3, number)
        self.tensor, self.nested = torch.full((2,), float(number)), {"a": [number]}
        self.inner = inner


def test_a_state_is_a_copy_and_restores_nested_parts_in_place():
    part = Part(1, Part(2))
    state = part.state()
    part.array[0] = part.nested["a"][0] = part.inner.number = 9
    part.tensor[0] = 9
    other = Part(5, Part(6))
    inner = other.inner
    other.restore(state)
    assert other.inner is inner
    assert (other.number, other.array[0], other.tensor[0], other.nested) == (1, 1, 1, {"a": [1]})
    assert (inner.number, inner.array.tolist()) == (2, [2, 2, 2])
    other.nested["a"].append(3)
    other.array[0] = 7
    assert state["nested"] == {"a": [1]}
    assert state["array"][0] == 1


def draws(generators, names):
    return [generators[name].random() for name in names]


@settings(max_examples=80)
@given(
    before=st.lists(st.sampled_from("abc"), max_size=8),
    since=st.lists(st.sampled_from("abcd"), max_size=8),
    elsewhere=st.lists(st.sampled_from("abcde"), max_size=8),
    after=st.lists(st.sampled_from("abcdef"), max_size=8),
)
def test_generators_go_on_from_their_state_whatever_was_drawn_since(before, since, elsewhere, after):
    generators = Generators(3)
    draws(generators, before)
    state = json.loads(json.dumps(generators.state()))
    other = Generators(8)
    held = other["c"]
    draws(other, elsewhere)
    other.restore(state)
    wanted = draws(other, after)
    draws(generators, since)
    generators.restore(state)
    assert draws(generators, after) == wanted
    assert other["c"] is held  # parts hold these objects


def test_generators_are_independent_of_each_other_and_of_the_seed():
    a, b = Generators(0), Generators(0)
    b["keep"].random(100)
    assert a["rehearse"].random() == b["rehearse"].random()
    assert a["x"].random() != a["y"].random()
    assert Generators(0)["x"].random() != Generators(1)["x"].random()


@settings(max_examples=80)
@given(st.lists(st.tuples(st.integers(1, 4), st.sampled_from(["a", "b", "c", 0, 1])), max_size=30))
def test_classes_are_numbered_in_order_of_first_sight(labels):
    classes, order = Classes(), []
    for when, (level, label) in enumerate(labels):
        if when == 7:
            restored = Classes()
            restored.restore(classes.state())
            classes = restored
        if (level, label) not in order:
            assert classes.find(level, label) is None
            order.append((level, label))
            assert classes.meet(level, label, when) == len(order) - 1
            assert classes.first_seen[-1] == when
        assert (
            classes.meet(level, label, when + 1000)
            == classes.find(level, label)
            == order.index((level, label))
        )
    assert classes.labels == [label for _, label in order]
    assert classes.level_of.tolist() == [level for level, _ in order]
    assert classes.levels == sorted({level for level, _ in order})
    for level in range(1, 6):
        assert classes.of_level(level).tolist() == [n for n, (h, _) in enumerate(order) if h == level]


def test_levels_count_from_one():
    with pytest.raises(RamifyError, match="from 1"):
        Classes().meet(0, "a", 0)


def columns(**others):
    return {"inputs": NUMBER, **others}


@settings(max_examples=60)
@given(
    steps=st.lists(
        st.tuples(
            st.lists(st.integers(0, 20), min_size=1, max_size=4, unique=True),
            st.lists(st.integers(0, 9), max_size=6),
        ),
        max_size=25,
    ),
    width=st.integers(0, 12),
    used=st.integers(0, 10),
)
def test_a_memory_goes_on_from_a_file_in_one_that_has_grown_otherwise(tmp_path_factory, steps, width, used):
    """Columns are found by their names, in whatever order and width the other memory has them."""
    one, two = Column(torch.float32, (0,), -1.0), Column(np.int16, (), 4)
    memory, other = Memory(10, columns(one=one, two=two)), Memory(10, columns(two=two, one=one))
    for i, (labels, values) in enumerate(steps):
        new = sample(i, *labels, one=torch.tensor(values, dtype=torch.float32), two=i)
        memory.replace(i % 10, new) if memory.full else memory.add(new)
    for i in range(used):
        other.add(sample(50 + i, *range(i + 1), one=torch.full((i,), 7.0), two=9))
    other.widen("one", width)
    path = tmp_path_factory.mktemp("state") / "memory.safetensors"
    save_state(path, memory.state(), {})
    other.restore(load_state(path)[0])
    for i in range(10 + len(steps)):
        assert other.size == memory.size
        assert np.array_equal(other.classes[: other.size], memory.classes[: other.size])
        assert all(other.members(c).tolist() == memory.members(c).tolist() for c in range(22))
        for name in ("inputs", "labels", "one", "two"):  # as wide as they were, too
            assert np.array_equal(memory[name][: memory.size], other[name][: memory.size])
        for which in (memory, other):  # and both go on alike
            new = sample(80 + i, i % 7, one=torch.ones(i % 4))
            if which.full:
                which.replace(int(which.members(which.most_frequent(i % 7))[0]), new)
            else:
                which.add(new)


def test_a_state_is_moved_whole_and_what_is_no_tensor_stays():
    state = {"a": torch.ones(2), "b": {"c": np.ones(2), "d": [1], "e": torch.zeros(1), "f": None}}
    there = moved(state, torch.device("meta"))
    assert there["a"].is_meta
    assert there["b"]["e"].is_meta
    assert there["b"]["c"] is state["b"]["c"]
    assert (there["b"]["d"], there["b"]["f"]) == ([1], None)


class KeepAnswers(CrossEntropy):
    """Keeps what the model said of each arrival, and holds it against what it says later."""

    columns = {"answers": Column(torch.float32, (0,), float("nan")), "when": Column(np.int64, (), -1)}  # noqa: RUF012

    def loss(self, bench, forward):
        batch, logits = forward.batch, forward.logits
        new, old = np.flatnonzero(batch.arrived), np.flatnonzero(batch.slots >= 0)
        bench.note(batch, new, "answers", logits.detach())
        bench.note(batch, new, "when", np.full(len(batch), bench.updates))
        loss = super().loss(bench, forward)
        if len(old):
            then = bench.stored(batch, old, "answers")[:, : logits.shape[1]]
            apart = torch.where(then.isnan(), 0.0, logits[old, : then.shape[1]] - then.nan_to_num())
            loss = loss + 0.1 * apart.square().mean() + 1e-4 * float(bench.stored(batch, old, "when").mean())
        return loss


def keeping(settings, rng):
    keep = METHODS["er"](settings, rng).keep
    return Recipe(keep, HalfAndHalf(rng["rehearse"]), KeepAnswers(), Rate(settings.lr))


@pytest.mark.parametrize(
    "method", [Method("keeping", keeping), METHODS["pl-fms"], METHODS["bic"]], ids=lambda m: m.name
)
@pytest.mark.parametrize("stop", [1, 18, 19, 30])
def test_samples_that_wait_with_several_labels_or_none_go_on_from_a_file(method, stop):
    toy = Toy.stream(44)

    def teach(trainer, start, end):
        for i in range(start, end):
            path = list(enumerate(toy.paths[i], 1))
            trainer.observe(toy.images[i : i + 1], [[path[:1], path, [], path[1:], path[::-1]][i % 5]])

    trainer, other = learner(method, toy, memory_size=12), learner(method, toy, seed=4, memory_size=12)
    teach(trainer, 0, stop)
    teach(other, 0, 33)  # it has grown wider, and has samples waiting
    state = through_a_file(trainer)
    other.restore(state)
    assert len(other.waiting) == len(trainer.waiting)
    for a, b in zip(trainer.waiting, other.waiting, strict=True):
        assert (a.labels, a.cls, a.slot, a.values.keys()) == (b.labels, b.cls, b.slot, b.values.keys())
        assert isinstance(b.labels, tuple)
        assert torch.equal(a.inputs, b.inputs)
    for one in (trainer, other):
        teach(one, stop, 44)
    assert same(weights(trainer), weights(other))
    assert np.array_equal(trainer.predict(toy.images), other.predict(toy.images))
    if method.name == "keeping":
        answers, when, size = trainer.memory["answers"], trainer.memory["when"], trainer.memory.size
        assert (when[:size] >= 0).all()
        assert not answers[:size, 0].isnan().any()
        assert torch.equal(answers.nan_to_num(), other.memory["answers"].nan_to_num())
        assert np.array_equal(when, other.memory["when"])


def test_what_waits_without_a_number_as_older_runs_left_it_is_held():
    toy = Toy.stream(24)
    made, again = (learner(METHODS["canopy"], toy, memory_size=32) for _ in range(2))
    toy.teach(made, 0, 24)
    state = made.state()
    for waits in state["waiting"].values():
        del waits["values"]["sample"]
    again.restore(state)
    assert len(Held(again)) == len(Held(made))
    assert (Held(again).numbers[again.memory.size :] == -1).all()


def test_an_interrupted_call_leaves_what_was_noted_with_those_that_wait():
    """They bring it into memory later, also from a file."""
    toy = Toy.stream(12)
    trainer = learner(Method("keeping", keeping), toy)
    toy.teach(trainer, 0, 7)
    update = trainer.update

    def break_off(batch):
        update(batch)
        raise KeyboardInterrupt

    trainer.update = break_off
    with pytest.raises(KeyboardInterrupt):
        toy.teach(trainer, 7, 8)
    assert len(trainer.waiting) == 4
    assert all(set(one.values) == {"answers", "when", "sample"} for one in trainer.waiting)
    state = through_a_file(trainer)
    other = learner(Method("keeping", keeping), toy, seed=3)
    other.restore(state)
    for a, b in zip(trainer.waiting, other.waiting, strict=True):
        assert torch.equal(a.values["answers"], b.values["answers"])
        assert int(a.values["when"]) == int(b.values["when"])
    trainer.update = update
    for one in (trainer, other):
        toy.teach(one, 8, 12)
    assert same(weights(trainer), weights(other))
    assert torch.equal(trainer.memory["answers"].nan_to_num(), other.memory["answers"].nan_to_num())
