"""Optimal ordinal thresholds over labels in score order: four ways to cut a row of samples.

These functions do not use scores, but only the row of labels (0 to K - 1) in score order, and where
it may be cut. A *cut* is a position from 0 (before the first sample) to N (after the last).
Boundary k of the K - 1 boundaries separates the predictions up to k from those above k::

    labels        0   0   1   0   2   1   2
    cuts        0   1   2   3   4   5   6   7
                        |       |
       boundary 0 at 2 -'       '- boundary 1 at 4

Samples are given by ``labels`` (uint16) and ``w``. A negative weight means that the row can't be
cut after the sample, because the next one has the same score. An empty ``w`` means weights of 1 and
cuts everywhere. Samples of one score are in descending order of labels, as `longest` requires.

Differences. Moving boundary k to after a sample of label y changes the cost by
``differences[y, k] = loss(k, y) - loss(k + 1, y)``, so the best place of one boundary, seen alone,
is the least prefix sum of these (Yamasaki & Tanaka, Algorithm 3). With absolute error, boundary 0
of the row above has the prefix sums -1 -2 -1 -2 -1 0 1; of several least ones the first is taken.
Four samples are summed at once, prefixes first, so that the running sum needs one addition for
them. For each block of `BLOCK` samples only the least prefix is stored; a second pass over the best
block finds its end.

`summarise` is that for many boundaries and one block of samples: (sum, least prefix, its cut), an
associative summary that blocks, processes and machines can combine (their Appendix A). `divide`
finds the boundaries one after the other, each between its neighbours that are known: O(N log K).
`dynamic` is their Algorithm 2 for any loss, with one bit for each cell to trace back. `longest`
keeps prefix maxima of the weight of correct labels, for the zero-one loss.

No function keeps state between calls, and all release the GIL.
"""

from libc.math cimport INFINITY, fabs
from libc.stdint cimport int64_t, uint16_t, uint64_t

cimport streamcal.kernels.any_width

import numpy as np

cdef enum:
    BLOCK = 512


# Boundaries are independent, so a vector takes as many of them as it is wide.
cdef extern from *:
    """
    #define LESSER(a, b) ((a) < (b) ? (a) : (b))

    /* Add four samples, whose rows of differences are d0 to d3, to the sums of n boundaries. */
    AT_ANY_WIDTH static void add_four(
        Py_ssize_t n, const double *__restrict d0, const double *__restrict d1,
        const double *__restrict d2, const double *__restrict d3,
        double *__restrict sums, double *__restrict least
    ) {
        for (Py_ssize_t k = 0; k < n; k++) {
            double s1 = d0[k] + d1[k], s2 = s1 + d2[k], s3 = s2 + d3[k];
            double lower = LESSER(d0[k], s1), upper = LESSER(s2, s3);
            double lowest = sums[k] + LESSER(lower, upper);
            least[k] = LESSER(least[k], lowest);
            sums[k] += s3;
        }
    }

    /* The same with weights w; closed is infinite where a cut is not allowed, else 0. */
    AT_ANY_WIDTH static void add_four_weighted(
        Py_ssize_t n, const double *__restrict d0, const double *__restrict d1,
        const double *__restrict d2, const double *__restrict d3,
        const double *__restrict w, const double *__restrict closed,
        double *__restrict sums, double *__restrict least
    ) {
        double w0 = w[0], w1 = w[1], w2 = w[2], w3 = w[3];
        double closed0 = closed[0], closed1 = closed[1], closed2 = closed[2], closed3 = closed[3];
        for (Py_ssize_t k = 0; k < n; k++) {
            double s0 = w0 * d0[k], s1 = s0 + w1 * d1[k];
            double s2 = s1 + w2 * d2[k], s3 = s2 + w3 * d3[k];
            double lower = LESSER(s0 + closed0, s1 + closed1);
            double upper = LESSER(s2 + closed2, s3 + closed3);
            double lowest = sums[k] + LESSER(lower, upper);
            least[k] = LESSER(least[k], lowest);
            sums[k] += s3;
        }
    }
    """
    void add_four(
        Py_ssize_t n, const double *d0, const double *d1, const double *d2, const double *d3,
        double *sums, double *least,
    ) noexcept nogil
    void add_four_weighted(
        Py_ssize_t n, const double *d0, const double *d1, const double *d2, const double *d3,
        const double *w, const double *closed, double *sums, double *least,
    ) noexcept nogil


cdef struct Row:
    const uint16_t *labels
    const double *w  # NULL for ones
    Py_ssize_t n


cdef Row row_of(const uint16_t[::1] labels, const double[::1] w):
    """Return samples as pointers, NULL for an empty array."""
    cdef Row row
    row.n = labels.shape[0]
    row.labels = &labels[0] if row.n else NULL
    row.w = &w[0] if w.shape[0] else NULL
    return row


cdef inline double weight(const Row *row, Py_ssize_t i) noexcept nogil:
    return 1.0 if row.w == NULL else fabs(row.w[i])


cdef inline double closed_after(const Row *row, Py_ssize_t i) noexcept nogil:
    """Return 0 if a cut after a sample is allowed, else infinity."""
    return INFINITY if row.w != NULL and row.w[i] < 0.0 else 0.0


cdef inline double lesser(double a, double b) noexcept nogil:
    return a if a < b else b


# Boundaries alone ---------------------------------------------------------------------------------


def sum_prefixes(
    const uint16_t[::1] labels,
    const double[::1] w,
    Py_ssize_t first,
    Py_ssize_t stop,
    const double[:, ::1] differences,
    double[:, ::1] out,
):
    """Summarise samples ``first`` to ``stop - 1`` for each boundary (column of ``differences``).

    Rows of ``out``: the sum, the least sum of a prefix of at least one sample, and the first cut
    that has it (inf and ``first`` where no cut is allowed).
    """
    cdef Py_ssize_t n = differences.shape[1], block, end, k
    cdef Row row = row_of(labels, w)
    cdef double[:, ::1] work = np.empty((2, n))
    cdef double *sums = &out[0, 0]
    cdef double *lowest = &out[1, 0]
    cdef double *least = &work[0, 0]  # of the block
    cdef double *before = &work[1, 0]  # the sum before the block
    # Where the block that has the least prefix so far begins, and the sum before it.
    cdef int64_t[::1] best_block = np.full(n, -1, np.int64)
    cdef double[::1] best_before = np.empty(n)
    with nogil:
        for k in range(n):
            sums[k], lowest[k] = 0.0, INFINITY
        block = first
        while block < stop:
            end = min(stop, block + BLOCK)
            for k in range(n):
                before[k], least[k] = sums[k], INFINITY
            add_block(&row, block, end, &differences[0, 0], n, sums, least)
            for k in range(n):
                if least[k] < lowest[k]:
                    lowest[k], best_before[k], best_block[k] = least[k], before[k], block
            block = end
        for k in range(n):
            out[2, k] = first
            if best_block[k] >= 0:
                block = best_block[k]
                end = min(stop, block + BLOCK)
                out[2, k] = least_cut(&row, block, end, &differences[0, k], n, best_before[k])


cdef void add_block(
    const Row *row,
    Py_ssize_t first,
    Py_ssize_t stop,
    const double *differences,
    Py_ssize_t n,
    double *sums,
    double *least,
) noexcept nogil:
    """Add samples to the sums of all boundaries, and lower the least sums of prefixes."""
    cdef Py_ssize_t whole = first + (stop - first) // 4 * 4, i, j, k
    cdef const uint16_t *labels = row.labels
    cdef const double *rows[4]
    cdef double weights[4]
    cdef double shut[4]
    cdef double total
    for i in range(first, whole, 4):
        for j in range(4):
            rows[j] = &differences[labels[i + j] * n]
        if row.w == NULL:
            add_four(n, rows[0], rows[1], rows[2], rows[3], sums, least)
            continue
        for j in range(4):
            weights[j], shut[j] = weight(row, i + j), closed_after(row, i + j)
        add_four_weighted(n, rows[0], rows[1], rows[2], rows[3], weights, shut, sums, least)
    for i in range(whole, stop):
        rows[0] = &differences[labels[i] * n]
        weights[0], shut[0] = weight(row, i), closed_after(row, i)
        for k in range(n):
            total = sums[k] + weights[0] * rows[0][k]
            least[k] = lesser(least[k], total + shut[0])
            sums[k] = total


cdef Py_ssize_t least_cut(
    const Row *row,
    Py_ssize_t first,
    Py_ssize_t stop,
    const double *differences,
    Py_ssize_t stride,
    double total,
) noexcept nogil:
    """Return the first cut of a block that has the least sum; ``total`` is that before the block.

    The difference of a label is ``differences[stride * label]``.
    """
    cdef double least = INFINITY
    cdef Py_ssize_t cut = first, i
    for i in range(first, stop):
        total += weight(row, i) * differences[stride * row.labels[i]]
        if total + closed_after(row, i) < least:
            least = total + closed_after(row, i)
            cut = i + 1
    return cut


cdef Py_ssize_t best_cut(
    const Row *row, Py_ssize_t first, Py_ssize_t stop, const double *d
) noexcept nogil:
    """Return the best place from ``first`` to ``stop`` for the boundary with differences ``d``."""
    cdef const uint16_t *labels = row.labels
    cdef double total = 0.0, best = 0.0, best_before = 0.0, before, least, d0, d2, s1, s3
    cdef Py_ssize_t best_block = -1, block = first, end, whole, i
    while block < stop:
        end = min(stop, block + BLOCK)
        before, least, whole = total, INFINITY, block
        if row.w == NULL:
            whole += (end - block) // 4 * 4
        for i in range(block, whole, 4):
            d0, d2 = d[labels[i]], d[labels[i + 2]]
            s1, s3 = d0 + d[labels[i + 1]], d2 + d[labels[i + 3]]
            least = lesser(least, total + lesser(lesser(d0, s1), s1 + lesser(d2, s3)))
            total += s1 + s3
        for i in range(whole, end):
            total += weight(row, i) * d[labels[i]]
            least = lesser(least, total + closed_after(row, i))
        if least < best:
            best, best_before, best_block = least, before, block
        block = end
    if best_block < 0:
        return first
    return least_cut(row, best_block, min(stop, best_block + BLOCK), d, 1, best_before)


cdef struct Part:
    Py_ssize_t low  # boundaries
    Py_ssize_t high
    Py_ssize_t first  # samples
    Py_ssize_t stop


def find_cuts_divide(
    const uint16_t[::1] labels,
    const double[::1] w,
    const double[:, ::1] differences,
    int64_t[::1] cuts,
):
    """Find the cuts for a convex loss: the middle boundary, then those before and after it.

    ``differences`` has a row for each boundary here.
    """
    cdef Row row = row_of(labels, w)
    cdef Part todo[64]  # one part is halved at a time, and there are fewer than 2**16 boundaries
    cdef Part part
    cdef Py_ssize_t middle, cut
    cdef int n = 1
    todo[0] = Part(low=0, high=cuts.shape[0], first=0, stop=row.n)
    with nogil:
        while n > 0:
            n -= 1
            part = todo[n]
            middle = (part.low + part.high) // 2
            cut = best_cut(&row, part.first, part.stop, &differences[middle, 0])
            cuts[middle] = cut
            if part.low < middle:
                todo[n] = Part(low=part.low, high=middle, first=part.first, stop=cut)
                n += 1
            if middle + 1 < part.high:
                todo[n] = Part(low=middle + 1, high=part.high, first=cut, stop=part.stop)
                n += 1


# All together -------------------------------------------------------------------------------------


def find_cuts_dp(
    const uint16_t[::1] labels,
    const double[::1] w,
    const double[:, ::1] costs,
    uint64_t[:, ::1] stays,
    int64_t[::1] cuts,
):
    """Find the cuts for any loss, whose cost of answer k is ``costs[y, k]``; O(N K).

    For each k the least cost of the samples so far is kept, if the last one has the label k. Bit k
    of row i of ``stays`` (N + 1 rows): if sample i has the label k, the best label before it is k.
    """
    cdef Row row = row_of(labels, w)
    cdef Py_ssize_t n_labels = costs.shape[1], n_words = stays.shape[1], i, k
    cdef double[::1] start = np.zeros(n_labels)
    cdef double *total = &start[0]
    with nogil:
        for i in range(row.n):
            if i > 0 and closed_after(&row, i - 1) > 0.0:  # no cut here
                extend_same(
                    &stays[i, 0], n_words, total, n_labels, weight(&row, i), &costs[labels[i], 0]
                )
            else:
                extend_best(&stays[i, 0], total, n_labels, weight(&row, i), &costs[labels[i], 0])
        extend_best(&stays[row.n, 0], total, n_labels, 0.0, &costs[0, 0])
        k = n_labels - 1
        for i in range(row.n, -1, -1):
            while k > 0 and not (stays[i, k // 64] >> (k % 64)) & 1:
                k -= 1
                cuts[k] = i
        while k > 0:
            k -= 1
            cuts[k] = 0


cdef void extend_best(
    uint64_t *bits, double *total, Py_ssize_t n_labels, double w, const double *costs
) noexcept nogil:
    """Add a sample: each label follows the best one that is not above it."""
    cdef double least = INFINITY
    cdef Py_ssize_t k, start
    cdef uint64_t word
    for start in range(0, n_labels, 64):
        word = 0
        for k in range(start, min(n_labels, start + 64)):
            word |= <uint64_t> (total[k] <= least) << (k - start)
            least = lesser(total[k], least)
            total[k] = least + w * costs[k]
        bits[start // 64] = word


cdef void extend_same(
    uint64_t *bits,
    Py_ssize_t n_words,
    double *total,
    Py_ssize_t n_labels,
    double w,
    const double *costs,
) noexcept nogil:
    """Add a sample that has the label of the one before it."""
    cdef Py_ssize_t k
    for k in range(n_words):
        bits[k] = ~(<uint64_t> 0)
    for k in range(n_labels):
        total[k] += w * costs[k]


def find_cuts_subsequence(
    const uint16_t[::1] labels, const double[::1] w, uint16_t[::1] reach, int64_t[::1] cuts
):
    """Find the cuts with the most correct weight: the heaviest non-decreasing subsequence.

    ``right[k]`` is the greatest correct weight so far with labels up to k. A sample of label y can
    increase it for y and some labels above, up to but not including ``reach[i]``. Usually these are
    a few labels.
    """
    cdef Row row = row_of(labels, w)
    cdef Py_ssize_t n_labels = cuts.shape[0] + 1, i, k, cut
    cdef double[::1] right = np.zeros(n_labels)
    cdef int64_t[::1] start = np.full(n_labels, row.n, np.int64)
    cdef double value
    with nogil:
        for i in range(row.n):
            k = labels[i]
            value = right[k] + weight(&row, i)
            while k < n_labels and right[k] < value:
                right[k] = value
                k += 1
            reach[i] = <uint16_t> k
        # Backwards, for each label the first sample that is right with it.
        k = n_labels - 1
        for i in range(row.n - 1, -1, -1):
            if labels[i] <= k < reach[i]:
                k = labels[i]
                start[k] = i
        cut = row.n
        for k in range(n_labels - 1, 0, -1):
            if start[k] < cut:
                cut = start[k]
                while cut > 0 and closed_after(&row, cut - 1) > 0.0:
                    cut -= 1  # to where its score begins
            cuts[k - 1] = cut


def risk(
    const uint16_t[::1] labels,
    const double[::1] w,
    const double[:, ::1] costs,
    const int64_t[::1] cuts,
):
    """Return the summed cost of the labels by given cuts; predicting k costs costs[y, k]."""
    cdef Row row = row_of(labels, w)
    cdef Py_ssize_t first = 0, stop, i, k
    cdef double total = 0.0
    with nogil:
        for k in range(cuts.shape[0] + 1):
            stop = cuts[k] if k < cuts.shape[0] else row.n
            for i in range(first, stop):
                total += weight(&row, i) * costs[labels[i], k]
            first = max(first, stop)
    return total


def write_signed_weights(
    const double[::1] scores, const double[::1] weights, const int64_t[::1] order, double[::1] w
):
    """Write weights in the given order of samples, negative where the next has the same score."""
    cdef Py_ssize_t n = order.shape[0], i
    cdef double value
    with nogil:
        for i in range(n):
            value = weights[order[i]] if weights.shape[0] > 0 else 1.0
            if i + 1 < n and scores[order[i]] == scores[order[i + 1]]:
                value = -value
            w[i] = value
