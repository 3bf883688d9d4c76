"""Learners in closed form: against scikit-learn, in any order and parts, with levels that help each other."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import Ridge
from sklearn.neighbors import NearestCentroid

import pretend
from ramify.change import Change
from ramify.classes import Classes
from ramify.hierarchy import Ties
from ramify.hierarchy.kin import towards_parents, with_children
from ramify.learner import Learner
from ramify.methods import METHODS, Trainer, make_settings
from ramify.methods.checks import through_a_file
from ramify.networks import FeatureInputs
from ramify.networks.closed_form import BLOCK, PENALTIES, Gathered, Moments, discriminant, ridge

CLOSED = [name for name, one in METHODS.items() if one.closed_form]
SIZE, LEAVES = 12, 6
ALONE = {"children": False, "parents": 0.0}


def data(n, seed=0, leaves=LEAVES, size=SIZE):
    """Features around the means of leaves, which lie around those of two parents."""
    rng = np.random.default_rng(seed)
    above = rng.normal(size=(2, size)) * 3
    centres = above[np.arange(leaves) % 2] + rng.normal(size=(leaves, size))
    leaf = np.concatenate([np.arange(leaves), rng.integers(leaves, size=n - leaves)])
    mixing = rng.normal(size=(size, size)) / 2
    return (centres[leaf] + rng.normal(size=(n, size)) @ mixing).astype(np.float32), leaf


def trainer(name, seed=0, size=SIZE, device="cpu", **own):
    chosen = {"ranpac": {"size": 40}, "randumb": {"size": 40}, "batch_size": 8} | own
    inputs = FeatureInputs(size)
    network = torch.nn.Identity()
    return Trainer(METHODS[name], make_settings(**chosen), inputs, seed, device, network)


def labels_of(leaf, seed=0):
    """One label at one level for most, two or none for some."""
    rng = np.random.default_rng(seed)
    both = [[(1, f"p{i % 2}"), (2, f"c{i}")] for i in leaf]
    return [
        pairs if k == 5 else [] if k == 4 else [pairs[k % 2]]
        for pairs, k in zip(both, rng.integers(6, size=len(leaf)), strict=True)
    ]


def head(one):
    """Rows and biases by level and label."""
    one.prepare()
    weights, classes = one.weights(), one.classes
    names = list(zip(classes.level_of.tolist(), classes.labels, strict=True))
    rows = torch.cat([weights["heads.weights.0"], weights["heads.biases.0"][:, None]], 1).numpy()
    return {name: rows[i] for i, name in enumerate(names)}


@pytest.mark.parametrize("name", CLOSED)
@settings(max_examples=8, deadline=None)
@given(seed=st.integers(0, 2**16), cuts=st.lists(st.integers(1, 400), max_size=4))
def test_any_order_and_any_parts_give_the_same_model(name, seed, cuts):
    x, leaf = data(400)
    labels = labels_of(leaf)
    order = np.random.default_rng(seed).permutation(len(x))
    first, other = trainer(name), trainer(name)
    first.observe(x, labels)
    bounds = [0, *sorted(cuts), len(x)]
    for start, stop in pairwise(bounds):
        other.observe(x[order[start:stop]], [labels[i] for i in order[start:stop]])
        if other.samples and len(other.classes):
            other.predict(x[:2])  # being asked changes nothing
    wanted, found = head(first), head(other)
    assert wanted.keys() == found.keys()
    scale = max(float(np.abs(row).max()) for row in wanted.values())
    for key, row in wanted.items():
        np.testing.assert_allclose(found[key], row, atol=1e-6 * scale)


def test_how_the_stream_is_cut_changes_no_bit():
    x, leaf = data(3 * BLOCK + 7)
    labels = np.stack([leaf, np.where(leaf % 3, -1, leaf + LEAVES)], 1)
    whole, parts = Gathered(), Gathered()
    whole.add(torch.from_numpy(x), labels)
    at = 0
    for step in (1, 5, 2, 300, 400, 1000):
        parts.add(torch.from_numpy(x[at : at + step]), labels[at : at + step])
        parts.moments(2 * LEAVES)
        at += step
    a, b = whole.moments(2 * LEAVES), parts.moments(2 * LEAVES)
    assert torch.equal(a.products, b.products)
    assert torch.equal(a.sums, b.sums)
    assert torch.equal(a.counts, b.counts)
    rows = np.concatenate([x, x[labels[:, 1] >= 0]]).astype(float)
    np.testing.assert_allclose(a.products.numpy(), rows.T @ rows, rtol=1e-9, atol=1e-6)


@pytest.mark.parametrize("shrinkage", [0.0, 0.2, 0.9, None])
def test_slda_is_scikit_learns_discriminant(shrinkage):
    x, leaf = data(500)
    one = trainer("slda", slda={"shrinkage": shrinkage}, kin=ALONE)
    one.observe(x, [[(1, int(i))] for i in leaf])
    moments = Moments.of(torch.from_numpy(x), leaf, LEAVES)
    away = 4 * SIZE / (500 + 4 * SIZE) if shrinkage is None else shrinkage

    # its covariance divides by n, ours by n - classes
    class Ours:
        def fit(self, rows):
            self.covariance_ = moments.covariance(shrinkage).numpy()
            return self

    oracle = LinearDiscriminantAnalysis(
        solver="lsqr", covariance_estimator=Ours(), priors=np.full(LEAVES, 1 / LEAVES)
    ).fit(x, leaf)
    pooled = sum(
        np.cov(x[leaf == i].T.astype(float), bias=True) * (leaf == i).sum() for i in range(LEAVES)
    ) / (500 - LEAVES)
    wanted = (1 - away) * pooled + away * np.trace(pooled) / SIZE * np.eye(SIZE)
    np.testing.assert_allclose(moments.covariance(shrinkage), wanted, rtol=1e-7, atol=1e-9)
    order = np.argsort(one.classes.labels)
    np.testing.assert_allclose(np.exp(one.log_probabilities(x))[:, order], oracle.predict_proba(x), atol=1e-4)
    theirs = LinearDiscriminantAnalysis(solver="lsqr").fit(x.astype(float), leaf)  # divides by n
    np.testing.assert_allclose(theirs.covariance_ * 500 / (500 - LEAVES), pooled, rtol=1e-6, atol=1e-9)


def test_ncm_is_scikit_learns_nearest_centroid():
    x, leaf = data(300)
    one = trainer("ncm")
    one.observe(x, [[(1, int(i))] for i in leaf])
    said = np.array(one.classes.labels)[one.predict(x)[:, 0]]
    assert (said == NearestCentroid().fit(x, leaf).predict(x)).all()
    assert sum(kept.nbytes for kept in one.recipe.keep.gathered.state().values()) < 20_000  # no products


def test_ridge_is_scikit_learns_with_the_penalty_of_least_generalised_error():
    x, leaf = data(200)
    targets = np.eye(LEAVES)[leaf]
    moments = Moments.of(torch.from_numpy(x), leaf, LEAVES)
    level = [np.arange(LEAVES)]
    rows, biases = ridge(moments, moments.counts, moments.sums, level)
    assert not biases.any()
    rows64 = x.astype(float)
    errors, fits = [], []
    for penalty in PENALTIES * (rows64**2).sum() / SIZE:
        fit = Ridge(penalty, fit_intercept=False).fit(rows64, targets)
        hat = rows64 @ np.linalg.solve(rows64.T @ rows64 + penalty * np.eye(SIZE), rows64.T)
        left = ((targets - fit.predict(rows64)) ** 2).sum()
        errors.append(left / (1 - np.trace(hat) / 200) ** 2)
        fits.append((fit.coef_, left / 200 / (1 - np.trace(hat) / 200) ** 2 / LEAVES))
    coefficients, variance = fits[int(np.argmin(errors))]
    np.testing.assert_allclose(rows, coefficients / variance, rtol=1e-5, atol=1e-7)


def test_levels_share_their_samples_and_their_means():
    classes = Classes()
    for level, label in ((1, "a"), (1, "b"), (2, "x"), (2, "y"), (3, "z")):
        classes.meet(level, label, 0)
    ties = Ties(classes, np.array([-1, -1, 0, 0, 3]), np.ones(5))
    rows = torch.tensor([[0.0], [8.0], [2.0], [4.0], [10.0]])
    moments = Moments.of(rows, np.arange(5), 5)
    up = with_children(moments, ties)
    assert up.counts.tolist() == [4, 1, 1, 2, 1]
    assert up.sums[:, 0].tolist() == [16, 8, 2, 14, 10]
    # level 2 goes 1 / (4/3 + 1) of the way, 4/3 the harmonic mean of 1 and 2; level 3 half of it
    wanted = [4, 8, 4 - 2 * 4 / 7, 4 + 3 * 4 / 7, (10 + 40 / 7) / 2]
    np.testing.assert_allclose(towards_parents(up, ties, 1.0)[:, 0], wanted)
    np.testing.assert_allclose(towards_parents(up, ties, 0.0), up.means)


def test_a_class_of_many_children_keeps_them():
    """Most classes of level 2 are of one parent, and some parents have none: "everybody" is taken for it."""
    rng, right = np.random.default_rng(0), []
    of = np.array([0] * 8 + [1, 2])
    for _ in range(3):
        above = rng.normal(size=(8, 32)) * 0.8
        centres = above[of] + rng.normal(size=(len(of), 32)) * 0.5
        one = trainer("slda", size=32)
        for level, means in ((1, above), (2, centres)):
            owner = np.tile(np.arange(len(means)), 30)
            x = (means[owner] + rng.normal(size=(len(owner), 32))).astype(np.float32)
            one.observe(x, [[(level, f"{level}.{i}")] for i in owner])
        parents = one.ties().parents
        for cls, level, label in one.classes:
            if level == 2:
                right.append(one.classes.labels[parents[cls]] == f"1.{of[int(label[2:])]}")
    assert np.mean(right) > 0.95


@pytest.mark.parametrize("name", ["slda", "ranpac"])
def test_coarse_classes_learn_from_samples_with_fine_labels_alone(name):
    x, leaf = data(900, seed=3)
    fresh, truth = data(2000, seed=3)
    right = {}
    for helped in (False, True):
        one = trainer(name, kin={"children": helped, "parents": 20.0 if helped else 0.0})
        pairs = [[(1, f"p{i % 2}")] if k < 12 else [(2, f"c{i}")] for k, i in enumerate(leaf)]
        one.observe(x, pairs)
        said = one.answer(fresh, {"joint": ("joint", None)})["joint"].classes
        right[helped] = np.mean(
            [one.classes.labels[c] == f"p{i % 2}" for c, i in zip(said[:, 0], truth, strict=True)]
        )
        parents = one.ties().parents
        if helped:
            assert all(
                one.classes.labels[parents[c]] == f"p{int(one.classes.labels[c][1:]) % 2}"
                for c in one.classes.of_level(2)
            )
    assert right[True] >= right[False]


@pytest.mark.parametrize("name", CLOSED)
def test_nothing_is_stored_or_trained_and_resuming_is_exact(name):
    x, leaf = data(300)
    labels = labels_of(leaf)
    one = trainer(name, memory_size=10**9)  # would not fit: no place is allocated
    one.observe(x[:205], labels[:205])
    assert one.memory.nbytes() < 5000
    assert one.updates == 0
    other = trainer(name, seed=7)
    other.restore(through_a_file(one))
    for each in (one, other):
        each.observe(x[205:], labels[205:])
    wanted, found = head(one), head(other)
    assert all(np.array_equal(wanted[key], found[key]) for key in wanted)
    labelled = sum(bool(pairs) for pairs in labels[: 300 - 300 % 8])
    assert one.cost.images_forward == labelled
    assert one.cost.images_backward == 0


@pytest.mark.parametrize("name", CLOSED)
def test_on_a_device_without_double_precision(name):
    x, leaf = data(120)
    labels = labels_of(leaf)
    with pretend.device(float64=False) as device:
        there, here = trainer(name, device=device), trainer(name)
        for one in (there, here):
            one.observe(torch.from_numpy(x), labels)
        assert np.array_equal(there.predict(x), here.predict(x))


def test_edits_of_labels_move_the_sums():
    x, leaf = data(3 * BLOCK)
    gathered, joined = Gathered(), Gathered()
    gathered.add(torch.from_numpy(x), leaf[:, None])
    into = np.array([0, 0, 2, 3, 4, 5])
    gathered.follow(Change(into, np.full(6, 1 / 6), np.empty(0, np.int64), np.empty(0, np.int64), {}))
    joined.add(torch.from_numpy(x), into[leaf][:, None])
    a, b = gathered.moments(LEAVES), joined.moments(LEAVES)
    np.testing.assert_allclose(a.sums, b.sums, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(a.covariance(0.1), b.covariance(0.1), rtol=1e-9, atol=1e-9)
    gone = np.array([-1, -1, 2, 3, 4, 5])
    gathered.follow(Change(gone, np.full(6, 1 / 6), np.empty(0, np.int64), np.empty(0, np.int64), {}))
    left = gathered.moments(LEAVES)
    assert left.counts[0] == 0
    assert torch.equal(left.means[2:], a.means[2:])
    assert (torch.linalg.eigvalsh(left.covariance(0.0)) > 0).all()


def test_first_samples_are_answered_at_once():
    learner = Learner("slda", image_size=8, network={"name": "resnet18", "width": 0.125})
    images = np.random.default_rng(0).integers(0, 256, (3, 8, 8, 3), dtype=np.uint8)
    learner.partial_fit(images, ["a", "b", "a"], level=1)
    assert set(learner.predict(images).labels[1]) <= {"a", "b"}
    assert learner.predict(images).labels[1][1] == "b"


def test_discriminant_of_one_class_is_finite():
    moments = Moments.of(torch.zeros(3, 4), np.zeros(3, np.int64), 1)
    assert all(torch.isfinite(part).all() for part in discriminant(moments.means, moments.covariance(None)))
