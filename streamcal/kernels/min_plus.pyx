"""Optimal thresholds of a stream for any loss and few labels: min-plus products up the tree.

A summary is a table: T[a, b], for a <= b, is the least cost of the scores below with labels that do
not decrease, from a (or above) to b (or below). Neighbours combine by a product of matrices in
which a minimum is the sum and a sum the product::

    T[a, b] = min over c of left[a, c] + right[c, b]

Two chunks of one score each, zero-one loss, K = 2, and labels 1 and 0::

    left   0: 1  0      right   0: 0  0      both   0: 1  1
           1:    0              1:    1             1:    1

Predicting 0 first and 1 next, with c = 0 or 1, has one error: T[0, 1] = min(1 + 0, 0 + 1) = 1. An
update costs O(K^3 log n). Boundaries are traced down from the root: the c that gives T[a, b]
separates those in the left half from those in the right.
"""

from libc.math cimport INFINITY
from libc.string cimport memcpy, memset

from streamcal.kernels.label_index cimport LabelIndex, numbers_of
from streamcal.kernels.score_index cimport LEFT, RIGHT, SLOTS, Chunk, Node, is_chunk

cpdef enum:
    MOST_LABELS = 8  # a mask of them fits a byte


cdef inline int at(int n_labels, int a, int b) noexcept nogil:
    """Return the index of T[a, b] in a table."""
    return a * n_labels - a * (a - 1) // 2 + b - a


cdef class MinPlus(LabelIndex):
    """Labels by score, and the least costs between any two. See `LabelIndex` for parameters.

    There may be `MOST_LABELS` labels.
    """

    def __cinit__(self, costs, window, rate, half_life=INFINITY, time_window=0.0):
        cdef size_t n = self.n_labels, size = n * (n + 1) // 2 * sizeof(double)
        if n > MOST_LABELS:
            raise ValueError(f"`costs` must be for up to {MOST_LABELS} labels, got {n}")
        self.width = self.n_labels
        memcpy(self.losses, self.costs, n * n * sizeof(double))
        self.node_bytes = sizeof(Node) + size
        self.chunk_bytes = sizeof(Chunk) + size
        self.clear()

    cdef void summarise(self, Chunk *chunk) noexcept nogil:
        cdef int n = self.n_labels, i, j, a, b
        cdef double *table = numbers_of(&chunk.node)
        cdef double least, w
        cdef const double *row
        memset(table, 0, n * (n + 1) // 2 * sizeof(double))
        for i in range(chunk.size):
            row = self.losses_of(&chunk.slots[i], &w)
            j = 0
            for a in range(n):
                least = INFINITY
                for b in range(a, n):
                    least = min(least, table[j] + w * row[b])
                    table[j] = least
                    j += 1

    cdef void fold_node(self, Node *node) noexcept nogil:
        cdef int n = self.n_labels, a, b, c
        cdef const double *left = numbers_of(node.child[LEFT])
        cdef const double *right = numbers_of(node.child[RIGHT])
        cdef double *table = numbers_of(node)
        cdef double least
        for a in range(n):
            for b in range(a, n):
                least = INFINITY
                for c in range(a, b + 1):
                    least = min(least, left[at(n, a, c)] + right[at(n, c, b)])
                table[at(n, a, b)] = least

    cdef void find_ends(self, double *ends) noexcept nogil:
        self.trace(self.tree.root, 0, self.n_labels - 1, ends)

    cdef void trace(self, Node *node, int a, int b, double *ends) noexcept nogil:
        """Write the last score below each of the boundaries from ``a`` to ``b - 1``.

        They are among the scores of a node, or right before these. Of labels with equal cost the
        highest is chosen, here and in `trace_chunk`: one of the best labellings is at least as high
        as the others at every score, and it does not depend on the shape of the tree.
        """
        cdef const double *left
        cdef const double *right
        cdef double least = INFINITY, total
        cdef int best = a, c
        if a == b:
            return
        if is_chunk(node):
            self.trace_chunk(<Chunk *> node, a, b, ends)
            return
        left, right = numbers_of(node.child[LEFT]), numbers_of(node.child[RIGHT])
        for c in range(a, b + 1):
            total = left[at(self.n_labels, a, c)] + right[at(self.n_labels, c, b)]
            if total <= least:
                best, least = c, total
        self.trace(node.child[LEFT], a, best, ends)
        self.trace(node.child[RIGHT], best, b, ends)

    cdef void trace_chunk(self, Chunk *chunk, int a, int b, double *ends) noexcept nogil:
        """Do the same for a chunk by dynamic programming.

        Bit k of ``stays[i]``: if slot i has the label k, the slot before it has k, too.
        """
        cdef unsigned char stays[SLOTS + 1]
        cdef double total[MOST_LABELS]
        cdef double least, w
        cdef const double *row
        cdef Chunk *before = chunk.previous
        cdef int i, k
        memset(total, 0, sizeof(total))
        for i in range(chunk.size + 1):
            least = INFINITY
            stays[i] = 0
            for k in range(a, b + 1):
                if total[k] <= least:
                    stays[i] |= <unsigned char> (1 << k)
                least = min(total[k], least)
                total[k] = least
            if i < chunk.size:
                row = self.losses_of(&chunk.slots[i], &w)
                for k in range(a, b + 1):
                    total[k] += w * row[k]
        k = b
        for i in range(chunk.size, 0, -1):
            while k > a and not stays[i] >> k & 1:
                k -= 1
                ends[k] = chunk.slots[i - 1].score
        while k > a:
            k -= 1
            ends[k] = before.slots[before.size - 1].score if before != NULL else -INFINITY

    cdef int label_of(self, double score) noexcept nogil:
        """Return the label of a score; O(K^2 log n)."""
        cdef double thresholds[MOST_LABELS]
        cdef int label = 0
        if not self.find_thresholds(thresholds):
            return -1
        while label < self.n_labels - 1 and score >= thresholds[label]:
            label += 1
        return label
