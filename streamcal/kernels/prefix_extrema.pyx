"""Optimal thresholds of a stream: extrema of prefix sums folded up the tree of a score index.

The K - 1 boundaries are solved one by one. The best place for boundary k is after the prefix of
scores with the least sum of weight times loss(k, y) - loss(k + 1, y). This example has boundary 0,
absolute error, and four samples of weight 1 in two chunks::

                      sum -2, least -2 at .8
                     /                      \\
     sum 0, least -1 at .2     sum -2, least -2 at .8
     score        .2  .4       score        .7  .8
     label         0   1       label         0   0
     difference   -1   1       difference   -1  -1

A summary is the sum, the least sum of the prefixes of at least one score, and the score that this
prefix ends with. Neighbours combine: the least prefix of both is that of the left one or, if it is
less, the left sum plus the least prefix of the right one. An update costs O(K log n). The end of a
prefix is a score, not a rank, so an insertion does not change the other summaries.

With a convex loss the boundaries are sorted and optimal (Yamasaki & Tanaka, *Parallel
Algorithm for Optimal Threshold Labeling of Ordinal Regression Methods*, Theorem 2); with any other
they are optimal if they are sorted (Theorem 1). A chunk is summed up over four slots at once,
as in `streamcal.kernels.thresholds`.
"""

from libc.math cimport INFINITY

cimport streamcal.kernels.any_width
from streamcal.kernels.label_index cimport LabelIndex, numbers_of
from streamcal.kernels.score_index cimport LEFT, RIGHT, Chunk, Node


cdef extern from *:
    """
    /* Add four slots, whose rows of differences are d0 to d3; the first has number `first`. */
    AT_ANY_WIDTH static void add_four_slots(
        Py_ssize_t n, const double *__restrict d0, const double *__restrict d1,
        const double *__restrict d2, const double *__restrict d3, const double *__restrict w,
        double first, double *__restrict sums, double *__restrict least, double *__restrict ends
    ) {
        double w0 = w[0], w1 = w[1], w2 = w[2], w3 = w[3];
        for (Py_ssize_t k = 0; k < n; k++) {
            double s0 = w0 * d0[k], s1 = s0 + w1 * d1[k];
            double s2 = s1 + w2 * d2[k], s3 = s2 + w3 * d3[k];
            double lower = s0 <= s1 ? s0 : s1, lower_end = s0 <= s1 ? 0.0 : 1.0;
            double upper = s2 <= s3 ? s2 : s3, upper_end = s2 <= s3 ? 2.0 : 3.0;
            double lowest = sums[k] + (lower <= upper ? lower : upper);
            double end = first + (lower <= upper ? lower_end : upper_end);
            double before = least[k], before_end = ends[k];
            least[k] = lowest < before ? lowest : before;
            ends[k] = lowest < before ? end : before_end;
            sums[k] += s3;
        }
    }

    /* Combine summaries of neighbours, each n sums, n least prefixes and n ends. */
    AT_ANY_WIDTH static void combine_extrema(
        Py_ssize_t n, const double *__restrict left, const double *__restrict right,
        double *__restrict out
    ) {
        for (Py_ssize_t k = 0; k < n; k++) {
            double earlier = left[n + k], later = left[k] + right[n + k];
            double end = left[2 * n + k], later_end = right[2 * n + k];
            out[n + k] = later < earlier ? later : earlier;
            out[2 * n + k] = later < earlier ? later_end : end;
            out[k] = left[k] + right[k];
        }
    }
    """
    void add_four_slots(
        Py_ssize_t n, const double *d0, const double *d1, const double *d2, const double *d3,
        const double *w, double first, double *sums, double *least, double *ends,
    ) noexcept nogil
    void combine_extrema(
        Py_ssize_t n, const double *left, const double *right, double *out
    ) noexcept nogil


cdef class PrefixExtrema(LabelIndex):
    """Labels by score, and the best place of each boundary; parameters as in `LabelIndex`."""

    def __cinit__(self, costs, window, rate, half_life=INFINITY, time_window=0.0):
        cdef int n_labels = self.n_labels, n = n_labels - 1, y, k
        self.width = n
        for y in range(n_labels):
            for k in range(n):
                self.losses[<size_t> y * n + k] = (
                    self.costs[<size_t> y * n_labels + k]
                    - self.costs[<size_t> y * n_labels + k + 1]
                )
        self.node_bytes = sizeof(Node) + 3 * n * sizeof(double)
        self.chunk_bytes = sizeof(Chunk) + 3 * n * sizeof(double)
        self.clear()

    cdef void summarise(self, Chunk *chunk) noexcept nogil:
        cdef int n = self.width, whole = chunk.size // 4 * 4, i, j, k
        cdef double *sums = numbers_of(&chunk.node)
        cdef double *least = sums + n
        cdef double *ends = least + n
        cdef const double *rows[4]
        cdef double w[4]
        cdef double total
        for k in range(n):
            sums[k], least[k], ends[k] = 0.0, INFINITY, 0.0
        for i in range(0, whole, 4):
            for j in range(4):
                rows[j] = self.losses_of(&chunk.slots[i + j], &w[j])
            add_four_slots(n, rows[0], rows[1], rows[2], rows[3], w, i, sums, least, ends)
        for i in range(whole, chunk.size):
            rows[0] = self.losses_of(&chunk.slots[i], w)
            for k in range(n):
                total = sums[k] + w[0] * rows[0][k]
                if total < least[k]:
                    least[k], ends[k] = total, i
                sums[k] = total
        if chunk.size > 0:
            for k in range(n):
                ends[k] = chunk.slots[<int> ends[k]].score

    cdef void fold_node(self, Node *node) noexcept nogil:
        cdef const double *left = numbers_of(node.child[LEFT])
        combine_extrema(self.width, left, numbers_of(node.child[RIGHT]), numbers_of(node))

    cdef double end_of(self, int k) noexcept nogil:
        """Return the last score below boundary ``k``, minus infinity if there is none."""
        cdef int n = self.width
        cdef double *summary = numbers_of(self.tree.root)
        return summary[2 * n + k] if summary[n + k] < 0.0 else -INFINITY

    cdef void find_ends(self, double *ends) noexcept nogil:
        cdef int k
        for k in range(self.width):
            ends[k] = self.end_of(k)

    cdef int label_of(self, double score) noexcept nogil:
        """Return the label of a score, -1 if boundaries are not sorted; O(K + log K log n)."""
        cdef int low = 0, high = self.width, k
        cdef double below
        for k in range(1, high):
            if self.end_of(k) < self.end_of(k - 1):
                return -1
        while low < high:
            k = (low + high) >> 1
            below = self.end_of(k)
            if score > below and score >= self.threshold_above(below):
                low = k + 1
            else:
                high = k
        return low
