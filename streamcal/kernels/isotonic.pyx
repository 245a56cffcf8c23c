"""Isotonic regression of a stream: learn, forget, predict, list the blocks.

The staircase itself is in `streamcal.kernels.hull`. This file adds what a stream needs:

* The *prior*: a pseudo-sample of the highest label before all scores, and one of the lowest label
  after them. Pooling the first one raises the first blocks to one common value and does not change
  the others, so together they clip the staircase to [floor, ceiling]. If floor >= ceiling, all
  samples and both pseudo-samples are one block::

      means of blocks    .0   .2   .5   .9
      prior              '-- floor .3     '-- ceiling .8
      clipped            .3   .3   .5   .8

* The range of labels, and a bound on the number of scores.

`streamcal.kernels.score_index` explains the growth of weights, the window, and the behaviour when
memory runs out. Bad input is refused before anything changes. While the lock is held no signal
handler runs, because one that called the same object would be a deadlock. `state`, `samples` and
`walk` create arrays there, which on CPython 3.11 may start the garbage collector: `__del__` must
not call an object of this kind.
"""

from libc.math cimport INFINITY, NAN, fabs, isfinite, nextafter
from libc.stdint cimport int64_t
from libc.stdlib cimport free, malloc, qsort
from libc.string cimport memcpy

from streamcal.kernels.clock cimport check_times
from streamcal.kernels.expert cimport Expert
from streamcal.kernels.hull cimport (
    ChunkHull, Edge, Hull, Sums, copy_bridges, hull_of, restore_bridges,
)
from streamcal.kernels.samples cimport can_be_learned, check_lengths, is_sample
from streamcal.kernels.score_index cimport (
    AHEAD, SLOTS, Chunk, Place, Sample, ScoreIndex, Slot, check_slots_and_tree, check_window,
    check_window_times, find_slot, lost_digits, tolerance,
)
from streamcal.kernels.state_bytes cimport require

import numpy as np

from streamcal.kernels import score_index
from streamcal.kernels.exclusive import no_collection, no_fork

cdef int INNER = score_index.INNER
cdef double MOST_WEIGHT = score_index.MOST_WEIGHT
cdef double LARGEST = 1e60  # of a statistic, in absolute value
# In one object: counts stay exact, and sums of samples up to `LARGEST` stay finite.
cdef double MOST_SAMPLES = 2.0**53


cdef class IsotonicRegression(Hull):
    """The isotonic regression of the current samples, as means of their statistics.

    Bounds, lower and upper::

        lowest          highest          labels that are accepted; those of the prior
        lowest_value    highest_value    the floats next to these, inside
        least           most             means that are possible
        floor           ceiling          means as the prior clips them
        floor_end       ceiling_start    scores up to which, and from which, the prior is pooled

    Parameters
    ----------
    window : int
        How many samples to keep; 0 means all.
    rate : float
        The factor from the weight of a sample to that of the next one.
    prior : float
        The weight of each of the two pseudo-samples.
    labels : tuple of float
        The lowest and the highest label that is accepted.
    means : tuple of float
        Bounds of means.
    max_scores : int
        How many distinct scores are kept.
    half_life : float
        In seconds, after which the weight of a sample has halved; infinite: none.
    time_window : float
        For how many seconds to keep samples; 0 means for ever.
    """

    def __cinit__(
        self,
        window,
        rate,
        prior,
        labels,
        means,
        max_scores,
        half_life=INFINITY,
        time_window=0.0,
    ):
        self.window, self.rate = window, rate
        self.set_aging(half_life, time_window)
        self.prior = prior
        self.lowest, self.highest = labels
        self.lowest_value = nextafter(self.lowest, INFINITY)
        self.highest_value = nextafter(self.highest, -INFINITY)
        self.least, self.most = means
        self.max_scores = max_scores
        self.finish()

    # For Python -----------------------------------------------------------------------------------

    def advance(self, double t):
        """Let weights grow until a time in seconds, as the next sample would."""
        cdef double rate
        with self.lock:
            self.check_whole()
            rate = self.rate_until(t)
            self.limit_growth(rate)
            self.growth *= rate
            self.set_clock(t)
            self.finish()

    def unlearn(self, double score, double s, double w):
        """Remove a sample; return False if it cannot have been learned."""
        with self.lock:
            return self.unlearn_sample(score, s, w)

    def holds(self, double score, double s, double w):
        """Return whether `unlearn` would remove a sample."""
        cdef Sample sample
        cdef int64_t at = -1
        with self.lock:
            return self.holds_sample(score, s, w, &sample, &at)

    def predict(self, double score, bint step):
        """Return the mean at a score, linear between blocks unless ``step``; NaN if there is none.
        """
        with self.lock:
            self.check_whole()
            return self.value(score, step)

    def predict_learn(
        self, bint step, double low, double high, double score, double s, double w, double t=NAN
    ):
        """Predict, then learn a sample; if ``s`` is NaN, only predict. ``t`` is its time.

        Returns the mean at the score; before anything was learned, the number from ``low`` to
        ``high`` that is nearest to the score.
        """
        cdef double answer
        with self.lock:
            self.check_whole()
            answer = self.value(score, step)
            if s == s:
                self.learn_sample(score, s, w, t)
        if answer != answer:
            return low if score < low else high if score > high else score
        return answer

    def predict_learn_many(
        self, const double[::1] scores, const double[::1] s, const double[::1] w, bint step,
        double[:, ::1] out, const double[::1] times=None,
    ):
        """Predict, then learn each sample; without rows in ``out`` nothing is predicted.

        A row of ``out`` has the mean left of the score, the mean right of it, and the relative
        position of the score between them.
        """
        cdef Py_ssize_t i
        cdef Bracket bracket
        cdef bint predicts = out.shape[0] > 0, timed = times is not None
        check_lengths(scores, s, w)
        check_times(times, scores.shape[0])
        if predicts:
            check_rows(scores, out)
        with no_fork, nogil, self.lock:
            self.check_whole()
            for i in range(scores.shape[0]):
                if i % AHEAD == 0:
                    self.prefetch_chunks(&scores[i], scores.shape[0] - i)
                if predicts:
                    bracket = self.bracket(scores[i], step)
                    out[i, 0], out[i, 1], out[i, 2] = bracket.low, bracket.high, bracket.share
                self.learn_sample(scores[i], s[i], w[i], times[i] if timed else NAN)

    def bracket_many(self, const double[::1] scores, bint step, double[:, ::1] out):
        """Write to ``out`` the means left and right of each score and its relative position."""
        cdef Py_ssize_t i
        cdef Bracket bracket
        check_rows(scores, out)
        with nogil, self.lock:
            self.check_whole()
            for i in range(scores.shape[0]):
                bracket = self.bracket(scores[i], step)
                out[i, 0], out[i, 1], out[i, 2] = bracket.low, bracket.high, bracket.share

    # Predicting -----------------------------------------------------------------------------------

    cdef double value(self, double score, bint step) noexcept nogil:
        """Return the mean at a score, linear between blocks unless ``step``; NaN if none."""
        cdef Bracket bracket = self.bracket(score, step)
        if bracket.share == 0.0:
            return bracket.low
        return min(bracket.low + bracket.share * (bracket.high - bracket.low), bracket.high)

    cdef Bracket bracket(self, double score, bint step) noexcept nogil:
        """Return the means left and right of a score and its relative position; NaN if none."""
        cdef Bracket bracket
        cdef Edge *left
        cdef Edge *right
        cdef double start, stop
        bracket.low, bracket.high, bracket.share = NAN, NAN, 0.0
        if not (-INFINITY < score < INFINITY):
            return bracket
        self.edges_around(score, &left, &right)
        if left == NULL:
            left = right
        if left == NULL:
            return bracket
        bracket.low = bracket.high = min(max(left.sum / left.weight, self.floor), self.ceiling)
        if left == right or right == NULL or step:
            return bracket
        bracket.high = min(max(right.sum / right.weight, self.floor), self.ceiling)
        start, stop = left.last, right.first
        if stop - start == INFINITY:  # the distance of two halves is finite
            bracket.share = (0.5 * score - 0.5 * start) / (0.5 * stop - 0.5 * start)
        else:
            bracket.share = (score - start) / (stop - start)
        return bracket

    # Changing -------------------------------------------------------------------------------------

    cdef bint refuses(self, double score, double label, double w) noexcept nogil:
        return not (
            can_be_learned(score, w)
            and self.lowest <= label <= self.highest
            and -LARGEST <= label <= LARGEST
        )

    cdef int prepare(self, double score) except -1 nogil:
        if self.tree.n_scores >= self.max_scores and self.find(score) == NULL:
            self.make_place()
        return 0

    cdef double slack_of(self, const Sample *sample) noexcept nogil:
        return tolerance(fabs(sample.sum) + sample.weight)

    cdef bint may_hold(self, const Slot *slot, const Sample *sample) noexcept nogil:
        """Return whether a slot can contain a sample: whether the rest could be sums of labels."""
        cdef double w = slot.weight - sample.weight, s = slot.sum - sample.sum
        cdef double slack = tolerance(sample.weight + slot.weight)
        cdef double slack_s = tolerance(fabs(sample.sum) + fabs(slot.sum)) + slack
        if slot.n == 1:
            return fabs(w) <= slack and fabs(s) <= slack_s
        if self.lowest > -INFINITY and s < self.lowest * w - slack_s:
            return False
        if self.highest < INFINITY and s > self.highest * w + slack_s:
            return False
        return w > -slack

    cdef int remove(self, const Sample *sample) except -1 nogil:
        cdef Place place
        cdef Slot *slot
        if sample.weight == 0.0:  # cancelled
            return 0
        self.n_samples -= 1
        if not self.locate(sample.score, &place):
            return 0
        slot = place.slot
        if slot.n == 1:
            return self.remove_slot(&place)
        slot.weight -= sample.weight
        slot.sum -= sample.sum
        slot.n -= 1
        if lost_digits(slot.weight, sample.weight) or (
            self.window > 0 and lost_share(self.least, self.most, slot, sample)
        ):
            self.restore_digits(slot, sample.weight)
        # A difference of rounded sums may lie outside the range of sums for this weight.
        slot.sum = min(max(slot.sum, slot.weight * self.least), slot.weight * self.most)
        return self.fold_place(&place)

    cdef void restore_digits(self, Slot *slot, double w) noexcept nogil:
        """Repair a slot that lost digits, because nearly all of its weight was taken: ``w``.

        With a window, sum up anew what the queue holds of it. If no weight is left after that, set
        a very small one, since the slot still has samples.
        """
        cdef int64_t i
        cdef Sample at
        if self.window > 0:
            slot.weight = slot.sum = 0.0
            for i in range(self.queue_size):
                at = self.queued(i)
                if at.score == slot.score and at.weight > 0.0:
                    slot.weight += at.weight
                    slot.sum += at.sum
        if slot.weight <= 0.0:
            slot.weight = w * 2.0**-53

    cdef void finish(self) noexcept nogil:
        """Update the nodes and the interval to which the prior clips."""
        cdef double prior = self.prior * self.growth
        cdef double low_sum, high_sum
        cdef Sums block
        self.fold_dirty()
        self.floor, self.ceiling = self.least, self.most
        self.floor_end, self.ceiling_start = -INFINITY, INFINITY
        if prior == 0.0 or self.tree.n_scores == 0:
            return
        low_sum, high_sum = prior * self.lowest, prior * self.highest
        block = self.pool_front(prior, high_sum, &self.floor_end)
        self.floor = block.sum / block.weight
        block = self.pool_back(prior, low_sum, &self.ceiling_start)
        self.ceiling = block.sum / block.weight
        if self.floor >= self.ceiling:
            block = self.totals()
            self.floor = (block.sum + low_sum + high_sum) / (block.weight + 2.0 * prior)
            self.ceiling = self.floor
            self.floor_end, self.ceiling_start = INFINITY, -INFINITY
        # Strictly inside the ends in spite of rounding, so that log loss is finite.
        self.floor = min(max(self.floor, self.lowest_value), self.highest_value)
        self.ceiling = min(max(self.ceiling, self.lowest_value), self.highest_value)

    cdef int scale_down(self, double factor) except -1 nogil:
        ScoreIndex.scale_down(self, factor)
        self.finish()
        return 0

    cdef int make_place(self) except -1 nogil:
        """Merge pairs of neighbouring scores, the nearest first, to make room for a new score.

        Up to ``max(1, max_scores // 8)`` pairs are merged. If memory runs out, nothing has changed.
        """
        cdef int64_t n = self.tree.n_scores, n_pairs, i
        cdef Sample sample
        cdef Slot *slots = <Slot *> malloc((n + 1) * sizeof(Slot))
        cdef Pair *pairs = <Pair *> malloc((n + 1) * sizeof(Pair))
        if slots == NULL or pairs == NULL:
            free(slots)
            free(pairs)
            raise MemoryError
        try:
            self.copy_slots(slots)
            n_pairs = nearest_pairs(slots, n, pairs, max(1, self.max_scores // 8))
            n = merge_pairs(slots, n, pairs, n_pairs)
            self.rebuild(slots, n)
            self.n_merged += n_pairs
            # Samples in the queue of the window move with their scores.
            for i in range(self.queue_size):
                sample = self.queued(i)
                rename(&sample, pairs, n_pairs)
                self.set_queued(i, &sample)
        finally:
            free(slots)
            free(pairs)
        self.finish()
        return 0

    # What if --------------------------------------------------------------------------------------

    def what_if(self, double score):
        """Return the means at ``score`` if a sample of the lowest or highest label were learned.

        That is the Venn-Abers pair of a score (Vovk, Petej & Fedorova, *Large-Scale Probabilistic
        Predictors With and Without Guarantees of Validity*, NIPS 2015). The sample is added and
        removed in three updates. Then all sums are the same as before to the last bit, unless
        chunks were split or joined, or slots moved between them: then sums of edges may be rounded
        otherwise. This holds the GIL, so that nobody counts the score meanwhile.
        """
        cdef double growth, w
        cdef double before_w = 0.0, before_s = 0.0, p0, p1
        cdef bint existed
        cdef Sample sample
        cdef Place place
        cdef Chunk *chunk
        cdef ChunkHull hull
        cdef Edge edges[SLOTS]
        cdef int64_t n_chunks
        cdef int size, i
        with self.lock:
            self.start_change()
            growth = self.growth
            self.growth *= self.rate
            w = self.growth
            existed = self.locate(score, &place)
            if existed:
                before_w, before_s = place.slot.weight, place.slot.sum
            chunk, n_chunks = place.chunk, self.tree.n_chunks
            hull, size = hull_of(chunk)[0], chunk.size
            for i in range(hull.n):
                edges[i] = hull.edges[i]
            sample = self.as_sample(score, self.lowest, w)
            self.add(&sample)
            self.finish()
            p0 = self.bracket(score, True).low
            self.locate(score, &place)
            self.set_sums(&place, before_w + w, before_s + w * self.highest)
            self.finish()
            p1 = self.bracket(score, True).low
            self.growth = growth
            if existed:
                place.slot.n -= 1
                self.set_sums(&place, before_w, before_s)
            else:
                self.remove_slot(&place)
            self.locate(score, &place)
            if self.tree.n_chunks == n_chunks and place.chunk == chunk and chunk.size == size:
                self.set_hull(hull_of(chunk), &hull, edges)  # sums of edges are rounded as before
            self.finish()
            self.changing = False
        return p0, p1

    cdef int set_hull(self, ChunkHull *hull, const ChunkHull *other, const Edge *edges) except -1:
        """Give a hull these edges, and the number and total of another one."""
        cdef int i
        self.set_edges(hull, max(hull.n, other.n))
        for i in range(other.n):
            hull.edges[i] = edges[i]
        hull.n, hull.total = other.n, other.total
        return 0

    cdef int set_sums(self, Place *place, double w, double s) except -1 nogil:
        """Set the sums of a slot, and fold."""
        place.slot.weight, place.slot.sum = w, s
        return self.fold_place(place)

    # All at once ----------------------------------------------------------------------------------

    def samples(self):
        """Return what `absorb` takes: scores, sums (W, S) as two rows, counts, growth, n_merged."""
        with no_collection, self.lock:
            self.check_whole()
            held = self.slots()
            return held["scores"], held["sums"], held["counts"], self.growth, self.n_merged

    def begin(
        self,
        const double[::1] scores,
        const double[:, ::1] sums,
        const int64_t[::1] counts,
        const double[:, ::1] queue,
    ):
        """Add the first samples in one step; return False if there are samples already.

        The scores ascend. The ``queue`` has a row (score, weight, sum) for each sample.
        """
        cdef Py_ssize_t i
        check_slots(scores, sums, counts)
        if queue.shape[1] != 3:
            raise ValueError(f"`queue` must have 3 columns, got {queue.shape[1]}")
        with self.lock:
            self.check_whole()
            if self.n_samples > 0 or self.queue_size > 0:
                return False
            try:
                if self.window > 0:
                    for i in range(queue.shape[0]):
                        self.push(queue[i, 0], queue[i, 1], queue[i, 2], NAN)
                self.absorb_slots(scores, sums, counts, 1.0)
            except MemoryError:
                self.queue_size = 0
                raise
        return True

    def absorb(
        self,
        const double[::1] scores,
        const double[:, ::1] sums,
        const int64_t[::1] counts,
        double growth,
        int64_t n_merged,
    ):
        """Learn what `samples` of another object returned; if there are too many scores, merge.

        Return False, unchanged, if there are more samples than `MOST_SAMPLES`.
        """
        cdef Py_ssize_t i
        cdef double n_samples
        check_slots(scores, sums, counts)
        with self.lock:
            self.check_whole()
            n_samples = self.n_samples
            for i in range(counts.shape[0]):
                n_samples += counts[i]
            if n_samples > MOST_SAMPLES:
                return False
            self.absorb_slots(scores, sums, counts, self.growth / growth)
            self.n_merged += n_merged
            while self.tree.n_scores > self.max_scores:
                self.make_place()
            return True

    cdef int absorb_slots(
        self,
        const double[::1] scores,
        const double[:, ::1] sums,
        const int64_t[::1] counts,
        double factor,
    ) except -1:
        """Add sums times ``factor`` to the slots of scores, which ascend, in a balanced tree."""
        cdef int64_t n_own = self.tree.n_scores, n_other = scores.shape[0], n = 0, own = 0, i
        cdef Slot *slots = <Slot *> malloc((n_own + n_own + n_other + 1) * sizeof(Slot))
        cdef Slot *held = slots + n_own + n_other
        cdef Slot *slot
        if slots == NULL:
            raise MemoryError
        try:
            self.copy_slots(held)
            for i in range(n_other):
                while own < n_own and held[own].score < scores[i]:
                    slots[n] = held[own]
                    n, own = n + 1, own + 1
                slot = &slots[n]
                n += 1
                slot.score, slot.n = scores[i], counts[i]
                slot.weight, slot.sum = sums[0, i] * factor, sums[1, i] * factor
                if own < n_own and held[own].score == slot.score:
                    slot.weight += held[own].weight
                    slot.sum += held[own].sum
                    slot.n += held[own].n
                    own += 1
            memcpy(&slots[n], &held[own], (n_own - own) * sizeof(Slot))
            n += n_own - own
            self.rebuild(slots, n)
        finally:
            free(slots)
        for i in range(n_other):
            self.n_samples += counts[i]
        self.finish()
        return 0

    cdef tuple settings(self):
        return (
            self.window,
            self.rate,
            self.prior,
            (self.lowest, self.highest),
            (self.least, self.most),
            self.max_scores,
            *self.aging_settings(),
        )

    cdef dict numbers(self):
        numbers = {"growth": self.growth, "n_merged": self.n_merged}
        if self.aging != NULL:
            numbers["now"] = self.aging.clock.now
        return numbers

    cdef dict arrays(self):
        cdef Py_ssize_t n = self.tree.n_chunks, n_edges = 0
        lengths, edges = np.empty(self.tree.n_scores, np.int64), np.empty((self.tree.n_scores, 2))
        bridges = np.empty((n - 1, 2))
        cdef int64_t[::1] lengths_view = lengths
        cdef double[:, ::1] edges_view = edges, bridges_view = bridges
        cdef double *bridges_at = &bridges_view[0, 0] if n > 1 else NULL
        cdef Chunk *chunk = self.tree.first
        cdef Edge *edge
        cdef int j, covered
        copy_bridges(self.tree.root, &bridges_at)
        while chunk != NULL:
            covered = 0
            for j in range(hull_of(chunk).n):
                edge = &hull_of(chunk).edges[j]
                lengths_view[n_edges] = find_slot(chunk, edge.last) + 1 - covered
                covered += <int> lengths_view[n_edges]
                edges_view[n_edges, 0], edges_view[n_edges, 1] = edge.weight, edge.sum
                n_edges += 1
            chunk = chunk.next
        return {
            **Hull.arrays(self),
            "lengths": lengths[:n_edges],
            "edges": edges[:n_edges],
            "bridges": bridges,
        }

    def restore(self, dict numbers, dict arrays):
        """Set the state to what `state` returned; return False if ends of bridges are impossible.

        The rest must have been checked. Only for an object that has learned nothing; after False it
        refuses all use.
        """
        cdef const double[:, ::1] edges = arrays["edges"], bridges = arrays["bridges"]
        cdef const int64_t[::1] lengths = arrays["lengths"]
        cdef const double *ends = &bridges[0, 0] if bridges.shape[0] else NULL
        cdef Py_ssize_t n_edges = 0
        cdef double largest = 0.0  # mean of a slot, in size
        cdef Chunk *chunk
        cdef int i
        self.restore_slots(arrays, False)
        self.growth, self.n_merged = numbers["growth"], numbers["n_merged"]
        self.set_now(numbers)
        self.start_change()
        chunk = self.tree.first
        while chunk != NULL and chunk.size > 0:
            n_edges += self.restore_chunk(chunk, &lengths[n_edges], &edges[n_edges, 0])
            for i in range(chunk.size):
                largest = max(largest, fabs(chunk.slots[i].sum / chunk.slots[i].weight))
            chunk = chunk.next
        if not restore_bridges(self.tree.root, &ends, 1e-9 * largest):
            return False  # still changing, so that it refuses further use
        self.finish()
        self.changing = False
        return True

    def read(self, dict numbers, dict arrays, tuple bounds):
        """Set the state to what bytes hold, or raise ``ValueError``; see `restore`.

        ``bounds`` are those of `SumBounds`.
        """
        cdef const double[::1] scores = arrays["scores"], keys = arrays["keys"]
        cdef const double[:, ::1] sums = arrays["sums"], queue = arrays["queue"]
        cdef const double[:, ::1] edges = arrays["edges"], bridges = arrays["bridges"]
        cdef const int64_t[::1] counts = arrays["counts"], shape = arrays["shape"]
        cdef const int64_t[::1] lengths = arrays["lengths"]
        cdef SumBounds within
        cdef Py_ssize_t n = scores.shape[0], i
        within.low, within.low_slack, within.high, within.high_slack = bounds
        require(n <= self.max_scores, "there must be no more scores than are kept")
        require(sums.shape[0] == 2 and sums.shape[1] == n, "each score must have sums")
        check_slots_and_tree(scores, counts, shape, keys)
        for i in range(n):
            check_sums(sums[0, i], sums[1, i], &within)
        require(queue.shape[1] == 3, "a sample must have three numbers")
        require(queue.shape[0] <= self.window, "the queue must fit the window")
        for i in range(queue.shape[0]):
            require(isfinite(queue[i, 0]) and isfinite(queue[i, 2]), "samples must be finite")
            if queue[i, 1] != 0.0:
                check_sums(queue[i, 1], queue[i, 2], &within)
        check_window(queue, scores, counts)
        if self.has_time_window():
            check_window_times(
                arrays["times"], queue.shape[0], numbers["now"], self.aging.window
            )
        require(edges.shape[0] == lengths.shape[0], "each edge must have sums")
        require(edges.shape[1] == bridges.shape[1] == 2, "edges and bridges must be pairs")
        check_edges(sums, shape, lengths, edges)
        require(bridges.shape[0] == keys.shape[0], "each node must have a bridge")
        for i in range(bridges.shape[0]):
            require(isfinite(bridges[i, 0]) and isfinite(bridges[i, 1]), "bridges must be finite")
        require(self.restore(numbers, arrays), "bridges must be edges of the hull")

    def walk(self, bint anchored, bint with_slots=False):
        """Return the blocks in order, the range of the means, the growth, and `n_samples`.

        If ``with_slots``, the last is a dict of scores, sums and counts; else it is None.

        A block is a row (first score, last score, W, S, center). If ``anchored``, the prior's
        weight is in W and S of the outermost blocks, whose outer ends are then infinite; else
        there is no prior.
        """
        with no_collection, self.lock:
            self.check_whole()
            bounds = (self.floor, self.ceiling) if anchored else (self.least, self.most)
            slots = self.slots() if with_slots else None
            return self.blocks(anchored), bounds, self.growth, self.n_samples, slots

    cdef object blocks(self, bint anchored):
        blocks = np.empty((self.tree.n_scores, 5))
        cdef double[:, ::1] rows = blocks
        cdef double prior = self.prior * self.growth if anchored else 0.0
        cdef Py_ssize_t n
        if self.tree.n_scores == 0:
            return blocks
        n = self.pool_edges(rows, prior)
        self.find_centers(rows, n)
        if prior > 0.0:
            rows[0, 0] = -INFINITY
            rows[n - 1, 1] = INFINITY
        return blocks[:n].copy()

    cdef Py_ssize_t pool_edges(self, double[:, ::1] rows, double prior) noexcept nogil:
        """Write first score, last score, W and S of the blocks; return how many there are.

        The prior pools the first edges and the last ones. Others are pooled too if rounding left
        their slopes in the wrong order.
        """
        cdef double floor_end = self.floor_end if prior > 0.0 else -INFINITY
        cdef double ceiling_start = self.ceiling_start if prior > 0.0 else INFINITY
        cdef double w = 0.0, s = 0.0, first = 0.0
        cdef Py_ssize_t n = 0  # blocks so far; the last one may still grow
        cdef Edge *edge = self.next_edge(-INFINITY)
        cdef Edge *after
        while edge != NULL:
            after = self.next_edge(edge.last)
            if n > 0 and (
                edge.last <= floor_end
                or edge.first > ceiling_start
                or edge.sum * w <= s * edge.weight
            ):
                w += edge.weight
                s += edge.sum
            else:
                first, w, s = edge.first, edge.weight, edge.sum
                if n == 0 and prior > 0.0:
                    w += prior
                    s += prior * self.highest
                n += 1
            if after == NULL and prior > 0.0:
                w += prior
                s += prior * self.lowest
            rows[n - 1, 0], rows[n - 1, 1] = first, edge.last
            rows[n - 1, 2], rows[n - 1, 3] = w, s
            edge = after
        return n

    cdef void find_centers(self, double[:, ::1] rows, Py_ssize_t n) noexcept nogil:
        """Write the centers of ``n`` blocks: the weighted means of their scores."""
        cdef Chunk *chunk = self.tree.first
        cdef double w, moment
        cdef Py_ssize_t k
        cdef int i = 0
        for k in range(n):
            w = moment = 0.0
            while chunk != NULL:
                if i == chunk.size:
                    chunk, i = chunk.next, 0
                    continue
                if chunk.slots[i].score > rows[k, 1]:
                    break
                w += chunk.slots[i].weight
                moment += chunk.slots[i].weight * chunk.slots[i].score
                i += 1
            rows[k, 4] = min(max(moment / w, rows[k, 0]), rows[k, 1])


cdef class IsotonicExpert(Expert):
    """A regression of labels 0 and 1 as the expert of a hedge."""

    def __cinit__(self, IsotonicRegression regression not None):
        self.regression = regression

    def __reduce__(self):
        return IsotonicExpert, (self.regression,)

    cdef double answer(self, double score) except? -1.0 nogil:
        cdef double value
        self.regression.check_whole()
        value = self.regression.value(score, False)
        return value if value == value else score

    cdef int teach(self, double score, double y, double w, double t) except -1 nogil:
        self.regression.learn_sample(score, y, w, t)
        return 0

    def predict_learn_many(
        self,
        const double[::1] scores,
        const double[::1] y,
        const double[::1] w,
        const double[::1] times=None,
    ):
        """Predict, then learn each sample; return the predictions."""
        cdef Py_ssize_t i
        cdef double score, label, weight
        cdef bint timed = times is not None
        cdef IsotonicRegression regression = self.regression
        check_lengths(scores, y, w)
        check_times(times, scores.shape[0])
        answers = np.empty(scores.shape[0])
        cdef double[::1] out = answers
        with no_fork, nogil, regression.lock:  # the map may be read without this object
            for i in range(scores.shape[0]):
                if i % AHEAD == 0:
                    regression.prefetch_chunks(&scores[i], scores.shape[0] - i)
                score, label, weight = scores[i], y[i], w[i]
                out[i] = self.answer(score)
                if is_sample(score, label, weight):
                    self.teach(score, label, weight, times[i] if timed else NAN)
        return answers


# Merging scores -----------------------------------------------------------------------------------


cdef struct Pair:
    double gap  # half the distance: the distance itself may overflow
    int64_t left  # row of the left score
    double gone  # of the two scores, the one that is removed
    double stays  # the score that gets its samples


cdef int by_gap(const void *a, const void *b) noexcept nogil:
    """Order pairs by their gap, equal ones by their scores."""
    cdef const Pair *p = <const Pair *> a
    cdef const Pair *q = <const Pair *> b
    return compare(p.gap, q.gap) or compare(<double> p.left, <double> q.left)


cdef int by_score(const void *a, const void *b) noexcept nogil:
    """Order pairs by their scores."""
    return compare(<double> (<const Pair *> a).left, <double> (<const Pair *> b).left)


cdef inline int compare(double a, double b) noexcept nogil:
    return (a > b) - (a < b)


cdef int64_t nearest_pairs(Slot *slots, int64_t n, Pair *pairs, int64_t most) noexcept nogil:
    """Find neighbours to merge, the nearest first, and write them in score order.

    Return how many there are, ``most`` at most. No score is in two pairs, and the heavier score of
    a pair is kept.
    """
    cdef int64_t n_pairs = 0, i
    cdef Pair *pair
    for i in range(n - 1):
        if is_local_least(slots, n, i):
            pairs[n_pairs].gap, pairs[n_pairs].left = half_gap(&slots[i]), i
            n_pairs += 1
    if n_pairs > most:
        qsort(pairs, n_pairs, sizeof(Pair), by_gap)
        qsort(pairs, most, sizeof(Pair), by_score)
        n_pairs = most
    for i in range(n_pairs):
        pair = &pairs[i]
        pair.gone, pair.stays = slots[pair.left].score, slots[pair.left + 1].score
        if slots[pair.left].weight >= slots[pair.left + 1].weight:
            pair.gone, pair.stays = pair.stays, pair.gone
    return n_pairs


cdef inline bint lost_share(
    double least, double most, const Slot *slot, const Sample *taken
) noexcept nogil:
    """Return whether digits were lost of how far a slot's mean is from an end of its range.

    A mean that is an end but for rounding has lost nothing.
    """
    cdef double size = taken.weight + fabs(taken.sum), rounding = 1e-12 * slot.weight
    cdef double above = 0.0, below = 0.0
    if least > -INFINITY:
        above = fabs(slot.sum - least * slot.weight)
    if most < INFINITY:
        below = fabs(most * slot.weight - slot.sum)
    return (above > rounding and lost_digits(above, size)) or (
        below > rounding and lost_digits(below, size)
    )


cdef inline bint is_local_least(Slot *slots, int64_t n, int64_t i) noexcept nogil:
    """Return whether the gap after slot ``i`` is smaller than the one before and the one after."""
    if i > 0 and is_smaller(&slots[i - 1], i - 1):
        return False
    return i == n - 2 or is_smaller(&slots[i], i)


cdef inline bint is_smaller(Slot *slot, int64_t i) noexcept nogil:
    """Return whether the gap after slot ``i`` is smaller than the next one.

    Of equal gaps in a row every other one counts as smaller, so that half of them can be closed.
    """
    cdef double gap = half_gap(slot), after = half_gap(slot + 1)
    return gap < after or (gap == after and i % 2 == 0)


cdef inline double half_gap(Slot *slot) noexcept nogil:
    """Return half the distance of a slot's score to the next one's."""
    return 0.5 * slot[1].score - 0.5 * slot.score


cdef int64_t merge_pairs(
    Slot *slots, int64_t n, const Pair *pairs, int64_t n_pairs
) noexcept nogil:
    """Make one slot of each pair, and return how many slots are left."""
    cdef int64_t kept = 0, pair = 0, i = 0
    cdef Slot *left
    cdef Slot *right
    while i < n:
        slots[kept] = slots[i]
        if pair < n_pairs and pairs[pair].left == i:
            left, right = &slots[kept], &slots[i + 1]
            left.score = pairs[pair].stays
            left.weight += right.weight
            left.sum += right.sum
            left.n += right.n
            pair += 1
            i += 1
        kept += 1
        i += 1
    return kept


cdef void rename(Sample *sample, const Pair *pairs, int64_t n_pairs) noexcept nogil:
    """If a queued sample has a score that was merged away, give it the score that stays."""
    cdef int64_t low = 0, high = n_pairs, middle
    while low < high:
        middle = (low + high) // 2
        if max(pairs[middle].gone, pairs[middle].stays) < sample.score:
            low = middle + 1
        else:
            high = middle
    if low < n_pairs and pairs[low].gone == sample.score:
        sample.score = pairs[low].stays


# States -------------------------------------------------------------------------------------------


cdef struct SumBounds:  # of the mean of a statistic, and by how much rounding may exceed them
    double low
    double low_slack
    double high
    double high_slack


cdef inline int check_sums(double w, double s, const SumBounds *within) except -1:
    """Raise unless these can be a sum of weights and one of weighted statistics."""
    require(0.0 < w < MOST_WEIGHT, "weights must be positive")
    require(isfinite(s), "sums must be finite")
    if within.low > -INFINITY:
        require(s - within.low * w >= -within.low_slack * w, "labels must be in their range")
    if within.high < INFINITY:
        require(within.high * w - s >= -within.high_slack * w, "labels must be in their range")
    return 0


def check_all_sums(w, s, tuple bounds):
    """Raise ``ValueError`` unless these can be sums of weights and of weighted statistics.

    ``bounds`` are those of `SumBounds`.
    """
    cdef const double[::1] weights = np.ascontiguousarray(w), sums = np.ascontiguousarray(s)
    cdef SumBounds within
    cdef Py_ssize_t i
    within.low, within.low_slack, within.high, within.high_slack = bounds
    for i in range(weights.shape[0]):
        check_sums(weights[i], sums[i], &within)


cdef int check_edges(
    const double[:, ::1] slots,
    const int64_t[::1] shape,
    const int64_t[::1] lengths,
    const double[:, ::1] edges,
) except -1:
    """Raise unless pooling the slots of each chunk gives these edges, up to rounding.

    ``slots`` are sums (W, S) as two rows, those of the edges as two columns.
    """
    cdef Py_ssize_t row = 0, e = 0, i
    cdef int64_t covered, size
    for i in range(shape.shape[0]):
        if shape[i] == INNER:
            continue
        covered, size = 0, shape[i]
        while covered < size:
            require(e < lengths.shape[0], "edges must cover all slots")
            require(0 < lengths[e] <= SLOTS, "an edge must cover slots")
            require(lengths[e] <= size - covered, "edges must cover chunks")
            # Slopes increase from edge to edge of a chunk; pooling compares the same products.
            require(
                covered == 0 or edges[e, 1] * edges[e - 1, 0] > edges[e - 1, 1] * edges[e, 0],
                "edges must rise",
            )
            check_edge(&slots[0, row], &slots[1, row], lengths[e], edges[e, 0], edges[e, 1])
            row += lengths[e]
            covered += lengths[e]
            e += 1
    require(e == lengths.shape[0], "edges must cover all slots")
    return 0


cdef int check_edge(
    const double *w, const double *s, int64_t n, double edge_w, double edge_s
) except -1:
    """Raise unless pooling ``n`` slots gives an edge of these sums."""
    cdef double total_w = 0.0, total_s = 0.0, size = 0.0, least = INFINITY, run = 0.0, scale, lost
    cdef int64_t i
    require(0.0 < edge_w < INFINITY and isfinite(edge_s), "edges must have weight")
    for i in range(n):
        total_w += w[i]
        total_s += s[i]
        size += fabs(s[i])
        least = min(least, w[i])
    require(
        fabs(total_w - edge_w) <= 5e-13 * edge_w and fabs(total_s - edge_s) <= 5e-13 * size,
        "edges must have the sums of their slots",
    )
    # No first slots have a mean below that of all, or they would not be pooled. In parts of the
    # edge's size. A mean may have too few digits for this: 1e-257 / 1e60 is a subnormal number, and
    # each product that is compared may be off by the least one.
    scale = size + fabs(edge_s)
    scale = scale if scale != 0.0 else 1.0
    lost = SLOTS * 5e-324 / least / least * edge_w / scale
    for i in range(n):
        run += s[i] / scale - edge_s / scale * (w[i] / edge_w)
        require(run >= -1e-9 - lost, "edges must consist of slots that violate the order")
    return 0


# Checks -------------------------------------------------------------------------------------------


cdef int check_rows(const double[::1] scores, double[:, ::1] out) except -1:
    """Raise unless there is a row of three for each score."""
    if out.shape[0] != scores.shape[0] or out.shape[1] != 3:
        raise ValueError(
            f"`out` must have the shape ({scores.shape[0]}, 3),"
            f" got ({out.shape[0]}, {out.shape[1]})"
        )
    return 0


cdef int check_slots(
    const double[::1] scores, const double[:, ::1] sums, const int64_t[::1] counts
) except -1:
    """Raise unless there are two sums and a count for each score."""
    if not scores.shape[0] == sums.shape[1] == counts.shape[0] or sums.shape[0] != 2:
        raise ValueError(
            "`sums` and `counts` must be of all scores,"
            f" got ({sums.shape[0]}, {sums.shape[1]}) and {counts.shape[0]} of {scores.shape[0]}"
        )
    return 0
