"""All expected utilities of a metric in one sweep, by sums of exponentials.

A power of a positive count is nearly a short sum, x^-a ≈ Σ_q w_q exp(-t_q x) with w_q > 0
(`streamcal.decision.exponentials` makes them, with a bound on the relative error). The expectation
of exp(-t x) over independent labels is a product over labels, and weighting by it *tilts* each
label to an independent one of another probability. So E[X/D] is Σ_q w_q E[exp(-t_q D)] times the
tilted mean of X, and going from the k likeliest labels to k + 1 changes one factor and one summand
of it: O(nQ) for all k. As all weights are positive, errors stay relative.

An exponential whose part has fallen below `NEGLIGIBLE` of the largest is dropped; it never comes
back, since what multiplies it is no larger for a larger exponent.
"""

import numpy as np
from numpy.typing import NDArray

from streamcal.kernels._compile import helper, kernel
from streamcal.kernels.confusion import DENOMINATOR, NUMERATOR

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]

NEGLIGIBLE = 1e-40


@helper
def _active(parts: Vector, m: int) -> int:
    """Return how many of the first ``m`` exponentials, ascending, still count."""
    largest = 0.0
    for q in range(m):
        largest = max(largest, parts[q])
    while m > 1 and parts[m - 1] < NEGLIGIBLE * largest:
        m -= 1
    return m


@helper
def _dot(a: Vector, b: Vector, m: int) -> float:
    """Return the scalar product of the first ``m`` entries, in four independent chains."""
    s0, s1, s2, s3 = 0.0, 0.0, 0.0, 0.0
    for q in range(0, m - 3, 4):
        s0 += a[q] * b[q]
        s1 += a[q + 1] * b[q + 1]
        s2 += a[q + 2] * b[q + 2]
        s3 += a[q + 3] * b[q + 3]
    for q in range(m - m % 4, m):
        s0 += a[q] * b[q]
    return (s0 + s1) + (s2 + s3)


@kernel("void(float64[::1], float64[::1], float64[::1], float64[:, ::1], float64, float64[::1])")
def fractions(
    p: Vector, spec: Vector, history: Vector, sums: Matrix, least: float, psi: Vector
) -> None:
    """Write Ψ_0..Ψ_n of a ratio of linear forms of the counts; 0/0 counts as 0.

    ``sums`` has the rows t and w for 1/x on x >= 1; the denominator, where positive, is at least
    ``least``.
    """
    n, m = len(p), sums.shape[1]
    num, den = spec[NUMERATOR:DENOMINATOR], spec[DENOMINATOR:]
    carried, shift = 0.0, 0.0
    for j in range(4):
        carried += num[j] * history[j]
        shift += den[j] * history[j]
    z = np.empty((4, m))  # exp(-t d) for each cell's d
    part, chosen, rest = np.empty(m), np.full(m, carried), np.zeros(m)
    for q in range(m):
        t = sums[0, q] / least
        for j in range(4):
            z[j, q] = np.exp(-t * den[j])
        part[q] = sums[1, q] / least * np.exp(-t * shift)

    # Nothing labelled 1 yet: every label counts as a false or a true negative.
    z_fn, z_tn = z[2], z[3]
    scores_rest = num[2] != 0.0 or num[3] != 0.0
    for i in range(n):
        eta, left = p[i], 1.0 - p[i]
        if i & 15 == 0:
            m = _active(part, m)
        if scores_rest:
            for q in range(m):
                a, b = eta * z_fn[q], left * z_tn[q]
                part[q] *= a + b
                rest[q] += (num[2] * a + num[3] * b) / (a + b)
        else:
            for q in range(m):
                part[q] *= eta * z_fn[q] + left * z_tn[q]

    # For F_β a label costs the denominator the same whether or not it is positive: one division
    # less.
    alike = num[1] == 0.0 and den[0] - den[2] == den[1] - den[3]
    z_tp, z_fp, step = z[0], z[1], np.empty(len(part))
    for q in range(m):
        step[q] = np.exp(-sums[0, q] / least * (den[1] - den[3]))
    for k in range(n + 1):
        if k & 15 == 0:
            m = _active(part, m)
        if scores_rest:
            total = 0.0
            for q in range(m):
                total += part[q] * (chosen[q] + rest[q])
        else:
            total = _dot(part, chosen, m)
        psi[k] = total
        if k == n:
            break
        eta, left = p[k], 1.0 - p[k]
        if alike:
            gain = num[0] * eta
            for q in range(m):
                chosen[q] += gain * z_fn[q] / (eta * z_fn[q] + left * z_tn[q])
                part[q] *= step[q]
        else:
            for q in range(m):
                a, b = eta * z_tp[q], left * z_fp[q]
                chosen[q] += (num[0] * a + num[1] * b) / (a + b)
                part[q] *= (a + b) / (eta * z_fn[q] + left * z_tn[q])
        if scores_rest:
            for q in range(m):
                a, b = eta * z_fn[q], left * z_tn[q]
                rest[q] -= (num[2] * a + num[3] * b) / (a + b)


@helper
def _tilted(part: Vector, z: Vector, eta: float, left: float, m: int) -> float:
    """Return Σ_q part_q z_q / (1 - η + η z_q), in two independent chains."""
    s0, s1 = 0.0, 0.0
    for q in range(0, m - 1, 2):
        s0 += part[q] * z[q] / (eta * z[q] + left)
        s1 += part[q + 1] * z[q + 1] / (eta * z[q + 1] + left)
    if m & 1:
        s0 += part[m - 1] * z[m - 1] / (eta * z[m - 1] + left)
    return s0 + s1


@kernel(
    "void(float64[::1], float64[:, ::1], float64, float64, float64, float64, int64, float64[::1])"
)
def moments(
    p: Vector,
    sums: Matrix,
    power: float,
    least: float,
    carried: float,
    all_carried: float,
    degree: int,
    out: Vector,
) -> None:
    """Write E[(X_0 + X_k)^degree / (S_0 + S)^power] for k = 0..n; 0/0 counts as 0.

    X_k is the number of hits among the first ``k`` events, S among all of them; ``carried`` is X_0,
    ``all_carried`` S_0, and S_0 + S, where positive, is at least ``least``. ``sums`` is for
    x^-power.
    """
    n, m = len(p), sums.shape[1]
    z, part = np.empty(m), np.empty(m)
    for q in range(m):
        t = sums[0, q] / least
        z[q] = np.exp(-t)
        part[q] = sums[1, q] * least**-power * np.exp(-t * all_carried)
    for i in range(n):
        eta, left = p[i], 1.0 - p[i]
        if i & 15 == 0:
            m = _active(part, m)
        for q in range(m):
            part[q] *= eta * z[q] + left
    m = _active(part, m)
    if degree == 1:
        total = 0.0
        for q in range(m):
            total += part[q] * carried
        out[0] = total
        for k in range(n):
            eta, left = p[k], 1.0 - p[k]
            if eta > 0.0:
                total += eta * _tilted(part, z, eta, left, m)
            out[k + 1] = total
        return
    mean, variance = np.full(m, carried), np.zeros(m)
    for k in range(n + 1):
        total = 0.0
        for q in range(m):
            total += part[q] * (mean[q] * mean[q] + variance[q])
        out[k] = total
        if k < n:
            eta, left = p[k], 1.0 - p[k]
            for q in range(m):
                tilted = eta * z[q] / (eta * z[q] + left)
                mean[q] += tilted
                variance[q] += tilted * (1.0 - tilted)
