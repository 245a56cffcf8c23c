"""Confusion counts on the score index: the threshold that maximises a metric on past samples.

Each slot sums the weights of the positives and of the negatives at its score, each chunk and node
those below it. Five samples, the scores of the positives marked:

                     2 + 3
                   /       \\
       1 + 2                1 + 1
       .1  .4*  .5   <-->   .6  .9*

With the sums to the right of a subtree this gives the table of any threshold in O(log n), and
bounds the tables of all thresholds in the subtree: true and false positives each lie between the
sums to its right and these plus its own sums. A metric that grows with the former and falls with
the latter is largest in a corner of that rectangle; so is one that is quasi-linear in both, such as
a ratio of linear forms. So the best threshold is found by branch and bound down the tree, exactly,
and an update costs O(log n).

`streamcal.kernels.score_index` explains the growth of weights, the window, and the behaviour when
memory runs out. With a window each sum is the exact sum of the samples in it, rounded once;
`streamcal.kernels.remainders` stores the rounding errors for this.

In a `Slot` and in a `Sample`, ``weight`` is the sum of the positives and ``sum`` that of the
negatives. Bad input is refused before anything changes.
"""

from libc.math cimport INFINITY

from streamcal.kernels.confusion cimport SEC, formula_of, utility
from streamcal.kernels.score_index cimport (
    LEFT, RIGHT, Node, Place, Sample, ScoreIndex, Slot, can_be_learned, check_lengths, is_chunk,
)

# Growth is scaled down from here.
LARGEST_GROWTH = 2.0**64
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


cdef class ConfusionIndex(ScoreIndex):
    """Samples with the labels 0 and 1 by score, and the threshold that is best on them.

    Parameters
    ----------
    spec : ndarray or None
        The metric as `streamcal.kernels.confusion` codes it; None if it is not coded.
    window : int
        How many samples to keep; 0 means all.
    rate : float
        The factor from the weight of a sample to that of the next one.
    """

    def __cinit__(self):
        self.largest_growth = LARGEST_GROWTH
        self.node_bytes = sizeof(Node) + sizeof(Sums)
        self.chunk_bytes = sizeof(Chunk) + sizeof(Sums)
        self.remainders = Remainders()
        self.clear()

    def __init__(self, spec, window, rate):
        self.spec = spec
        if spec is not None:
            self.formula = formula_of(spec)
        self.window, self.rate = window, rate

    def __sizeof__(self):
        cdef size_t n = super().__sizeof__()
        with self.lock:
            return n + self.remainders.bytes_taken()

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
        check_lengths(scores, y, w)
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
        """Let `best` return these until the next change, unless there has been one."""
        with self.lock:
            if self.n_changes == n_changes:
                self.threshold, self.utility, self.known = threshold, utility, True

    def walk(self):
        """Return scores, positives and negatives of all slots, descending, growth and changes."""
        with self.lock:
            held = self.slots()
            positive, negative = held["sums"][:, ::-1]
            return held["scores"][::-1], positive, negative, self.growth, self.n_changes

    def check(self):
        """Raise ``AssertionError`` that names the first broken invariant of order and balance."""
        with self.lock:
            self.fold_dirty()
            ScoreIndex.check(self)

    # ------------------------------------------------------------------ folding

    cdef int fold_chunk(self, Chunk *chunk, double score) except -1 nogil:
        """Sum up the slots of a chunk from scratch, so that rounding errors do not accumulate."""
        cdef double positive = 0.0, negative = 0.0
        cdef int i
        for i in range(chunk.size):
            positive += chunk.slots[i].weight
            negative += chunk.slots[i].sum
        sums_of(&chunk.node)[0] = Sums(positive=positive, negative=negative)
        return 0

    cdef void fold_node(self, Node *node) noexcept nogil:
        cdef Sums *left = sums_of(node.child[LEFT])
        cdef Sums *right = sums_of(node.child[RIGHT])
        cdef Sums *sums = sums_of(node)
        sums.positive = left.positive + right.positive
        sums.negative = left.negative + right.negative

    # ------------------------------------------------------------------ changing

    cdef int learn_sample(self, double score, double y, double w) except -1 nogil:
        """Learn one sample; return 1, or 0 where it is refused (NaN fails every comparison)."""
        cdef double positive, negative
        if not (can_be_learned(score, w) and (y == 0.0 or y == 1.0)):
            return 0
        self.start_change()
        self.known = False
        self.n_changes += 1
        self.limit_growth()
        self.growth *= self.rate
        w *= self.growth
        positive, negative = w * y, w * (1.0 - y)
        self.add_sample(score, positive, negative)
        self.n_samples += 1
        if self.window > 0:
            self.push(score, positive, negative)
            self.forget_oldest()
        self.changing = False
        return 1

    cdef int add_sample(self, double score, double positive, double negative) except -1 nogil:
        """Add a sample to the sums of its score; O(log n)."""
        cdef Place place
        if self.window == 0:
            return self.add(score, positive, negative)
        self.open(score, &place)
        place.slot.n += 1
        self.remainders.add(score, POSITIVE, &place.slot.weight, positive)
        self.remainders.add(score, NEGATIVE, &place.slot.sum, negative)
        return self.fold_place(&place)

    cdef int remove(self, const Sample *sample) except -1 nogil:
        cdef double score = sample.score
        cdef Place place
        self.n_samples -= 1
        if not self.locate(score, &place):
            return 0
        place.slot.n -= 1
        if place.slot.n == 0:
            self.remainders.forget(score, POSITIVE)
            self.remainders.forget(score, NEGATIVE)
            return self.close(&place)
        self.remainders.take(score, POSITIVE, &place.slot.weight, sample.weight)
        self.remainders.take(score, NEGATIVE, &place.slot.sum, sample.sum)
        return self.fold_place(&place)

    cdef int scale_down(self, double factor) except -1 nogil:
        self.fold_dirty()
        ScoreIndex.scale_down(self, factor)
        return self.find_remainders() if self.window > 0 else 0

    cdef bint scale_slot(self, Slot *slot, double factor) noexcept nogil:
        """Scale a slot; return False if its weight is negligible beside the total weight."""
        cdef Sums *total = sums_of(self.root)
        cdef bint stays = slot.weight > VANISHED * total.positive
        stays = stays or slot.sum > VANISHED * total.negative or self.window > 0
        ScoreIndex.scale_slot(self, slot, factor)
        return stays

    cdef bint vanishes(self, const Sample *sample) noexcept nogil:
        return False  # each sample of a window stays in its slot until it leaves

    cdef int find_remainders(self) except -1 nogil:
        """Compute the remainders of the sums of all slots from the samples in the queue."""
        cdef Chunk *chunk = self.first
        cdef Slot *slot
        cdef Sample sample
        cdef int64_t k
        cdef int i
        self.remainders.clear()
        for k in range(self.queue_size):
            sample = self.queued(k)
            self.remainders.leave_out(sample.score, POSITIVE, sample.weight)
            self.remainders.leave_out(sample.score, NEGATIVE, sample.sum)
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
            left, right = sums_of(node.child[LEFT]), sums_of(node.child[RIGHT])
            above = Open(node=node.child[RIGHT], tp=ahead[n].tp, fp=ahead[n].fp, bound=0.0)
            below = Open(
                node=node.child[LEFT],
                tp=above.tp + right.positive,
                fp=above.fp + right.negative,
                bound=0.0,
            )
            above.bound = most(formula, above.tp, above.fp, right, P, N)
            below.bound = most(formula, below.tp, below.fp, left, P, N)
            # The child with the greater bound is on top, so it is searched first.
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

    def restore(self, dict numbers, dict arrays):
        ScoreIndex.restore(self, numbers, arrays)
        if self.window > 0:
            self.find_remainders()

    cdef tuple settings(self):
        return self.spec, self.window, self.rate


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
