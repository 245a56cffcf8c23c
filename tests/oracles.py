"""Slow and simple reference implementations for tests.

Isotonic regression is computed in exact rational arithmetic; results of estimators are compared
with it within a tolerance.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from streamcal import losses
from streamcal.losses.names import get_mean


class Block(NamedTuple):
    """A block of an isotonic fit: first and last score, value, weight and weighted mean score."""

    lower: float
    upper: float
    value: float
    weight: float
    center: float


class _Sums(NamedTuple):
    lower: float
    upper: float
    weight: Fraction
    total: Fraction
    moment: Fraction

    @property
    def mean(self) -> Fraction:
        return self.total / self.weight

    def joined(self, right: "_Sums") -> "_Sums":
        return _Sums(
            self.lower,
            right.upper,
            self.weight + right.weight,
            self.total + right.total,
            self.moment + right.moment,
        )


def distinct_samples(
    scores: Iterable[float],
    y: Iterable[float],
    w: Iterable[float] | None = None,
    loss: str | losses.Loss = "squared",
) -> list[_Sums]:
    """Return one sample per distinct score, in score order, with exact sums."""
    mean_loss = get_mean(loss)
    scores = [float(score) for score in scores]
    weights = [1.0] * len(scores) if w is None else [float(weight) for weight in w]
    pooled: dict[float, _Sums] = {}
    for score, label, weight in sorted(zip(scores, map(float, y), weights, strict=True)):
        exact = Fraction(weight)
        statistic = Fraction(float(mean_loss.statistic(label)))
        sample = _Sums(score, score, exact, exact * statistic, exact * Fraction(score))
        pooled[score] = pooled[score].joined(sample) if score in pooled else sample
    return list(pooled.values())


def isotonic_blocks(
    scores: Iterable[float],
    y: Iterable[float],
    w: Iterable[float] | None = None,
    loss: str | losses.Loss = "squared",
) -> list[Block]:
    """Isotonic regression by textbook pooling of adjacent violators, ties pooled first."""
    blocks: list[_Sums] = []
    for sample in distinct_samples(scores, y, w, loss):
        blocks.append(sample)
        while len(blocks) > 1 and blocks[-2].mean >= blocks[-1].mean:
            right = blocks.pop()
            blocks.append(blocks.pop().joined(right))
    link = get_mean(loss).link
    return [
        Block(b.lower, b.upper, link(float(b.mean)), float(b.weight), float(b.moment / b.weight))
        for b in blocks
    ]


def isotonic_max_min(
    scores: Iterable[float],
    y: Iterable[float],
    w: Iterable[float] | None = None,
    loss: str | losses.Loss = "squared",
) -> list[float]:
    """The value at each distinct score by the formula: max over a <= i of min over b >= i of the
    mean from a to b (Robertson, Wright & Dykstra, *Order Restricted Statistical Inference*, 1988,
    theorem 1.4.4). Cubic.
    """
    samples = distinct_samples(scores, y, w, loss)

    def mean(a: int, b: int) -> Fraction:
        part = samples[a : b + 1]
        return Fraction(sum(s.total for s in part)) / sum(s.weight for s in part)

    link = get_mean(loss).link
    n = len(samples)
    return [
        link(float(max(min(mean(a, b) for b in range(i, n)) for a in range(i + 1))))
        for i in range(n)
    ]


def evaluate(
    blocks: Sequence[Block], x: float, interpolation: str = "linear", outside: str = "clip"
) -> float:
    """The value of a staircase at ``x``, by walking the blocks."""
    if outside == "nan" and not blocks[0].lower <= x <= blocks[-1].upper:
        return math.nan
    knots = [(b.lower, b.upper, b.value) for b in blocks]
    value = knots[0][2]
    for i, (start, end, step) in enumerate(knots):
        if x < start:
            if i > 0 and interpolation != "step":
                _, x0, v0 = knots[i - 1]
                return v0 + (step - v0) * (x - x0) / (start - x0)
            return value
        value = step
        if x <= end:
            return value
    return value


class Group(NamedTuple):
    """A group of samples in the pairwise description of the anytime algorithm."""

    samples: list[int]
    low: float
    high: float


def pairwise_groups(
    derivative: Callable[[float, int], float], n_samples: int, low: float, high: float, rounds: int
) -> list[Group]:
    """Steps 1 to 5 of the anytime algorithm of Gokcesu & Gokcesu, section VI, as they are printed.

    ``derivative(z, n)`` is w · ∂l/∂z of sample n. B and A of the paper are ``low`` and ``high``.
    """
    groups = [Group([n], low, high) for n in range(n_samples)]
    for _ in range(rounds):
        # Step 2: negative derivatives at the middles of groups whose bounds differ.
        aims = [probe(g.low, g.high) for g in groups]
        slopes = [
            -math.fsum(derivative(c, n) for n in g.samples) if g.low != g.high else None
            for g, c in zip(groups, aims, strict=True)
        ]
        # Step 3: join neighbours with the same bounds while the left one is to rise, the right to
        # fall.
        at = 0
        while at + 1 < len(groups):
            left, right = groups[at], groups[at + 1]
            d_left, d_right = slopes[at], slopes[at + 1]
            same = (left.low, left.high) == (right.low, right.high)
            if same and d_left is not None and d_right is not None and d_left >= 0 >= d_right:
                samples = left.samples + right.samples
                groups[at : at + 2] = [Group(samples, left.low, left.high)]
                joined = -math.fsum(derivative(aims[at], n) for n in samples)
                slopes[at : at + 2], aims[at : at + 2] = [joined], [aims[at]]
                at = max(at - 1, 0)
            else:
                at += 1
        # Step 4.
        groups = [
            g if d is None else Group(g.samples, c if d >= 0 else g.low, c if d <= 0 else g.high)
            for g, d, c in zip(groups, slopes, aims, strict=True)
        ]
    return groups


def probe(low: float, high: float) -> float:
    """Return the middle of two bounds, or the paper's probe where one is infinite."""
    if low == -math.inf and high == math.inf:
        return 0.0
    if high == math.inf:
        return 1.0 if low == 0.0 else 2.0 * low
    if low == -math.inf:
        return -1.0 if high == 0.0 else 2.0 * high
    return (low + high) / 2.0


def total_log_loss(p, y) -> float:
    """Return the sum of the log losses of probabilities."""
    p, y = np.asarray(p), np.asarray(y)
    return float(-np.sum(np.where(y == 1.0, np.log(p), np.log1p(-p))))


def log_loss(p, y) -> float:
    """Return the mean log loss of probabilities."""
    return total_log_loss(p, y) / np.size(y)
