"""Newton's method for isotonic regression: a warm start of threshold decomposition.

A `WarmStart` makes cells (`streamcal.kernels.threshold_decomposition`) of a map that should be
close to the solution. It needs the derivatives at two points, below and above each block's value.
They bracket the value or show that it is wrong, and the secant through both is a linear model of
each sample's derivative. Pooling adjacent violators on these models gives the next map
(Jongbloed, *The Iterative Convex Minorant Algorithm for Nonparametric Estimation*, Journal of
Computational and Graphical Statistics 1998), which is far closer: this is Newton's method.

The squared loss, half of its derivative, and a map of two blocks for the labels 3 1 2 6 4 5, with
bounds at a distance of 1: the sums below the low bounds and above the high ones have the right
signs, so these are cells::

    labels       3    1    2   |   6    4    5
    block        2             |   5                       values
    d at low    -2    0   -1   |  -2    0   -1             bounds 1 and 4: no sum is positive
    d at high    0    2    1   |   0    2    1             bounds 3 and 6: no sum is negative
"""

cimport cython
from libc.math cimport INFINITY, fabs
from libc.stdint cimport int64_t
from libc.stdlib cimport free

from streamcal.kernels.exclusive cimport Shared
from streamcal.kernels.memory cimport resize
from streamcal.kernels.padded_rows cimport aligned, room_for
from streamcal.kernels.samples cimport check_length
from streamcal.kernels.sums cimport Sum, add, rises
from streamcal.kernels.threshold_decomposition cimport Flags

import numpy as np

from streamcal.kernels.exclusive import no_collection
from streamcal.kernels.threshold_decomposition import Cells

cdef double LEAST_SLOPE = 1e-3  # the least slope of a linear model, relative to the mean slope
cdef int MOST_CUTS = 6  # of a run of samples, before they are pooled one by one


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
        cdef Py_ssize_t k
        cdef Block *block
        cdef int64_t[::1] first
        cdef double[:, ::1] out
        with no_collection, self.lock:
            self.check_all_bounds()
            begins, bounds = np.empty(self.blocks.size, np.int64), np.empty((4, self.blocks.size))
            first, out = begins, bounds
            for k in range(self.blocks.size):
                block = &self.blocks.at[k]
                first[k] = block.begin
                out[0, k], out[1, k] = block.low, block.high
                out[2, k], out[3, k] = block.slope_low, block.slope_high
        return Cells.around(begins, bounds, self.sides, self.ends, self.offset, tolerance, relative)

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
