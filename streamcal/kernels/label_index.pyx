"""Samples of ordinal labels in score order, which a stream adds and removes.

A score index whose slots hold the weight of each label 0 to K - 1 at the score. With K = 3 and the
samples (score .4, label 1), (.6, 2), (.6, 0) and (.9, 2) of weight 1::

    score     .4        .6        .9
    weight    1         2         1
    sum       1         -1        2        a label, or -1 - m for mixture m
                         |
    mixture 0            '--> weights 1 0 1 | losses

Most scores have samples of one label only; then the field ``sum`` is that label. If labels differ,
it is the number of a *mixture*: a row with the weight of each label, followed by their weighted sum
of loss rows. A subclass defines the loss rows and the summaries in the tree: least prefix sums
(`streamcal.kernels.prefix_extrema`) or least costs between any two labels
(`streamcal.kernels.min_plus`). Both give the last score below each boundary. The threshold is the
midpoint between that score and the next one, which this module finds.

`streamcal.kernels.score_index` explains the growth of weights, the window, and the behaviour when
memory runs out. Bad input is refused before anything changes.
"""

from libc.math cimport INFINITY, NAN, floor
from libc.stdint cimport int64_t
from libc.stdlib cimport free
from libc.string cimport memcpy, memset

from streamcal.kernels.clock cimport check_times
from streamcal.kernels.memory cimport allocated, resize
from streamcal.kernels.samples cimport can_be_learned, check_lengths
from streamcal.kernels.score_index cimport (
    Chunk, Place, Sample, ScoreIndex, Slot, find_slot, has_vanished, lost_digits, tolerance,
)

import numpy as np

from streamcal.kernels.exclusive import no_collection, no_fork

cdef enum:
    FEW = 32  # samples that are folded one by one; of more, all chunks are folded at the end


cdef inline bint is_mixed(const Slot *slot) noexcept nogil:
    return slot.sum < 0.0


cdef inline int64_t mixture_of(const Slot *slot) noexcept nogil:
    return <int64_t> (-1.0 - slot.sum)


cdef class LabelIndex(ScoreIndex):
    """Labels by score. A subclass sets its losses and the sizes of its summaries.

    Parameters
    ----------
    costs : ndarray of shape (n_labels, n_labels)
        The cost of each prediction (column) for each label (row).
    window : int
        How many samples to keep; 0 means all.
    rate : float
        The factor from the weight of a sample to that of the next one.
    half_life : float
        In seconds, after which the weight of a sample has halved; infinite: none.
    time_window : float
        For how many seconds to keep samples; 0 means for ever.
    """

    def __cinit__(
        self, const double[:, ::1] costs, int64_t window, double rate, double half_life=INFINITY,
        double time_window=0.0,
    ):
        cdef Py_ssize_t n = costs.shape[0]
        self.n_labels = <int> n
        self.window, self.rate = window, rate
        self.set_aging(half_life, time_window)
        self.costs = <double *> allocated(n * n, sizeof(double))
        self.losses = <double *> allocated(n * n, sizeof(double))
        memcpy(self.costs, &costs[0, 0], n * n * sizeof(double))

    def __dealloc__(self):
        free(self.costs)
        free(self.losses)
        free(self.mixtures)
        free(self.idle)

    def __sizeof__(self):
        cdef size_t n = self.n_labels, row = 2 * n * sizeof(double) + sizeof(int64_t)
        return ScoreIndex.__sizeof__(self) + 2 * n * n * sizeof(double) + self.n_mixtures * row

    def check(self):
        """Raise ``AssertionError`` that names the first broken invariant."""
        ScoreIndex.check(self)
        cdef Chunk *chunk = self.tree.first
        cdef int64_t n_samples = 0, i
        cdef int y
        cdef double weight
        used = []
        while chunk != NULL:
            for i in range(chunk.size):
                n_samples += chunk.slots[i].n
                weight = chunk.slots[i].weight
                if is_mixed(&chunk.slots[i]):
                    used.append(mixture_of(&chunk.slots[i]))
                    for y in range(self.n_labels):
                        weight = min(weight, self.weights_of(&chunk.slots[i])[y])
                if not 0.0 <= weight < INFINITY:
                    raise AssertionError("a weight is negative or infinite")
            chunk = chunk.next
        if n_samples != self.n_samples:
            raise AssertionError("samples are miscounted")
        used += [self.idle[i] for i in range(self.n_idle)]
        if sorted(used) != list(range(self.n_mixtures)):
            raise AssertionError("a mixture is lost, or used twice")

    # What a subclass defines ----------------------------------------------------------------------

    cdef void summarise(self, Chunk *chunk) noexcept nogil:
        """Update the summary of a chunk."""

    cdef void find_ends(self, double *ends) noexcept nogil:
        """Write the last score below each boundary, minus infinity if there is none."""

    cdef int label_of(self, double score) noexcept nogil:
        """Return the label of a score, -1 if the boundaries are not sorted."""
        return -1

    cdef int fold_chunk(self, Chunk *chunk, double score) except -1 nogil:
        if not self.late:
            self.summarise(chunk)
        return 0

    # For Python -----------------------------------------------------------------------------------

    def unlearn(self, double score, double label, double w):
        """Remove a sample; return False if it cannot have been learned."""
        with self.lock:
            return self.unlearn_sample(score, label, w)

    def learn_many(
        self, const double[::1] scores, const double[::1] labels, const double[::1] w,
        const double[::1] times=None,
    ):
        """Learn samples in the order given."""
        cdef Py_ssize_t i, n = scores.shape[0]
        cdef bint timed = times is not None
        check_lengths(scores, labels, w)
        check_times(times, n)
        with no_fork, nogil, self.lock:
            self.late = n > FEW
            try:
                for i in range(n):
                    self.learn_sample(scores[i], labels[i], w[i], times[i] if timed else NAN)
            finally:
                if self.late:
                    self.late = False
                    self.refold_all()

    def predict(self, double score):
        """Return the label of a score: -1 if boundaries are not sorted, None if there are none."""
        with self.lock:
            self.check_whole()
            return self.label_of(score) if self.tree.n_scores > 0 else None

    def answer(self, bint with_risk):
        """Return the number of scores, the thresholds, and with ``risk`` their cost, else NaN.

        The last two are the weight of all samples, and whether weights are integers; without
        ``risk`` they mean nothing. The thresholds are None if the boundaries are not sorted. O(n)
        with the risk, else O(K log n).
        """
        thresholds = np.empty(self.n_labels - 1)
        cdef double[::1] out = thresholds
        cdef double total = NAN, weight = 0.0
        cdef bint is_sorted, integers = self.growth == 1.0
        with no_collection, self.lock:
            self.check_whole()
            is_sorted = self.find_thresholds(&out[0])
            if is_sorted and with_risk:
                total = self.risk_of(&out[0], &weight, &integers)
            found = thresholds if is_sorted else None
            return self.tree.n_scores, found, total, weight, bool(integers)

    def samples(self):
        """Return the count of changes, the growth, the distinct scores and their label weights."""
        with no_collection, self.lock:
            self.check_whole()
            held = self.slots()
            return self.n_changes, self.growth, held["scores"], held["weights"]

    def table(self):
        """Return the cost of each prediction (row) for each label (column)."""
        cdef Py_ssize_t n = self.n_labels
        return np.ascontiguousarray(np.asarray(<double[:n, :n]> self.costs).T)

    # Mixtures -------------------------------------------------------------------------------------

    cdef const double *losses_of(self, const Slot *slot, double *w) noexcept nogil:
        """Return the loss row of a slot, and set the factor by which it must be multiplied."""
        if is_mixed(slot):
            w[0] = 1.0
            return self.weights_of(slot) + self.n_labels
        w[0] = slot.weight
        return &self.losses[<size_t> slot.sum * self.width]

    cdef double *weights_of(self, const Slot *slot) noexcept nogil:
        """Return the weights of the labels of a mixed slot; the losses follow them."""
        return &self.mixtures[2 * self.n_labels * mixture_of(slot)]

    cdef int reserve_mixture(self) except -1 nogil:
        """Make sure that there is an unused mixture."""
        cdef int64_t n = self.n_mixtures, i
        cdef int64_t more = max(2, n // 2)
        if self.n_idle > 0:
            return 0
        resize(<void **> &self.mixtures, n + more, 2 * self.n_labels * sizeof(double))
        resize(<void **> &self.idle, n + more, sizeof(int64_t))
        self.n_mixtures = n + more
        self.n_idle = more
        for i in range(more):
            self.idle[i] = n + more - 1 - i
        return 0

    cdef double *mix(self, Slot *slot) noexcept nogil:
        """Give a slot of one label an unused mixture; return the weights."""
        cdef int label = <int> slot.sum
        cdef double *weights
        self.n_idle -= 1
        slot.sum = -1.0 - self.idle[self.n_idle]
        weights = self.weights_of(slot)
        memset(weights, 0, self.n_labels * sizeof(double))
        weights[label] = slot.weight
        return weights

    cdef void release_mixture(self, const Slot *slot) noexcept nogil:
        self.idle[self.n_idle] = mixture_of(slot)
        self.n_idle += 1

    cdef void sum_losses(self, double *weights) noexcept nogil:
        """Update the losses after the weights of a mixture."""
        cdef int width = self.width, y, k
        cdef double *sums = weights + self.n_labels
        cdef const double *row = self.losses
        memset(sums, 0, width * sizeof(double))
        for y in range(self.n_labels):
            if weights[y] > 0.0:
                for k in range(width):
                    sums[k] += weights[y] * row[k]
            row += width

    cdef void settle_mixture(self, Slot *slot) noexcept nogil:
        """Set a slot by the weights of its mixture: to one label, or still mixed."""
        cdef double *weights = self.weights_of(slot)
        cdef int n = 0, label = 0, y
        slot.weight = 0.0
        for y in range(self.n_labels):
            if weights[y] > 0.0:
                slot.weight += weights[y]
                label = y
                n += 1
        if n > 1:
            self.sum_losses(weights)
        else:
            self.release_mixture(slot)
            slot.sum = label

    # Changing -------------------------------------------------------------------------------------

    cdef bint refuses(self, double score, double label, double w) noexcept nogil:
        return not (
            can_be_learned(score, w)
            and 0.0 <= label < self.n_labels
            and label == floor(label)
        )

    cdef Sample as_sample(self, double score, double label, double w) noexcept nogil:
        return Sample(score=score, weight=w, sum=label)

    cdef int prepare(self, double score) except -1 nogil:
        return self.reserve_mixture()

    cdef void finish(self) noexcept nogil:
        if not self.late:
            self.fold_dirty()
        self.n_changes += 1

    cdef bint may_hold(self, const Slot *slot, const Sample *sample) noexcept nogil:
        """Return whether a slot can contain a sample."""
        cdef double held = slot.weight, slack = tolerance(slot.weight)
        if is_mixed(slot):
            held = self.weights_of(slot)[<int> sample.sum]
        elif slot.sum != sample.sum:
            return False
        if held < sample.weight - slack:
            return False
        return slot.n > 1 or slot.weight <= sample.weight + slack

    cdef int add(self, const Sample *sample) except -1 nogil:
        cdef Place place
        cdef Slot *slot
        cdef double *weights
        self.insert_slot(sample.score, &place)
        slot = place.slot
        if slot.n == 0:
            slot.sum = sample.sum
        if is_mixed(slot) or slot.sum != sample.sum:
            weights = self.weights_of(slot) if is_mixed(slot) else self.mix(slot)
            weights[<int> sample.sum] += sample.weight
            self.sum_losses(weights)
        slot.weight += sample.weight
        slot.n += 1
        return self.fold_place(&place)

    cdef int remove(self, const Sample *sample) except -1 nogil:
        cdef Place place
        if sample.weight == 0.0:  # cancelled
            return 0
        self.n_samples -= 1
        if not self.locate(sample.score, &place):
            return 0
        if place.slot.n == 1:
            if is_mixed(place.slot):
                self.release_mixture(place.slot)
            return self.remove_slot(&place)
        place.slot.n -= 1
        self.subtract_weight(place.slot, sample)
        return self.fold_place(&place)

    cdef void subtract_weight(self, Slot *slot, const Sample *sample) noexcept nogil:
        """Subtract a weight from a slot that has other samples."""
        cdef double *of_label = NULL
        cdef Sample at
        cdef int64_t i
        cdef double left
        slot.weight -= sample.weight
        left = slot.weight
        if is_mixed(slot):
            of_label = &self.weights_of(slot)[<int> sample.sum]
            of_label[0] -= sample.weight
            left = min(left, of_label[0])
        # Nearly all was removed, so digits were lost. The queue has the samples of a window.
        if self.window > 0 and lost_digits(left, sample.weight):
            slot.weight = 0.0
            if of_label != NULL:
                of_label[0] = 0.0
            for i in range(self.queue_size):
                at = self.queued(i)
                if at.score == slot.score:
                    slot.weight += at.weight
                    if of_label != NULL and at.sum == sample.sum:
                        of_label[0] += at.weight
        slot.weight = max(slot.weight, 0.0)
        if of_label != NULL:
            of_label[0] = max(of_label[0], 0.0)
            self.sum_losses(self.weights_of(slot))

    cdef bint scale_slot(self, Slot *slot, double factor) noexcept nogil:
        cdef double *weights
        cdef int y
        slot.weight *= factor
        if is_mixed(slot):
            weights = self.weights_of(slot)
            for y in range(self.n_labels):
                weights[y] *= factor
            self.settle_mixture(slot)
        if slot.n > 0 and not has_vanished(slot.weight):
            return True
        if is_mixed(slot):
            self.release_mixture(slot)
        return False

    cdef int scale_down(self, double factor) except -1 nogil:
        self.start_change()  # mixtures are scaled before the memory for new chunks is there
        ScoreIndex.scale_down(self, factor)
        self.changing = False
        return 0

    cdef void scale_sample(self, Sample *sample, double factor) noexcept nogil:
        sample.weight *= factor

    # Reading --------------------------------------------------------------------------------------

    cdef bint find_thresholds(self, double *out) noexcept nogil:
        """Write the thresholds; return whether they are sorted, so optimal. O(K log n)."""
        cdef int n = self.n_labels - 1, k
        cdef double below = NAN, threshold = NAN
        self.find_ends(out)
        for k in range(1, n):
            if out[k] < out[k - 1]:
                return False
        for k in range(n):
            if out[k] != below:
                below = out[k]
                threshold = self.threshold_above(below)
            out[k] = threshold
        return True

    cdef double threshold_above(self, double below) noexcept nogil:
        """Return the threshold right above a score that is held: halfway to the next one, or inf.
        """
        cdef Chunk *chunk
        cdef int slot
        cdef double above, middle
        if below == -INFINITY:
            return below
        chunk = self.find_chunk(below)
        slot = find_slot(chunk, below) + 1
        if slot == chunk.size:
            chunk, slot = chunk.next, 0
            if chunk == NULL:
                return INFINITY
        above = chunk.slots[slot].score
        middle = 0.5 * below + 0.5 * above
        return middle if below < middle < above else above

    cdef double risk_of(
        self, const double *thresholds, double *weight, bint *integers
    ) noexcept nogil:
        """Return the summed cost of the samples; O(n). Add to ``weight``; clear ``integers``."""
        cdef int n_labels = self.n_labels, k = 0, i, y
        cdef double total = 0.0
        cdef const double *weights
        cdef const Slot *slot
        cdef Chunk *chunk = self.tree.first
        while chunk != NULL:
            for i in range(chunk.size):
                slot = &chunk.slots[i]
                while k < n_labels - 1 and slot.score >= thresholds[k]:
                    k += 1
                weight[0] += slot.weight
                integers[0] &= slot.weight == floor(slot.weight)
                if not is_mixed(slot):
                    total += slot.weight * self.costs[<size_t> slot.sum * n_labels + k]
                    continue
                weights = self.weights_of(slot)
                for y in range(n_labels):
                    total += weights[y] * self.costs[<size_t> y * n_labels + k]
                    integers[0] &= weights[y] == floor(weights[y])
            chunk = chunk.next
        weight[0] /= self.growth
        return total / self.growth

    # All at once ----------------------------------------------------------------------------------

    cdef dict slots(self):
        scores, counts = np.empty(self.tree.n_scores), np.empty(self.tree.n_scores, np.int64)
        weights = np.zeros((self.tree.n_scores, self.n_labels))
        cdef double[::1] x = scores
        cdef int64_t[::1] n = counts
        cdef double[:, ::1] w = weights
        cdef Chunk *chunk = self.tree.first
        cdef const Slot *slot
        cdef Py_ssize_t row = 0
        cdef int i
        while chunk != NULL:
            for i in range(chunk.size):
                slot = &chunk.slots[i]
                x[row], n[row] = slot.score, slot.n
                if is_mixed(slot):
                    memcpy(&w[row, 0], self.weights_of(slot), self.n_labels * sizeof(double))
                else:
                    w[row, <Py_ssize_t> slot.sum] = slot.weight
                row += 1
            chunk = chunk.next
        return {"scores": scores, "counts": counts, "weights": weights}

    cdef int read_sums(self, dict arrays, Slot *slots) except -1:
        cdef const double[:, ::1] weights = arrays["weights"]
        cdef Py_ssize_t i
        for i in range(weights.shape[0]):
            self.reserve_mixture()
            memcpy(self.mix(&slots[i]), &weights[i, 0], self.n_labels * sizeof(double))
            self.settle_mixture(&slots[i])
        return 0

    cdef tuple settings(self):
        costs = np.ascontiguousarray(self.table().T)
        return costs, self.window, self.rate, *self.aging_settings()
