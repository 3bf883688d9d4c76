"""The ways to read an answer, against slow and obvious restatements, and what a run writes of them."""

from __future__ import annotations

import itertools
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
from ramify.hierarchy.decode import STRAY
from ramify.hierarchy.ends import COARSER, FINER, answer_ends
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
    tree = draw(trees(max_depth=3) | trees(max_depth=3, uneven=True))
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
            share = 1.0 if h == level else COARSER if h < level else FINER
            if h <= level:
                score *= (1 / len(members) if line[h] is None else p[line[h]]) ** share
            else:
                below = [c for c in members if lineage(classes, ancestors, c)[level] == cls]
                score *= (sum(p[c] for c in below) if below else 1 / len(rivals)) ** share
        scores[cls] = score
    return scores


BY_LEVEL = {"heads": scores_heads, "crm": scores_crm}


def choices(classes, p, ancestors):
    """Every choice of one class a level, and the product of scores, less for each that has another parent."""
    scores = [scores_joint(classes, p, ancestors, level) for level in classes.levels]
    found = {}
    for row in itertools.product(*scores):
        lines = [lineage(classes, ancestors, c) for c in row]
        strays = sum(
            lines[k][classes.levels[k - 1]] != row[k - 1] for k in range(1, len(row))
        )  # None is nobody's child
        found[row] = math.prod(score[c] for score, c in zip(scores, row, strict=True)) * math.exp(
            -STRAY * strays
        )
    return found


def end(classes, p, ancestors):
    """The column at which an answer ends: of the first level whose best class has none below it."""
    lines = {c: lineage(classes, ancestors, c) for c in range(len(classes))}
    inner = {a for c, line in lines.items() for a in line.values() if a is not None and a != c}
    met = {h: [int(c) for c in classes.of_level(h)] for h in classes.levels}

    def doubt(h):
        """How probably one of the level's classes is an ancestor of a leaf whose ancestor is not known."""
        lost = [c for c in lines if c not in inner and h in lines[c] and lines[c][h] is None]
        return 1 - (1 - 1 / len(met[h])) ** len(lost)

    def kept(c):
        """The mass that ends at a class, of what reaches its level."""
        return 0.0 if c in inner else p[c] * (1 - doubt(int(classes.level_of[c])))

    def mass(cls, level, finer):
        """What the head of a finer level says of a class of `level` (None: of the unknown)."""
        total, reached = 0.0, 1.0
        for h in classes.levels:
            if h < level:
                continue
            mine = [c for c in met[h] if lines[c].get(level) == cls and (cls is not None or h > level)]
            if h == finer:
                return total + reached * sum(p[c] for c in mine)
            total += reached * sum(kept(c) for c in mine)
            reached *= sum(p[c] - kept(c) for c in met[h])
        raise AssertionError

    def above(line, level):
        return math.prod(1 / len(met[h]) if a is None else p[a] for h, a in line.items() if h < level)

    for column, level in enumerate(classes.levels[:-1]):
        scores = {}
        for cls in met[level]:
            scores[cls] = p[cls] * above(lines[cls], level) ** COARSER
        lost = [c for c in lines if level in lines[c] and lines[c][level] is None]
        if lost:
            scores[None] = max(above(lines[c], level) for c in lost) ** COARSER / len(met[level])
        for cls in scores:
            for finer in classes.levels[column + 1 :]:
                scores[cls] *= max(mass(cls, level, finer), np.finfo(float).tiny) ** FINER
        best = max(scores, key=lambda cls: scores[cls])
        if best is not None and best not in inner:
            return column
    return len(classes.levels) - 1


def all_paths(classes, p, ancestors):
    """Every path to a class below which there is none, of the right length, and its probability."""
    found, column = {}, end(classes, p, ancestors)
    for cls in range(len(classes)):
        others = (lineage(classes, ancestors, c) for c in range(len(classes)) if c != cls)
        if any(cls in line.values() for line in others):
            continue
        line = lineage(classes, ancestors, cls)
        if len(line) != column + 1:
            continue
        factors = [1 / len(classes.of_level(h)) if c is None else p[c] for h, c in line.items()]
        row = [-1 if line.get(h) is None else line[h] for h in classes.levels]
        found[tuple(row)] = math.prod(factors)
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
def test_joint_is_the_best_of_all_choices(case):
    _, classes, log, ancestors = case
    for row, p in zip(decode("joint", classes, log, ancestors), np.exp(log), strict=True):
        scores = choices(classes, p, ancestors)
        assert scores[tuple(int(c) for c in row)] == pytest.approx(max(scores.values()), rel=1e-9)


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
    for row, p in zip(decode("up", classes, log, ancestors), np.exp(log), strict=True):
        paths = list(all_paths(classes, p, ancestors))
        assert tuple(row) == max(paths, key=lambda path: p[[c for c in path if c >= 0][-1]])


@MANY
@given(trees(min_depth=2, uneven=True) | trees(min_depth=2), st.integers(0, 10**6))
def test_with_heads_that_are_right_an_answer_ends_by_the_masses_of_classes(tree, seed):
    """Heads from one distribution over leaves: nothing but the probabilities of classes decides."""
    rows = [tree.path(leaf) for leaf in range(tree.leaves) if not tree.leaf_open[leaf]]
    leaves = np.random.default_rng(seed).dirichlet(np.full(len(rows), 0.5), IMAGES) + 1e-9
    classes = meet(nodes(tree))
    log, whole = np.empty((IMAGES, len(classes))), np.empty((IMAGES, len(classes)))
    for cls, (level, name) in enumerate(nodes(tree)):
        mine = [len(row) >= level and row[level - 1] == name for row in rows]
        whole[:, cls] = leaves[:, mine].sum(1)
        log[:, cls] = np.log(whole[:, cls] / leaves[:, [len(row) >= level for row in rows]].sum(1))
    ancestors = ancestors_in(tree, classes)
    ends = answer_ends(log, ancestors)
    for image in range(IMAGES):
        for column, level in enumerate(classes.levels):

            def score(cls, column=column, image=image):
                above = math.prod(whole[image, a] for a in ancestors[cls, :column]) ** COARSER
                return above * whole[image, cls] ** (1 + FINER * (len(classes.levels) - 1 - column))

            best = max(map(int, classes.of_level(level)), key=score)
            if classes.labels[best] in {row[-1] for row in rows if len(row) == level}:
                break
        assert ends[image] == column


def test_a_class_without_children_is_not_favoured():
    """Noisy heads, the finer the noisier: of images that go on few end early, of those that end most do."""
    rng = np.random.default_rng(0)
    rows = [(f"{i}", f"{i}.{j}") for i in range(5) for j in range(20)] + [(f"end {i}",) for i in range(5)]
    tree = Taxonomy.from_rows(rows)
    classes = meet(nodes(tree))
    ancestors, n = ancestors_in(tree, classes), 2000
    truth = rng.integers(10, size=n)  # of level 1; the last five have no children
    log = rng.normal(size=(n, len(classes)))
    log[np.arange(n), truth] += 3.0
    log[np.arange(n), 10 + 20 * (truth % 5) + rng.integers(20, size=n)] += np.where(truth < 5, 2.0, 0.0)
    for level in classes.levels:
        own = classes.of_level(level)
        log[:, own] -= np.logaddexp.reduce(log[:, own], axis=1, keepdims=True)
    said = decode("path", classes, log, ancestors)
    early = said[:, 1] < 0
    # The same by the mean of the log-probabilities on each path, whatever its length
    best = log[:, 10:].reshape(n, 5, 20).max(2)
    before = log[:, 5:10].max(1) > ((log[:, :5] + best) / 2).max(1)
    assert before[truth < 5].mean() > 2 * early[truth < 5].mean()
    assert early[truth < 5].mean() < 0.12
    assert early[truth >= 5].mean() > 0.88
    right = said[:, 0] == truth
    assert abs(right[truth < 5].mean() - right[truth >= 5].mean()) < 0.05


# ---- properties


@MANY
@given(answers(every=True), st.data())
def test_sure_heads_that_agree_are_read_alike_by_all(case, data):
    tree, classes, _, _ = case
    log = np.full((IMAGES, len(classes)), -np.inf)
    truth = np.full((IMAGES, tree.depth), -1)
    for i in range(IMAGES):
        closed = np.flatnonzero(~tree.leaf_open).tolist()
        names = tree.path(data.draw(st.sampled_from(closed)))
        truth[i, : len(names)] = [classes.find(h, name) for h, name in enumerate(names, 1)]
        log[i, truth[i, : len(names)]] = 0.0
        for h in range(len(names) + 1, tree.depth + 1):  # a head that was never asked about it
            log[i, classes.of_level(h)] = -np.log(tree.sizes[h - 1])
    for way in DECODINGS:
        with np.errstate(invalid="ignore"):
            said = decode(way, classes, log, ancestors_in(tree, classes))
        if way not in ("path", "up"):  # the others answer at every level
            said = np.where(truth >= 0, said, -1)
        np.testing.assert_array_equal(said, truth, way)


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
    paths = {tree.path(leaf) for leaf in np.flatnonzero(~tree.leaf_open)}
    for way in ("path", "up"):
        for row in decode(way, classes, log, ancestors_in(tree, classes)):
            assert tuple(classes.labels[c] for c in row if c >= 0) in paths


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


@MANY
@given(answers(), st.data())
def test_a_class_that_has_ended_is_as_if_never_met(case, data):
    tree, classes, log, _ = case
    gone = data.draw(st.sampled_from(range(len(classes))))
    kept = np.delete(np.arange(len(classes)), gone)
    classes.end(gone)
    if not len(kept):
        return
    rest = meet((int(classes.level_of[c]), classes.labels[c]) for c in kept)
    log[:, gone] = -np.inf
    for way in DECODINGS:
        said = decode(way, classes, log, ancestors_in(tree, classes))
        as_if = decode(way, rest, log[:, kept], ancestors_in(tree, rest))
        np.testing.assert_array_equal(said, np.append(kept, -1)[as_if], way)


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
    asked = [len(truth) if one.task_end else run.config.eval_images for one in run.records]
    assert written["images_evaluation"] == sum(asked)  # one pass for all of them
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
    said = run.trainer.answer(run.dataset.test.images, {way: (way, None)})[way].classes
    expected = np.array([*classes.labels, -1])[said]
    np.testing.assert_array_equal(saved["predictions"][:, [h - 1 for h in classes.levels]], expected)
    assert plain.trainer.updates == run.trainer.updates
    with pytest.raises(RamifyError, match="decode is 'best'; it must be one of heads, path"):
        Config(decode="best")
