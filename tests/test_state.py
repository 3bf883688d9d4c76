"""Parts, generators and classes are saved and restored exactly."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ramify.classes import Classes
from ramify.errors import RamifyError
from ramify.randomness import Generators
from ramify.state import Stateful


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
