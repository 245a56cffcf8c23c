"""What `streamcal.decision.promises` computes for each sample; the formulas are in its docstring."""

from libc.math cimport exp, fmax, fmin, log, log1p

import numpy as np

cdef enum:
    N_ROWS = 4
    INTERVALS = 69
    SEEN = 0
    EXPECTED = 1
    LABELLED = 2
    SURPLUS = 3

N_INTERVALS = INTERVALS
LOWEST, WIDTH = -5.0, 0.25  # log odds: where intervals begin, and their length; the last is at 12
HALF_LIFE = 5_000.0  # after so many samples a count of an interval is halved
N_PRIOR = 100.0  # so many labels of an interval count as much as its confidences do

cdef double _lowest = LOWEST, _width = WIDTH, _n_prior = N_PRIOR
cdef double _decay = 0.5 ** (1.0 / HALF_LIFE)
cdef double[INTERVALS] _errors  # that a confidence in the middle of each interval says
cdef int _i
for _i in range(INTERVALS):
    _errors[_i] = 1.0 / (1.0 + exp(_lowest + _width * (_i + 0.5)))


cpdef double place_of(double confidence) noexcept:
    """Return where the log odds of a confidence are, in intervals."""
    if not 0.0 < confidence < 1.0:
        return INTERVALS - 1.0 if confidence >= 1.0 else 0.0
    cdef double odds = log(confidence) - log1p(-confidence)
    return fmin(fmax((odds - _lowest) / _width, 0.0), INTERVALS - 1.0)


def count(const double[:, ::1] counts not None, double confidence, bint seen, label):
    """Return the counts after a sample.

    Parameters
    ----------
    counts : array of shape (4, n_intervals)
        See `ErrorBudget`.
    seen : bool
        Whether it is new.
    label : bool or None
        Whether its answer was wrong; None if that is not known.
    """
    cdef int row, i, at = <int> place_of(confidence)
    cdef double decay
    after = np.empty((N_ROWS, INTERVALS))
    cdef double[:, ::1] values = after
    for row in range(N_ROWS):
        decay = _decay if (seen if row <= EXPECTED else label is not None) else 1.0
        for i in range(INTERVALS):
            values[row, i] = decay * counts[row, i]
    if seen:
        values[SEEN, at] += 1.0
        values[EXPECTED, at] += 1.0 - confidence
    if label is not None:
        values[LABELLED, at] += 1.0
        values[SURPLUS, at] += (1.0 if label else 0.0) - (1.0 - confidence)
    return after


def lowest_place(const double[:, ::1] counts not None, double share):
    """Return the lowest threshold, in intervals, above which the share of errors is kept.

    It is ``N_INTERVALS`` if there is none.
    """
    cdef int i
    cdef double total = 0.0, before, excess, place = INTERVALS
    for i in range(INTERVALS - 1, -1, -1):  # from the greatest confidence down
        excess = counts[SEEN, i] * (counts[SURPLUS, i] / (counts[LABELLED, i] + _n_prior) - share)
        # One sample more: no interval is for nothing.
        excess += counts[EXPECTED, i] + fmax(_errors[i] - share, 0.0)
        before = total
        total += excess
        if total <= 0.0:
            place = i
        elif before <= 0.0:  # the errors are too many for all of it, but not for a part
            place = i + 1 + before / excess
    return place
