"""Pooling adjacent violators, and reading the staircase that results.

A *block* is a row of six numbers: its smallest and its greatest score, the sums of its weights, of
its weighted statistics and of its weighted scores, and its mean, SUM / WEIGHT. A sample is a block
whose two scores are equal. A *stack* is a matrix of blocks with room to grow: blocks in score order
with strictly increasing means and, as its last row, the *open sample*. All samples that have the
greatest score so far are that one row, and it is pooled only when a greater score comes or somebody
looks. Without this a tie would not be exact: samples with equal scores are one sample before
anything is pooled, and one that comes late may undo the pooling of those before it.

Sums are pooled, not means: with integer weights and statistics they are exact below 2^53. Means are
compared as rounded quotients, so the means of neighbours always increase strictly. Where sums are
exact, equal means are pooled; where they are not, rounding decides whether equal means are.

Arguments that are only read are typed read-only, which admits writable arrays too.
"""

import math

import numpy as np
from numpy.typing import NDArray

from streamcal.kernels._compile import helper, kernel

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]

LOWER, UPPER, WEIGHT, SUM, MOMENT, MEAN = range(6)
COLUMNS = 6

INCREASING, SORTED, UNSORTED = range(3)

READ = "Array(float64, 1, 'C', True)"


@kernel(f"int64({READ})")
def order_of(x: Vector) -> int:
    """Return INCREASING (strictly), SORTED (with ties) or UNSORTED; also that if not all finite."""
    n = len(x)
    if n and not (math.isfinite(x[0]) and math.isfinite(x[n - 1])):
        return UNSORTED
    increasing = True
    for i in range(1, n):  # without an early exit the compiler vectorises it
        increasing &= x[i - 1] < x[i]
    if increasing:
        return INCREASING
    for i in range(1, n):
        if not x[i - 1] <= x[i]:
            return UNSORTED
    return SORTED


@kernel(f"int64({READ}, {READ}, {READ}, float64[:, ::1])")
def group(x: Vector, w: Vector, s: Vector, out: Matrix) -> int:
    """Make one sample of each run of equal scores: rows (scores, weights, sums) of ``out``.

    Return how many there are; ``x`` is sorted and not empty.
    """
    at = 0
    out[0, 0], out[1, 0], out[2, 0] = x[0], w[0], s[0]
    for i in range(1, len(x)):
        if x[i] == out[0, at]:
            out[1, at] += w[i]
            out[2, at] += s[i]
        else:
            at += 1
            out[0, at], out[1, at], out[2, at] = x[i], w[i], s[i]
    return at + 1


@helper
def put(
    stack: Matrix,
    row: int | np.uintp,
    lower: float,
    upper: float,
    weight: float,
    total: float,
    moment: float,
) -> None:
    """Write one block."""
    stack[row, LOWER] = lower
    stack[row, UPPER] = upper
    stack[row, WEIGHT] = weight
    stack[row, SUM] = total
    stack[row, MOMENT] = moment
    stack[row, MEAN] = total / weight


@helper
def top(stack: Matrix, size: int) -> tuple[int, float, float, float, float]:
    """Pool the open sample without writing: (row, lower, weight, total, moment) of its block."""
    row = size - 1
    lower, weight, total = stack[row, LOWER], stack[row, WEIGHT], stack[row, SUM]
    moment = stack[row, MOMENT]
    while row > 0 and stack[row - 1, MEAN] >= total / weight:
        row -= 1
        lower = stack[row, LOWER]
        weight += stack[row, WEIGHT]
        total += stack[row, SUM]
        moment += stack[row, MOMENT]
    return row, lower, weight, total, moment


@kernel("int64(float64[:, ::1], int64)")
def close(stack: Matrix, size: int) -> int:
    """Pool the open sample; return the number of blocks."""
    if size == 0:
        return 0
    upper = stack[size - 1, UPPER]
    row, lower, weight, total, moment = top(stack, size)
    put(stack, row, lower, upper, weight, total, moment)
    return row + 1


@kernel("int64(float64[:, ::1], int64)")
def pool(stack: Matrix, n_blocks: int) -> int:
    """Pool blocks that stand in score order, their MEAN still to be found; return how many remain.

    What is left where each lay is written over. O(n_blocks).
    """
    size = 0
    for i in range(n_blocks):
        lower, upper, weight = stack[i, LOWER], stack[i, UPPER], stack[i, WEIGHT]
        put(stack, size, lower, upper, weight, stack[i, SUM], stack[i, MOMENT])
        size = close(stack, size + 1)
    return size


@kernel("int64(float64[:, ::1], int64, float64, float64, float64)")
def push(stack: Matrix, size: int, x: float, w: float, s: float) -> int:
    """Add a sample (score, weight, weighted statistic) whose score is not below the open one.

    Return the new size, greater by one at most: the caller makes room. Amortised O(1).
    """
    if size > 0 and x == stack[size - 1, UPPER]:
        row = size - 1
        weight, total = stack[row, WEIGHT] + w, stack[row, SUM] + s
        put(stack, row, x, x, weight, total, stack[row, MOMENT] + w * x)
        return size
    row = close(stack, size)
    put(stack, row, x, x, w, s, w * x)
    return row + 1


@kernel(f"int64(float64[:, ::1], int64, {READ}, {READ}, {READ})")
def extend(stack: Matrix, size: int, x: Vector, w: Vector, s: Vector) -> int:
    """Push samples with strictly increasing scores, all above the open one; O(n_samples).

    Return the new size; the caller makes room for ``len(x)`` more rows. The block in the making
    stays in registers and takes in what follows while that does not rise above its mean. Only then
    it looks back (Busing, *Monotone Regression: A Simple and Fast O(n) PAVA Implementation*,
    Journal of Statistical Software 2022). To look ahead a product does, which is cheaper than a
    quotient: should it take a rise for none, the two means are equal up to rounding.
    """
    # A sixth faster than with signed indices, which may count from the end and are looked at twice.
    zero, one = np.uintp(0), np.uintp(1)
    row, i, last = np.uintp(close(stack, size)), zero, np.uintp(len(x) - 1)
    while i < last:
        lower, weight, total = x[i], w[i], s[i]
        moment = weight * lower
        mean = total / weight
        i += one
        while True:
            while i < last and s[i] <= mean * w[i]:
                weight += w[i]
                total += s[i]
                moment += w[i] * x[i]
                mean = total / weight
                i += one
            if row == zero or stack[row - one, MEAN] < mean:
                break
            row -= one
            lower = stack[row, LOWER]
            weight += stack[row, WEIGHT]
            total += stack[row, SUM]
            moment += stack[row, MOMENT]
            mean = total / weight
        put(stack, row, lower, x[i - one], weight, total, moment)
        row += one
    put(stack, row, x[last], x[last], w[last], s[last], w[last] * x[last])
    return int(row) + 1


@kernel("int64(float64[:, ::1], int64)")
def count(stack: Matrix, size: int) -> int:
    """Return the number of blocks, the open sample pooled; writes nothing."""
    return top(stack, size)[0] + 1 if size else 0


@helper
def center_of(lower: float, upper: float, weight: float, moment: float) -> float:
    """Return the weighted mean score of a block, inside it whatever the rounding."""
    center = moment / weight
    if not math.isfinite(center):  # the moment overflowed
        center = 0.5 * lower + 0.5 * upper
    return min(max(center, lower), upper)


@kernel("boolean(float64[:, ::1], int64, float64[:, ::1])")
def describe(stack: Matrix, size: int, out: Matrix) -> bool:
    """Write the closed blocks as rows (lower, upper, mean, weight, center) of ``out``.

    Return whether all sums are finite.
    """
    finite = True
    for i in range(size):
        lower, upper, weight = stack[i, LOWER], stack[i, UPPER], stack[i, WEIGHT]
        out[0, i], out[1, i], out[2, i], out[3, i] = lower, upper, stack[i, MEAN], weight
        out[4, i] = center_of(lower, upper, weight, stack[i, MOMENT])
        finite &= math.isfinite(weight) and math.isfinite(stack[i, SUM])
    return finite


@kernel(f"boolean({READ}, {READ}, {READ})")
def in_order(lower: Vector, upper: Vector, values: Vector) -> bool:
    """Return whether blocks are disjoint and in score order and their values do not decrease."""
    ordered = lower[0] <= upper[0] and not math.isnan(values[0])
    for i in range(1, len(lower)):
        ordered &= upper[i - 1] < lower[i] <= upper[i] and values[i - 1] <= values[i]
    return ordered


@helper
def edges(stack: Matrix, row: int, centered: bool) -> tuple[float, float, float]:
    """Return where a block begins, its mean, and where it ends."""
    lower, upper, mean = stack[row, LOWER], stack[row, UPPER], stack[row, MEAN]
    if centered:
        lower = upper = center_of(lower, upper, stack[row, WEIGHT], stack[row, MOMENT])
    return lower, mean, upper


@kernel("UniTuple(float64, 4)(float64[:, ::1], int64, float64, boolean)")
def find(stack: Matrix, size: int, x: float, centered: bool) -> tuple[float, float, float, float]:
    """Return (x0, mean at x0, x1, mean at x1) of the gap around ``x``, the open sample pooled.

    Where there is no gap, x0 = x1 = x. Centered, blocks shrink to their centers. O(log n_blocks)
    beyond the blocks that the open sample is pooled with; writes nothing.
    """
    last, lower, weight, total, moment = top(stack, size)
    row, end = 0, last + 1  # the last row whose LOWER is <= x, or 0
    while end - row > 1:
        middle = (row + end) // 2
        if stack[middle, LOWER] <= x:
            row = middle
        else:
            end = middle
    left, mean, right = edges(stack, row, centered)
    if row == last:
        upper = stack[size - 1, UPPER]
        mean = total / weight
        left = center_of(lower, upper, weight, moment) if centered else lower
        right = left if centered else upper
    if x < left and row > 0:
        _, mean0, x0 = edges(stack, row - 1, centered)
        return x0, mean0, left, mean
    if x > right and row < last:
        x1, mean1, _ = edges(stack, row + 1, centered)
        if row + 1 == last:
            upper = stack[size - 1, UPPER]
            mean1 = total / weight
            x1 = center_of(lower, upper, weight, moment) if centered else lower
        return right, mean, x1, mean1
    return x, mean, x, mean


@kernel("float64(float64, float64, float64, float64, float64)")
def between(x: float, x0: float, v0: float, x1: float, v1: float) -> float:
    """Interpolate between (x0, v0) and (x1, v1), x0 < x < x1 and v0 <= v1, monotonically.

    An infinite end is infinitely far: the other end has its value. Of two values one of which is
    infinite, the finite one holds.
    """
    if v0 == v1 or x1 == math.inf or v1 == math.inf:
        return v0
    if x0 == -math.inf or v0 == -math.inf:
        return v1
    width = x1 - x0
    if width < math.inf:
        t = (x - x0) / width
    else:  # the difference overflows, that of the halves does not
        t = (0.5 * x - 0.5 * x0) / (0.5 * x1 - 0.5 * x0)
    rise = v1 - v0
    if rise < math.inf:
        return min(v0 + t * rise, v1)
    return (1.0 - t) * v0 + t * v1


@kernel(f"void({READ}, {READ}, {READ}, boolean, {READ}, float64[::1])")
def evaluate(
    left: Vector, right: Vector, values: Vector, linear: bool, x: Vector, out: Vector
) -> None:
    """Evaluate steps ``left[i] <= x <= right[i]`` and the gaps between them; O(log n_steps) each.

    Gaps are linear, or have the value of the step before. Outside, the first and the last value
    hold; NaN stays NaN.
    """
    last = len(left) - 1
    for j in range(len(x)):
        at = x[j]
        if math.isnan(at):
            out[j] = at
            continue
        i = np.searchsorted(left, at, side="right") - 1
        if i < 0:
            out[j] = values[0]
        elif linear and i < last and at > right[i]:
            out[j] = between(at, right[i], values[i], left[i + 1], values[i + 1])
        else:
            out[j] = values[i]
