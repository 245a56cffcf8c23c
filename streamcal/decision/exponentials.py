"""Short sums of exponentials for powers of positive numbers, with a certified relative error.

x^-a = Γ(a)^-1 ∫ exp(-x e^s + a s) ds, and the trapezoid rule with step h turns this into a sum of
exponentials of x with positive weights, w_q = h e^{aqh}/Γ(a) at t_q = e^{qh}. Its relative error is
at most 2 cos(d)^-a / (e^{2πd/h} - 1) for any d < π/2, whatever x is: the integrand is analytic in
the strip |Im s| < d, and there e^s still has a positive real part.

The sum runs over all integers q and is cut twice. Above, the terms vanish doubly exponentially.
Below, where t x <= δ for every x that can occur, infinitely many slow terms are replaced by a Gauss
quadrature for the measure Σ w_q at t_q: a handful of positive weights, and for f = exp(-t x) an
error of at most x^2m/(2m)! times the squared norm of the m-th orthogonal polynomial. The three
bounds add up to `ExponentialSum.error`, without rounding errors, which depend on how the sum is
used.
"""

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

LARGEST_RATIO = 200  # doublings from the least to the largest x; more take too many terms


class OutOfReachError(ValueError):
    """The range of numbers is too large for one sum of exponentials."""


class ExponentialSum(NamedTuple):
    """Σ_q w_q exp(-t_q x) ≈ x^-power for 1 <= x <= ``largest``.

    Attributes
    ----------
    terms : ndarray of shape (2, n_terms)
        The exponents t, ascending, and the weights w; all positive.
    power : float
        The power that is approximated.
    largest : float
        The greatest x.
    error : float
        Bound on the relative error.
    """

    terms: NDArray[np.float64]
    power: float
    largest: float
    error: float


def exponential_sum(power: float, ratio: float, error: float = 1e-12) -> ExponentialSum:
    """Return a sum of exponentials for x^-power on [1, ratio].

    Parameters
    ----------
    power : float
        Positive.
    ratio : float
        The largest x, up to 2^200; rounded up to a power of two. The latest sums are cached.
    error : float
        The greatest relative error, from 1e-14 up.

    Returns
    -------
    ExponentialSum
        With O(log(1/error) (log ratio + log(1/error))) terms: some 40 to 80.

    Raises
    ------
    OutOfReachError
        If ``ratio`` is larger.

    Examples
    --------
    >>> t, w = exponential_sum(1.0, 1000.0).terms
    >>> round(float((w * np.exp(-3.0 * t)).sum()), 12)
    0.333333333333
    """
    doublings = math.ceil(math.log2(max(ratio, 2.0)))
    if doublings > LARGEST_RATIO:
        raise OutOfReachError(f"`ratio` must be at most 2^{LARGEST_RATIO}, got {ratio:g}")
    return _exponential_sum(power, doublings, error)


@lru_cache(maxsize=256)  # errors depend on the batch
def _exponential_sum(power: float, doublings: int, error: float) -> ExponentialSum:
    largest = 2.0**doublings
    h, bound = _step(power, error / 3.0)
    q = 0
    while _tail_above(power, h, q) > error / 3.0:
        q += 1
    bound += _tail_above(power, h, q)
    # More Gauss nodes replace more terms of the trapezoid rule: take the shortest sum.
    best = None
    for m in range(2, 15):
        nodes, weights, norm = _gauss(power, h, m)
        # The slow terms are those up to t_0 = δ/largest, where the remainder keeps its third.
        log_delta = (math.log(error / 3.0) + math.lgamma(2 * m + 1) - norm) / (2 * m + power)
        low = math.floor((log_delta - math.log(largest)) / h)
        if best is None or m + q - low < best[0]:
            best = (m + q - low, low, nodes, weights, norm, m)
    assert best is not None
    _, low, nodes, weights, norm, m = best
    top = math.exp(low * h)
    bound += math.exp(norm + (2 * m + power) * math.log(top * largest) - math.lgamma(2 * m + 1))
    fast = h * np.arange(low + 1, q + 1)
    terms = np.array(
        [
            np.concatenate([top * nodes, np.exp(fast)]),
            np.concatenate([top**power * weights, np.exp(power * fast) * (h / math.gamma(power))]),
        ]
    )
    return ExponentialSum(np.ascontiguousarray(terms), power, largest, bound)


def _step(power: float, error: float) -> tuple[float, float]:
    """Return the largest step of the trapezoid rule whose bound is ``error``, and that bound."""

    def step(d: float) -> float:
        return 2.0 * math.pi * d / math.log1p(2.0 * math.cos(d) ** -power / error)

    d = max(np.linspace(0.5, 1.57, 400).tolist(), key=step)
    h = step(d)
    return h, 2.0 * math.cos(d) ** -power / math.expm1(2.0 * math.pi * d / h)


def _tail_above(power: float, h: float, q: int) -> float:
    """Return the sum of the terms after ``q`` at x = 1, where it is greatest (for t >= power)."""
    s = h * np.arange(q + 1, q + 400)
    return float(np.exp(power * s - np.exp(np.minimum(s, 50.0))).sum() * h / math.gamma(power))


def _gauss(
    power: float, h: float, m: int
) -> tuple[NDArray[np.float64], NDArray[np.float64], float]:
    """Return the Gauss quadrature of Σ_{q <= 0} w_q at t_q: nodes, weights, log of the norm.

    Lanczos with full orthogonalisation, without terms below 1e-18 of the first.
    """
    s = h * np.arange(0, -math.ceil(42.0 / (power * h)), -1)
    t, w = np.exp(s), np.exp(power * s) * (h / math.gamma(power))
    basis = np.zeros((m + 1, len(t)))
    basis[0] = np.sqrt(w / w.sum())
    diagonal, off = np.zeros(m), np.zeros(m)
    for j in range(m):
        v = t * basis[j]
        diagonal[j] = v @ basis[j]
        for _ in range(2):
            v -= basis[: j + 1].T @ (basis[: j + 1] @ v)
        off[j] = math.sqrt(float(v @ v))
        basis[j + 1] = v / off[j]
    jacobi = np.diag(diagonal) + np.diag(off[: m - 1], 1) + np.diag(off[: m - 1], -1)
    nodes, vectors = np.linalg.eigh(jacobi)
    norm = math.log(float(w.sum())) + 2.0 * float(np.log(off).sum())
    return nodes, vectors[0] ** 2 * w.sum(), norm
