"""Optimal ordinal thresholds over labels in score order: four ways to cut a row of samples.

The scores themselves are gone here: what counts is the row of labels (0 to K - 1) in the order of
their scores, and where it may be cut. A *cut* is a position from 0 (before the first sample) to N
(behind the last); boundary k, of K - 1, has the labels up to k before it and those above k behind.

Samples. ``labels`` (uint16) and ``w``. A weight's sign says whether the row may be cut behind the
sample: not where it is negative, because the next sample has the same score. An empty ``w`` stands
for weights of 1 and cuts everywhere. Samples of one score come in descending order of labels, which
`longest` relies on.

Differences. Moving boundary k behind a sample of label y changes the cost by
``differences[y, k] = loss(k, y) - loss(k + 1, y)``, so the best place of one boundary, seen alone,
is the least prefix sum of these (Yamasaki & Tanaka, Algorithm 3). Sums are taken over `STEP`
samples at once, prefixes first, so that the running sum waits for one addition only; blocks of
`BLOCK` keep the least prefix alone, and only the block that has it is walked again to find where.

`summarise` is that for many boundaries and one block of samples: (sum, least prefix, its cut), an
associative summary that blocks, processes and machines can combine (their Appendix A). `divide`
finds the boundaries one after the other, each between its neighbours that are known: O(N log K).
`dynamic` is their Algorithm 2 for any loss, with one bit for each cell to trace back. `longest`
keeps prefix maxima of what can be right, for the zero-one loss.
"""

import numpy as np
from numpy.typing import NDArray

from streamcal.kernels._compile import helper, kernel

Labels = NDArray[np.uint16]
Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]
Cuts = NDArray[np.int64]
Bits = NDArray[np.uint64]

READ_LABELS = "Array(uint16, 1, 'C', True)"
READ = "Array(float64, 1, 'C', True)"
READ_MATRIX = "Array(float64, 2, 'C', True)"

BLOCK = 512
STEP = 4
SUM, LEAST, CUT = range(3)


@helper
def _lesser(a: float, b: float) -> float:
    """Return the lesser number; `min` would look for NaN."""
    return a if a < b else b


@helper
def _sample(w: Vector, i: int) -> tuple[float, float]:
    """Return the weight of a sample, and what a cut behind it costs: 0 or infinity."""
    if len(w) == 0:
        return 1.0, 0.0
    return abs(w[i]), 0.0 if w[i] > 0.0 else np.inf


# ------------------------------------------------------------------------------ boundaries alone


@kernel(f"void({READ_LABELS}, {READ}, int64, int64, {READ_MATRIX}, float64[:, ::1])")
def summarise(
    labels: Labels, w: Vector, first: int, stop: int, differences: Matrix, out: Matrix
) -> None:
    """Summarise samples ``first`` to ``stop - 1`` for each boundary (column of ``differences``).

    Rows of ``out``: the sum, the least sum of a prefix of at least one sample, and the first cut
    that has it (inf and ``first`` where no cut is allowed).
    """
    n_boundaries = differences.shape[1]
    work = np.empty((4, n_boundaries))
    running, least, before, before_best = work[0], work[1], work[2], work[3]
    block_of = np.empty(n_boundaries, np.int64)
    for k in range(n_boundaries):
        running[k] = 0.0
        out[LEAST, k] = np.inf
        block_of[k] = -1
    for block in range(first, stop, BLOCK):
        end = min(stop, block + BLOCK)
        for k in range(n_boundaries):
            before[k] = running[k]
            least[k] = np.inf
        whole = block + (end - block) // STEP * STEP
        if len(w) == 0:
            for i in range(block, whole, STEP):
                d0, d1 = differences[labels[i]], differences[labels[i + 1]]
                d2, d3 = differences[labels[i + 2]], differences[labels[i + 3]]
                for k in range(n_boundaries):
                    s1 = d0[k] + d1[k]
                    s2 = s1 + d2[k]
                    s3 = s2 + d3[k]
                    lowest = min(min(d0[k], s1), min(s2, s3))
                    least[k] = min(least[k], running[k] + lowest)
                    running[k] += s3
        else:
            for i in range(block, whole, STEP):
                d0, d1 = differences[labels[i]], differences[labels[i + 1]]
                d2, d3 = differences[labels[i + 2]], differences[labels[i + 3]]
                w0, closed0 = _sample(w, i)
                w1, closed1 = _sample(w, i + 1)
                w2, closed2 = _sample(w, i + 2)
                w3, closed3 = _sample(w, i + 3)
                for k in range(n_boundaries):
                    s0 = w0 * d0[k]
                    s1 = s0 + w1 * d1[k]
                    s2 = s1 + w2 * d2[k]
                    s3 = s2 + w3 * d3[k]
                    lowest = min(min(s0 + closed0, s1 + closed1), min(s2 + closed2, s3 + closed3))
                    least[k] = min(least[k], running[k] + lowest)
                    running[k] += s3
        for i in range(whole, end):
            d0 = differences[labels[i]]
            w0, closed0 = _sample(w, i)
            for k in range(n_boundaries):
                running[k] += w0 * d0[k]
                least[k] = min(least[k], running[k] + closed0)
        for k in range(n_boundaries):
            if least[k] < out[LEAST, k]:
                out[LEAST, k], before_best[k], block_of[k] = least[k], before[k], block
    for k in range(n_boundaries):
        out[SUM, k] = running[k]
        out[CUT, k] = first
        if block_of[k] >= 0:
            total, lowest = before_best[k], np.inf
            for i in range(block_of[k], min(stop, block_of[k] + BLOCK)):
                weight, closed = _sample(w, i)
                total += weight * differences[labels[i], k]
                if total + closed < lowest:
                    lowest = total + closed
                    out[CUT, k] = i + 1


@helper
def _best_cut(labels: Labels, w: Vector, first: int, stop: int, d: Vector) -> int:
    """Return the best place from ``first`` to ``stop`` for the boundary with differences ``d``."""
    running, best, before_best, block_of = 0.0, 0.0, 0.0, -1
    for block in range(first, stop, BLOCK):
        end = min(stop, block + BLOCK)
        before, least = running, np.inf
        whole = block + (end - block) // STEP * STEP
        if len(w) == 0:
            for i in range(block, whole, STEP):
                j = np.uint64(i)  # which needs no look at indices from the end
                d0, d1 = d[labels[j]], d[labels[j + np.uint64(1)]]
                d2, d3 = d[labels[j + np.uint64(2)]], d[labels[j + np.uint64(3)]]
                s1, s3 = d0 + d1, d2 + d3
                lowest = _lesser(_lesser(d0, s1), s1 + _lesser(d2, s3))
                least = _lesser(least, running + lowest)
                running += s1 + s3
        else:
            whole = block
        for i in range(whole, end):
            weight, closed = _sample(w, i)
            running += weight * d[labels[i]]
            least = _lesser(least, running + closed)
        if least < best:
            best, before_best, block_of = least, before, block
    cut = first
    if block_of >= 0:
        running, best = before_best, np.inf
        for i in range(block_of, min(stop, block_of + BLOCK)):
            weight, closed = _sample(w, i)
            running += weight * d[labels[i]]
            if running + closed < best:
                best, cut = running + closed, i + 1
    return cut


@kernel(f"void({READ_LABELS}, {READ}, {READ_MATRIX}, int64[::1])")
def divide(labels: Labels, w: Vector, differences: Matrix, cuts: Cuts) -> None:
    """Find the cuts for a convex loss: the middle boundary, then those before and behind it.

    ``differences`` has a row for each boundary here.
    """
    todo = np.empty((64, 4), np.int64)
    todo[0, 0], todo[0, 1], todo[0, 2], todo[0, 3] = 0, len(cuts), 0, len(labels)
    n = 1
    while n > 0:
        n -= 1
        low, high, first, stop = todo[n, 0], todo[n, 1], todo[n, 2], todo[n, 3]
        middle = (low + high) // 2
        cut = _best_cut(labels, w, first, stop, differences[middle])
        cuts[middle] = cut
        if low < middle:
            todo[n, 0], todo[n, 1], todo[n, 2], todo[n, 3] = low, middle, first, cut
            n += 1
        if middle + 1 < high:
            todo[n, 0], todo[n, 1], todo[n, 2], todo[n, 3] = middle + 1, high, cut, stop
            n += 1


# ------------------------------------------------------------------------------ all together


@kernel(f"void({READ_LABELS}, {READ}, {READ_MATRIX}, uint64[:, ::1], int64[::1])")
def dynamic(
    labels: Labels, w: Vector, costs: Matrix, stays: NDArray[np.uint64], cuts: Cuts
) -> None:
    """Find the cuts for any loss, whose cost of answer k is ``costs[y, k]``; O(N K).

    The least cost of the samples so far with the last one labelled k, for each k; bit k of row i of
    ``stays`` (N + 1 rows) says that a sample i labelled k best follows one labelled k as well.
    """
    n_labels = costs.shape[1]
    total = np.zeros(n_labels)
    n = len(labels)
    for i in range(n + 1):
        weight, row = 0.0, costs[0]
        if i < n:
            weight, row = _sample(w, i)[0], costs[labels[i]]
        if i > 0 and len(w) > 0 and w[i - 1] < 0.0:  # no cut here
            for word in range(stays.shape[1]):
                stays[i, word] = ~np.uint64(0)
            for k in range(n_labels):
                total[k] += weight * row[k]
            continue
        least = np.inf
        for word in range(stays.shape[1]):
            bits = np.uint64(0)
            start = 64 * word
            for k in range(start, min(n_labels, start + 64)):
                stay = total[k] <= least
                least = _lesser(total[k], least)
                bits |= np.uint64(stay) << np.uint64(k - start)
                total[k] = least + weight * row[k]
            stays[i, word] = bits
    k = n_labels - 1
    for i in range(n, -1, -1):
        while k > 0 and not (stays[i, k // 64] >> np.uint64(k % 64)) & np.uint64(1):
            k -= 1
            cuts[k] = i
    while k > 0:
        k -= 1
        cuts[k] = 0


@kernel(f"void({READ_LABELS}, {READ}, uint16[::1], int64[::1])")
def longest(labels: Labels, w: Vector, reach: Labels, cuts: Cuts) -> None:
    """Find the cuts that label most weight right: the heaviest non-decreasing run of labels.

    ``right[k]`` is the most weight that can be right so far with labels up to k. A sample of label
    y raises it at y and above as far as it is the better choice, up to but not including
    ``reach[i]``. Usually that is a few labels.
    """
    n, n_labels = len(labels), len(cuts) + 1
    right = np.zeros(n_labels)
    for i in range(n):
        k = int(labels[i])
        value = right[k] + _sample(w, i)[0]
        while k < n_labels and right[k] < value:
            right[k] = value
            k += 1
        reach[i] = k
    # Backwards, for each label the first sample that is right with it.
    start = np.full(n_labels, n, np.int64)
    k = n_labels - 1
    for i in range(n - 1, -1, -1):
        if labels[i] <= k < reach[i]:
            k = int(labels[i])
            start[k] = i
    cut = n
    for k in range(n_labels - 1, 0, -1):
        if start[k] < cut:
            cut = start[k]
            while cut > 0 and len(w) > 0 and w[cut - 1] < 0.0:
                cut -= 1  # to where its score begins
        cuts[k - 1] = cut


@kernel(f"float64({READ_LABELS}, {READ}, {READ_MATRIX}, int64[::1])")
def risk(labels: Labels, w: Vector, costs: Matrix, cuts: Cuts) -> float:
    """Return the summed cost of the answers that cuts give; the cost of answer k is costs[y, k]."""
    total = 0.0
    first = 0
    for k in range(len(cuts) + 1):
        stop = cuts[k] if k < len(cuts) else len(labels)
        for i in range(first, stop):
            total += _sample(w, i)[0] * costs[labels[i], k]
        first = max(first, stop)
    return total


@kernel(f"void({READ}, {READ}, int64[::1], float64[::1])")
def prepare(scores: Vector, weights: Vector, order: Cuts, w: Vector) -> None:
    """Write weights in the given order of samples, negative where the next has the same score."""
    n = len(order)
    for i in range(n):
        weight = weights[order[i]] if len(weights) > 0 else 1.0
        if i + 1 < n and scores[order[i]] == scores[order[i + 1]]:
            weight = -weight
        w[i] = weight
