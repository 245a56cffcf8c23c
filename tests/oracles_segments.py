"""The slow version of `SegmentCalibrator`: dictionaries, and SciPy for the mode."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit

Group = tuple[str, ...] | str
Key = tuple[Group, tuple[Any, ...]]
Moments = tuple[float, float]

CLIP = 1e-6
SHARES = {0.0: 0.75, 0.001: 0.25}
PRIOR = np.array([2 / 3, *[1 / 12] * 4])
SLAB = 0.25
INCLUDED = 0.1  # the probability that a term is not 0


def sigmoid(z: float) -> float:
    return 1.0 / (1.0 + math.exp(-z))


def log_odds(p: float) -> float:
    p = min(max(p, CLIP), 1.0 - CLIP)
    return math.log(p / (1.0 - p))


class Model:
    """The corrected log odds of one speed; ``rate`` is how much of a term a sample forgets."""

    def __init__(self, groups: Sequence[Group], half_life: float) -> None:
        self.groups = groups
        self.half_life = half_life
        # The precision and the pull of a term, the prior it was counted with, and when it learned.
        self.terms: dict[Key, tuple[float, float, float, int]] = {}

    def prior(self, group: Group) -> float:
        deviations = {"intercept": 0.2, "slope": 0.3}
        first = deviations.get(group, 0.2) if isinstance(group, str) else 0.2
        if isinstance(group, tuple) and len(group) > 1:
            first = 0.2 / 3.0
        squares = effective = 0.0
        for (other, _), (precision, pull, before, _) in self.terms.items():
            if other == group:
                variance = 1.0 / (1.0 / before + precision)
                squares += (variance * pull) ** 2
                effective += variance * precision
        return min((squares + first**2) / (effective + 1.0), 1.0)

    def moments(self, key: Key, now: int) -> Moments:
        prior = self.prior(key[0])
        if key not in self.terms:
            return 0.0, prior
        precision, pull, _, learned = self.terms[key]
        variance = 1.0 / (1.0 / prior + precision)
        kept = 2.0 ** (-(now - learned) / self.half_life)
        return kept * variance * pull, prior + kept**2 * (variance - prior)

    def sparse_moments(self, key: Key, now: int) -> Moments:
        """The mixture of 0 and of a wide normal term, times the likelihood of the samples."""
        mean, v = self.moments(key, now)
        prior = self.prior(key[0])
        precision, pull = 1.0 / v - 1.0 / prior, mean / v
        wide = max(prior, SLAB)
        inside = 1.0 / (1.0 / wide + precision)
        center = inside * pull
        # The samples have the likelihood exp(pull · t − precision · t² / 2) of the term t.
        evidence = center**2 / (2.0 * inside) + math.log(inside / wide) / 2.0
        included = float(expit(math.log(INCLUDED / (1.0 - INCLUDED)) + evidence))
        square = included * (inside + center**2)
        return included * center, square - (included * center) ** 2

    def total(self, keys: Mapping[Key, float], u: float, now: int, sparse: bool = False) -> Moments:
        z, variance = u, 0.0
        for key, factor in keys.items():
            mean, v = (self.sparse_moments if sparse else self.moments)(key, now)
            z, variance = z + factor * mean, variance + factor**2 * v
        return z, variance

    def answer(self, keys: Mapping[Key, float], u: float, now: int, sparse: bool = False) -> float:
        z, variance = self.total(keys, u, now, sparse)
        p = sigmoid(z / math.sqrt(1.0 + math.pi / 8.0 * variance))
        return min(max(p, CLIP), 1.0 - CLIP)

    def learn(self, keys: Mapping[Key, float], u: float, now: int, y: float, w: float) -> None:
        z, total = self.total(keys, u, now)
        far = 50.0 + abs(z) + math.log1p(w * total)
        mode = brentq(
            lambda t: t - z - w * total * (y - sigmoid(t)), -far, far, xtol=1e-13, rtol=1e-15
        )
        p = sigmoid(mode)
        h = w * p * (1.0 - p)
        learned = {}
        for key, factor in keys.items():
            mean, v = self.moments(key, now)
            shift = v * factor * w * (y - p)
            variance = v - (v * factor) ** 2 * h / (1.0 + h * total)
            prior = self.prior(key[0])
            precision = 1.0 / variance - 1.0 / prior
            learned[key] = precision, (mean + shift) / variance, float(np.float32(prior)), now
        self.terms |= learned


class Segments:
    """All of a `SegmentCalibrator` but its base calibrator."""

    def __init__(
        self, fields: Sequence[str], crosses: Sequence[tuple[str, ...]], half_life: float
    ) -> None:
        groups: list[Group] = ["intercept", "slope", *((name,) for name in fields), *crosses]
        self.models = [Model(groups, half_life), Model(groups, math.inf)]
        self.groups = groups
        self.n_samples = 0
        self.centre = 0.0
        self.rows = np.array(list(SHARES.values()))
        self.weights = np.array([PRIOR, PRIOR])

    def keys(self, x: Mapping[str, Any], u: float) -> dict[Key, float]:
        found: dict[Key, float] = {}
        for group in self.groups:
            if isinstance(group, str):
                found[group, ()] = u - self.centre if group == "slope" else 1.0
            else:
                found[group, tuple(x.get(name) for name in group)] = 1.0
        return found

    def answers(self, x: Mapping[str, Any], base: float) -> np.ndarray[Any, Any]:
        u = log_odds(base)
        keys = self.keys(x, u)
        first = min(max(base, CLIP), 1.0 - CLIP)
        if not self.n_samples:  # the base is served
            return np.full(5, first)
        answers = [
            model.answer(keys, u, self.n_samples, sparse)
            for sparse in (False, True)
            for model in self.models
        ]
        return np.array([first, *answers])

    def predict(self, x: Mapping[str, Any], base: float) -> float:
        if not self.n_samples:
            return base
        return float(self.rows @ self.weights @ self.answers(x, base))

    def learn(self, x: Mapping[str, Any], base: float, y: float, w: float) -> None:
        answers, u = self.answers(x, base), log_odds(base)
        keys = self.keys(x, u)
        for model in self.models:
            model.learn(keys, u, self.n_samples, y, w)
        rows = self.weights @ answers
        self.rows = self.rows * (rows**y * (1.0 - rows) ** (1.0 - y)) ** w
        self.rows /= self.rows.sum()
        self.weights = self.weights * (answers**y * (1.0 - answers) ** (1.0 - y)) ** w
        self.weights /= self.weights.sum(axis=1, keepdims=True)
        shares = np.array(list(SHARES))[:, None]
        self.weights = (1.0 - shares) * self.weights + shares * PRIOR
        self.n_samples += 1
        self.centre += (u - self.centre) / self.n_samples
