"""Calibration, reliability and selective answers, against scikit-learn, scipy and brute force."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from ramify.errors import RamifyError
from ramify.evaluation.calibration import (
    area_under_risk_coverage,
    deepest,
    expected_calibration_error,
    fit_calibration,
    level_sureness,
    reliability,
    risk_coverage,
    stops,
    sureness,
)

seeds = st.integers(0, 2**32)
quick = settings(max_examples=60)


def made(seed: int, n: int, slope: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities of which logit(right) is `slope` times their own."""
    rng = np.random.default_rng(seed)
    logit = rng.normal(0.5, 2, n)
    right = rng.random(n) < 1 / (1 + np.exp(-slope * logit))
    return 1 / (1 + np.exp(-logit)), right


@quick
@given(seeds, st.integers(1, 300), st.integers(1, 15))
def test_reliability_and_ece_are_brute_force(seed: int, n: int, bins: int) -> None:
    probability, right = made(seed, n)
    groups: dict[int, list[int]] = {}
    for i, p in enumerate(probability):
        groups.setdefault(min(int(p * bins), bins - 1), []).append(i)
    found = reliability(probability, right, bins)
    assert [b.count for b in found] == [len(groups[b]) for b in sorted(groups)]
    assert [b.accuracy for b in found] == pytest.approx([right[groups[b]].mean() for b in sorted(groups)])
    gap = sum(len(g) * abs(right[g].mean() - probability[g].mean()) for g in groups.values()) / n
    assert expected_calibration_error(probability, right, bins) == pytest.approx(gap)


@settings(max_examples=20)
@given(seeds, st.floats(0.2, 3.0))
def test_the_fit_is_the_maximum_that_scipy_finds(seed: int, slope: float) -> None:
    probability, right = made(seed, 200, slope)
    hits = right.sum()
    target = np.where(right, (hits + 1) / (hits + 2), 1 / (len(right) - hits + 2))
    logit = np.log(probability / (1 - probability))

    def loss(w: np.ndarray) -> float:
        z = w[0] * logit + w[1]
        return float((np.logaddexp(0, z) - target * z).sum() + 0.5e-3 * (w**2).sum())

    best = minimize(loss, np.zeros(2), tol=1e-12)
    found = fit_calibration(probability, right)
    assert loss(np.array([found.slope, found.shift])) <= best.fun + 1e-6


def test_what_was_too_sure_is_calibrated_on_fresh_answers() -> None:
    probability, right = made(0, 2000, slope=0.4)
    fresh, truth = made(1, 20000, slope=0.4)
    before = expected_calibration_error(fresh, truth)
    after = expected_calibration_error(fit_calibration(probability, right)(fresh), truth)
    assert before > 0.1
    assert after < 0.025


@quick
@given(seeds, st.integers(1, 120))
def test_the_fit_never_falls_and_never_promises_all(seed: int, n: int) -> None:
    rng = np.random.default_rng(seed)
    probability, right = rng.random(n), rng.random(n) < rng.random()
    values = fit_calibration(probability, right)(np.linspace(0, 1, 50))
    assert (np.diff(values) >= 0).all()
    assert 0 < values.min() <= values.max() < 1


@quick
@given(seeds, st.integers(1, 80))
def test_risk_and_coverage_are_those_of_every_threshold(seed: int, n: int) -> None:
    rng = np.random.default_rng(seed)
    confidence, right = rng.integers(0, 6, n) / 5, rng.random(n) < 0.7  # with ties
    coverage, risk = risk_coverage(confidence, right)
    thresholds = sorted(set(confidence.tolist()), reverse=True)
    for t, c, r in zip(thresholds, coverage, risk, strict=True):
        assert c == pytest.approx((confidence >= t).mean())
        assert r == pytest.approx((~right[confidence >= t]).mean())


@quick
@given(seeds, st.integers(1, 60), st.integers(1, 4))
def test_the_area_of_each_level_is_that_of_a_loop_over_images(seed: int, n: int, levels: int) -> None:
    """With ties, images without an answer and paths that end early."""
    rng = np.random.default_rng(seed)
    truth, said = rng.integers(-1, 3, (n, levels)), rng.integers(-1, 3, (n, levels))
    probability = np.where(said >= 0, rng.integers(1, 6, (n, levels)) / 5, np.nan)
    found = level_sureness(*sureness(said, truth, probability))
    for level in range(levels):
        images = [i for i in range(n) if truth[i, level] >= 0]
        sure = {i: probability[i, level] if said[i, level] >= 0 else 0 for i in images}
        risks = []
        for i in images:
            answered = [j for j in images if sure[j] >= sure[i]]
            risks.append(sum(said[j, level] != truth[j, level] for j in answered) / len(answered))
        if any(sure.values()):
            assert area_under_risk_coverage(*found[level + 1]) == pytest.approx(sum(risks) / len(risks))
        else:
            assert level + 1 not in found
    assert area_under_risk_coverage(np.empty(0), np.empty(0, bool)) is None


@quick
@given(seeds, st.integers(1, 40), st.integers(1, 4), st.floats(0.05, 0.95))
def test_answers_stop_where_a_loop_over_levels_stops(seed: int, n: int, levels: int, demand: float) -> None:
    rng = np.random.default_rng(seed)
    confidence = np.where(rng.random((n, levels)) < 0.1, np.nan, rng.random((n, levels)))
    right = rng.random((n, levels)) < 0.6
    depth, hits = [], []
    for row in range(n):
        sure = [k for k in range(levels) if confidence[row, k] >= demand]
        depth.append(max(sure) + 1 if sure else 0)
        hits += [right[row, max(sure)]] if sure else []
    assert deepest(confidence, demand).tolist() == depth
    (stop,) = stops(confidence, right, demand)
    assert stop.depth == pytest.approx(np.mean(depth))
    assert stop.answered == pytest.approx(len(hits) / n)
    assert stop.accuracy == (pytest.approx(np.mean(hits)) if hits else None)


def test_what_is_no_probability_is_refused() -> None:
    with pytest.raises(RamifyError, match="between 0 and 1"):
        fit_calibration(np.array([1.5]), np.array([True]))
    with pytest.raises(RamifyError, match="probabilities for"):
        reliability(np.array([0.5, 0.5]), np.array([True]))
    with pytest.raises(RamifyError, match="levels"):
        stops(np.zeros((2, 2)), np.zeros((2, 3), bool), 0.5)
