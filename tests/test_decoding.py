"""The ways to read an answer, against slow and obvious restatements, and what a run writes of them."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import load_file

from ramify import Learner, RamifyError
from ramify.classes import Classes
from ramify.datasets import load_dataset
from ramify.hierarchy import DECODINGS, Ties, ancestors_in, decode
from ramify.hierarchy.decode import OTHERS
from ramify.methods.checks import SIZE, Toy
from ramify.runs.config import Config
from ramify.runs.folder import RunFolder
from ramify.runs.run import Run
from ramify.taxonomy import Taxonomy
from strategies import trees
from tiny_runs import tiny

MANY = settings(max_examples=80)
IMAGES = 4


def meet(pairs) -> Classes:
    classes = Classes()
    for level, label in pairs:
        classes.meet(level, label, 0)
    return classes


def nodes(tree: Taxonomy) -> list[tuple[int, str]]:
    return [(h, name) for h in range(1, tree.depth + 1) for name in tree.names(h)]


def made_up(classes: Classes, rng: np.random.Generator) -> np.ndarray:
    """Log-probabilities [images, classes], a softmax on each level."""
    log = rng.normal(scale=2.0, size=(IMAGES, len(classes)))
    for level in classes.levels:
        rows = classes.of_level(level)
        log[:, rows] -= np.log(np.exp(log[:, rows]).sum(1, keepdims=True))
    return log


@st.composite
def answers(draw, every=False, found=False):
    """Classes met of a tree in some order, log-probabilities, and the ancestors by the tree or by votes."""
    tree = draw(trees(max_depth=3))
    chosen = nodes(tree)
    if not every:
        chosen = draw(st.lists(st.sampled_from(chosen), min_size=1, unique=True))
    classes = meet(draw(st.permutations(chosen)))
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    ancestors = ancestors_in(tree, classes)
    if found or draw(st.booleans()):
        shape = (len(classes),) * 2
        votes = rng.integers(0, 4, shape) * (rng.random(shape) < draw(st.floats(0, 1)))
        ancestors = Ties.by_votes(classes, votes).ancestors()
    return tree, classes, made_up(classes, rng), ancestors


# ---- restatements: one image, one class at a time, probabilities multiplied


def lineage(classes: Classes, ancestors: np.ndarray, cls: int) -> dict[int, int | None]:
    """Level → the class's ancestor there, itself at its own, None where it is not known; no finer levels."""
    own = int(classes.level_of[cls])
    line = {h: int(ancestors[cls, k]) for k, h in enumerate(classes.levels) if h <= own}
    return {h: None if c < 0 else c for h, c in line.items()}


def scores_heads(classes, p, ancestors, level):
    return {int(c): p[c] for c in classes.of_level(level)}


def scores_crm(classes, p, ancestors, level):
    """Minus the expected height of the lowest common ancestor: levels that two classes do not share."""
    rows = [int(c) for c in classes.of_level(level)]
    scores = {}
    for one in rows:
        cost = 0.0
        for other in rows:
            if one != other:
                a, b = lineage(classes, ancestors, one), lineage(classes, ancestors, other)
                cost += p[other] * sum(a[h] is None or a[h] != b[h] for h in a)
        scores[one] = -cost
    return scores


def scores_joint(classes, p, ancestors, level):
    scores = {}
    rivals = [int(c) for c in classes.of_level(level)]
    for cls in rivals:
        line, score = lineage(classes, ancestors, cls), 1.0
        for h in classes.levels:
            members = [int(c) for c in classes.of_level(h)]
            share = 1.0 if h == level else OTHERS
            if h <= level:
                score *= (1 / len(members) if line[h] is None else p[line[h]]) ** share
            else:
                below = [c for c in members if lineage(classes, ancestors, c)[level] == cls]
                score *= (sum(p[c] for c in below) if below else 1 / len(rivals)) ** share
        scores[cls] = score
    return scores


BY_LEVEL = {"heads": scores_heads, "crm": scores_crm, "joint": scores_joint}


def all_paths(classes, p, ancestors):
    """Every path to a class below which there is none, and the geometric mean of its probabilities."""
    found = {}
    for cls in range(len(classes)):
        others = (lineage(classes, ancestors, c) for c in range(len(classes)) if c != cls)
        if any(cls in line.values() for line in others):
            continue
        line = lineage(classes, ancestors, cls)
        factors = [1 / len(classes.of_level(h)) if c is None else p[c] for h, c in line.items()]
        row = [-1 if line.get(h) is None else line[h] for h in classes.levels]
        found[tuple(row)] = math.prod(factors) ** (1 / len(factors))
    return found


@MANY
@given(answers(), st.sampled_from(sorted(BY_LEVEL)))
def test_a_level_is_read_as_restated(case, way):
    _, classes, log, ancestors = case
    chosen = decode(way, classes, log, ancestors)
    assert chosen.shape == (IMAGES, len(classes.levels))
    for row, p in zip(chosen, np.exp(log), strict=True):
        for column, level in enumerate(classes.levels):
            scores = BY_LEVEL[way](classes, p, ancestors, level)
            best = max(scores.values())
            assert scores[int(row[column])] == pytest.approx(best, rel=1e-9, abs=1e-12)


@MANY
@given(answers())
def test_the_path_is_the_most_probable_of_all(case):
    _, classes, log, ancestors = case
    for row, p in zip(decode("path", classes, log, ancestors), np.exp(log), strict=True):
        paths = all_paths(classes, p, ancestors)
        assert paths[tuple(row)] == pytest.approx(max(paths.values()), rel=1e-9)


@MANY
@given(answers())
def test_up_is_the_finest_answer_and_its_ancestors(case):
    _, classes, log, ancestors = case
    finest = classes.levels[-1]
    for row, p in zip(decode("up", classes, log, ancestors), np.exp(log), strict=True):
        leaf = max(map(int, classes.of_level(finest)), key=lambda c: p[c])
        line = lineage(classes, ancestors, leaf)
        assert row.tolist() == [-1 if line[h] is None else line[h] for h in classes.levels]


# ---- properties


@MANY
@given(answers(every=True), st.data())
def test_sure_heads_that_agree_are_read_alike_by_all(case, data):
    tree, classes, _, _ = case
    log = np.full((IMAGES, len(classes)), -np.inf)
    truth = np.full((IMAGES, tree.depth), -1)
    for i in range(IMAGES):
        names = tree.path(data.draw(st.integers(0, tree.leaves - 1)))
        truth[i] = [classes.find(h, name) for h, name in enumerate(names, 1)]
        log[i, truth[i]] = 0.0
    for way in DECODINGS:
        with np.errstate(invalid="ignore"):
            np.testing.assert_array_equal(decode(way, classes, log, ancestors_in(tree, classes)), truth, way)


@MANY
@given(answers(), st.sampled_from(["path", "up"]))
def test_path_and_up_lie_on_one_path(case, way):
    """Each answer is on the line of the finest one, and none of that line is left out."""
    _, classes, log, ancestors = case
    for row in decode(way, classes, log, ancestors):
        end = int(row[row >= 0][-1])
        line = lineage(classes, ancestors, end)
        assert {int(c) for c in row if c >= 0} == {c for c in line.values() if c is not None}


@MANY
@given(answers(every=True))
def test_of_a_whole_tree_path_and_up_are_whole_paths(case):
    tree, classes, log, _ = case
    paths = {tree.path(leaf) for leaf in range(tree.leaves)}
    for way in ("path", "up"):
        for row in decode(way, classes, log, ancestors_in(tree, classes)):
            assert tuple(classes.labels[c] for c in row) in paths


@MANY
@given(st.integers(1, 8), st.integers(0, 10**6), st.sampled_from(sorted(DECODINGS)))
def test_with_one_level_all_are_the_heads(count, seed, way):
    classes = meet((2, f"{i}") for i in range(count))
    log = made_up(classes, np.random.default_rng(seed))
    own = np.arange(count)[:, None]
    np.testing.assert_array_equal(decode(way, classes, log, own), decode("heads", classes, log, own))


@MANY
@given(answers())
def test_every_answer_is_of_its_level(case):
    _, classes, log, ancestors = case
    for way in DECODINGS:
        chosen = decode(way, classes, log, ancestors)
        for column, level in enumerate(classes.levels):
            met = chosen[:, column][chosen[:, column] >= 0]
            assert set(met.tolist()) <= set(classes.of_level(level).tolist())
            assert len(met) == IMAGES or way in ("path", "up")


def test_heads_that_are_sure_and_contradict_each_other_are_read_by_all():
    """Probabilities of 0: logarithms of -inf must not become a wrong answer or a failure."""
    tree = Taxonomy.from_rows([("a", "x"), ("a", "y"), ("b", "z")])
    classes = meet(nodes(tree))
    log = np.full((1, len(classes)), -np.inf)
    log[0, [classes.find(1, "b"), classes.find(2, "x")]] = 0.0
    for way in DECODINGS:
        with np.errstate(invalid="ignore"):
            chosen = decode(way, classes, log, ancestors_in(tree, classes))
        assert (chosen >= 0).all()


def test_an_unknown_way_is_refused():
    classes = meet([(1, "a")])
    with pytest.raises(RamifyError, match="no decoding 'best'; use heads, path, crm, up, joint"):
        decode("best", classes, np.zeros((1, 1)), np.zeros((1, 1), np.int64))


# ---- the learner and a run


def test_a_learner_reads_its_answers_in_every_way():
    toy = Toy.stream(80)
    ours = Learner("er", image_size=SIZE, memory_size=24, network="ramify.methods.checks:ToyNetwork", lr=1e-2)
    ours.partial_fit(toy.images, toy.labels, toy.levels)
    trainer = ours._trainer
    log = trainer.log_probabilities(toy.images)
    names = np.array([*trainer.classes.labels, None], object)
    for way in DECODINGS:
        said = ours.predict(toy.images, decode=way)
        expected = names[decode(way, trainer.classes, log, trainer.ties().ancestors())]
        assert [list(said[i].values()) for i in range(len(said))] == expected.tolist()
    plain, path = ours.predict(toy.images), ours.predict(toy.images, consistent=True)
    assert plain.labels == ours.predict(toy.images, decode="heads").labels
    assert path.labels == ours.predict(toy.images, decode="path").labels
    for wrong in ({"decode": "best"}, {"decode": "up", "consistent": True}):
        with pytest.raises(RamifyError, match="use one of heads, path, crm, up, joint"):
            ours.predict(toy.images, **wrong)


def ended(config: Config, out: Path) -> Run:
    """A run that has come to its end, with its files below `out`."""
    run, folder = Run(config, load_dataset("garden", image_size=8), "cpu"), RunFolder(out)
    out.mkdir()
    folder.begin(run, None, {"data_dir": None, "checkpoint_every": 300.0})
    run.go(folder)
    return run


@pytest.mark.parametrize("method", ["pl-fms", "bic", "gdumb"])
def test_a_result_has_every_reading_of_the_last_answers(method, tmp_path):
    run = ended(tiny(method), tmp_path / "run")
    written = json.loads((tmp_path / "run" / "result.json").read_text())
    trainer, tree, truth = run.trainer, run.evaluator.tree, run.evaluator.truth
    classes, log = trainer.classes, trainer.log_probabilities(run.dataset.test.images)
    labels = np.array([*classes.labels, -1])
    stored = trainer.memory.batch(np.arange(trainer.memory.size))
    votes = np.zeros((len(classes),) * 2, np.int64)  # of the trained network about its memory
    for cls, row in zip(stored.classes, trainer.levels.predict(trainer.look(stored.inputs)), strict=True):
        for said in row[row >= 0]:
            votes[cls, said] += 1
    found, true = Ties.by_votes(classes, votes).ancestors(), ancestors_in(tree, classes, by_index=True)
    expected = {}
    for way in DECODINGS:
        for name, ancestors in ((way, found), (f"{way}, true tree", true)):
            if name == "heads, true tree":
                continue
            said = labels[decode(way, classes, log, ancestors)]
            expected[name] = {
                str(level): float((said[:, column] == truth[:, level - 1]).mean())
                for column, level in enumerate(classes.levels)
            }
    assert written["decoded"].keys() == expected.keys()
    for name, accuracy in expected.items():
        assert written["decoded"][name] == pytest.approx(accuracy), name
    assert written["decoded"]["heads"] == written["final_accuracy"]
    assert RunFolder(tmp_path / "run").result().decoded == written["decoded"]


@pytest.mark.parametrize("way", ["path", "joint"])
def test_the_figures_are_of_the_way_that_was_asked_for(way, tmp_path):
    run = ended(tiny("er", decode=way), tmp_path / "run")
    plain = ended(tiny("er"), tmp_path / "plain")
    result, other = (RunFolder(tmp_path / name).result() for name in ("run", "plain"))
    assert result.decoded == other.decoded  # the same answers
    assert result.final_accuracy == result.decoded[way]
    assert other.final_accuracy == result.decoded["heads"]
    saved = load_file(tmp_path / "run" / "predictions.safetensors")
    classes = run.trainer.classes
    said = run.trainer.answer(run.dataset.test.images, [way], run.evaluator.tree)[way]
    expected = np.array([*classes.labels, -1])[said]
    np.testing.assert_array_equal(saved["predictions"][:, [h - 1 for h in classes.levels]], expected)
    assert plain.trainer.updates == run.trainer.updates
    with pytest.raises(RamifyError, match="decode is 'best'; it must be one of heads, path"):
        Config(decode="best")
