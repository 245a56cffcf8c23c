"""Threshold decomposition: the compiled half of a round of anytime isotonic regression.

For a number c let d be the weighted derivatives of the losses at c, one per sample in score order,
and G their running sum. Samples up to the greatest G have an optimal value of at most c, those
after it of at least c; between the first and the last place where G is greatest, c is optimal.
For a run of samples whose values lie between two numbers, the sums over this run are enough
(Gokcesu & Gokcesu, *Efficient, Anytime Algorithms for Calibration with Isotonic Regression under
Strictly Convex Losses*, section VI, whose pairwise joins lead to the same groups).

`Cells` are such runs. A cell has bounds for its value and a *query point* between them. It
is *settled* when its bounds are close enough; its derivatives are not needed any more. A round
evaluates all derivatives, each at the query point of its own cell, and splits every cell into the
samples below that point, those with exactly this value, and those above. Six samples with the
labels 3 1 2 6 4 5, the squared loss and half of its derivative, in two rounds:

    labels      3      1      2   |   6      4      5
    d at 3.5     .5    2.5    1.5 |  -2.5    -.5   -1.5      bounds 1, 6: one cell
    G            .5    3      4.5 |   2      1.5    0        greatest after three samples: cut
    d at 2.25  - .75   1.25    .25                           bounds 1, 3.5
    G          - .75    .5     .75                           greatest at the end: 1, 2.25 is left
    d at 4.75                         -1.25    .75   -.25    bounds 3.5, 6
    G                                 -1.25   -.5    -.75    greatest at the start: 4.75, 6 is left

Query points are midpoints, unless derivatives at the bounds are kept, too. From their sums over a
cell a secant estimates the common value of its samples, and this is the next query point (Dowell &
Jarratt, *A Modified Regula Falsi Method*, BIT 1971).
"""

cimport cython
from libc.math cimport INFINITY, NAN, fabs
from libc.stdint cimport int64_t
from libc.stdlib cimport free

from streamcal.kernels.exclusive cimport Shared
from streamcal.kernels.memory cimport resize
from streamcal.kernels.padded_rows cimport aligned, room_for
from streamcal.kernels.samples cimport check_length
from streamcal.kernels.sums cimport Sum, add

import numpy as np

from streamcal.kernels.exclusive import no_collection

cdef double PATIENCE = 3.0  # moves of the same bound in a row, after which the midpoint is used


cdef struct Cell:
    Py_ssize_t begin  # its first sample
    double low, high  # the bounds of its value
    double query_point
    double slope_low, slope_high  # sums of derivatives at the bounds, NaN where not known
    double streak  # how often in a row the high (+) or the low (-) bound has moved


cpdef double midpoint(double low, double high) noexcept nogil:
    """Return the middle of two bounds, or the next probe of 0, ±1, ±2, ±4, … towards infinity."""
    if low == -INFINITY:
        if high == INFINITY:
            return 0.0
        return min(2.0 * high, -1.0) if high <= 0.0 else 0.0
    if high == INFINITY:
        return max(2.0 * low, 1.0) if low >= 0.0 else 0.0
    return 0.5 * low + 0.5 * high


@cython.final
cdef class Cells(Shared):
    """A partition of the sorted samples into runs, with bounds of values and query points.

    Parameters
    ----------
    ends : ndarray of shape (n_samples,)
        1 at the last sample of each run of equal scores: a cell may only be split after it.
    offset : ndarray of shape (n_samples,) or None
        Added to a query point before the derivative is evaluated.
    low, high : float
        The bounds of all values.
    tolerance, relative : float
        The half-width at which a cell is settled: absolute, and relative to its greater bound.

    Attributes
    ----------
    n_open : int
        How many samples are in cells that are not settled.
    """

    cdef Cell *cells
    cdef Cell *spare  # as large; a split writes there
    cdef Py_ssize_t size, room
    cdef Bounds *removed  # settled cells that were removed from `cells`
    cdef Py_ssize_t n_removed
    cdef readonly Py_ssize_t n_open
    cdef object z  # query points, sample by sample; None before they are requested
    cdef double tolerance, relative
    cdef Flags ends
    cdef const double[::1] offset
    cdef int64_t[::1] samples  # the numbers of the samples in `cells`
    cdef double[:, ::1] sides  # derivatives at both bounds, or no rows

    def __cinit__(
        self,
        Flags ends not None,
        const double[::1] offset,
        double low,
        double high,
        double tolerance,
        double relative,
    ):
        cdef Py_ssize_t n = len(ends)
        if offset is not None:
            check_length(len(offset), n)
        self.tolerance, self.relative = tolerance, relative
        self.make_room(1)
        self.set_samples(np.arange(n), ends, offset, np.empty((0, n)))
        if n:
            self.cells[0] = Cell(0, low, high, 0.0, NAN, NAN, 0.0)
            self.size = 1
        self.set_query_points()

    @staticmethod
    def around(
        const int64_t[::1] begins not None,
        const double[:, ::1] bounds not None,
        double[:, ::1] sides not None,
        Flags ends not None,
        const double[::1] offset,
        double tolerance,
        double relative,
    ):
        """Return cells by their first samples and bounds.

        The rows of ``bounds`` are low and high bounds, and the sums of the derivatives there, which
        are ``sides``.
        """
        cdef Cells cells = Cells(ends, offset, 0.0, 0.0, tolerance, relative)
        cdef Py_ssize_t k
        check_length(bounds.shape[1], len(begins))
        cells.make_room(len(begins))
        cells.sides, cells.size = sides, len(begins)
        for k in range(len(begins)):
            cells.cells[k] = Cell(
                begins[k], bounds[0, k], bounds[1, k], 0.0, bounds[2, k], bounds[3, k], 0.0
            )
        cells.set_query_points()
        cells.check()
        return cells

    def __dealloc__(self):
        free(self.cells)
        free(self.spare)
        free(self.removed)

    def __len__(self):
        """Return the number of cells, also those put aside."""
        return self.size + self.n_removed

    def __sizeof__(self):
        cells = 2 * self.room * sizeof(Cell) + self.n_removed * sizeof(Bounds)
        return object.__sizeof__(self) + cells

    @property
    def n_samples(self):
        """The number of samples that are not put aside."""
        return len(self.samples)

    def query_points(self):
        """Return the query points, shape (1, room_for(n_samples)), padded."""
        cdef double[:, ::1] z
        cdef Py_ssize_t k, i
        cdef double query_point
        with no_collection, self.lock:
            if self.z is None:
                self.z = aligned(1, room_for(len(self.samples)))
            z = self.z
            for k in range(self.size):
                if not self.is_settled(self.cells[k].low, self.cells[k].high):
                    query_point = self.cells[k].query_point
                    for i in range(self.cells[k].begin, self.end_of(self.cells, k, self.size)):
                        z[0, i] = query_point if self.offset is None else query_point + self.offset[i]
            return self.z

    def split(self, const double[::1] slopes not None):
        """Split each open cell at its query point, given the derivatives; set new query points.

        Return -1. If a sum is not a number, end the round and return the first sample of its cell.
        """
        cdef Py_ssize_t bad
        check_length(len(slopes), len(self.samples))
        with nogil, self.lock:
            bad = self.split_all(slopes)
        return bad

    def remove_settled(self):
        """Remove the samples of settled cells, and return the numbers of the others."""
        cdef Py_ssize_t k, size, begin = 0
        cdef Cell cell
        with no_collection, self.lock:
            stay = np.empty(self.n_open, np.int64)
            self.write_open_samples(stay)
            resize(<void **> &self.removed, self.n_removed + self.size, sizeof(Bounds))
            size, self.size = self.size, 0
            for k in range(size):
                cell = self.cells[k]
                if self.is_settled(cell.low, cell.high):
                    self.removed[self.n_removed] = Bounds(
                        self.samples[cell.begin], cell.low, cell.high
                    )
                    self.n_removed += 1
                else:
                    self.cells[self.size] = cell
                    self.size += 1
                    self.cells[self.size - 1].begin = begin
                    begin += self.end_of(self.cells, k, size) - cell.begin
            samples = np.asarray(self.samples)[stay]
            self.set_samples(
                samples,
                np.asarray(self.ends)[stay],
                None if self.offset is None else np.asarray(self.offset)[stay],
                np.ascontiguousarray(np.asarray(self.sides)[:, stay]),
            )
            self.set_query_points()
        return samples

    def bounds(self):
        """Return the first sample, the low and the high bound of all cells, in score order."""
        cdef Py_ssize_t k, at = 0
        with no_collection, self.lock:
            begins = np.empty(self.size + self.n_removed, np.int64)
            bounds = np.empty((2, self.size + self.n_removed))
            for k in range(self.n_removed):
                begins[k] = self.removed[k].begin
                bounds[0, k], bounds[1, k] = self.removed[k].low, self.removed[k].high
            for k in range(self.size):
                at = self.n_removed + k
                begins[at] = self.samples[self.cells[k].begin]
                bounds[0, at], bounds[1, at] = self.cells[k].low, self.cells[k].high
        order = np.argsort(begins)
        return begins[order], *np.ascontiguousarray(bounds[:, order])

    cdef int make_room(self, Py_ssize_t room) except -1 nogil:
        if room > self.room:
            resize(<void **> &self.cells, room, sizeof(Cell))
            resize(<void **> &self.spare, room, sizeof(Cell))
            self.room = room
        return 0

    cdef int set_samples(self, samples, ends, offset, sides) except -1:
        """Set the samples: all at first, later those of open cells."""
        self.samples, self.ends, self.offset, self.sides = samples, ends, offset, sides
        self.z = None
        return 0

    cdef int write_open_samples(self, int64_t[::1] out) except -1 nogil:
        """Write the positions of the samples in open cells."""
        cdef Py_ssize_t k, i, at = 0
        for k in range(self.size):
            if not self.is_settled(self.cells[k].low, self.cells[k].high):
                for i in range(self.cells[k].begin, self.end_of(self.cells, k, self.size)):
                    out[at] = i
                    at += 1
        return 0

    cdef inline Py_ssize_t end_of(self, Cell *cells, Py_ssize_t k, Py_ssize_t size) noexcept nogil:
        return cells[k + 1].begin if k + 1 < size else len(self.samples)

    cdef bint is_settled(self, double low, double high) noexcept nogil:
        """Return whether the bounds of a value are close enough, or adjacent floats."""
        cdef double half = 0.5 * high - 0.5 * low
        if half <= self.tolerance:
            return True
        if half < INFINITY and half <= self.relative * max(fabs(low), fabs(high)):
            return True
        return not low < midpoint(low, high) < high

    cdef void set_query_points(self) noexcept nogil:
        cdef Py_ssize_t k
        self.n_open = 0
        for k in range(self.size):
            self.set_query_point(&self.cells[k], self.end_of(self.cells, k, self.size))

    cdef void set_query_point(self, Cell *cell, Py_ssize_t end) noexcept nogil:
        """Choose the query point of a cell, unless it is settled."""
        cdef double share, step, crossing, low = cell.low, high = cell.high
        if self.is_settled(low, high):
            return
        self.n_open += end - cell.begin
        cell.query_point = midpoint(low, high)
        if cell.slope_low < 0.0 and cell.slope_high > 0.0 and fabs(cell.streak) < PATIENCE:
            share = -cell.slope_low / (cell.slope_high - cell.slope_low)
            # At least one tolerance from the bounds: a value next to a bound is settled this round.
            step = max(self.tolerance, self.relative * max(fabs(low), fabs(high)))
            crossing = min(max(low + share * (high - low), low + step), high - step)
            if low < crossing < high:
                cell.query_point = crossing

    cdef Py_ssize_t split_all(self, const double[::1] slopes) except -2 nogil:
        cdef Py_ssize_t k, begin, end, size = 0
        cdef Cell *cell
        self.make_room(3 * self.size)
        for k in range(self.size):
            cell = &self.cells[k]
            begin, end = cell.begin, self.end_of(self.cells, k, self.size)
            if self.is_settled(cell.low, cell.high):
                self.spare[size] = cell[0]
                size += 1
            elif not self.split_cell(cell, end, slopes, &size):
                return begin
        self.cells, self.spare, self.size = self.spare, self.cells, size
        self.set_query_points()
        self.check()
        return -1

    cdef bint split_cell(
        self, const Cell *cell, Py_ssize_t end, const double[::1] slopes, Py_ssize_t *size
    ) noexcept nogil:
        """Write the parts of a cell; return False if its sum is not a number."""
        cdef Py_ssize_t i, begin = cell.begin, first = begin, last = begin
        cdef Sum run = Sum(0.0, 0.0)
        cdef double so_far, best = 0.0, other = NAN
        cdef bint whole
        cdef Cell *part
        for i in range(begin, end):  # the sum restarts at each new maximum
            add(&run, slopes[i])
            if self.ends[i] != 0:
                so_far = run.total + run.lost
                if so_far >= 0.0:
                    last = i + 1
                    if so_far > 0.0:
                        best, first = best + so_far, last
                    run = Sum(0.0, 0.0)
        if not fabs(best + run.total) <= INFINITY:
            return False
        whole = first == end or last == begin
        if first > begin:
            part = self.part(cell, begin, size)
            if len(self.sides):
                other = self.move_sides(slopes, 1, begin, first)
                other = cell.slope_low if whole else other
            move_high(part, best, other, whole)
        if last > first:
            part = self.part(cell, first, size)
            part.low = part.high = cell.query_point
        if end > last:
            part = self.part(cell, last, size)
            if len(self.sides):
                other = self.move_sides(slopes, 0, last, end)
                other = cell.slope_high if whole else other
            move_low(part, run.total + run.lost, other, whole)
        return True

    cdef inline Cell *part(
        self, const Cell *cell, Py_ssize_t begin, Py_ssize_t *size
    ) noexcept nogil:
        """Append a copy of a cell with another first sample to the new cells, and return it."""
        cdef Cell *part = &self.spare[size[0]]
        part[0] = cell[0]
        part.begin = begin
        size[0] += 1
        return part

    cdef double move_sides(
        self, const double[::1] slopes, int moved, Py_ssize_t begin, Py_ssize_t end
    ) noexcept nogil:
        """Store the derivatives at the bound that has moved; return the sum at the other one."""
        cdef double total = 0.0
        cdef Py_ssize_t i
        for i in range(begin, end):
            self.sides[moved, i] = slopes[i]
            total += self.sides[1 - moved, i]
        return total

    cdef int check(self) except -1 nogil:
        """Assert, in the checked build, what holds after each change."""
        cdef Py_ssize_t k
        for k in range(self.size):
            assert self.cells[k].begin < self.end_of(self.cells, k, self.size)
            assert self.cells[k].low <= self.cells[k].high
            assert k == 0 or self.cells[k - 1].high <= self.cells[k].low or self.n_removed
        return 0


# A bound moves to the query point. If the cell was not split, the other bound is unchanged again;
# its slope is then halved, or the secant would converge slowly from one side (regula falsi).


cdef inline void move_high(Cell *cell, double slope, double other, bint whole) noexcept nogil:
    cell.streak = max(1.0, cell.streak + 1.0) if whole else 0.0
    cell.high, cell.slope_high = cell.query_point, slope
    cell.slope_low = 0.5 * other if cell.streak > 1.0 else other


cdef inline void move_low(Cell *cell, double slope, double other, bint whole) noexcept nogil:
    cell.streak = -max(1.0, -cell.streak + 1.0) if whole else 0.0
    cell.low, cell.slope_low = cell.query_point, slope
    cell.slope_high = 0.5 * other if cell.streak < -1.0 else other
