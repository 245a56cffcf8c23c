"""Pooling adjacent violators in score order, and reading the staircase that results.

Samples in any order, windows and forgetting: `streamcal.kernels.isotonic`.

Samples come in score order, here labels at the scores 1 to 8. A sample is a block of its own; one
whose mean does not exceed that of the block before is pooled with it, and the result with the block
before that, until means increase:

    44              44
    44 52           44 | 52
    44 52 18        38                 18 and 52 make 35, 35 and 44 make 38
    … 14            32
    … 93            32 | 93
    … 37            32 | 65
    … 96            32 | 65 | 96
    … 8             32 | 58.5          8 and 96 make 52, 52 and 65 make 58.5

A `Stack` holds such blocks. The last of them is the *open sample*: all samples that have the
greatest score so far. It is pooled when a greater score arrives. Who reads the blocks gets it
pooled, but it stays open. Otherwise ties would not be exact: samples with equal scores are one
sample before any pooling, so a later sample with the same score may undo the pooling of the earlier
ones.

Sums are pooled, not means: with integer weights and statistics they are exact below 2^53. Means are
compared as rounded quotients, so the means of neighbours always increase strictly. Where sums are
exact, equal means are pooled; where they are not, rounding decides whether equal means are.
"""

cimport cython
from libc.math cimport INFINITY, fabs, isfinite, isnan, nextafter
from libc.stdlib cimport free, realloc
from libc.string cimport memcpy

cimport streamcal.kernels.any_width
from streamcal.kernels.exclusive cimport Shared
from streamcal.kernels.memory cimport allocated, resize

import numpy as np

from streamcal.kernels.exclusive import no_collection, no_fork


cdef struct Block:
    double lower, upper  # the smallest and the greatest score
    double weight, sum  # Σ w and Σ w · statistic
    double moment  # Σ w · score
    double mean  # sum / weight


cdef inline Block block_of(double x, double w, double s) noexcept nogil:
    """Return a sample as a block."""
    return Block(lower=x, upper=x, weight=w, sum=s, moment=w * x, mean=s / w)


cdef inline void add(Block *block, double weight, double sum, double moment) noexcept nogil:
    """Add to the sums of a block."""
    block.weight += weight
    block.sum += sum
    block.moment += moment
    block.mean = block.sum / block.weight


cdef inline void add_before(Block *block, const Block *before) noexcept nogil:
    """Merge a block with the one before it."""
    add(block, before.weight, before.sum, before.moment)
    block.lower = before.lower


@cython.final
cdef class Stack(Shared):
    """Blocks in score order with strictly increasing means, and the open sample after them.

    Each method may be called from any thread. A method that refuses samples returns False and has
    changed nothing.
    """

    cdef Block *blocks
    cdef Py_ssize_t size, room
    # Totals bound the weight and the sum of every block: while they are finite, so are these. A
    # moment may overflow. `of` and `of_blocks` make stacks that are only read: their totals are 0.
    cdef double total_weight, magnitude

    # Pooling --------------------------------------------------------------------------------------

    cdef Block top(self, Py_ssize_t *row) noexcept nogil:
        """Return the block of the open sample after pooling, and its row; -1 if empty."""
        cdef Block block
        row[0] = self.size - 1
        if not self.size:
            return block_of(0.0, 1.0, 0.0)
        block = self.blocks[row[0]]
        while row[0] > 0 and self.blocks[row[0] - 1].mean >= block.mean:
            row[0] -= 1
            add_before(&block, &self.blocks[row[0]])
        return block

    cdef void pool_open_sample(self) noexcept nogil:
        """Pool the open sample."""
        cdef Py_ssize_t row
        cdef Block block = self.top(&row)
        if self.size:
            self.blocks[row] = block
        self.size = row + 1

    cdef void push_sample(self, double x, double w, double s) noexcept nogil:
        """Add a sample that has been checked; there is room for it."""
        cdef Block block = self.open_with(x, w, s)
        self.blocks[self.size] = block
        self.size += 1

    cdef Block open_with(self, double x, double w, double s) noexcept nogil:
        """Return the next open sample; the present one is merged into it or pooled."""
        cdef Block block = block_of(x, w, s)
        cdef Block *top
        if self.size and self.blocks[self.size - 1].upper == x:
            self.size -= 1
            top = &self.blocks[self.size]
            add(&block, top.weight, top.sum, top.moment)
        else:
            self.pool_open_sample()
        return block

    cdef int push_increasing(
        self, const double *x, const double *w, bint step, const double *s, Py_ssize_t n
    ) except -1 nogil:
        """Add samples whose scores increase strictly; without ``step`` all have the first weight.

        The current block stays in registers and absorbs the next samples as long as they are not
        above its mean. Then it is compared with the blocks before (Busing, *Monotone Regression: A
        Simple and Fast O(n) PAVA Implementation*, Journal of Statistical Software 2022). The next
        samples are compared by a product, which is cheaper than a quotient; if its rounding hides
        an increase, the two means are equal up to rounding.
        """
        self.make_room(1)
        cdef Block block = self.open_with(x[0], w[0], s[0])
        cdef Block *blocks = self.blocks
        cdef double weight = w[0]
        cdef Py_ssize_t row = self.size, i = 1, last = n - 1
        while i < n:
            while True:
                while i < last:  # the last sample stays open
                    weight = w[i] if step else weight
                    if not s[i] <= block.mean * weight:
                        break
                    add(&block, weight, s[i], weight * x[i])
                    i += 1
                if row == 0 or blocks[row - 1].mean < block.mean:
                    break
                row -= 1
                add_before(&block, &blocks[row])
            block.upper = x[i - 1]
            blocks[row] = block
            row += 1
            if row == self.room:
                self.size = row
                self.make_room(1)
                blocks = self.blocks
            block = block_of(x[i], w[i] if step else weight, s[i])
            i += 1
        blocks[row] = block
        self.size = row + 1
        return 0

    # For Python -----------------------------------------------------------------------------------

    def __dealloc__(self):
        free(self.blocks)

    @staticmethod
    def of(const double[::1] x, const double[::1] w, const double[::1] s):
        """Return the stack of sorted samples; None if they are not.

        Without ``w`` weights are 1. Sums may overflow; `describe` returns whether they did.
        """
        cdef Stack stack = Stack()
        cdef int order
        check_lengths(x, w, s)
        with nogil:
            order = order_of(x)
            if order != UNSORTED:
                stack.push_samples(x, w, s, order)
        return None if order == UNSORTED else stack

    @staticmethod
    def of_blocks(const double[:, ::1] rows):
        """Return the stack of blocks as `closed` returns them, in score order, pooled further."""
        cdef Stack stack = Stack()
        cdef Py_ssize_t i
        stack.resize(len(rows))
        for i in range(len(rows)):
            stack.blocks[stack.size] = Block(
                lower=rows[i, 0],
                upper=rows[i, 1],
                weight=rows[i, 2],
                sum=rows[i, 3],
                moment=rows[i, 4],
                mean=rows[i, 3] / rows[i, 2],
            )
            stack.size += 1
            stack.pool_open_sample()
        return stack

    @staticmethod
    def restore(const double[:, ::1] rows, double weight, double magnitude):
        """Return the stack with this `state`."""
        cdef Stack stack = Stack()
        if rows.shape[1] != 6:
            raise ValueError(f"a block must be six numbers, got {rows.shape[1]}")
        stack.resize(len(rows))
        if len(rows):
            memcpy(stack.blocks, &rows[0, 0], len(rows) * sizeof(Block))
        stack.size = len(rows)
        stack.total_weight, stack.magnitude = weight, magnitude
        return stack

    def push(self, double x, double w, double s):
        """Add a sample (score, weight, weighted statistic); amortised O(1).

        Return False if its score is below that of the open sample, or the sums overflow.
        """
        with self.lock:
            if not self.can_push(x, self.total_weight + w, self.magnitude + fabs(s)):
                return False
            self.make_room(1)
            self.push_sample(x, w, s)
            self.total_weight += w
            self.magnitude += fabs(s)
            self.check()
            return True

    def extend(
        self,
        const double[::1] x,
        const double[::1] w,
        const double[::1] s,
        double low,
        double high,
    ):
        """Add samples as `push` does, all or none; O(n_samples). Without ``w`` weights are 1.

        Return False if a score is below the one before, or the sums overflow. Statistics are from
        ``low`` to ``high``. Raise if arrays have changed meanwhile: they are read more than once.
        """
        cdef Stack batch = Stack()
        cdef double weight, magnitude
        cdef bint good, same = True
        cdef Py_ssize_t i
        cdef int order
        check_lengths(x, w, s)
        with no_fork, nogil, self.lock:
            weight, magnitude = self.total_weight, self.magnitude
            for i in range(len(x)):
                weight += 1.0 if w is None else w[i]
                magnitude += fabs(s[i])
            order = order_of(x)
            good = order != UNSORTED and (len(x) == 0 or self.can_push(x[0], weight, magnitude))
            if good and len(x) > 0:
                batch.total_weight, batch.magnitude = weight, magnitude
                if self.size > 0:  # the first sample may have the same score as the open one
                    batch.add_block(&self.blocks[self.size - 1])
                batch.make_room(len(x))
                batch.push_samples(x, w, s, order)
                same = batch.is_sound(low, high)
                if same:
                    self.append(batch)
                    self.total_weight, self.magnitude = batch.total_weight, batch.magnitude
                    self.check()
        if not same:
            raise ValueError("`scores`, `y` and `w` must not be changed while they are learned, but were")
        return bool(good)

    def find(self, double x):
        """Return (x0, mean at x0, x1, mean at x1) of the gap around ``x``, the open sample pooled.

        Where there is no gap, x0 = x1 = x. Takes O(log n_blocks) in addition to the pooling of the
        open sample. None if there are no samples.
        """
        cdef Py_ssize_t row, end, middle, last
        cdef Block top, block, other
        cdef double x0 = x, x1 = x
        with self.lock:
            if not self.size:
                return None
            top = self.top(&last)
            row, end = 0, last + 1  # the last row whose `lower` is <= x, or 0
            while end - row > 1:
                middle = (row + end) // 2
                if self.blocks[middle].lower <= x:
                    row = middle
                else:
                    end = middle
            block = other = top if row == last else self.blocks[row]
            if x < block.lower and row > 0:
                other = self.blocks[row - 1]
                x0, x1 = other.upper, block.lower
                block, other = other, block
            elif x > block.upper and row < last:
                other = top if row + 1 == last else self.blocks[row + 1]
                x0, x1 = block.upper, other.lower
        return x0, block.mean, x1, other.mean

    def describe(self):
        """Return the blocks, the open sample pooled with them, and whether all sums are finite.

        A block is a column of the array: lower, upper, mean, weight, center.
        """
        cdef Py_ssize_t i, last
        cdef Block top, block
        cdef double[:, ::1] out
        cdef bint finite = True
        with no_collection, self.lock:
            top = self.top(&last)
            array = np.empty((5, last + 1))
            out = array
            for i in range(last + 1):
                block = top if i == last else self.blocks[i]
                out[0, i], out[1, i] = block.lower, block.upper
                out[2, i], out[3, i] = block.mean, block.weight
                out[4, i] = center_of(&block)
                finite &= isfinite(block.weight) and isfinite(block.sum)
        return array, bool(finite)

    def closed(self):
        """Return the blocks, the open sample pooled, as rows (lower, upper, weight, sum, moment)."""
        cdef Py_ssize_t i, last
        cdef Block top, block
        cdef double[:, ::1] out
        with no_collection, self.lock:
            top = self.top(&last)
            array = np.empty((last + 1, 5))
            out = array
            for i in range(last + 1):
                block = top if i == last else self.blocks[i]
                out[i, 0], out[i, 1] = block.lower, block.upper
                out[i, 2], out[i, 3], out[i, 4] = block.weight, block.sum, block.moment
        return array

    def state(self):
        """Return the state: (rows, Σ w, Σ w · |statistic|).

        A row has the columns of `closed` and the mean; the last one is the open sample.
        """
        cdef double[:, ::1] out
        with no_collection, self.lock:
            array = np.empty((self.size, 6))
            out = array
            if self.size:
                memcpy(&out[0, 0], self.blocks, self.size * sizeof(Block))
            return array, self.total_weight, self.magnitude

    @property
    def last(self):
        """The score of the open sample, -inf if there is none."""
        with self.lock:
            return self.blocks[self.size - 1].upper if self.size else -INFINITY

    def __len__(self):
        """Return the number of blocks, the open sample pooled."""
        cdef Py_ssize_t last
        with self.lock:
            self.top(&last)
        return last + 1

    def __sizeof__(self):
        return object.__sizeof__(self) + self.room * sizeof(Block)

    def __reduce__(self):
        return Stack.restore, self.state()

    # Changing -------------------------------------------------------------------------------------

    cdef bint can_push(self, double x, double weight, double magnitude) noexcept nogil:
        """Return whether a score is not below that of the open sample, and totals are finite."""
        if self.size and x < self.blocks[self.size - 1].upper:
            return False
        return weight + magnitude < INFINITY

    cdef int check(self) except -1 nogil:
        """Assert, in the checked build, what holds after each change."""
        cdef Py_ssize_t i
        assert 0 <= self.size <= self.room
        for i in range(1, self.size):
            assert self.blocks[i - 1].upper < self.blocks[i].lower
            assert i == self.size - 1 or self.blocks[i - 1].mean < self.blocks[i].mean
        return 0

    cdef bint is_sound(self, double low, double high) noexcept nogil:
        """Return whether these can be blocks of samples; let the totals bound their sums."""
        cdef double weight = 0.0, magnitude = 0.0, before = -INFINITY
        cdef double least = low - 1e-9 * (1.0 + fabs(low)), most = high + 1e-9 * (1.0 + fabs(high))
        cdef Block *block
        cdef Py_ssize_t i
        cdef bint sound = self.blocks[self.size - 1].lower == self.blocks[self.size - 1].upper
        for i in range(self.size):
            block = &self.blocks[i]
            sound &= (before < block.lower) & (block.lower <= block.upper) & (block.weight > 0.0)
            sound &= (least <= block.mean) & (block.mean <= most)
            before = block.upper
            weight += block.weight
            magnitude += fabs(block.sum)
        if weight > (1.0 + 1e-9) * self.total_weight:
            self.total_weight = weight
        if magnitude > (1.0 + 1e-9) * self.magnitude:
            self.magnitude = magnitude
        return sound and before + self.total_weight + self.magnitude < INFINITY

    cdef int append(self, Stack batch) except -1 nogil:
        """Replace the open sample by the blocks of a batch that begins with it; take its memory."""
        cdef Py_ssize_t i, n
        if self.size <= 1:
            self.blocks, batch.blocks = batch.blocks, self.blocks
            self.size, self.room, batch.room = batch.size, batch.room, self.room
            return 0
        self.make_room(batch.size)  # the statements below cannot fail
        self.size -= 1
        for i in range(batch.size):
            self.pool_open_sample()
            if i > 0 and self.blocks[self.size - 1].lower == batch.blocks[i - 1].lower:
                n = batch.size - i  # it was not pooled, so the blocks after it are not either
                memcpy(&self.blocks[self.size], &batch.blocks[i], n * sizeof(Block))
                self.size += n
                return 0
            self.blocks[self.size] = batch.blocks[i]
            self.size += 1
        return 0

    cdef int add_block(self, const Block *block) except -1 nogil:
        """Add a block as the open sample."""
        self.make_room(1)
        self.blocks[self.size] = block[0]
        self.size += 1
        return 0

    cdef int make_room(self, Py_ssize_t n) except -1 nogil:
        """Allocate room for ``n`` more blocks."""
        if self.size + n > self.room:
            self.resize(max(self.size + n, 2 * self.room))
        return 0

    cdef int resize(self, Py_ssize_t room) except -1 nogil:
        """Allocate room for exactly this many blocks."""
        resize(<void **> &self.blocks, room, sizeof(Block))
        self.room = max(room, 1)
        return 0

    cdef void shrink(self, Py_ssize_t room) noexcept nogil:
        """Reduce the room to exactly this many blocks, if memory can be reallocated."""
        cdef void *blocks = realloc(self.blocks, max(room, 1) * sizeof(Block))
        if blocks != NULL:
            self.blocks, self.room = <Block *> blocks, max(room, 1)

    cdef int push_samples(
        self,
        const double[::1] x,
        const double[::1] w,
        const double[::1] s,
        int order,
    ) except -1 nogil:
        """Add samples that have been checked, in a known order."""
        cdef Py_ssize_t n = len(x)
        cdef double one = 1.0
        cdef const double *weights = &one
        cdef double *runs
        if not n:
            return 0
        if w is not None:
            weights = &w[0]
        if order == INCREASING:
            self.push_increasing(&x[0], weights, w is not None, &s[0], n)
        else:
            runs = <double *> allocated(3 * n, sizeof(double))
            n = join_ties(&x[0], weights, w is not None, &s[0], n, runs)
            try:
                self.push_increasing(runs, runs + len(x), 1, runs + 2 * len(x), n)
            finally:
                free(runs)
        if self.room > 2 * self.size:
            self.shrink(2 * self.size)
        return 0


cdef inline double center_of(const Block *block) noexcept nogil:
    """Return the weighted mean score of a block, clipped to the block's scores."""
    cdef double center = block.moment / block.weight
    if not isfinite(center):  # the moment overflowed
        center = 0.5 * block.lower + 0.5 * block.upper
    return min(max(center, block.lower), block.upper)


cdef int check_lengths(
    const double[::1] x, const double[::1] w, const double[::1] s
) except -1:
    """Raise unless statistics, and weights if any, have the length of the scores."""
    if len(s) != len(x) or (w is not None and len(w) != len(x)):
        raise ValueError(f"statistics and weights must be as many as the {len(x)} scores")
    return 0


cdef Py_ssize_t join_ties(
    const double *x, const double *w, bint step, const double *s, Py_ssize_t n, double *runs
) noexcept nogil:
    """Merge each run of equal scores into one sample; return how many there are.

    ``runs`` has room for 3 n numbers: first n scores, then n weights, then n sums. Without ``step``
    all samples have the first weight.
    """
    cdef double *scores = runs
    cdef double *weights = runs + n
    cdef double *sums = runs + 2 * n
    cdef Py_ssize_t i, run = 0
    scores[0], weights[0], sums[0] = x[0], w[0], s[0]
    for i in range(1, n):
        if x[i] == scores[run]:
            weights[run] += w[i * step]
            sums[run] += s[i]
        else:
            run += 1
            scores[run], weights[run], sums[run] = x[i], w[i * step], s[i]
    return run + 1


# The baseline of x86-64 can't vectorise comparisons alone.
cdef extern from *:
    """
    AT_ANY_WIDTH static int increases(const double *x, Py_ssize_t n) {
        long long all = 1;  /* as wide as a score, and without an early exit: it is vectorised */
        for (Py_ssize_t i = 1; i < n; i++) all &= x[i - 1] < x[i];
        return (int) all;
    }
    AT_ANY_WIDTH static int all_between(const double *x, Py_ssize_t n, double low, double high) {
        long long all = 1;
        for (Py_ssize_t i = 0; i < n; i++) all &= (low <= x[i]) & (x[i] <= high);
        return (int) all;
    }
    """
    bint all_between(const double *x, Py_ssize_t n, double low, double high) noexcept nogil
    bint increases(const double *x, Py_ssize_t n) noexcept nogil


cpdef enum:
    INCREASING, SORTED, UNSORTED


cpdef int order_of(const double[::1] x) noexcept nogil:
    """Return INCREASING (strictly), SORTED (with ties), or UNSORTED (also if not finite)."""
    cdef Py_ssize_t i, n = len(x)
    if n and not (isfinite(x[0]) and isfinite(x[n - 1])):
        return UNSORTED
    if n == 0 or increases(&x[0], n):
        return INCREASING
    for i in range(1, n):
        if not x[i - 1] <= x[i]:
            return UNSORTED
    return SORTED


def inside(const double[::1] x, double low, double high, bint low_closed, bint high_closed):
    """Return whether all lie between ``low`` and ``high``; NaN never does."""
    if not low_closed:
        low = nextafter(low, INFINITY)
    if not high_closed:
        high = nextafter(high, -INFINITY)
    return len(x) == 0 or bool(all_between(&x[0], len(x), low, high))


def in_order(const double[::1] lower, const double[::1] upper, const double[::1] values):
    """Return whether blocks are disjoint and in score order and their values do not decrease."""
    cdef Py_ssize_t i
    cdef bint ordered = lower[0] <= upper[0] and not isnan(values[0])
    for i in range(1, len(lower)):
        ordered &= upper[i - 1] < lower[i] and lower[i] <= upper[i] and values[i - 1] <= values[i]
    return bool(ordered)


cpdef double between(double x, double x0, double v0, double x1, double v1) noexcept nogil:
    """Interpolate between (x0, v0) and (x1, v1), x0 < x < x1 and v0 <= v1, monotonically.

    If one end is infinite, the value is that of the other end. If one value is infinite, the value
    is the finite one.
    """
    cdef double t, width = x1 - x0, rise = v1 - v0
    if v0 == v1 or x1 == INFINITY or v1 == INFINITY:
        return v0
    if x0 == -INFINITY or v0 == -INFINITY:
        return v1
    if width < INFINITY:
        t = (x - x0) / width
    else:  # the difference overflows, that of the halves does not
        t = (0.5 * x - 0.5 * x0) / (0.5 * x1 - 0.5 * x0)
    if rise < INFINITY:
        return min(v0 + t * rise, v1)
    return (1.0 - t) * v0 + t * v1


def blend(const double[::1] low, const double[::1] high, const double[::1] t):
    """Return the values at share ``t`` of the way from ``low`` to ``high``."""
    cdef Py_ssize_t i
    if not len(low) == len(high) == len(t):
        raise ValueError(f"`low` and `high` must be as many as `t`, got {len(low)}, {len(high)}")
    array = np.empty(len(t))
    cdef double[::1] out = array
    with nogil:
        for i in range(len(t)):
            out[i] = between(t[i], 0.0, low[i], 1.0, high[i])
    return array


def evaluate(
    const double[::1] left,
    const double[::1] right,
    const double[::1] values,
    bint linear,
    const double[::1] x,
):
    """Evaluate steps ``left[i] <= x <= right[i]`` and the gaps between them; O(log n_steps) each.

    Gaps are linear, or have the value of the step before. Outside, the value is the first or the
    last one; NaN stays NaN.
    """
    cdef Py_ssize_t i, j, n, half, last = len(left) - 1
    cdef double at
    array = np.empty(len(x))
    cdef double[::1] out = array
    with nogil:
        for j in range(len(x)):
            at = x[j]
            i, n = 0, last + 1  # the last step that begins at or before x, or the first
            while n > 1:
                half = n // 2
                if left[i + half] <= at:
                    i += half
                n -= half
            if isnan(at):
                out[j] = at
            elif linear and i < last and at > right[i]:
                out[j] = between(at, right[i], values[i], left[i + 1], values[i + 1])
            else:
                out[j] = values[i]
    return array
