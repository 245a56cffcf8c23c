"""Confusion counts on the score index: the threshold that maximises a metric on past samples.

Each slot sums the weights of the positives and of the negatives at its score, each chunk and node
those below it. Five samples, the scores of the positives marked:

                     2 + 3
                   /       \\
       1 + 2                1 + 1
       .1  .4*  .5   <-->   .6  .9*

With the sums to the right of a subtree this gives the table of any threshold in O(log n), and
bounds the tables of all thresholds in the subtree: true and false positives each lie between what
is to the right of it and that plus its own sums. A metric that grows with the former and falls with
the latter is largest in a corner of that rectangle; so is one that is quasi-linear in both, such as
a ratio of linear forms. So the best threshold is found by branch and bound down the tree, exactly,
and an update costs O(log n).

* *Forgetting*: a sample enters with its weight times ``growth``, which grows by ``rate`` a sample;
  metrics depend on ratios of weights alone. From time to time everything is scaled down.
* The *window*: a queue of samples. When it is longer than the window, the oldest is taken out. The
  sums that are left are those of the samples that are left, each rounded once, whatever has been
  added and taken away: `streamcal.kernels.remainders` keeps the digits.

The two sums of a `Slot` and of a `Queued` sample, ``weight`` and ``sum``, are those of positives
and of negatives. Bad input is refused before anything changes. Should memory run out in the middle
of a change, the object refuses all further use.
"""

from libc.math cimport INFINITY, frexp, ldexp
from libc.stdlib cimport free, malloc

from streamcal.kernels.confusion cimport SEC, formula_of, utility
from streamcal.kernels.score_index cimport (
    Slot, copy_tree, find_slot, holds, is_chunk, out_of_memory,
)

import numpy as np

cdef double SMALLEST = 1e-60, LARGEST = 1e60  # of weights
# Growth is scaled down from here.
LARGEST_GROWTH = 2.0**64
cdef double _LARGEST_GROWTH = 2.0**64
cdef double VANISHED = 2.0**-80  # of the weight of all

cdef enum:
    POSITIVE = 0  # which of the sums of a score
    NEGATIVE = 1
    # A tree of weight-balanced nodes is at most 2.5 log2(n) deep, and each level leaves one sibling
    # behind.
    DEEPEST = 256


cdef struct Open:
    Node *node
    double tp  # what is to the right of the subtree
    double fp
    double bound  # no threshold in the subtree is better


cdef inline Sums *sums_of(Node *node) noexcept nogil:
    """Return the sums of what is below a node, or of a chunk."""
    return <Sums *> (<Chunk *> node + 1) if is_chunk(node) else <Sums *> (node + 1)


def restored(settings, fields, arrays):
    """Return the index that was pickled."""
    index = ConfusionIndex(*settings)
    index.restore(fields, arrays)
    return index


cdef class ConfusionIndex(ScoreIndex):
    """Samples with the labels 0 and 1 by score, and the threshold that is best on them.

    Parameters
    ----------
    spec : ndarray or None
        The metric as `streamcal.kernels.confusion` codes it; None if it is not coded.
    window : int
        How many samples to keep; 0 means all.
    rate : float
        What the weight of a sample grows by from one to the next.
    """

    def __cinit__(self):
        self.node_bytes = sizeof(Node) + sizeof(Sums)
        self.chunk_bytes = sizeof(Chunk) + sizeof(Sums)
        self.remainders = Remainders()
        self.clear()

    def __init__(self, spec, window, rate):
        self.spec = spec
        if spec is not None:
            self.formula = formula_of(spec)
        self.window, self.rate, self.growth = window, rate, 1.0

    def __sizeof__(self):
        return super().__sizeof__() + self.remainders.bytes_taken()

    # ------------------------------------------------------------------ for Python

    def learn(self, double score, double y, double w):
        """Learn a sample; return False, and change nothing, if it is refused."""
        with self.lock:
            return self.learn_sample(score, y, w) == 1

    def learn_many(
        self, const double[::1] scores, const double[::1] y, const double[::1] w
    ):
        """Learn samples, none of which is refused, in the order given."""
        cdef Py_ssize_t i
        with nogil, self.lock:
            for i in range(scores.shape[0]):
                self.learn_sample(scores[i], y[i], w[i])

    def best(self):
        """Return the best threshold (inf: nothing is labelled 1) and the metric there.

        None where a metric is not coded and `remember` has not been called since the last change.
        """
        with self.lock:
            if not self.known:
                if self.spec is None:
                    return None
                self.search()
            return self.threshold, self.utility

    def remember(self, int64_t n_changes, double threshold, double utility):
        """Have `best` return these until there is a change, unless there was one already."""
        with self.lock:
            if self.n_changes == n_changes:
                self.threshold, self.utility, self.known = threshold, utility, True

    def walk(self):
        """Return scores, positives and negatives of all slots, descending, growth and changes."""
        with self.lock:
            scores, sums, _ = self.slots()
            return scores[::-1], sums[0, ::-1], sums[1, ::-1], self.growth, self.n_changes

    def check(self):
        """Raise ``AssertionError`` that names the first broken invariant of order and balance."""
        with self.lock:
            self.fold_dirty()
            ScoreIndex.check(self)

    # ------------------------------------------------------------------ folding

    cdef int fold_chunk(self, Chunk *chunk, double score) except -1 nogil:
        """Sum up the slots of a chunk anew, so that nothing drifts."""
        cdef double positive = 0.0, negative = 0.0
        cdef int i
        for i in range(chunk.size):
            positive += chunk.slots[i].weight
            negative += chunk.slots[i].sum
        sums_of(&chunk.node)[0] = Sums(positive=positive, negative=negative)
        return 0

    cdef void fold_node(self, Node *node) noexcept nogil:
        cdef Sums *left = sums_of(node.left)
        cdef Sums *right = sums_of(node.right)
        cdef Sums *sums = sums_of(node)
        sums.positive = left.positive + right.positive
        sums.negative = left.negative + right.negative

    cdef int refold_all(self) except -1 nogil:
        """Fold all chunks from scratch."""
        cdef Chunk *chunk = self.first
        while chunk != NULL:
            self.refold(chunk)
            chunk = chunk.next
        return 0

    # ------------------------------------------------------------------ changing

    cdef int learn_sample(self, double score, double y, double w) except -1 nogil:
        """Learn one sample; return 1, or 0 where it is refused (NaN fails every comparison)."""
        cdef double positive, negative
        cdef Queued oldest
        if not (-INFINITY < score < INFINITY and SMALLEST <= w <= LARGEST):
            return 0
        if not (y == 0.0 or y == 1.0):
            return 0
        if self.changing:
            return out_of_memory()
        self.changing = True
        self.known = False
        self.n_changes += 1
        self.growth *= self.rate
        if self.growth > _LARGEST_GROWTH:
            self.scale_down()
        w *= self.growth
        positive, negative = w * y, w * (1.0 - y)
        self.add_sample(score, positive, negative)
        if self.window > 0:
            self.push(score, positive, negative)
            if self.queue_size > self.window:
                oldest = self.pop()
                self.remove(&oldest)
        self.changing = False
        return 1

    cdef int add_sample(self, double score, double positive, double negative) except -1 nogil:
        """Add a sample to the sums of its score; O(log n)."""
        cdef Chunk *chunk = NULL
        cdef Chunk *other = NULL
        cdef Slot *slot
        if self.window == 0:
            return self.add(score, positive, negative)
        slot = self.open(score, &chunk, &other)
        slot.n += 1
        self.remainders.add(score, POSITIVE, &slot.weight, positive)
        self.remainders.add(score, NEGATIVE, &slot.sum, negative)
        self.refold(chunk)
        return self.refold(other) if other != NULL else 0

    cdef int remove(self, Queued *sample) except -1 nogil:
        """Forget a sample that leaves the window; O(log n)."""
        cdef double score = sample.score
        cdef Chunk *chunk = self.find_chunk(score)
        cdef int i = find_slot(chunk, score)
        cdef Slot *slot
        if not holds(chunk, i, score):
            return 0
        slot = &chunk.slots[i]
        slot.n -= 1
        if slot.n == 0:
            self.remainders.forget(score, POSITIVE)
            self.remainders.forget(score, NEGATIVE)
            return self.close(score)
        self.remainders.take(score, POSITIVE, &slot.weight, sample.weight)
        self.remainders.take(score, NEGATIVE, &slot.sum, sample.sum)
        return self.refold(chunk)

    cdef int scale_down(self) except -1 nogil:
        """Divide all weights and what they have grown to by a power of two, which leaves 1 to 2."""
        cdef int exponent = 0
        frexp(self.growth, &exponent)
        cdef double factor = ldexp(1.0, 1 - exponent)
        cdef Chunk *chunk = self.first
        cdef Queued *queued
        cdef int64_t k
        cdef int i
        self.growth *= factor
        while chunk != NULL:
            for i in range(chunk.size):
                chunk.slots[i].weight *= factor
                chunk.slots[i].sum *= factor
            chunk = chunk.next
        for k in range(self.queue_size):
            queued = self.queued(k)
            queued.weight *= factor
            queued.sum *= factor
        self.refold_all()
        return self.find_remainders() if self.window > 0 else self.drop_vanished()

    cdef int drop_vanished(self) except -1 nogil:
        """Drop the scores of which nothing is left beside the weight of all."""
        cdef int64_t n = self.n_scores, kept = 0, i
        cdef double positive, negative
        cdef Slot *slots = <Slot *> malloc((n + 1) * sizeof(Slot))
        if slots == NULL:
            return out_of_memory()
        self.fold_dirty()
        positive = VANISHED * sums_of(self.root).positive
        negative = VANISHED * sums_of(self.root).negative
        self.copy_slots(slots)
        for i in range(n):
            if slots[i].weight > positive or slots[i].sum > negative:
                slots[kept] = slots[i]
                kept += 1
        if kept < n:
            self.rebuild(slots, kept)
        free(slots)
        return 0

    cdef int find_remainders(self) except -1 nogil:
        """Find what is left out of the sums of all slots: their samples wait in the queue."""
        cdef Chunk *chunk = self.first
        cdef Slot *slot
        cdef Queued *queued
        cdef int64_t k
        cdef int i
        self.remainders.clear()
        for k in range(self.queue_size):
            queued = self.queued(k)
            self.remainders.leave_out(queued.score, POSITIVE, queued.weight)
            self.remainders.leave_out(queued.score, NEGATIVE, queued.sum)
        while chunk != NULL:
            for i in range(chunk.size):
                slot = &chunk.slots[i]
                self.remainders.leave_out(slot.score, POSITIVE, -slot.weight)
                self.remainders.leave_out(slot.score, NEGATIVE, -slot.sum)
            chunk = chunk.next
        return self.remainders.fit()

    # ------------------------------------------------------------------ the best threshold

    cdef void search(self) noexcept nogil:
        """Find the best threshold by branch and bound; O(n) at worst."""
        cdef Open ahead[DEEPEST]
        cdef Open above, below
        cdef Formula *formula = &self.formula
        cdef Node *node
        cdef Sums *left
        cdef Sums *right
        cdef double P, N
        cdef int n = 1
        self.fold_dirty()
        P, N = sums_of(self.root).positive, sums_of(self.root).negative
        self.threshold, self.utility = INFINITY, utility(formula, 0.0, 0.0, P, N)
        ahead[0] = Open(node=self.root, tp=0.0, fp=0.0, bound=INFINITY)
        while n > 0:
            n -= 1
            node = ahead[n].node
            if ahead[n].bound <= self.utility:
                continue
            if is_chunk(node):
                self.search_chunk(<Chunk *> node, ahead[n].tp, ahead[n].fp, P, N)
                continue
            left, right = sums_of(node.left), sums_of(node.right)
            above = Open(node=node.right, tp=ahead[n].tp, fp=ahead[n].fp, bound=0.0)
            below = Open(
                node=node.left,
                tp=above.tp + right.positive,
                fp=above.fp + right.negative,
                bound=0.0,
            )
            above.bound = most(formula, above.tp, above.fp, right, P, N)
            below.bound = most(formula, below.tp, below.fp, left, P, N)
            # The more promising child goes on top.
            if below.bound <= above.bound:
                ahead[n], ahead[n + 1] = below, above
            else:
                ahead[n], ahead[n + 1] = above, below
            n += 2
        self.known = True

    cdef void search_chunk(
        self, Chunk *chunk, double tp, double fp, double P, double N
    ) noexcept nogil:
        """Try the thresholds at all slots of a chunk, with so much to its right."""
        cdef double value
        cdef int i
        for i in range(chunk.size - 1, -1, -1):
            tp += chunk.slots[i].weight
            fp += chunk.slots[i].sum
            value = utility(&self.formula, tp, fp, max(0.0, P - tp), max(0.0, N - fp))
            if value > self.utility:
                self.threshold, self.utility = chunk.slots[i].score, value

    # ------------------------------------------------------------------ all at once

    cdef tuple slots(self):
        scores, sums = np.empty(self.n_scores), np.empty((2, self.n_scores))
        counts = np.empty(self.n_scores, np.int64)
        cdef double[::1] x = scores
        cdef double[:, ::1] out = sums
        cdef int64_t[::1] n = counts
        cdef Chunk *chunk = self.first
        cdef Py_ssize_t row = 0
        cdef int i
        while chunk != NULL:
            for i in range(chunk.size):
                x[row], n[row] = chunk.slots[i].score, chunk.slots[i].n
                out[POSITIVE, row] = chunk.slots[i].weight
                out[NEGATIVE, row] = chunk.slots[i].sum
                row += 1
            chunk = chunk.next
        return scores, sums, counts

    def state(self):
        """Return all that `restore` takes: numbers and arrays by name."""
        with self.lock:
            return {"growth": self.growth}, self.arrays()

    cdef dict arrays(self):
        scores, sums, counts = self.slots()
        shape, keys = np.empty(2 * self.n_chunks - 1, np.int64), np.empty(self.n_chunks - 1)
        queue = np.empty((self.queue_size, 3))
        cdef int64_t[::1] shape_view = shape
        cdef double[::1] keys_view = keys
        cdef double[:, ::1] rows = queue
        cdef int64_t *shape_at = &shape_view[0]
        cdef double *keys_at = &keys_view[0] if self.n_chunks > 1 else NULL
        cdef Queued *queued
        cdef int64_t k
        copy_tree(self.root, &shape_at, &keys_at)
        for k in range(self.queue_size):
            queued = self.queued(k)
            rows[k, 0], rows[k, 1], rows[k, 2] = queued.score, queued.weight, queued.sum
        return {
            "scores": scores,
            "sums": sums,
            "counts": counts,
            "shape": shape,
            "keys": keys,
            "queue": queue,
        }

    def restore(self, fields, arrays):
        """Take over what `state` returned, which must have been checked.

        Only for an object that has learned nothing.
        """
        cdef const double[::1] scores = arrays["scores"], keys = arrays["keys"]
        cdef const double[:, ::1] sums = arrays["sums"], queue = arrays["queue"]
        cdef const int64_t[::1] counts = arrays["counts"], shape = arrays["shape"]
        cdef Py_ssize_t n = scores.shape[0], i
        cdef const double *keys_at = &keys[0] if keys.shape[0] else NULL
        cdef Slot *slots = <Slot *> malloc((n + 1) * sizeof(Slot))
        if slots == NULL:
            raise MemoryError
        try:
            for i in range(n):
                slots[i].score, slots[i].n = scores[i], counts[i]
                slots[i].weight, slots[i].sum = sums[POSITIVE, i], sums[NEGATIVE, i]
            self.grow(&shape[0], shape.shape[0], keys_at, slots)
        finally:
            free(slots)
        for i in range(queue.shape[0]):
            self.push(queue[i, 0], queue[i, 1], queue[i, 2])
        self.growth = fields["growth"]
        self.refold_all()
        if self.window > 0:
            self.find_remainders()

    def __reduce__(self):
        return restored, ((self.spec, self.window, self.rate), *self.state())


cdef double most(
    const Formula *formula, double tp, double fp, const Sums *more, double P, double N
) noexcept nogil:
    """Return the most a metric can be while tp and fp grow by no more than so much."""
    cdef double more_tp = more.positive, more_fp = more.negative, best
    if formula.kind == SEC and tp + fp <= P <= tp + fp + more_tp + more_fp:
        return 0.0
    best = utility(formula, tp + more_tp, fp, P - tp - more_tp, N - fp)
    best = max(best, utility(formula, tp, fp, P - tp, N - fp))
    best = max(best, utility(formula, tp, fp + more_fp, P - tp, N - fp - more_fp))
    return max(
        best,
        utility(formula, tp + more_tp, fp + more_fp, P - tp - more_tp, N - fp - more_fp),
    )
