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

A `WarmStart` makes cells of a map that should be close to the solution. It needs the derivatives at
two points, below and above each block's value. They bracket the value or show that it is wrong, and
the secant through both is a linear model of each sample's derivative. Pooling adjacent violators on
these models gives the next map (Jongbloed, *The Iterative Convex Minorant Algorithm for
Nonparametric Estimation*, Journal of Computational and Graphical Statistics 1998), which is far
closer: this is Newton's method.

`Quantiles` need no derivatives, only comparisons with labels.
"""

cimport cython
from libc.math cimport INFINITY, NAN, fabs, isfinite, nextafter
from libc.stdint cimport int64_t
from libc.stdlib cimport free

from streamcal.kernels.exclusive cimport Shared
from streamcal.kernels.memory cimport resize
from streamcal.kernels.sums cimport rises, two_sum_error

import numpy as np

from streamcal.kernels.exclusive import no_collection

CHUNK = 1 << 15  # samples whose derivatives are computed at once: their arrays stay in cache

cdef double PATIENCE = 3.0  # moves of the same bound in a row, after which the midpoint is used
cdef double SLACK = 1e-12  # relative rounding error of a sum of weights
cdef double LEAST_SLOPE = 1e-3  # the least slope of a linear model, relative to the mean slope
cdef int MOST_CUTS = 6  # of a run of samples, before they are pooled one by one

ctypedef const unsigned char[::1] Flags


cdef struct Cell:
    Py_ssize_t begin  # its first sample
    double low, high  # the bounds of its value
    double query_point
    double slope_low, slope_high  # sums of derivatives at the bounds, NaN where not known
    double streak  # how often in a row the high (+) or the low (-) bound has moved


cdef struct Bounds:
    Py_ssize_t begin
    double low, high


cdef struct Block:
    Py_ssize_t begin
    double low, high  # the query points; the block's value is between them
    double weight, sum  # of the models: Σ slope and Σ slope · zero
    double value
    double slope_low, slope_high  # sums of the derivatives at the bounds
    bint low_is_wrong, high_is_wrong  # whether the low and the high bound do not hold
    bint is_new  # whether the derivatives at the bounds are new


cdef struct Blocks:
    Block *at
    Py_ssize_t size, room


cdef struct Line:
    double slope, sum  # the second is the slope times where the line is zero


cdef struct Sum:
    double total, lost


# What cells, guesses and quantiles share ----------------------------------------------------------


cdef inline void add(Sum *sum, double x) noexcept nogil:
    """Add to a sum, and its rounding error to ``lost``.

    Otherwise the terms of light samples after heavy ones would be lost. An infinite sum has no
    rounding error.
    """
    cdef double new = sum.total + x
    cdef double error = two_sum_error(sum.total, x, new)
    sum.total = new
    if fabs(error) < INFINITY:
        sum.lost += error


cpdef double midpoint(double low, double high) noexcept nogil:
    """Return the middle of two bounds, or the next probe of 0, ±1, ±2, ±4, … towards infinity."""
    if low == -INFINITY:
        if high == INFINITY:
            return 0.0
        return min(2.0 * high, -1.0) if high <= 0.0 else 0.0
    if high == INFINITY:
        return max(2.0 * low, 1.0) if low >= 0.0 else 0.0
    return 0.5 * low + 0.5 * high


cpdef Py_ssize_t room_for(Py_ssize_t n):
    """Return ``n`` with its last chunk padded to a power of two ≥ 64: few sizes are compiled.
    """
    cdef Py_ssize_t rest = n % CHUNK, power = 64
    while power < rest:
        power *= 2
    return n - rest + (power if rest else 0)


cdef aligned(Py_ssize_t n_rows, Py_ssize_t n):
    """Return rows of zeros that begin at multiples of 64 bytes: JAX reads these without a copy."""
    cdef double[::1] zeros = np.zeros(n_rows * n + 8)
    cdef Py_ssize_t ahead = (8 - <size_t> &zeros[0] // 8 % 8) % 8
    return np.asarray(zeros)[ahead : ahead + n_rows * n].reshape(n_rows, n)


def padded(rows):
    """Return a copy of rows, padded to `room_for` their length with the last of each."""
    cdef Py_ssize_t n = len(rows[0])
    out = aligned(len(rows), room_for(n))
    for row, padded_row in zip(rows, out):
        padded_row[:n] = row
        padded_row[n:] = row[n - 1]
    return out


cdef int check_length(Py_ssize_t n, Py_ssize_t expected) except -1:
    if n != expected:
        raise ValueError(f"derivatives must be {expected}, got {n}")
    return 0


# Cells --------------------------------------------------------------------------------------------


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


# A warm_start -------------------------------------------------------------------------------------


@cython.final
cdef class WarmStart(Shared):
    """Blocks of a map that should be close to the solution, and derivatives beside their values.

    The bounds of a block hold if none of the sums of derivatives over its first samples is positive
    at the low bound, and none over its last samples negative at the high one: raising the first
    samples of any map to the low bound, or lowering the last ones to the high bound, then costs
    nothing, because derivatives rise.

    Parameters
    ----------
    begins : ndarray of shape (n_blocks,)
        The first sample of each block: 0, then where a new score begins.
    values : ndarray of shape (n_blocks,)
        Their values, not decreasing.
    ends, offset, low, high
        See `Cells`; ``low`` and ``high`` are finite.
    reach : float
        The greatest distance from the value of a block to its bounds.

    Attributes
    ----------
    z : ndarray of shape (2, room_for(n_samples))
        The query points, padded: the low bounds and the high ones.
    sides : ndarray of shape (2, n_samples)
        The derivatives there; the caller writes them.
    """

    cdef Blocks blocks
    cdef Blocks pooled  # scratch for new blocks
    cdef Py_ssize_t n_joined  # the number of neighbours that a block is joined with
    cdef double low, high, reach
    cdef double least_slope  # the least slope of the secant of a sample
    cdef Flags ends
    cdef const double[::1] offset
    cdef readonly object z, sides
    cdef double[:, ::1] queries, derivatives  # the same

    def __cinit__(
        self,
        const int64_t[::1] begins not None,
        const double[::1] values not None,
        Flags ends not None,
        const double[::1] offset,
        double low,
        double high,
        double reach,
    ):
        cdef Py_ssize_t k, n = len(ends)
        check_length(len(begins), len(values))
        if offset is not None:
            check_length(len(offset), n)
        self.z, self.sides = aligned(2, room_for(n)), np.empty((2, n))
        self.queries, self.derivatives = self.z, self.sides
        self.ends, self.offset = ends, offset
        self.low, self.high, self.reach, self.n_joined = low, high, reach, 1
        for k in range(len(begins)):
            if k == 0 and begins[0] != 0 or k and not begins[k - 1] < begins[k] < n:
                raise ValueError("blocks must begin at samples, in order")
            push(&self.blocks, begins[k], 1.0, values[k])
        self.evaluate()
        self.set_bounds()

    def __dealloc__(self):
        free(self.blocks.at)
        free(self.pooled.at)

    def __len__(self):
        return self.blocks.size

    def __sizeof__(self):
        return object.__sizeof__(self) + (self.blocks.room + self.pooled.room) * sizeof(Block)

    def n_wrong(self):
        """Return the number of samples in blocks with a wrong bound."""
        cdef Py_ssize_t k, n = 0
        with nogil, self.lock:
            self.check_all_bounds()
            for k in range(self.blocks.size):
                if self.blocks.at[k].low_is_wrong or self.blocks.at[k].high_is_wrong:
                    n += self.end_of(k) - self.blocks.at[k].begin
        return n

    def improve(self, double reach):
        """Take one Newton step; return False, unchanged, if no sample has curvature.

        ``reach`` is the distance from the values to the new bounds.
        """
        cdef bint improved
        with nogil, self.lock:
            improved = self.pool(reach)
        return improved

    def join(self):
        """Join blocks with wrong bounds with their neighbours; return the samples to evaluate.

        If there are none, all bounds are right. With each call more neighbours are joined.
        """
        cdef Py_ssize_t k, i, at = 0, n = 0
        cdef int64_t[::1] out
        with no_collection, self.lock:
            self.check_all_bounds()
            self.join_all()
            for k in range(self.blocks.size):
                n += self.end_of(k) - self.blocks.at[k].begin if self.blocks.at[k].is_new else 0
            samples = np.empty(n, np.int64)
            out = samples
            for k in range(self.blocks.size):
                if self.blocks.at[k].is_new:
                    for i in range(self.blocks.at[k].begin, self.end_of(k)):
                        out[at] = i
                        at += 1
        return samples

    def cells(self, double tolerance, double relative):
        """Return these blocks as cells, when all bounds are right."""
        cdef Cells cells = Cells(self.ends, self.offset, 0.0, 0.0, tolerance, relative)
        cdef Py_ssize_t k
        cdef Block *block
        with no_collection, self.lock:
            self.check_all_bounds()
            cells.make_room(self.blocks.size)
            cells.sides = self.derivatives
            cells.size = self.blocks.size
            for k in range(self.blocks.size):
                block = &self.blocks.at[k]
                cells.cells[k] = Cell(
                    block.begin,
                    block.low,
                    block.high,
                    0.0,
                    block.slope_low,
                    block.slope_high,
                    0.0,
                )
            cells.set_query_points()
            cells.check()
        return cells

    cdef inline Py_ssize_t end_of(self, Py_ssize_t k) noexcept nogil:
        return self.blocks.at[k + 1].begin if k + 1 < self.blocks.size else len(self.ends)

    cdef void check_all_bounds(self) noexcept nogil:
        """Check the bounds of all blocks whose derivatives are new."""
        cdef Py_ssize_t k
        for k in range(self.blocks.size):
            if self.blocks.at[k].is_new:
                self.check_bounds(&self.blocks.at[k], self.end_of(k))

    cdef void check_bounds(self, Block *block, Py_ssize_t end) noexcept nogil:
        """Set whether the bounds of a block are right."""
        cdef Sum low = Sum(0.0, 0.0), high = Sum(0.0, 0.0)
        cdef double greatest = 0.0, last = 0.0
        cdef bint low_is_wrong = False
        cdef Py_ssize_t i
        for i in range(block.begin, end):
            add(&low, self.derivatives[0, i])
            add(&high, self.derivatives[1, i])
            if self.ends[i] != 0:
                low_is_wrong |= not low.total + low.lost <= 0.0
                greatest = max(greatest, last)
                last = high.total + high.lost
        block.low_is_wrong = low_is_wrong and block.low > self.low
        block.high_is_wrong = not last >= greatest and block.high < self.high
        block.slope_low, block.slope_high = low.total + low.lost, last
        block.is_new = False

    cdef void evaluate(self) noexcept nogil:
        """Compute the values of pooled blocks."""
        cdef Py_ssize_t k
        for k in range(self.blocks.size):
            self.blocks.at[k].value = self.blocks.at[k].sum / self.blocks.at[k].weight

    cdef void set_bounds(self) noexcept nogil:
        """Set the bounds of all blocks around their values, and write the query points."""
        cdef Py_ssize_t k, size = 0
        cdef double value, middle
        cdef Block *block
        for k in range(self.blocks.size):
            value = min(max(self.blocks.at[k].value, self.low), self.high)
            if size and not self.blocks.at[size - 1].value < value:
                continue  # out of range, as the block before: merge them
            block = &self.blocks.at[size]
            block.begin, block.value, block.is_new = self.blocks.at[k].begin, value, True
            block.low = max(value - self.reach, self.low)
            block.high = min(value + self.reach, self.high)
            if size and self.blocks.at[size - 1].high > block.low:
                middle = 0.5 * self.blocks.at[size - 1].value + 0.5 * value
                self.blocks.at[size - 1].high = block.low = middle
            size += 1
        self.blocks.size = size
        for k in range(size):
            self.write_query_points(k)

    cdef void write_query_points(self, Py_ssize_t k) noexcept nogil:
        """Write the query points of a block."""
        cdef Py_ssize_t i
        for i in range(self.blocks.at[k].begin, self.end_of(k)):
            self.queries[0, i], self.queries[1, i] = self.blocks.at[k].low, self.blocks.at[k].high
        if self.offset is not None:
            for i in range(self.blocks.at[k].begin, self.end_of(k)):
                self.queries[0, i] += self.offset[i]
                self.queries[1, i] += self.offset[i]

    cdef inline Line line(self, const Block *block, Py_ssize_t i) noexcept nogil:
        """Return the line through a sample's derivatives at the bounds of its block.

        Lines that are next to flat are given some slope, so that they have a zero.
        """
        cdef double low = self.derivatives[0, i], high = self.derivatives[1, i]
        cdef double slope = (high - low) / (block.high - block.low)
        cdef double middle = 0.5 * block.low + 0.5 * block.high, height = 0.5 * low + 0.5 * high
        slope = slope if self.least_slope < slope < INFINITY else self.least_slope
        return Line(slope, slope * middle - (height if fabs(height) < INFINITY else 0.0))

    cdef double mean_slope(self) noexcept nogil:
        cdef double rise, high_is_wrong, total = 0.0
        cdef Py_ssize_t i, k
        for k in range(self.blocks.size):
            high_is_wrong = 0.0
            for i in range(self.blocks.at[k].begin, self.end_of(k)):
                rise = self.derivatives[1, i] - self.derivatives[0, i]
                high_is_wrong += rise if 0.0 < rise < INFINITY else 0.0
            total += high_is_wrong / (self.blocks.at[k].high - self.blocks.at[k].low)
        return total / len(self.ends)

    cdef bint pool(self, double reach) except -1 nogil:
        """Replace the blocks by the pooled zeros of all secants."""
        cdef Py_ssize_t k
        if self.least_slope == 0.0:
            self.least_slope = LEAST_SLOPE * self.mean_slope()
        if not 0.0 < self.least_slope < INFINITY:
            return False
        self.reach = reach
        self.pooled.size = 0
        for k in range(self.blocks.size):
            self.pool_run(&self.blocks.at[k], self.blocks.at[k].begin, self.end_of(k), MOST_CUTS)
        self.blocks, self.pooled = self.pooled, self.blocks
        self.evaluate()
        self.set_bounds()
        return True

    cdef int pool_run(
        self, const Block *block, Py_ssize_t begin, Py_ssize_t end, int n_cuts
    ) except -1 nogil:
        """Pool samples of a block: cut the run and its parts while it pays, then one by one."""
        cdef Line line, run = Line(0.0, 0.0)
        cdef Py_ssize_t i, place
        for i in range(begin, end):
            line = self.line(block, i)
            run = Line(run.slope + line.slope, run.sum + line.sum)
        place = self.cut(block, begin, end, run)
        if place == end:
            push(&self.pooled, begin, run.slope, run.sum)
        elif n_cuts > 0:
            self.pool_run(block, begin, place, n_cuts - 1)
            self.pool_run(block, place, end, n_cuts - 1)
        else:
            run = Line(0.0, 0.0)
            for i in range(begin, end):
                line = self.line(block, i)
                run = Line(run.slope + line.slope, run.sum + line.sum)
                if self.ends[i] != 0:
                    push(&self.pooled, begin, run.slope, run.sum)
                    begin, run = i + 1, Line(0.0, 0.0)
        return 0

    cdef Py_ssize_t cut(
        self, const Block *block, Py_ssize_t begin, Py_ssize_t end, Line run
    ) noexcept nogil:
        """Return where to cut a run of samples, given the sum of their lines.

        That is the end if they are one block: if at their common value the lines of its first
        samples never have a positive sum. Else it is after the first samples with the greatest
        sum, as for `Cells`. ``excess`` is that sum with the sign turned.
        """
        cdef double value = run.sum / run.slope, excess = 0.0, before = 0.0, least = 0.0
        cdef Py_ssize_t i, place = end
        cdef bint one = True
        cdef Line line
        for i in range(begin, end - 1):
            line = self.line(block, i)
            excess += line.sum - value * line.slope
            before += line.slope
            if self.ends[i] != 0 and excess < 0.0:
                one &= not excess < -0.5 * self.reach * min(before, run.slope - before)
                if excess < least:
                    least, place = excess, i + 1
        return end if one else place

    cdef int join_all(self) except -1 nogil:
        cdef Py_ssize_t k, size = 0, old_size = self.blocks.size, n_ahead = 0
        cdef Block block
        for k in range(old_size):
            block = self.blocks.at[k]
            if block.low_is_wrong and size == 0:
                block.low, block.is_new = self.low, True
            if size and (block.low_is_wrong or n_ahead):
                size = max(size - self.n_joined, 0) if block.low_is_wrong else size - 1
                block.begin, block.low = self.blocks.at[size].begin, self.blocks.at[size].low
                block.is_new = True
            n_ahead = self.n_joined if block.high_is_wrong else max(n_ahead - 1, 0)
            if block.high_is_wrong and k == old_size - 1:
                block.high, block.is_new = self.high, True
            self.blocks.at[size] = block
            size += 1
        self.blocks.size = size
        self.n_joined *= 2
        for k in range(size):
            if self.blocks.at[k].is_new:
                self.write_query_points(k)
        return 0


cdef inline int push(
    Blocks *blocks, Py_ssize_t begin, double weight, double sum
) except -1 nogil:
    """Add a block, and pool it with those before as long as values do not increase."""
    cdef Py_ssize_t room, last = blocks.size - 1
    while last >= 0 and not rises(blocks.at[last].weight, blocks.at[last].sum, weight, sum):
        begin = blocks.at[last].begin
        weight += blocks.at[last].weight
        sum += blocks.at[last].sum
        last -= 1
    blocks.size = last + 2
    if blocks.size > blocks.room:
        blocks.size -= 1
        room = max(16, 2 * blocks.room)
        resize(<void **> &blocks.at, room, sizeof(Block))
        blocks.room = room
        blocks.size += 1
    blocks.at[last + 1].begin = begin
    blocks.at[last + 1].weight, blocks.at[last + 1].sum = weight, sum
    return 0


# Quantiles ----------------------------------------------------------------------------------------


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
