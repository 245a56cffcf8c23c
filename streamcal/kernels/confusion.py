"""Metrics of a confusion table, compiled: what every search over labellings evaluates.

A metric is a vector of `SPEC` floats, so that one kernel serves all of them: which formula, what
0/0 is, and for ratios of linear forms what each true positive, false positive, false negative and
true negative adds to the numerator and to the denominator. Counts may be fractions: expected
counts and forgotten ones are.
"""

import numpy as np
from numpy.typing import NDArray

from streamcal.kernels._compile import helper, kernel

Vector = NDArray[np.float64]

KIND, ZERO = 0, 1  # which formula; what 0/0 is, NaN where a class that is absent drops out
NUMERATOR, DENOMINATOR = 2, 6  # four coefficients each: tp, fp, fn, tn
SPEC = 10

FRACTION, AM, GMEAN, HMEAN, QMEAN, GTPPR, MCC, KAPPA, SEC = range(9)


@helper
def utility(spec: Vector, tp: float, fp: float, fn: float, tn: float) -> float:
    """Return the metric of one table."""
    kind, zero = int(spec[KIND]), spec[ZERO]
    if kind == FRACTION:
        below = spec[6] * tp + spec[7] * fp + spec[8] * fn + spec[9] * tn
        if below <= 0.0:
            return zero
        return (spec[2] * tp + spec[3] * fp + spec[4] * fn + spec[5] * tn) / below
    positive, negative = tp + fn, fp + tn
    if kind <= QMEAN:
        return mean_of_rates(kind, zero, tp, positive, tn, negative)
    chosen, rest = tp + fp, fn + tn
    if kind == GTPPR:
        if positive <= 0.0 or chosen <= 0.0:
            return zero
        return tp / (np.sqrt(positive) * np.sqrt(chosen))
    if kind == SEC:
        if positive + negative <= 0.0:
            return zero
        return -(((positive - chosen) / (positive + negative)) ** 2)
    if kind == MCC:
        below = np.sqrt(positive * negative) * np.sqrt(chosen * rest)
    else:
        below = 0.5 * (chosen * negative + positive * rest)
    if below <= 0.0:
        return zero
    return (tp * tn - fp * fn) / below


@helper
def mean_of_rates(
    kind: int, zero: float, tp: float, positive: float, tn: float, negative: float
) -> float:
    """Return the mean of the two classes' rates; a NaN ``zero`` leaves an absent class out."""
    if zero != zero and (positive <= 0.0 or negative <= 0.0):
        if positive <= 0.0 and negative <= 0.0:
            return 0.0
        rate = tn / negative if positive <= 0.0 else tp / positive
        return 1.0 - (1.0 - rate) ** 2 if kind == QMEAN else rate
    hit = tp / positive if positive > 0.0 else zero
    rejected = tn / negative if negative > 0.0 else zero
    if kind == AM:
        return 0.5 * (hit + rejected)
    if kind == GMEAN:
        return np.sqrt(hit * rejected)
    if kind == HMEAN:
        return 2.0 * hit * rejected / (hit + rejected) if hit + rejected > 0.0 else 0.0
    return 1.0 - 0.5 * ((1.0 - hit) ** 2 + (1.0 - rejected) ** 2)


@kernel("float64(float64[::1], float64, float64, float64, float64)")
def utility_of(spec: Vector, tp: float, fp: float, fn: float, tn: float) -> float:
    """Return the metric of one table."""
    return utility(spec, tp, fp, fn, tn)


@kernel("void(float64[::1], float64[:, ::1], float64[::1])")
def utilities(spec: Vector, tables: Vector, out: Vector) -> None:
    """Write the metric of each table; ``tables`` has the rows tp, fp, fn, tn."""
    for j in range(len(out)):
        out[j] = utility(spec, tables[0, j], tables[1, j], tables[2, j], tables[3, j])


@kernel("UniTuple(float64, 2)(float64[::1], float64[::1], float64)")
def single(spec: Vector, history: Vector, p: float) -> tuple[float, float]:
    """Return the expected metric when one sample is labelled 0 and when it is labelled 1."""
    tp, fp, fn, tn = history[0], history[1], history[2], history[3]
    no = (1.0 - p) * utility(spec, tp, fp, fn, tn + 1.0)
    yes = p * utility(spec, tp + 1.0, fp, fn, tn)
    if p > 0.0:
        no += p * utility(spec, tp, fp, fn + 1.0, tn)
    if p < 1.0:
        yes += (1.0 - p) * utility(spec, tp, fp + 1.0, fn, tn)
    return no, yes
