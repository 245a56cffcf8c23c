"""Metrics of a confusion table: what every search over labellings evaluates.

A metric is coded as a vector of `SPEC` floats, so that one kernel serves all of them: which
formula, what 0/0 is, and for ratios of linear forms what each true positive, false positive, false
negative and true negative adds above and below the line. F1 is 2 TP / (2 TP + FP + FN):

    KIND      ZERO   above: tp fp fn tn   below: tp fp fn tn
    FRACTION    0            2  0  0  0           2  1  1  0

Counts may be fractions: expected counts and forgotten ones are. Other kernels read a vector into a
`Formula` and call `utility`, which the compiler puts into their loops.
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
