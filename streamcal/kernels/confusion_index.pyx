"""Confusion counts on the score index: the threshold that maximises a metric on past samples.

Each slot sums the weights of the positives and of the negatives at its score, each chunk and node
those below it. Five samples, the scores of the positives marked:

                     2 + 3
                   /       \\
       1 + 2                1 + 1
       .1  .4*  .5   <-->   .6  .9*

With the sums to the left and to the right of a subtree this gives the table of any threshold in
O(log n), and bounds the tables of all thresholds in the subtree: true and false positives each lie
between the sums to its right and these plus its own sums. A metric that grows with the former
and falls with the latter is largest in a corner of that rectangle; so is one that is quasi-linear
in both, such as a ratio of linear forms. So the best threshold is found by branch and bound down
the tree, exactly, and an update costs O(log n). All four counts are sums of samples, none is a
difference of two sums: where few samples lie to the left of a threshold, a difference would be
rounding alone.

`streamcal.kernels.score_index` explains the growth of weights, the window, and the behaviour when
memory runs out. With a window each sum is the exact sum of the samples in it, rounded once;
`streamcal.kernels.remainders` stores the rounding errors for this.

In a `Slot` and in a `Sample`, ``weight`` is the sum of the positives and ``sum`` that of the
negatives. Bad input is refused before anything changes.
"""

from libc.math cimport INFINITY, NAN
from libc.stdint cimport int64_t

from streamcal.kernels.clock cimport check_times
from streamcal.kernels.confusion cimport SEC, Formula, formula_of, utility
from streamcal.kernels.remainders cimport Remainders
from streamcal.kernels.samples cimport can_be_learned, check_lengths
from streamcal.kernels.score_index cimport (
    LEFT, RIGHT, SLOTS, Chunk, Node, Place, Sample, ScoreIndex, Slot, is_chunk, summary_of,
)

from streamcal.kernels.exclusive import no_collection, no_fork

# Growth is scaled down from here.
LARGEST_GROWTH = 2.0**64
cdef double VANISHED = 2.0**-80  # of the weight of all

cdef enum:
    POSITIVE = 0  # which of the sums of a score
    NEGATIVE = 1
    # A tree of weight-balanced nodes is at most 2.5 log2(n) deep, and each level leaves one sibling
    # behind.
    DEEPEST = 256


cdef struct Sums:
    double positive, negative


cdef struct Open:
    Node *node
    Sums left  # what is to the left of the subtree: labelled 0 by every threshold in it
    Sums right  # and to the right: labelled 1
    double bound  # no threshold in the subtree is better


cdef inline Sums *sums_of(Node *node) noexcept nogil:
    """Return the sums of what is below a node, or of a chunk."""
    return <Sums *> summary_of(node)


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
    half_life : float
        In seconds, after which the weight of a sample has halved; infinite: none.
    time_window : float
        For how many seconds to keep samples; 0 means for ever.
    """

    cdef readonly object spec
    cdef Formula formula
    cdef Remainders remainders  # of a window's sums
    cdef int64_t n_changes
    cdef bint known  # whether the two that follow are up to date
    cdef double threshold, utility

    def __cinit__(self):
        self.largest_growth = LARGEST_GROWTH
        self.node_bytes = sizeof(Node) + sizeof(Sums)
        self.chunk_bytes = sizeof(Chunk) + sizeof(Sums)
        self.remainders = Remainders()
        self.clear()

    def __init__(self, spec, window, rate, half_life=INFINITY, time_window=0.0):
        self.spec = spec
        if spec is not None:
            self.formula = formula_of(spec)
        self.window, self.rate = window, rate
        self.set_aging(half_life, time_window)

    def __sizeof__(self):
        cdef size_t n = super().__sizeof__()
        with self.lock:
            return n + self.remainders.bytes_taken()

    # For Python -----------------------------------------------------------------------------------

    def learn_many(
        self, const double[::1] scores, const double[::1] y, const double[::1] w,
        const double[::1] times=None,
    ):
        """Learn samples, none of which is refused, in the order given."""
        cdef Py_ssize_t i
        cdef bint timed = times is not None
        check_lengths(scores, y, w)
        check_times(times, scores.shape[0])
        with no_fork, nogil, self.lock:
            for i in range(scores.shape[0]):
                self.learn_sample(scores[i], y[i], w[i], times[i] if timed else NAN)

    def best(self):
        """Return the best threshold (inf: nothing is labelled 1) and the metric there.

        None where a metric is not coded and `remember` has not been called since the last change.
        """
        cdef double threshold, utility
        with self.lock:
            self.check_whole()
            if not self.known:
                if self.spec is None:
                    return None
                self.search()
            threshold, utility = self.threshold, self.utility
        return threshold, utility

    def remember(self, int64_t n_changes, double threshold, double utility):
        """Let `best` return these until the next change, unless there has been one."""
        with self.lock:
            if self.n_changes == n_changes:
                self.threshold, self.utility, self.known = threshold, utility, True

    def walk(self):
        """Return scores, positives and negatives of all slots, descending, growth and changes."""
        with no_collection, self.lock:
            self.check_whole()
            held = self.slots()
            positive, negative = held["sums"][:, ::-1]
            return held["scores"][::-1], positive, negative, self.growth, self.n_changes

    def check(self):
        """Raise ``AssertionError`` that names the first broken invariant of order and balance."""
        with self.lock:
            self.fold_dirty()
            ScoreIndex.check(self)

    # Folding --------------------------------------------------------------------------------------

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

    # Changing -------------------------------------------------------------------------------------

    cdef bint refuses(self, double score, double label, double w) noexcept nogil:
        return not (can_be_learned(score, w) and (label == 0.0 or label == 1.0))

    cdef Sample as_sample(self, double score, double label, double w) noexcept nogil:
        return Sample(score=score, weight=w * label, sum=w * (1.0 - label))

    cdef void finish(self) noexcept nogil:
        self.known = False
        self.n_changes += 1

    cdef int add(self, const Sample *sample) except -1 nogil:
        cdef Place place
        if self.window == 0:
            return ScoreIndex.add(self, sample)
        self.insert_slot(sample.score, &place)
        place.slot.n += 1
        self.remainders.add(sample.score, POSITIVE, &place.slot.weight, sample.weight)
        self.remainders.add(sample.score, NEGATIVE, &place.slot.sum, sample.sum)
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
            return self.remove_slot(&place)
        self.remainders.subtract(score, POSITIVE, &place.slot.weight, sample.weight)
        self.remainders.subtract(score, NEGATIVE, &place.slot.sum, sample.sum)
        return self.fold_place(&place)

    cdef int scale_down(self, double factor) except -1 nogil:
        self.start_change()
        self.fold_dirty()
        ScoreIndex.scale_down(self, factor)
        if self.window > 0:
            self.find_remainders()  # from scratch: the old ones are gone before it is done
        self.known = False
        self.changing = False
        return 0

    cdef bint scale_slot(self, Slot *slot, double factor) noexcept nogil:
        """Scale a slot; return False if its weight is negligible beside the total weight."""
        cdef Sums *total = sums_of(self.tree.root)
        cdef bint stays = slot.weight > VANISHED * total.positive
        stays = stays or slot.sum > VANISHED * total.negative or self.window > 0
        ScoreIndex.scale_slot(self, slot, factor)
        return stays

    cdef bint vanishes(self, const Sample *sample) noexcept nogil:
        return False  # each sample of a window stays in its slot until it leaves

    cdef int find_remainders(self) except -1 nogil:
        """Compute the remainders of the sums of all slots from the samples in the queue."""
        cdef Chunk *chunk = self.tree.first
        cdef Slot *slot
        cdef Sample sample
        cdef int64_t k
        cdef int i
        self.remainders.clear()
        for k in range(self.queue_size):
            sample = self.queued(k)
            self.remainders.add_to_remainder(sample.score, POSITIVE, sample.weight)
            self.remainders.add_to_remainder(sample.score, NEGATIVE, sample.sum)
        while chunk != NULL:
            for i in range(chunk.size):
                slot = &chunk.slots[i]
                self.remainders.add_to_remainder(slot.score, POSITIVE, -slot.weight)
                self.remainders.add_to_remainder(slot.score, NEGATIVE, -slot.sum)
            chunk = chunk.next
        return self.remainders.shrink()

    # The best threshold ---------------------------------------------------------------------------

    cdef void search(self) noexcept nogil:
        """Find the best threshold by branch and bound; O(n) at worst."""
        cdef Open ahead[DEEPEST]
        cdef Open at, above, below
        cdef Sums *left
        cdef Sums *right
        cdef int n = 1
        self.fold_dirty()
        left = sums_of(self.tree.root)
        self.threshold = INFINITY
        self.utility = utility(&self.formula, 0.0, 0.0, left.positive, left.negative)
        ahead[0].node, ahead[0].bound = self.tree.root, INFINITY
        ahead[0].left = ahead[0].right = Sums(positive=0.0, negative=0.0)
        while n > 0:
            n -= 1
            at = ahead[n]
            if at.bound <= self.utility:
                continue
            if is_chunk(at.node):
                self.search_chunk(<Chunk *> at.node, at.left, at.right)
                continue
            left, right = sums_of(at.node.child[LEFT]), sums_of(at.node.child[RIGHT])
            above = below = at
            above.node, above.left = at.node.child[RIGHT], sum_of(&at.left, left)
            below.node, below.right = at.node.child[LEFT], sum_of(&at.right, right)
            above.bound = upper_bound(&self.formula, &above, right)
            below.bound = upper_bound(&self.formula, &below, left)
            # The child with the greater bound is on top, so it is searched first.
            if below.bound <= above.bound:
                ahead[n], ahead[n + 1] = below, above
            else:
                ahead[n], ahead[n + 1] = above, below
            n += 2
        self.known = True

    cdef void search_chunk(self, Chunk *chunk, Sums left, Sums right) noexcept nogil:
        """Try the thresholds at all slots of a chunk, with so much to its left and right."""
        cdef Sums before[SLOTS]
        cdef double value
        cdef int i
        for i in range(chunk.size):
            before[i] = left
            left.positive += chunk.slots[i].weight
            left.negative += chunk.slots[i].sum
        for i in range(chunk.size - 1, -1, -1):
            right.positive += chunk.slots[i].weight
            right.negative += chunk.slots[i].sum
            value = utility(
                &self.formula,
                right.positive, right.negative, before[i].positive, before[i].negative,
            )
            if value > self.utility:
                self.threshold, self.utility = chunk.slots[i].score, value

    # All at once ----------------------------------------------------------------------------------

    def restore(self, dict numbers, dict arrays):
        ScoreIndex.restore(self, numbers, arrays)
        if self.window > 0:
            self.find_remainders()

    cdef tuple settings(self):
        return self.spec, self.window, self.rate, *self.aging_settings()


cdef inline Sums sum_of(const Sums *a, const Sums *b) noexcept nogil:
    return Sums(positive=a.positive + b.positive, negative=a.negative + b.negative)


cdef double upper_bound(const Formula *formula, const Open *at, const Sums *inside) noexcept nogil:
    """Return the most that a metric can be at thresholds in a subtree, whose sums are ``inside``.

    Of these any part may lie at or above the threshold, of both classes; corners are all or none.
    """
    cdef double best = -INFINITY, chosen
    cdef double tp, fp, fn, tn
    cdef int corner
    chosen = at.right.positive + at.right.negative
    if formula.kind == SEC and (
        chosen
        <= at.left.positive + inside.positive + at.right.positive
        <= chosen + inside.positive + inside.negative
    ):
        return 0.0
    for corner in range(4):
        tp, fp, fn, tn = at.right.positive, at.right.negative, at.left.positive, at.left.negative
        if corner & 1:
            tp += inside.positive
        else:
            fn += inside.positive
        if corner & 2:
            fp += inside.negative
        else:
            tn += inside.negative
        best = max(best, utility(formula, tp, fp, fn, tn))
    return best
