"""Expected utilities Ψ_0..Ψ_n of labelling the k likeliest samples 1, by all methods.

A method takes the probabilities in descending order, the metric, the counts carried so far and the
error to aim for. It returns the curve and a bound on its error (inf if there is none). U counts the
positives among the k that are labelled 1, V those among the rest; both are Poisson-binomial.

Every bound is the sum of the mass that the method drops and of a worst-case bound on rounding
errors, `_ROUNDING` relative errors of 2^-53 per label.
"""

import math
from collections.abc import Callable
from fractions import Fraction
from operator import mul
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from streamcal.decision.exponentials import OutOfReachError, exponential_sum
from streamcal.decision.metric import Metric
from streamcal.kernels import confusion, exponential_sums, poisson_binomial
from streamcal.kernels.confusion import (
    DENOMINATOR,
    KIND,
    LONGEST_SUM,
    NUMERATOR,
    ZERO,
    means_over_labels_1,
    utilities,
)
from streamcal.kernels.expected_reciprocals import Reciprocals

Vector = NDArray[np.float64]
Curve = tuple[Vector, float]
Method = Callable[[Vector, Metric, Vector, float], Curve]

_UNIT = 2.0**-53
_ROUNDING = 8.0
_LAWS_ROUNDING = 4.0  # relative errors when one label is added to a law
FEW = 12  # up to this many samples the simplest method is the fastest
_MAX_SCALE = 10_000  # common denominator of rational coefficients
_MAX_GRID = 2**27  # values of a denominator


class Law(NamedTuple):
    """The distribution of a count: ``mass[j]`` is the probability of ``offset + j``."""

    offset: int
    mass: Vector


class Laws(NamedTuple):
    """The distributions of a count while labels are added: one row each, with the same offset."""

    offset: int
    rows: NDArray[np.float64]
    bounds: NDArray[np.int64]


NOTHING = Law(0, np.ones(1))


def extended(law: Law, p: Vector, tau: float) -> tuple[Law, float]:
    """Return the law with more labels, without end slots below ``tau``, and the dropped mass."""
    longer, lost = poisson_binomial.extend(law, p, tau)
    return Law(*longer), lost


def extended_rows(law: Law, p: Vector, tau: float) -> tuple[Laws, float]:
    """Return the distributions after 0, 1, 2, … added labels."""
    laws, lost = poisson_binomial.extend_rows(law, p, tau)
    return Laws(*laws), lost


def block_size(n: int) -> int:
    """Return how many labels lie between two stored laws; storing all would need O(nσ) memory."""
    return max(16, math.isqrt(n))


def checkpoints(p: Vector, tau: float, step: int) -> tuple[list[Law], float]:
    """Return the distributions of the first 0, ``step``, 2 ``step``, … labels, and dropped mass."""
    laws, total = [NOTHING], 0.0
    for start in range(0, len(p), step):
        law, lost = extended(laws[-1], p[start : start + step], tau)
        laws.append(law)
        total += lost
    return laws, total


def largest_value(metric: Metric, counts: Vector, n: int) -> float:
    """Return a bound on the absolute value of a metric, for a function from extreme tables."""
    if metric.largest is not None:
        return metric.largest
    return float(np.abs(metric._values(counts[:, None] + n * np.eye(4))).max())


# Any metric ---------------------------------------------------------------------------------------


def algorithm_1(p: Vector, metric: Metric, counts: Vector, tol: float) -> Curve:
    """Algorithm 1 of the paper as printed, and k = 0: new laws for each k, O(n³)."""
    n = len(p)
    psi = np.empty(n + 1)
    for k in range(n + 1):
        C, _ = extended(NOTHING, p[:k], 0.0)
        D, _ = extended(NOTHING, p[k:], 0.0)
        psi[k] = expectation(metric, counts, n, k, C, D)
    return psi, _LAWS_ROUNDING * n * _UNIT * largest_value(metric, counts, n)


def windows(p: Vector, metric: Metric, counts: Vector, tol: float) -> Curve:
    """Algorithm 1 on windows of the distributions, O(n σ_U σ_V log(n/tol)): for any metric."""
    n = len(p)
    if n <= FEW and metric.spec is not None:
        psi = poisson_binomial.all_expectations(metric.spec, counts, p)
        return psi, _LAWS_ROUNDING * n * _UNIT * largest_value(metric, counts, n)
    tau = tol / (8 * (n + 1))
    step = block_size(n)
    starts, lost = checkpoints(p, tau, step)
    psi = np.empty(n + 1)
    largest = largest_value(metric, counts, n)
    D = NOTHING
    for first in range((max(n - 1, 0) // step) * step, -1, -step):
        items = p[first : first + step]
        C_rows, _ = extended_rows(starts[first // step], items, tau)
        D_rows, dropped = extended_rows(D, items[::-1].copy(), tau)
        lost += dropped
        backward = Laws(D_rows.offset, D_rows.rows[::-1].copy(), D_rows.bounds[::-1].copy())
        largest = max(largest, _expectations(metric, counts, n, first, C_rows, backward, psi))
        low, high = D_rows.bounds[-1].tolist()
        D = Law(D_rows.offset + low, D_rows.rows[-1, low : high + 1].copy())
    return psi, (lost + _LAWS_ROUNDING * n * _UNIT) * largest


def _expectations(
    metric: Metric, counts: Vector, n: int, first: int, C: Laws, D: Laws, psi: Vector
) -> float:
    """Write Ψ from ``first`` on, one value per row; return the largest absolute value."""
    out = psi[first : first + len(C.rows)]
    if metric.spec is not None:
        poisson_binomial.expectations(metric.spec, counts, n, first, C, D, out)
        return 0.0
    largest = 0.0
    for r in range(len(out)):
        (u_low, u_high), (v_low, v_high) = C.bounds[r].tolist(), D.bounds[r].tolist()
        out[r], seen = _function_expectation(
            metric,
            counts,
            n,
            first + r,
            Law(C.offset + u_low, C.rows[r, u_low : u_high + 1]),
            Law(D.offset + v_low, D.rows[r, v_low : v_high + 1]),
        )
        largest = max(largest, seen)
    return largest


def expectation(metric: Metric, counts: Vector, n: int, k: int, C: Law, D: Law) -> float:
    """Return Ψ of one labelling from the distributions of U and V."""
    if metric.spec is None:
        return _function_expectation(metric, counts, n, k, C, D)[0]
    return poisson_binomial.expectation(metric.spec, counts, n, k, C, D)


def _function_expectation(
    metric: Metric, counts: Vector, n: int, k: int, C: Law, D: Law
) -> tuple[float, float]:
    """Return Ψ of one labelling for a metric that is a Python function, and its largest value."""
    tp0, fp0, fn0, tn0 = counts.tolist()
    v = D.offset + np.arange(len(D.mass), dtype=np.float64)
    total, largest = 0.0, 0.0
    at_once = max(1, 1_000_000 // len(v))
    for start in range(0, len(C.mass), at_once):
        mass = C.mass[start : start + at_once]
        u = C.offset + start + np.arange(len(mass), dtype=np.float64)
        tables = np.empty((4, len(u), len(v)))
        tables[0] = (tp0 + u)[:, None]
        tables[1] = (fp0 + k - u)[:, None]
        tables[2] = fn0 + v
        tables[3] = tn0 + n - k - v
        values = metric._values(tables.reshape(4, -1)).reshape(len(u), len(v))
        total += float(mass @ (values @ D.mass))
        largest = max(largest, float(values.max()), -float(values.min()))
    return total, largest


def plug_in(p: Vector, metric: Metric, counts: Vector, tol: float) -> Curve:
    """The metric of the expected counts, O(n): an error of O(1/n) without a bound."""
    n = len(p)
    k = np.arange(n + 1.0)
    u = np.concatenate([[0.0], np.cumsum(p)])
    v = u[-1] - u
    tables = counts[:, None] + np.array([u, k - u, v, (n - k) - v])
    return metric._values(np.maximum(tables, 0.0)), math.inf


# Ratios -------------------------------------------------------------------------------------------


def algorithm_2(p: Vector, metric: Metric, counts: Vector, tol: float) -> Curve:
    """Algorithm 2 of the paper, corrected, O(n²): ratios of linear forms, rational coefficients."""
    spec, n = metric.spec, len(p)
    assert spec is not None
    scale, den = _as_integers(spec[DENOMINATOR:], n)
    num = spec[NUMERATOR:DENOMINATOR]
    shift = float(spec[DENOMINATOR:] @ counts)
    carried = float(num @ counts)
    reciprocals = Reciprocals(p, num.tolist(), den.tolist(), shift, scale, carried)
    psi = np.empty(n + 1)
    step, tau = block_size(n), 1e-290  # subnormal numbers are slow
    starts, _ = checkpoints(p, tau, step)
    last = n
    for first in range((max(n - 1, 0) // step) * step, -1, -step):
        C, _ = extended_rows(starts[first // step], p[first:last], tau)
        if last < n:  # the next block has done its first row
            C = Laws(C.offset, C.rows[:-1], C.bounds[:-1])
        reciprocals.write_expectations(C, psi)
        last = first
    vanishing = _chance_of_zero_denominator(p, spec, shift)
    if den[2] != den[3]:
        psi -= scale * (num[2] - num[3]) / float(den[2] - den[3]) * vanishing
    psi += spec[ZERO] * vanishing
    largest = largest_value(metric, counts, n)
    return psi, 4 * _ROUNDING * n * _UNIT * max(largest, 1.0)


def _as_integers(coefficients: Vector, n: int) -> tuple[int, NDArray[np.int64]]:
    """Return a scale and integers that are ``scale`` times the coefficients, or raise."""
    exact = [Fraction(float(c)).limit_denominator(_MAX_SCALE) for c in coefficients]
    scale = math.lcm(*(c.denominator for c in exact))
    if (
        scale > _MAX_SCALE
        or scale * max(exact) * n > _MAX_GRID
        or any(abs(float(e) - c) > 1e-15 * abs(c) for e, c in zip(exact, coefficients, strict=True))
    ):
        raise OutOfReachError(
            "`method` algorithm-2 needs a metric with small rational coefficients, "
            f"got {coefficients.tolist()} in the denominator"
        )
    return scale, np.array([int(scale * c) for c in exact])


def _chance_of_zero_denominator(p: Vector, spec: Vector, shift: float) -> Vector:
    """Return the probability that the denominator is 0, for each k."""
    n = len(p)
    if shift > 0.0:
        return np.zeros(n + 1)
    tp, fp, fn, tn = (spec[DENOMINATOR:] == 0.0).tolist()
    chosen = np.concatenate([[1.0], np.cumprod(tp * p + fp * (1.0 - p))])
    rest = np.concatenate([np.cumprod((fn * p + tn * (1.0 - p))[::-1])[::-1], [1.0]])
    return np.asarray(chosen * rest)


def exponential_fractions(p: Vector, metric: Metric, counts: Vector, tol: float) -> Curve:
    """Ratios of linear forms of the counts by exponential sums, O(nQ)."""
    spec, n = metric.spec, len(p)
    assert spec is not None
    cells = spec[DENOMINATOR:].tolist()
    shift = sum(map(mul, cells, counts.tolist()))
    least = shift if shift > 0.0 else min(cell for cell in cells if cell > 0.0)
    sums = exponential_sum(1.0, (shift + max(cells) * n) / least, _relative_error(tol))
    psi = exponential_sums.fractions(p, spec, counts, sums.terms, least)
    if psi is None:
        raise OutOfReachError("`method` exponential-sums needs parts that fit a float for this")
    if shift <= 0.0 and spec[ZERO] != 0.0:
        psi += spec[ZERO] * _chance_of_zero_denominator(p, spec, shift)
    bound = sums.error + _ROUNDING * (n + len(sums.terms)) * _UNIT
    return psi, bound * largest_value(metric, counts, n)


def _relative_error(tol: float) -> float:
    """Return the relative error of a sum of exponentials that the tolerance needs."""
    return min(max(tol / 100.0, 1e-13), 1e-6)


def constant_denominator(p: Vector, metric: Metric, counts: Vector, tol: float) -> Curve:
    """Metrics that are sums over samples, such as accuracy, O(n)."""
    spec, n = metric.spec, len(p)
    assert spec is not None
    tp, fp, fn, tn = spec[NUMERATOR:DENOMINATOR].tolist()
    below = float(spec[DENOMINATOR:] @ counts) + float(spec[DENOMINATOR]) * n
    if below <= 0.0:
        return np.full(n + 1, spec[ZERO]), 0.0
    u = np.concatenate([[0.0], np.cumsum(p)])
    k = np.arange(n + 1.0)
    v = u[-1] - u
    above = tp * u + fp * (k - u) + fn * v + tn * (n - k - v)
    above += float(spec[NUMERATOR:DENOMINATOR] @ counts)
    return above / below, _ROUNDING * (n + 1) * _UNIT * largest_value(metric, counts, n)


def counts_labels_1_only(metric: Metric) -> bool:
    """Return whether a metric is a mean over the samples with the label 1, such as precision."""
    spec = metric.spec
    if spec is None or spec[KIND] != confusion.FRACTION:
        return False
    above, below = spec[NUMERATOR:DENOMINATOR].tolist(), spec[DENOMINATOR:].tolist()
    return bool(below[0] == below[1]) and not any((*above[2:], *below[2:]))


def mean_over_labels_1(p: Vector, metric: Metric, counts: Vector, tol: float) -> Curve:
    """Metrics that are means over the samples with the label 1, such as precision, O(n)."""
    assert metric.spec is not None
    psi = means_over_labels_1(p, metric.spec, counts)
    n_added = min(len(p), LONGEST_SUM)
    bound = _ROUNDING * (n_added + 1) * _UNIT * largest_value(metric, counts, len(p))
    return psi, bound


def squared_error_in_counting(p: Vector, metric: Metric, counts: Vector, tol: float) -> Curve:
    """SEC from the mean and the variance of the number of positives, O(n)."""
    spec, n = metric.spec, len(p)
    assert spec is not None
    size = float(counts.sum()) + n
    if size <= 0.0:
        return np.full(n + 1, spec[ZERO]), 0.0
    difference = math.fsum(p) + float(counts[2] - counts[1]) - np.arange(n + 1.0)
    variance = math.fsum(p * (1.0 - p))
    return -(np.square(difference / size) + variance / size**2), _ROUNDING * 4 * _UNIT


# Rates --------------------------------------------------------------------------------------------


def exponential_rates(p: Vector, metric: Metric, counts: Vector, tol: float) -> Curve:
    """AM, Q-Mean and G-TP/PR by exponential sums, O(nQ).

    AM and Q-Mean need E[(FN/P)^j] and E[(FP/N)^j], G-TP/PR needs E[TP/√P].
    """
    spec, n = metric.spec, len(p)
    assert spec is not None
    tp0, fp0, fn0, tn0 = counts.tolist()
    positive, negative = tp0 + fn0, fp0 + tn0
    kind, share = spec[KIND], _relative_error(tol)
    if kind == confusion.GTPPR:
        psi, error = _moments(p, 0.5, tp0, positive, 1, share)
        chosen = tp0 + fp0 + np.arange(n + 1.0)
        np.divide(psi, np.sqrt(chosen), out=psi, where=chosen > 0.0)
        if chosen[0] == 0.0:
            psi[0] = 0.0
        if spec[ZERO] != 0.0:
            if positive == 0.0:
                psi += float(np.prod(1.0 - p))
            if chosen[0] == 0.0:
                psi[0] = 1.0
        return psi, error
    degree = 2 if kind == confusion.QMEAN else 1
    missed, error_p = _moments(p[::-1].copy(), float(degree), fn0, positive, degree, share)
    alarms, error_n = _moments(1.0 - p, float(degree), fp0, negative, degree, share)
    psi = 1.0 - 0.5 * (missed[::-1] + alarms)
    # So far the rate of an absent class counts as 1. Correct that, unless its chance is below
    # rounding errors.
    if spec[ZERO] != 1.0:
        k = np.arange(n + 1.0)
        zero = np.zeros(n + 1)
        if positive == 0.0 and (chance := float(np.prod(1.0 - p))) > _UNIT / 8:
            psi += chance * _zero_division_difference(spec, (zero, fp0 + k, zero, tn0 + n - k))
        if negative == 0.0 and (chance := float(np.prod(p))) > _UNIT / 8:
            psi += chance * _zero_division_difference(spec, (tp0 + k, zero, fn0 + n - k, zero))
    return psi, 0.5 * (error_p + error_n) + _ROUNDING * _UNIT


def _moments(
    p: Vector, power: float, carried: float, all_carried: float, degree: int, share: float
) -> Curve:
    """Return E[(X_0 + X_k)^degree / (S_0 + S)^power] for k = 0..n; the bound is relative."""
    n = len(p)
    least = all_carried if all_carried > 0.0 else 1.0
    sums = exponential_sum(power, (all_carried + n) / least, share)
    out = exponential_sums.moments(p, sums.terms, power, least, carried, all_carried, degree)
    return out, sums.error + _ROUNDING * (n + len(sums.terms)) * _UNIT


def _zero_division_difference(spec: Vector, cells: tuple[Vector, ...]) -> Vector | float:
    """Return the metric with its convention for 0/0, less the metric with 0/0 = 1."""
    if spec[ZERO] == 0.0:
        return -0.5
    tables = np.array(cells)
    ones = spec.copy()
    ones[ZERO] = 1.0
    return utilities(spec, tables) - utilities(ones, tables)


# Linear in u --------------------------------------------------------------------------------------


def linear_in_tp(metric: Metric) -> bool:
    """Return whether a metric is linear in tp once tp + fp and tp + fn are known."""
    spec = metric.spec
    if spec is None:
        return False
    if spec[KIND] == confusion.FRACTION:
        tp, fp, fn, tn = spec[DENOMINATOR:].tolist()
        return bool(tp - fp - fn + tn == 0.0)
    return int(spec[KIND]) in (
        confusion.AM,
        confusion.GTPPR,
        confusion.MCC,
        confusion.KAPPA,
        confusion.SEC,
    )


def leave_one_out(p: Vector, metric: Metric, counts: Vector, tol: float) -> Curve:
    """Metrics linear in tp, from the distributions of S without each label, O(nσ log(n/tol))."""
    spec, n = metric.spec, len(p)
    assert spec is not None
    law, lost = extended(NOTHING, p, min(tol, 1e-12) * 1e-4 / (n + 1))
    psi, level, steepest = poisson_binomial.linear_expectations(spec, counts, p, law)
    # Taking a label out multiplies the error of the law by 1/|1 - 2η| at most, or by twice the
    # width: the recursion's own factor is η/(1 - η), or its inverse, whichever is less than 1.
    error = lost + _LAWS_ROUNDING * (n + 2) * _UNIT
    growth = np.minimum(1.0 / np.maximum(np.abs(1.0 - 2.0 * p), 1e-300), 2.0 * len(law.mass))
    moments = np.concatenate([[0.0], np.cumsum(p * growth)]) * error
    return psi, float((level * error + steepest * moments).max()) + 4.0 * _UNIT
