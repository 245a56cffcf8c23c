"""Metrics of a confusion table: what every search over labellings evaluates.

A metric is coded as a vector of `SPEC` floats, so that one kernel serves all of them: which
formula, the value of 0/0, and for ratios of linear forms the coefficients of true positives, false
positives, false negatives and true negatives in numerator and denominator. F1 is
2 TP / (2 TP + FP + FN):

    KIND      ZERO   numerator: tp fp fn tn   denominator: tp fp fn tn
    FRACTION    0                2  0  0  0                 2  1  1  0

Counts need not be integers: expected counts and decayed ones are not. Other kernels read a vector
into a `Formula` and call `utility`, which the compiler inlines.
"""

import numpy as np


def utilities(const double[::1] spec, const double[:, ::1] tables):
    """Return the metric of each table; ``tables`` has the rows tp, fp, fn, tn."""
    cdef Formula formula = formula_of(spec)
    cdef Py_ssize_t j, n = tables.shape[1]
    values = np.empty(n)
    cdef double[::1] out = values
    with nogil:
        for j in range(n):
            out[j] = utility(&formula, tables[0, j], tables[1, j], tables[2, j], tables[3, j])
    return values


def single(const double[::1] spec, const double[::1] history, double p):
    """Return the expected metric when one sample is labelled 0 and when it is labelled 1."""
    cdef Formula formula = formula_of(spec)
    cdef double tp = history[0], fp = history[1], fn = history[2], tn = history[3]
    cdef double no = (1.0 - p) * utility(&formula, tp, fp, fn, tn + 1.0)
    cdef double yes = p * utility(&formula, tp + 1.0, fp, fn, tn)
    if p > 0.0:
        no += p * utility(&formula, tp, fp, fn + 1.0, tn)
    if p < 1.0:
        yes += (1.0 - p) * utility(&formula, tp, fp + 1.0, fn, tn)
    return no, yes


def means_over_labels_1(const double[::1] p, const double[::1] spec, const double[::1] history):
    """Return Ψ_0..Ψ_n of a ratio of which only samples labelled 1 are part, all with one weight.

    Summands are added up in blocks, and blocks with compensation (Kahan). So the relative errors of
    all sums are those of `LONGEST_SUM` additions, for any n.
    """
    cdef Formula formula = formula_of(spec)
    cdef double tp = formula.above[0], fp = formula.above[1], step = formula.below[0]
    cdef double whole = tp * history[0] + fp * history[1], shift = step * (history[0] + history[1])
    cdef double block = 0.0, excess = 0.0, added, total
    cdef Py_ssize_t k, n = p.shape[0]
    values = np.empty(n + 1)
    cdef double[::1] psi = values
    with nogil:
        psi[0] = whole / shift if shift > 0.0 else formula.zero
        for k in range(n):
            if k % LONGEST_SUM == 0:
                added = block - excess
                total = whole + added
                excess = (total - whole) - added
                whole, block = total, 0.0
            block += tp * p[k] + fp * (1.0 - p[k])
            psi[k + 1] = (whole + block) / (shift + step * <double> (k + 1))
    return values
