"""Isotonic regression for the pinball loss: threshold decomposition with labels for bounds.

No derivatives are needed, only comparisons with labels. Six samples of weight 1, tau = .5: at a
query point the sum grows by .5 with each label up to it, and falls by .5 with each label above::

    labels       3      1      2      6      4      5
    sum at 3    .5     1.0    1.5    1.0     .5     0      greatest after three samples: cut
    sum at 2   -.5      0      .5  |                       greatest at the end: at most 2
    sum at 5                       | -.5      0     .5     greatest at the end: at most 5
"""

cimport cython
from libc.math cimport INFINITY, nextafter
from libc.stdint cimport int64_t
from libc.stdlib cimport free

from streamcal.kernels.exclusive cimport Shared
from streamcal.kernels.memory cimport resize
from streamcal.kernels.samples cimport check_length
from streamcal.kernels.threshold_decomposition cimport Bounds, Flags

import numpy as np

from streamcal.kernels.exclusive import no_collection

cdef double SLACK = 1e-12  # relative rounding error of a sum of weights


@cython.final
cdef class Quantiles(Shared):
    """Rounds for the pinball loss, whose derivatives are w (1 - tau) above a label and -w tau.

    The value of a cell is one of its own labels, so bounds are labels and become equal. Sums that
    differ only by rounding count as equal. If both sides of the query point are equally good for a
    sample, it goes up if the ``greatest`` quantile is meant, else down.

    Parameters
    ----------
    y, w, ends : ndarray of shape (n_samples,)
        Labels and weights in score order; see `Cells` for the last.
    tau : float
        The level of the quantile.
    greatest : bool
        Whether the greatest of several quantiles is meant, or the least.

    Attributes
    ----------
    n_open : int
        The number of cells with different bounds.
    """

    cdef Bounds *cells
    cdef Bounds *spare  # as large; a round writes there
    cdef Py_ssize_t size, room, n_rounds
    cdef readonly Py_ssize_t n_open
    cdef const double[::1] y, w
    cdef Flags ends
    cdef double tau
    cdef bint greatest
    cdef double[::1] sums

    def __cinit__(
        self,
        const double[::1] y not None,
        const double[::1] w not None,
        Flags ends not None,
        double tau,
        bint greatest,
    ):
        check_length(len(w), len(y))
        check_length(len(ends), len(y))
        self.y, self.w, self.ends, self.tau, self.greatest = y, w, ends, tau, greatest
        self.sums = np.empty(len(y))
        self.make_room(1)
        if len(y):
            self.cells[0] = self.among_labels(0, len(y), -INFINITY, INFINITY)
            self.size, self.n_open = 1, self.cells[0].low < self.cells[0].high

    def __dealloc__(self):
        free(self.cells)
        free(self.spare)

    def __len__(self):
        return self.size

    def __sizeof__(self):
        return object.__sizeof__(self) + 2 * self.room * sizeof(Bounds)

    def run(self, Py_ssize_t n_rounds):
        """Run rounds until all cells are closed, at most ``n_rounds``; return how many.

        O(n_samples) each.
        """
        cdef Py_ssize_t done = 0
        with nogil, self.lock:
            while self.n_open and done < n_rounds:
                self.split_all()
                done += 1
        return done

    def bounds(self):
        """Return the first sample, the low and the high bound of all cells."""
        cdef Py_ssize_t k
        with no_collection, self.lock:
            begins, bounds = np.empty(self.size, np.int64), np.empty((2, self.size))
            for k in range(self.size):
                begins[k] = self.cells[k].begin
                bounds[0, k], bounds[1, k] = self.cells[k].low, self.cells[k].high
        return begins, *bounds

    cdef int make_room(self, Py_ssize_t room) except -1 nogil:
        if room > self.room:
            resize(<void **> &self.cells, room, sizeof(Bounds))
            resize(<void **> &self.spare, room, sizeof(Bounds))
            self.room = room
        return 0

    cdef Bounds among_labels(
        self, Py_ssize_t begin, Py_ssize_t end, double low, double high
    ) noexcept nogil:
        """Return a cell whose value is one of its own labels from low to high."""
        cdef double label, lowest = high, highest = low
        cdef Py_ssize_t i
        for i in range(begin, end):
            label = self.y[i]
            lowest = min(lowest, label if label >= low else high)
            highest = max(highest, label if label <= high else low)
        return Bounds(begin, lowest, max(lowest, highest))

    cdef int split_all(self) except -1 nogil:
        """Split each cell that is open."""
        cdef Py_ssize_t k, place, end, size = 0
        cdef double at
        cdef Bounds cell
        self.make_room(2 * self.size)
        self.n_open = 0
        for k in range(self.size):
            cell = self.cells[k]
            end = self.cells[k + 1].begin if k + 1 < self.size else len(self.y)
            if cell.low == cell.high:
                self.write(cell, &size)
                continue
            at = 0.5 * cell.low + 0.5 * cell.high
            if self.n_rounds % 3 == 2:  # for labels on a scale where midpoints take many rounds
                at = max(cell.low, self.y[(cell.begin + end) // 2])
            if at >= cell.high:
                at = cell.low
            place = self.cut(cell.begin, end, at)
            if place > cell.begin:
                self.write(self.among_labels(cell.begin, place, cell.low, at), &size)
            if end > place:
                at = nextafter(at, cell.high)
                self.write(self.among_labels(place, end, at, cell.high), &size)
        self.cells, self.spare, self.size = self.spare, self.cells, size
        self.n_rounds += 1
        return 0

    cdef inline void write(self, Bounds cell, Py_ssize_t *size) noexcept nogil:
        self.spare[size[0]] = cell
        self.n_open += cell.low < cell.high
        size[0] += 1

    cdef Py_ssize_t cut(self, Py_ssize_t begin, Py_ssize_t end, double at) noexcept nogil:
        """Return the first sample of a cell whose value is above ``at``."""
        # Two sums that are exact for integer weights, instead of one sum of products with tau.
        cdef double below = 0.0, size = 0.0, best = 0.0, enough
        cdef Py_ssize_t i, place
        for i in range(begin, end):
            below += self.w[i] if self.y[i] <= at else 0.0
            size += self.w[i]
            self.sums[i] = below - self.tau * size if self.ends[i] != 0 else -INFINITY
            best = max(best, self.sums[i])
        enough = best - SLACK * size
        if self.greatest:
            place = begin
            if enough > 0.0:
                while self.sums[place] < enough:
                    place += 1
                place += 1
        else:
            place = end
            while place > begin and self.sums[place - 1] < enough:
                place -= 1
        return place


def greatest_quantiles(
    const double[::1] y not None,
    const double[::1] w not None,
    double tau,
    const int64_t[::1] starts not None,
    const double[::1] values not None,
):
    """Return the greatest value that each block of the least solution can have as a whole.

    It is the upper quantile of the block: the next label, if the weight up to its value is exactly
    the share tau. It is at most the upper quantile of each block to the right.
    """
    cdef double upto, total, after, ceiling = INFINITY
    cdef Py_ssize_t i, k, end = len(y)
    array = np.empty(len(values))
    cdef double[::1] out = array
    check_length(len(w), len(y))
    check_length(len(starts), len(values))
    for k in range(len(starts)):
        if not (0 if k == 0 else starts[k - 1]) <= starts[k] <= end:
            raise ValueError("blocks must start at samples, in order")
    with nogil:
        for k in range(len(values) - 1, -1, -1):
            upto, total, after = 0.0, 0.0, INFINITY
            for i in range(starts[k], end):
                total += w[i]
                if y[i] <= values[k]:
                    upto += w[i]
                else:
                    after = min(after, y[i])
            if upto > tau * total + SLACK * total:
                after = values[k]
            ceiling = min(ceiling, after)
            out[k], end = ceiling, starts[k]
    return array
