"""How far a probability can be trusted, and what is gained by not always answering; pure functions of arrays.

`probability` [n] is what a model gave its answers, `right` [n] whether they were.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ramify.arrays import Floats, Ints, Mask
from ramify.errors import RamifyError

BINS = 10
STEPS = 50  # of Newton's method; it takes about ten


@dataclass(frozen=True)
class Bin:
    """Answers of about the same probability."""

    probability: float
    """Their mean probability."""
    accuracy: float
    """The share of them that was right."""
    count: int


def reliability(probability: Floats, right: Mask, bins: int = BINS) -> list[Bin]:
    """The reliability curve: answers in `bins` equal ranges of their probability; empty ones are left out."""
    _check(probability, right)
    place = np.minimum((probability * bins).astype(int), bins - 1)
    return [
        Bin(float(probability[inside].mean()), float(right[inside].mean()), int(inside.sum()))
        for inside in (place == b for b in range(bins))
        if inside.any()
    ]


def expected_calibration_error(probability: Floats, right: Mask, bins: int = BINS) -> float | None:
    """ECE = Σ_b n_b/n · |accuracy_b − mean probability_b| (Naeini et al. 2015); None without answers."""
    found = reliability(probability, right, bins)
    gaps = [b.count * abs(b.accuracy - b.probability) for b in found]
    return float(sum(gaps) / len(right)) if len(right) else None


@dataclass(frozen=True)
class Calibration:
    """From a model's probability p to the share of such answers that is right: σ(slope · logit p + shift)."""

    slope: float
    shift: float

    def __call__(self, probability: npt.ArrayLike) -> Floats:
        """The calibrated probabilities; nan stays nan."""
        found: Floats = _sigmoid(self.slope * _logit(np.asarray(probability, np.float64)) + self.shift)
        return found


def fit_calibration(probability: Floats, right: Mask) -> Calibration:
    """Platt scaling of the logit of the probability, by Newton's method on the log-likelihood.

    Two parameters, so that a log of some fifty answers is enough; targets are drawn from 0 and 1 as Platt
    (1999) does, so that no probability becomes 1. The slope is at least 0: surer answers are not less right.
    """
    _check(probability, right)
    hits = float(right.sum())
    target = np.where(right, (hits + 1) / (hits + 2), 1 / (len(right) - hits + 2))
    inputs = np.stack([_logit(probability), np.ones(len(right))], 1)
    found = _newton(inputs, target)
    if found[0] < 0:
        found = np.array([0.0, _newton(inputs[:, 1:], target)[0]])
    return Calibration(float(found[0]), float(found[1]))


def _newton(inputs: Floats, target: Floats) -> Floats:
    """The weights of a logistic regression, with a little ridge so that it always has an answer."""
    weights, ridge = np.zeros(inputs.shape[1]), 1e-3 * np.eye(inputs.shape[1])
    for _ in range(STEPS):
        value = _sigmoid(inputs @ weights)
        slope = inputs.T @ (value - target) + ridge @ weights
        step = np.linalg.solve((inputs.T * (value * (1 - value))) @ inputs + ridge, slope)
        step *= min(1.0, 5.0 / max(np.abs(step).max(), 1e-12))  # far from the answer the curve is flat
        weights = weights - step
        if np.abs(step).max() < 1e-10:
            break
    return weights


def risk_coverage(confidence: Floats, right: Mask) -> tuple[Floats, Floats]:
    """Coverage and risk when only the surest are answered: (k/n, share of mistakes among the k surest).

    Answers of one confidence are answered together.
    """
    _check(confidence, right)
    order = np.argsort(-confidence, kind="stable")
    last = np.flatnonzero(np.append(np.diff(confidence[order]) != 0, True))
    answered = last + 1
    return answered / len(right), np.cumsum(~right[order])[last] / answered


def area_under_risk_coverage(confidence: Floats, right: Mask) -> float | None:
    """AURC (Geifman et al. 2019): the mean over images of the risk when only those as sure are answered.

    The lower the better: few mistakes, and these the least sure answers. None without answers.
    """
    if not len(right):
        return None
    coverage, risk = risk_coverage(confidence, right)
    return float((np.diff(coverage, prepend=0.0) * risk).sum())


def sureness(predictions: Ints, truth: Ints, probability: Floats) -> tuple[Floats, Mask]:
    """How sure answers [n, levels] are, and which are right, from class indices with −1 for none.

    An image without an answer counts as wrong, and as the least sure: 0. Where its path has ended, nobody is
    asked: nan.
    """
    sure = np.where(predictions >= 0, probability, 0.0)
    return np.where(truth >= 0, sure, np.nan), (predictions == truth) & (truth >= 0)


def level_sureness(confidence: Floats, right: Mask) -> dict[int, tuple[Floats, Mask]]:
    """The same by level, from 1: [n] each, of the images that are asked at that level; without empty ones."""
    asked = ~np.isnan(confidence)
    return {
        h + 1: (confidence[own, h], right[own, h])
        for h, own in enumerate(asked.T)
        if own.any() and confidence[own, h].any()
    }


@dataclass(frozen=True)
class Stop:
    """Answers that stop at a level: what a demand on confidence costs in depth and brings in accuracy."""

    confidence: float
    depth: float
    """Mean number of levels that are answered."""
    accuracy: float | None
    """Share of the answers, at the level where each stops, that are right; None where none is given."""
    answered: float
    """Share of images with an answer at some level."""


def stops(confidence: Floats, right: Mask, demands: npt.ArrayLike) -> list[Stop]:
    """For each demand the answers that go as deep as they are sure enough, [n, levels] coarse to fine."""
    if confidence.shape != right.shape or confidence.ndim != 2 or not confidence.size:
        raise RamifyError(
            f"{confidence.shape} confidences for {right.shape} answers; give [n, levels] of both"
        )
    found = []
    for demand in np.atleast_1d(np.asarray(demands, np.float64)).tolist():
        depth = deepest(confidence, demand)
        given = depth > 0
        hits = right[np.arange(len(right)), depth - 1][given]
        accuracy = float(hits.mean()) if given.any() else None
        found.append(Stop(demand, float(depth.mean()), accuracy, float(given.mean())))
    return found


def deepest(confidence: Floats, demand: float) -> Ints:
    """How many levels of each row are answered: down to the finest whose confidence is at least `demand`."""
    sure = np.nan_to_num(confidence, nan=-np.inf) >= demand
    levels = confidence.shape[1]
    found: Ints = np.where(sure.any(1), levels - sure[:, ::-1].argmax(1), 0)
    return found


def _check(probability: Floats, right: Mask) -> None:
    if probability.shape != right.shape or probability.ndim != 1 or right.dtype != bool:
        raise RamifyError(
            f"{probability.shape} probabilities for {right.shape} answers; give [n] of both, the second bool"
        )
    if len(probability) and not (np.nanmin(probability) >= 0 and np.nanmax(probability) <= 1):
        raise RamifyError("probabilities must lie between 0 and 1")


def _logit(probability: Floats) -> Floats:
    inside = np.clip(probability, 1e-6, 1 - 1e-6)
    found: Floats = np.log(inside) - np.log1p(-inside)
    return found


def _sigmoid(value: Floats) -> Floats:
    found: Floats = 1 / (1 + np.exp(-np.clip(value, -700, 700)))
    return found
