"""How many consecutive values of a series carry the information of one independent value.

The sum of n independent values has n times the variance of one. The sum of dependent values has
n · VR times it, where the *variance ratio* VR is one plus twice the sum of their autocorrelations:
n such values carry the information of n / VR independent ones. The estimate uses the squares of
sums over windows (a Bartlett kernel; Newey & West, Econometrica 1987)::

    VR = mean(S²) / W ÷ mean(z²),  S = the sum of the last W values z

A series whose mean is not 0 has a large ratio even if its values are independent. The ratio *about
the mean* is (mean(S²) / W − W mean(z)²) ÷ (mean(z²) − mean(z)²).

For values that become known d samples late, W is 4 d + 1, which gives the lag d a weight of 3/4. A
window consists of 8 blocks of sums, whatever its length. Whenever a block is full, S² is also
computed for the last 1, 2, … 7 blocks, because the values of a window may cancel if its length is a
period of the series. The estimate is the largest ratio of all these lengths and of all series. Each
ratio starts at d + 1, with the weight of W values: after n values, log VR is the mean of both logs
with the weights n and W.
"""

from libc.math cimport exp, log

import numpy as np

from streamcal.kernels.expert import VIEW_BYTES


cdef enum:
    BLOCKS = 8  # to a window, so two are about d values

cdef double ROUNDING = 1e-12


cdef class VarianceRatio:
    """The variance ratio of some series, updated value by value.

    Parameters
    ----------
    n_series : int
    """

    def __cinit__(self, n_series):
        self.sums = np.zeros((BLOCKS, n_series))
        self.lengths = np.zeros(BLOCKS)
        self.long_run = np.zeros((BLOCKS, n_series))
        self.at_once = np.zeros(n_series)
        self.totals = np.zeros(n_series)
        self.spans = np.zeros(BLOCKS)

    def __sizeof__(self):
        cdef Py_ssize_t n = self.at_once.shape[0]
        cdef size_t n_numbers = BLOCKS * (2 * n + 2) + 2 * n
        return object.__sizeof__(self) + n_numbers * sizeof(double) + 6 * VIEW_BYTES

    cdef void add(self, const double *values, double weight, double delay) noexcept nogil:
        """Add a value of each series, less the mean of these values."""
        cdef Py_ssize_t i, n = self.at_once.shape[0]
        cdef double mean = 0.0, z
        for i in range(n):
            mean += values[i] / n
        for i in range(n):
            z = values[i] - mean
            if -ROUNDING < z < ROUNDING:  # series that are equal have no ratio
                continue
            z *= weight
            self.sums[0, i] += z
            self.at_once[i] += z * z
            self.totals[i] += z
        self.lengths[0] += 1.0
        self.n += 1.0
        if self.lengths[0] * BLOCKS >= window(delay):
            self.close_block()

    cdef void close_block(self) noexcept nogil:
        cdef Py_ssize_t i, b, n = self.at_once.shape[0]
        cdef double length = 0.0, s, square, variance, of_sums
        self.estimate = self.about_mean = 0.0
        for b in range(BLOCKS):
            length += self.lengths[b]
            self.spans[b] += self.lengths[0] * length
        for i in range(n):
            s = length = 0.0
            square = (self.totals[i] / self.n) ** 2
            variance = self.at_once[i] - self.n * square
            for b in range(BLOCKS):
                s += self.sums[b, i]
                length += self.lengths[b]
                self.long_run[b, i] += self.lengths[0] * (s * s / length)
                if self.at_once[i] > 0.0:
                    self.estimate = max(self.estimate, self.long_run[b, i] / self.at_once[i])
                if variance > ROUNDING * self.at_once[i]:
                    of_sums = self.long_run[b, i] - self.spans[b] * square
                    self.about_mean = max(self.about_mean, of_sums / variance)
        self.n_closed = self.n
        for b in range(BLOCKS - 1, 0, -1):
            self.lengths[b] = self.lengths[b - 1]
            self.sums[b] = self.sums[b - 1]
        self.lengths[0] = 0.0
        self.sums[0] = 0.0

    cdef double ratio(self, double delay, bint about_mean) noexcept nogil:
        """Return a ratio, from 1 to the length of the window."""
        cdef double w = window(delay), estimate = self.about_mean if about_mean else self.estimate
        cdef double seen = self.n_closed * log(max(estimate, 1.0))
        cdef double ratio = exp((seen + w * log(1.0 + delay)) / (self.n_closed + w))
        return min(max(ratio, 1.0), w)

    cdef bint has_values(self) noexcept nogil:
        """Return whether the series have ever differed."""
        cdef Py_ssize_t i
        for i in range(self.at_once.shape[0]):
            if self.at_once[i] > 0.0:
                return True
        return False

    # State ----------------------------------------------------------------------------------------

    def state(self):
        """Return what `restore` takes: six arrays, and the numbers in a seventh."""
        numbers = np.array([self.n, self.n_closed, self.estimate, self.about_mean])
        windows = np.array(self.sums), np.array(self.lengths), np.array(self.long_run)
        totals, spans = np.array(self.totals), np.array(self.spans)
        return *windows, np.array(self.at_once), totals, spans, numbers

    def restore(self, sums, lengths, long_run, at_once, totals, spans, numbers):
        """Set the state to what `state` returned."""
        self.sums = np.array(sums)
        self.lengths = np.array(lengths)
        self.long_run = np.array(long_run)
        self.at_once = np.array(at_once)
        self.totals = np.array(totals)
        self.spans = np.array(spans)
        self.n, self.n_closed, self.estimate, self.about_mean = numbers


cdef inline double window(double delay) noexcept nogil:
    return 4.0 * delay + 1.0
