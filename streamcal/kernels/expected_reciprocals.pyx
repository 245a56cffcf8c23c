"""Algorithm 2 of Natarajan et al., corrected: a ratio of linear forms of the counts in O(n²).

With the k likeliest labelled 1, the denominator is α + c V + e (n - k - V), where α is determined
by U, and V counts the positives among the rest. b(k, α) = E 1/(α + c V + e
(n-k-V)) obeys b(k - 1, α) = η_k b(k, α + c) + (1 - η_k) b(k, α + e), and for integer coefficients
the values of α lie on a grid:

    k = n      1/α on all of the grid
    k = n - 1  η_n times the entry c steps on, plus 1 - η_n times the entry e steps on
    …          until k = 0, on a shorter part of the grid each time

Coefficients by cell of the confusion table are never negative, so neither is an index. The grid
starts at 0, which is missing from the range in the paper.
"""

cimport cython
from libc.stdint cimport int64_t

import numpy as np


@cython.final
cdef class Reciprocals:
    """The expected reciprocals b(k, ·), from k = n down to 0.

    The denominator is ``shift`` + (``den`` · counts) / ``scale`` with integers ``den``, the
    numerator ``carried`` + ``num`` · counts; both have a coefficient for tp, fp, fn and tn. 0/0
    counts as 0; if a part of the numerator was moved to the constant, the caller corrects for 0/0.
    """

    cdef const double[::1] p
    cdef double[::1] grid  # b(k, shift + i / scale)
    cdef int64_t k
    cdef int64_t den[4]
    cdef double num[4]
    cdef double shift, scale, carried, fold
    cdef double mean  # of V

    def __cinit__(
        self, const double[::1] p, num, den, double shift, double scale, double carried
    ):
        cdef int i
        self.p, self.k = p, p.shape[0]
        self.shift, self.scale, self.carried = shift, scale, carried
        for i in range(4):
            self.num[i], self.den[i] = num[i], den[i]
        below = shift + np.arange(int(max(den)) * self.k + 1) / scale
        self.grid = np.divide(1.0, below, out=np.zeros(len(below)), where=below > 0.0)
        # V's part of the numerator is a multiple of the denominator: (num_fn - num_tn) V =
        # fold * (denominator - the rest of it). If the denominator has no V, its mean is
        # enough.
        if self.den[2] != self.den[3]:
            self.fold = scale * (self.num[2] - self.num[3]) / (self.den[2] - self.den[3])

    def write_expectations(self, laws, double[::1] psi):
        """Write Ψ_k of the labellings whose laws of U are given, the last one first.

        The laws are (offset, rows, bounds); the last row is that of the greatest k that is left.
        """
        cdef int64_t offset = laws[0]
        cdef const double[:, ::1] mass = laws[1]
        cdef const int64_t[:, ::1] used = laws[2]
        cdef Py_ssize_t r
        with nogil:
            for r in range(mass.shape[0] - 1, -1, -1):
                psi[self.k] = self.expectation(&mass[r, 0], offset, used[r, 0], used[r, 1])
                if self.k > 0:
                    self.step_down()

    cdef double expectation(
        self, const double *mass, int64_t offset, int64_t low, int64_t high
    ) noexcept nogil:
        """Return Ψ_k from the law of U."""
        cdef int64_t n = self.p.shape[0], k = self.k, tp = self.den[0], fp = self.den[1]
        cdef int64_t fn = self.den[2], tn = self.den[3], i, u, at
        cdef double *num = self.num
        cdef double known, above, total = 0.0
        cdef double others = <double> (n - k)
        known = self.carried + num[3] * others
        known -= self.fold * (self.shift + <double> (tn * (n - k)) / self.scale)
        if fn == tn:
            known += (num[2] - num[3]) * self.mean
        for i in range(low, high + 1):
            u = offset + i
            at = tp * u + fp * (k - u)
            above = known + num[0] * <double> u + num[1] * <double> (k - u)
            above = above - self.fold * <double> at / self.scale
            total += mass[i] * above * self.grid[at]
        return total + self.fold

    cdef void step_down(self) noexcept nogil:
        """Step from k to k - 1."""
        cdef double eta = self.p[self.k - 1], left = 1.0 - self.p[self.k - 1]
        cdef int64_t fn = self.den[2], tn = self.den[3], i
        cdef int64_t most = max(max(self.den[0], self.den[1]), max(fn, tn))
        self.mean += eta
        self.k -= 1
        for i in range(most * self.k + 1):  # so far the steps that are left must find values
            self.grid[i] = eta * self.grid[i + fn] + left * self.grid[i + tn]
