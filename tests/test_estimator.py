"""HierarchicalClassifier: scikit-learn's own checks, and label paths."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import KFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from ramify import HierarchicalClassifier, RamifyError
from ramify.evaluation.hierarchical import hierarchical_f1


@pytest.mark.filterwarnings("ignore")
@parametrize_with_checks([HierarchicalClassifier()])  # none is left out
def test_scikit_learns_checks(estimator, check):
    check(estimator)


def made(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Two groups of two clusters each; labels are group and cluster."""
    rng = np.random.default_rng(seed)
    leaf = rng.integers(4, size=n)
    centres = np.array([[0, 0, 4], [0, 2, 4], [4, 0, 0], [4, 2, 0]], float)
    return centres[leaf] + rng.normal(0, 0.3, (n, 3)), np.stack([leaf // 2, 10 + leaf], 1)


@pytest.mark.parametrize(("method", "passes"), [("slda", 1), ("er", 4)])
def test_paths_are_learned_also_where_levels_are_not_known(method, passes):
    X, y = made(400)
    part = y.copy()
    rng = np.random.default_rng(1)
    part[rng.random(400) < 0.4, 1] = -1
    part[rng.random(400) < 0.2, 0] = -1
    ours = HierarchicalClassifier(method, passes=passes).fit(X, part)
    fresh, truth = made(200, 7)
    assert [c.tolist() for c in ours.classes_] == [[0, 1], [10, 11, 12, 13]]
    said = ours.predict(fresh)
    assert said.shape == (200, 2)
    assert said.dtype == np.int64
    assert ours.score(fresh, truth) > 0.9
    assert ((said[:, 1] - 10) // 2 == said[:, 0]).all()  # a path
    places = np.stack([said[:, 0], said[:, 1] - 10], 1)
    assert hierarchical_f1(places, np.stack([truth[:, 0], truth[:, 1] - 10], 1)) > 0.95
    by_level = ours.predict_proba(fresh)
    assert [p.shape for p in by_level] == [(200, 2), (200, 4)]
    for p in by_level:
        np.testing.assert_allclose(p.sum(1), 1)
    unknown = [[None, None], *np.where(part == -1, None, part).tolist()[1:]]
    assert (HierarchicalClassifier().fit(X, unknown).predict(fresh)[:, 0] == truth[:, 0]).mean() > 0.9


def test_a_list_of_paths_may_be_of_unlike_length():
    X, y = made(120)
    whole = [("plant", None) if a == 0 else ("animal", f"c{b}") for a, b in y.tolist()]
    short = [tuple(name for name in path if name is not None) for path in whole]
    one, other = (HierarchicalClassifier().fit(X, paths) for paths in (whole, short))
    np.testing.assert_array_equal(one.predict(X), other.predict(X))
    assert one.score(X, short) == one.score(X, whole) > 0.9
    folds = KFold(3, shuffle=True, random_state=0)
    assert cross_val_score(one, X, short, cv=folds).mean() > 0.9


@pytest.mark.parametrize("unknown", [-1, None, float("nan"), "", -1.0])
@pytest.mark.parametrize("names", [("fruit", "tools"), (0, 1), (0.0, 2.0)])
def test_what_is_unknown_is_no_label(unknown, names):
    fruit, tools = names
    X = np.random.default_rng(0).normal(size=(60, 8)) + np.arange(60)[:, None] % 3
    y = [(fruit, "apple"), (fruit, "pear"), (tools, unknown)] * 20
    model = HierarchicalClassifier().fit(X, y)
    assert [own.tolist() for own in model.classes_] == [list(names), ["apple", "pear"]]
    assert model.predict(X).shape == (60, 2)


def test_a_level_that_is_left_out_of_a_path_parts_it_not():
    X = np.random.default_rng(0).normal(size=(60, 8)) + np.arange(60)[:, None] % 3 * 9
    y = [("fruit", "apple", "a1"), ("fruit", None, "a2"), ("tools", "saw", "s1")] * 20
    model = HierarchicalClassifier(decode="path").fit(X, y)
    assert model.predict(X[:3]).tolist() == [list(path) for path in y[:3]]
    assert model.score(X, y) == 1


def test_names_are_labels_and_levels_and_labels_may_come_later():
    X, y = made(300)
    names = np.array([["plant", "animal"][a] for a in y[:, 0]])
    ours = HierarchicalClassifier().partial_fit(X[:150], names[:150])
    assert ours.predict(X[:3]).shape == (3,)
    paths = [[a, f"leaf {b}"] for a, b in zip(names[150:], y[150:, 1], strict=True)]
    for _ in range(8):
        ours.partial_fit(X[150:], paths)
    said = ours.predict(X[150:])
    assert [len(c) for c in ours.classes_] == [2, 4]
    assert (said == np.array(paths, object)).all(1).mean() > 0.9


def test_it_works_in_a_pipeline_and_in_cross_validation():
    X, y = made(240)
    piped = make_pipeline(StandardScaler(), HierarchicalClassifier())
    assert cross_val_score(piped, 100 * X, y, cv=3).mean() > 0.9
    assert cross_val_score(piped, 100 * X, y[:, 1], cv=3).mean() > 0.9
    assert clone(piped).get_params()["hierarchicalclassifier__lr"] == 0.01


def test_copies_go_on_alike():
    X, y = made(200)
    ours = HierarchicalClassifier("er", passes=2).fit(X, y)
    again = pickle.loads(pickle.dumps(ours))
    for one in (ours, again):
        one.partial_fit(X[:50], y[:50])
    for a, b in zip(ours.predict_proba(X), again.predict_proba(X), strict=True):
        np.testing.assert_array_equal(a, b)
    same = HierarchicalClassifier("er", passes=2).fit(X, y).partial_fit(X[:50], y[:50])
    np.testing.assert_array_equal(same.predict(X), ours.predict(X))


@pytest.mark.parametrize(
    ("given", "y", "words"),
    [
        ({"decode": "pth"}, ["a", "b"], "decode is 'pth'; use one of heads, path"),
        ({"passes": 0}, ["a", "b"], "passes"),
        ({}, [("a", 1), ("b", "2")], "labels of level 2 are text and other values"),
    ],
)
def test_what_cannot_be_meant_is_refused_before_anything_is_learned(given, y, words):
    with pytest.raises((RamifyError, ValueError), match=words):
        HierarchicalClassifier(**given).fit(np.eye(2), y)


def test_mistakes_are_told():
    X, y = made(20)
    with pytest.raises(RamifyError, match="oracle does not learn"):
        HierarchicalClassifier("oracle").fit(X, y)
    with pytest.raises(ValueError, match="give a path for each"):
        HierarchicalClassifier().fit(X, y[:-1])
    with pytest.raises(RamifyError, match="decode is 'nowhere'"):
        HierarchicalClassifier(decode="nowhere", passes=1).fit(X, y).predict(X)
