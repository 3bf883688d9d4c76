"""Labels of several levels for one image, and images without any."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ramify import Learner, RamifyError, Taxonomy
from ramify.methods import METHODS, Trainer, find_method
from ramify.methods.checks import SIZE, Toy, ToyNetwork, same, weights
from ramify.networks import ImageInputs

TOY = Toy.stream(60)
TABLES = [dict(enumerate(path, 1)) for path in TOY.paths]
TEACHABLE = [n for n, m in METHODS.items() if not (m.offline or m.told_paths or m.keeps_stream)]
TRAINED = [n for n in TEACHABLE if not (METHODS[n].trains_when_asked or METHODS[n].closed_form)]
FEW = {
    "fms": {"T": 20.0},
    "epochs": {"count": 2},
    "bic": {"epochs": 2, "validation": 0.2},
    "mir": {"candidates": 12},
    "ranpac": {"size": 64},
    "randumb": {"size": 64},
}


def network() -> ToyNetwork:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return ToyNetwork()


def learner(method: str = "pl-fms", **more) -> Learner:
    plain = {"augment": {"padding": 0, "flip": False, "cutmix": 0.0}, "lr": 1e-2, "batch_size": 8}
    return Learner(method, image_size=SIZE, network=network(), **({"memory_size": 24} | plain | FEW | more))


def equal(one: Learner, other: Learner) -> bool:
    return same(weights(one._trainer), weights(other._trainer))


@pytest.mark.parametrize("method", ["pl-fms", "er"])
def test_a_table_of_one_label_is_that_label(method):
    tables = [{level: label} for level, label in zip(TOY.levels, TOY.labels, strict=True)]
    ours, plain = learner(method), learner(method)
    ours.partial_fit(TOY.images, tables)
    plain.partial_fit(TOY.images, TOY.labels, TOY.levels)
    assert equal(ours, plain)
    assert ours.memory_counts() == plain.memory_counts()


@pytest.mark.parametrize("method", ["pl-fms", "er"])
def test_a_table_of_several_is_learned_at_all_its_levels_and_counts_for_the_finest(method):
    ours = learner(method).partial_fit(TOY.images, TABLES)
    trainer = Trainer(
        find_method(method),
        ours.settings,
        ImageInputs(SIZE, mean=ours.mean, std=ours.std),
        network=network(),
    )
    trainer.observe(TOY.images, [[(2, fine), (1, coarse)] for coarse, fine in TOY.paths])
    assert same(weights(ours._trainer), weights(trainer))
    counts = ours.memory_counts()
    assert set(counts) == {1, 2}
    assert sum(counts[1].values()) == 0
    assert sum(counts[2].values()) == 24
    for level in (1, 2):
        assert ours.score(TOY.images, [path[level - 1] for path in TOY.paths], level) >= 0.95
    reversed_tables = [dict(reversed(table.items())) for table in TABLES]
    assert equal(ours, learner(method).partial_fit(TOY.images, reversed_tables))


@settings(max_examples=15)
@given(st.lists(st.sampled_from(["table", "coarse", "fine", "plain", "none"]), min_size=60, max_size=60))
def test_every_kind_beside_every_other(kinds):
    """What is met, counted and stored is what was given, however it was written."""
    given_labels, met, labelled = [], {1: set(), 2: set()}, 0
    for kind, (coarse, fine) in zip(kinds, TOY.paths, strict=True):
        tables = {"table": {1: coarse, 2: fine}, "coarse": {1: coarse}, "fine": {2: fine}, "plain": {2: fine}}
        own = tables.get(kind, {})
        for level, label in own.items():
            met[level].add(label)
        labelled += bool(own)
        given_labels.append(None if kind == "none" else fine if kind == "plain" else own)
    ours = learner("er", memory_size=60, updates_per_sample=0.1).partial_fit(TOY.images, given_labels, 2)
    ours.flush()
    assert ours.samples == 60
    assert {h: set(ours.labels(h)) for h in ours.levels} == {h: names for h, names in met.items() if names}
    assert sum(sum(counts.values()) for counts in ours.memory_counts().values()) == labelled


@pytest.mark.parametrize("method", TEACHABLE)
@pytest.mark.parametrize("where", ["first", "amid", "last"])
def test_images_without_a_label_are_taken_anywhere_by_every_method(method, where):
    bare = {"first": range(30), "amid": range(0, 60, 3), "last": range(30, 60)}[where]
    labels = [None if i in bare else table for i, table in enumerate(TABLES)]
    ours = learner(method).partial_fit(TOY.images, labels)
    ours.task_end()
    assert ours.samples == 60
    known = [table for i, table in enumerate(TABLES) if i not in bare]
    assert {h: set(ours.labels(h)) for h in ours.levels} == {h: {t[h] for t in known} for h in (1, 2)}
    assert ours.predict(TOY.images).levels == (1, 2)
    assert ours.hierarchy().depth == 2


@pytest.mark.parametrize("method", TEACHABLE)
def test_without_any_label_nothing_is_learned(method):
    ours = learner(method)
    before = weights(ours._trainer)
    ours.partial_fit(TOY.images, [None] * 60)
    ours.flush()
    assert (ours.samples, ours.updates, ours.levels) == (60, 0, ())
    assert same(before, weights(ours._trainer))
    with pytest.raises(RamifyError, match="nothing has been learned"):
        ours.predict(TOY.images)
    assert ours.partial_fit(TOY.images, TABLES).predict(TOY.images).levels == (1, 2)


@pytest.fixture(scope="module")
def before():
    """Whose network is taken over."""
    return learner("er").partial_fit(TOY.images, TABLES)


@pytest.mark.parametrize("method", TRAINED)
def test_a_network_taken_over_is_taught_on_from_images_without_a_label(method, before):
    """Its classes are known, but nothing is in memory yet."""
    ours = learner(method)
    classes = before._trainer.classes
    pairs = list(zip(classes.level_of.tolist(), classes.labels, strict=True))
    ours._trainer.adopt(weights(before._trainer), pairs)
    ours.partial_fit(TOY.images[:9], [None] * 9)
    ours.flush()
    assert (ours.samples, ours.updates) == (9, 0)
    assert ours.predict(TOY.images).labels == before.predict(TOY.images).labels
    assert ours.partial_fit(TOY.images[:20], TABLES[:20]).updates > 0


@pytest.mark.parametrize("method", ["pl-fms", "er", "mir"])
def test_goes_on_from_a_file_to_the_bit(method, tmp_path):
    labels = [[None, table, {1: table[1]}][i % 3] for i, table in enumerate(TABLES)]
    ours = learner(method).partial_fit(TOY.images[:38], labels[:38])
    assert {len(sample.labels) for sample in ours._trainer.waiting} == {0, 2}  # both kinds wait
    ours.save(tmp_path)
    loaded = Learner.load(tmp_path, network=ToyNetwork())
    for one in (ours, loaded):
        one.partial_fit(TOY.images[38:], labels[38:])
    assert equal(ours, loaded)
    assert loaded.memory_counts() == ours.memory_counts()


def test_a_taxonomy_finds_the_level_beside_tables():
    tree = Taxonomy.from_rows(sorted({tuple(path) for path in TOY.paths}))
    ours = learner(taxonomy=tree)
    ours.partial_fit(TOY.images[:4], ["red", None, {1: "blue", 2: "colour 2"}, "colour 1"])
    assert (ours.labels(1), ours.labels(2)) == (("red", "blue"), ("colour 2", "colour 1"))
    with pytest.raises(RamifyError, match="no class 'colour 2' at level 1"):
        ours.partial_fit(TOY.images[:1], [{1: "colour 2"}])
    assert ours.samples == 4


def test_every_kind_of_list_and_level():
    for labels in ([None, "a"], (None, "a"), np.array([None, "a"], object), iter([None, "a"])):
        assert learner().partial_fit(TOY.images[:2], labels, 2).labels(2) == ("a",)
    for level in ([1, 2], (1, 2), np.array([1, 2]), torch.tensor([1, 2])):
        assert learner().partial_fit(TOY.images[:2], [None, "a"], level).labels(2) == ("a",)
    assert learner().partial_fit(TOY.images[:2], [{np.int64(2): np.int64(7)}, None]).labels(2) == (7,)


WRONG = {
    "two kinds": ([{1: "a"}, {1: 3}], None, "one kind"),
    "two kinds in a table": ([{1: "a", 2: 3}, None], None, "one kind"),
    "level 0": ([{0: "a"}, None], None, "count from 1"),
    "a text for a level": ([{"1": "a"}, None], None, "count from 1"),
    "a truth for a level": ([{True: "a"}, None], None, "count from 1"),
    "a label that is none": ([{1: None}, None], None, "NoneType; labels must be strings or integers"),
    "a list of labels": ([{1: ["a"]}, None], None, "strings or integers"),
    "an empty label": ([{1: ""}, None], None, "is empty"),
    "a list around the tables": ([[{1: "a"}], None], None, "strings or integers"),
    "one table for all": ({1: "a", 2: "b"}, None, "give a list"),
    "no level for the plain one": ([{1: "a"}, "b"], None, "level is missing"),
    "too few levels": ([{1: "a"}, "b"], [2], "1 level for 2 labels"),
    "too many levels": ([{1: "a"}, None], [1, 2, 3], "3 levels for 2 labels"),
    "too few tables": ([{1: "a"}], None, "2 images and 1 label were"),
}


@pytest.mark.parametrize("name", WRONG)
def test_refuses_in_one_line_and_learns_nothing(name):
    labels, level, expected = WRONG[name]
    ours = learner()
    with pytest.raises(RamifyError, match=expected) as caught:
        ours.partial_fit(TOY.images[:2], labels, level)
    assert "\n" not in str(caught.value)
    assert (ours.samples, ours.levels) == (0, ())
