"""An ordered index of distinct scores: chunks of sorted slots under a weight-balanced tree.

A stream adds and removes scores in any order. Every structure that this library keeps exact on such
a stream is a summary, combined up a balanced tree over the sorted scores (*folded*). This module
has the order, the memory, the window and the growth of weights, and writes and reads them. The
summaries are those of subclasses; `streamcal.kernels.hull` folds the staircase. Five scores in two
chunks, and the insertion of .7::

             node (key .6)                          node (key .6)  is dirty
            /             \\                        /             \\
    chunk .1 .4 .5 <--> chunk .6 .9        chunk .1 .4 .5 <--> chunk .6 .7 .9  is folded

*Slots.* Each distinct score has one slot: the score, two sums of the subclass, such as the weights
and the weighted labels of its samples, and the number of its samples. A slot is empty if this
number is 0: because of rounding, a sum of floats need not be 0 after all terms are subtracted.

*Chunks.* A chunk is a sorted array of up to `SLOTS` slots. A full chunk moves slots to a neighbour
that has room; if there is none, it splits in two. An empty chunk is removed from the tree, a sparse
one is merged with a neighbour. The chunks are a linked list as well, in the order of their scores.

*Tree.* Chunks are the leaves of a binary tree that rotations keep in balance (Adams 1993,
"Efficient sets: a balancing act": no child outweighs its sibling more than `DELTA` times, weights
counted in leaves). Scores at or above a node's key are on its right. A chunk is a node without
children.

*Summaries.* A subclass reserves bytes after each node and each chunk (`node_bytes`, `chunk_bytes`)
and writes them in `fold_chunk` and `fold_node`. A change folds its chunk at once, and marks all
ancestors as dirty; `fold_dirty` folds dirty nodes, children first. A chunk is never dirty.

*Growth.* A half-life does not change the weights of old samples. Each sample is added with its
weight times ``growth``, which is multiplied by ``rate`` at each sample, or doubles in a half-life
of the clock; only ratios of weights
matter. When growth has become large, all weights are scaled down by a power of two.

*Window.* A queue of samples. When it is longer than the window, the oldest sample is removed. In a
window of time the queue also has the times of its samples; those that are too old are removed when
a sample is learned.

*Memory.* Nodes, chunks and slots are allocated one by one, so that an index of few scores is small.
What changes all slots at once allocates its memory first, so that a failure changes nothing. If
memory runs out in the middle of a change of one sample, or after a subclass has begun to scale down
sums that it keeps elsewhere, the index refuses all further use.

*Written*, a tree is a list in preorder: INNER for a node and the number of slots for a chunk, its
*shape*, and the keys of the nodes in the same order. The tree above is the shape INNER 3 2 with the
key .6. A tree is built from such a list, too.

*State.* `state` returns ``numbers()`` and ``arrays()``. The arrays are those of ``slots()``, the
written tree and the queue; a subclass whose sums mean something else overrides ``slots`` and, to
read them, ``read_sums``. `restore` reads a state into an index that was made with ``settings()``.
"""

from libc.math cimport INFINITY, NAN, exp2, fabs, frexp, ldexp
from libc.stdlib cimport calloc, free, malloc, realloc
from libc.string cimport memcpy, memmove

from streamcal.kernels.clock cimport Clock
from streamcal.kernels.memory cimport allocated, zeros
from streamcal.kernels.prefetch cimport prefetch
from streamcal.kernels.state_bytes cimport require

import numpy as np

from streamcal.kernels.exclusive import no_collection
from streamcal.kernels.expert import restored

cpdef enum:
    # No child outweighs its sibling more than DELTA times; GAMMA decides between a single and a
    # double rotation. The pair is proven valid (Hirai & Yamamoto 2011).
    # A smaller DELTA would refuse older states: `check_index` checks how trees balance.
    DELTA = 3
    GAMMA = 2
    INNER = -1  # a node in the shape of a tree

cdef enum:
    ROOM_STEP = 4  # the room of a chunk is a multiple of this
    GROWS = 16  # slots of room that a full chunk gets,
    GROWS_IN_WINDOW = 4  # and with a window, in which chunks shrink as often as they grow
    SPARSE = SLOTS // 4  # a chunk of fewer slots is joined to a neighbour,
    JOINED = SLOTS * 5 // 8  # if both together fill no more than this
    CROWDED = SLOTS * 3 // 4  # a neighbour with more slots gets none from a full chunk
    FILL = 96  # slots of a chunk in an index that is built at once
    FIRST_QUEUE = 8
    LARGE = 2000  # chunks of an index that outgrows the cache

# Growth is scaled down from here.
LARGEST_GROWTH = 2.0**128
# Of the samples that a state holds at one score; products of such sums are finite.
MOST_WEIGHT = 1e120

# By how many half-lives weights grow at once; beyond that nothing old is left.
cdef double MOST_HALVES = 800.0
cdef int64_t MOST_IN_WINDOW = 1 << 62  # samples, if the window is one of time
cdef int MOST_DEPTH = 160  # a balanced tree of 2**64 chunks is not deeper


cdef class ScoreIndex(Shared):
    """Scores in order. A subclass sets the sizes of summaries, then calls `clear`."""

    def __cinit__(self):
        self.rate = self.growth = 1.0
        self.largest_growth = LARGEST_GROWTH

    def __dealloc__(self):
        self.release_tree(&self.tree)
        free(self.queue)
        free(self.aging)

    @property
    def n_scores(self):
        return self.tree.n_scores

    @property
    def now(self):
        """The time of the newest sample in seconds, if samples have times; else NaN."""
        return NAN if self.aging == NULL else self.aging.clock.now

    def __sizeof__(self):
        """Return how many bytes this object and all it owns take."""
        cdef size_t n = (<object> type(self)).__basicsize__
        cdef Chunk *chunk
        with self.lock:
            n += max(self.tree.n_chunks - 1, 0) * self.node_bytes
            n += self.tree.n_chunks * self.chunk_bytes
            chunk = self.tree.first
            while chunk != NULL:
                n += chunk.room * sizeof(Slot) + self.summary_bytes(chunk)
                chunk = chunk.next
            if self.aging != NULL:
                n += sizeof(Aging)
            if self.has_time_window():
                n += self.queue_room * sizeof(double)
            return n + self.queue_room * sample_bytes(self.wide)

    def check(self):
        """Raise ``AssertionError`` that names the first broken invariant of order and balance.

        No other thread may change the index meanwhile.
        """
        cdef Chunk *chunk = self.tree.first
        cdef Chunk *before = NULL
        cdef double last = -INFINITY
        cdef int64_t n_scores = 0, n_chunks = 0
        cdef int i
        ensure(self.tree.root != NULL, "there is no tree")
        ensure(self.tree.root.parent == NULL, "the root has a parent")
        check_node(self.tree.root, -INFINITY, INFINITY)
        while chunk != NULL:
            ensure(chunk.previous == before, "a chunk is mislinked")
            ensure(
                chunk == next_leaf(self.tree.root, before), "the chain is not the order of leaves"
            )
            ensure(chunk.size <= min(SLOTS, chunk.room), "a chunk is too full")
            ensure(chunk.size > 0 or self.tree.root == &chunk.node, "a chunk is empty")
            for i in range(chunk.size):
                ensure(last < chunk.slots[i].score, "scores are out of order")
                ensure(chunk.slots[i].n > 0, "a slot is empty")
                last = chunk.slots[i].score
            n_scores += chunk.size
            n_chunks += 1
            before, chunk = chunk, chunk.next
        ensure(before == self.tree.last, "the last chunk is not the last")
        ensure(n_chunks == self.tree.n_chunks == self.tree.root.leaves, "chunks are miscounted")
        ensure(n_scores == self.tree.n_scores, "scores are miscounted")

    # What a subclass defines ----------------------------------------------------------------------

    cdef int fold_chunk(self, Chunk *chunk, double score) except -1 nogil:
        """Update the summary of a chunk in which only the slot of ``score`` has changed.

        If ``score`` is minus infinity, any slot may have changed.
        """
        return 0

    cdef void fold_node(self, Node *node) noexcept nogil:
        """Update the summary of a node from those of its children."""

    cdef void release_summary(self, Chunk *chunk) noexcept nogil:
        """Free the memory of the summary of a chunk that is outside of the chunk."""

    cdef size_t summary_bytes(self, Chunk *chunk) noexcept nogil:
        """Return the bytes of the summary of a chunk that are outside of the chunk."""
        return 0

    cdef bint refuses(self, double score, double label, double w) noexcept nogil:
        """Return whether a sample is refused (NaN fails every comparison)."""
        return True

    cdef Sample as_sample(self, double score, double label, double w) noexcept nogil:
        """Return what a sample adds to its slot; ``w`` is its weight times the growth."""
        return Sample(score=score, weight=w, sum=w * label)

    cdef int prepare(self, double score) except -1 nogil:
        """Make place for a sample; where memory runs out, nothing has changed."""
        return 0

    cdef int add(self, const Sample *sample) except -1 nogil:
        """Add a sample to the slot of its score, and fold; O(log n)."""
        cdef Place place
        self.insert_slot(sample.score, &place)
        place.slot.weight += sample.weight
        place.slot.sum += sample.sum
        place.slot.n += 1
        return self.fold_place(&place)

    cdef bint may_hold(self, const Slot *slot, const Sample *sample) noexcept nogil:
        """Return whether a slot can contain a sample."""
        return False

    cdef double slack_of(self, const Sample *sample) noexcept nogil:
        """Return by how much a queued ``sum`` may differ from that of the same sample."""
        return 0.0

    cdef int remove(self, const Sample *sample) except -1 nogil:
        """Remove a sample from the slot of its score, and fold; O(log n)."""
        return 0

    cdef void finish(self) noexcept nogil:
        """Bring up to date what is asked, after a change."""

    cdef bint scale_slot(self, Slot *slot, double factor) noexcept nogil:
        """Multiply the sums of a slot by a power of two; return False if the slot is to be removed:
        it has no samples, or its weight has become negligible.
        """
        slot.weight *= factor
        slot.sum *= factor
        return slot.n > 0 and not has_vanished(slot.weight)

    cdef void scale_sample(self, Sample *sample, double factor) noexcept nogil:
        """Multiply the sums of a queued sample by a power of two."""
        sample.weight *= factor
        sample.sum *= factor

    cdef bint vanishes(self, const Sample *sample) noexcept nogil:
        """Return whether a queued sample's weight has become negligible: it is then cancelled."""
        return has_vanished(sample.weight)

    cdef tuple settings(self):
        """Return the arguments that make an empty index like this one."""
        return ()

    cdef dict numbers(self):
        """Return numbers by name."""
        if self.aging == NULL:
            return {"growth": self.growth}
        return {"growth": self.growth, "now": self.aging.clock.now}

    cdef dict slots(self):
        """Return the content of the slots: arrays in score order, by name."""
        scores, sums = np.empty(self.tree.n_scores), np.empty((2, self.tree.n_scores))
        counts = np.empty(self.tree.n_scores, np.int64)
        cdef double[::1] x = scores
        cdef double[:, ::1] ws = sums
        cdef int64_t[::1] n = counts
        cdef Chunk *chunk = self.tree.first
        cdef Py_ssize_t row = 0
        cdef int i
        while chunk != NULL:
            for i in range(chunk.size):
                x[row], n[row] = chunk.slots[i].score, chunk.slots[i].n
                ws[0, row], ws[1, row] = chunk.slots[i].weight, chunk.slots[i].sum
                row += 1
            chunk = chunk.next
        return {"scores": scores, "sums": sums, "counts": counts}

    cdef int read_sums(self, dict arrays, Slot *slots) except -1:
        """Set the sums of slots, which are 0, to those that `slots` returned."""
        cdef const double[:, ::1] sums = arrays["sums"]
        cdef Py_ssize_t i
        for i in range(sums.shape[1]):
            slots[i].weight, slots[i].sum = sums[0, i], sums[1, i]
        return 0

    # Reading and writing --------------------------------------------------------------------------

    def state(self):
        """Return the state for `restore`: numbers and arrays by name."""
        with no_collection, self.lock:
            self.check_whole()
            return self.numbers(), self.arrays()

    def restore(self, dict numbers, dict arrays):
        """Set the state to what `state` returned, which must have been checked.

        Only for an object that has learned nothing.
        """
        self.restore_slots(arrays, True)
        self.growth = numbers["growth"]
        self.set_now(numbers)

    def __reduce__(self):
        return restored, (type(self), self.settings(), self.state())

    cdef dict arrays(self):
        """Return slots, tree and queue as arrays by name."""
        cdef Py_ssize_t n = self.tree.n_chunks, i
        shape, keys = np.empty(2 * n - 1, np.int64), np.empty(n - 1)
        queue = np.empty((self.queue_size, 3))
        cdef int64_t[::1] shape_view = shape
        cdef double[::1] keys_view = keys
        cdef double[:, ::1] rows = queue
        cdef WrittenTree end
        cdef Sample sample
        end.shape, end.keys = &shape_view[0], NULL
        if n > 1:
            end.keys = &keys_view[0]
        write_tree(self.tree.root, &end)
        for i in range(self.queue_size):
            sample = self.queued(i)
            rows[i, 0], rows[i, 1], rows[i, 2] = sample.score, sample.weight, sample.sum
        found = {**self.slots(), "shape": shape, "keys": keys, "queue": queue}
        if self.has_time_window():
            found["times"] = self.queued_times()
        return found

    cdef object queued_times(self):
        times = np.empty(self.queue_size)
        cdef double[::1] out = times
        cdef Py_ssize_t i
        for i in range(self.queue_size):
            out[i] = self.time_at(i)[0]
        return times

    cdef int restore_slots(self, dict arrays, bint fold) except -1:
        """Replace slots, tree and queue by those that `arrays` returned; also ``fold`` them."""
        cdef const double[::1] scores = arrays["scores"], keys = arrays["keys"]
        cdef const int64_t[::1] counts = arrays["counts"], shape = arrays["shape"]
        cdef const double[:, ::1] queue = arrays["queue"]
        cdef WrittenTree written
        cdef Py_ssize_t n = scores.shape[0], i
        cdef Slot *slots = <Slot *> zeros(n, sizeof(Slot))
        written.shape, written.keys = <int64_t *> &shape[0], NULL
        if keys.shape[0] > 0:
            written.keys = <double *> &keys[0]
        try:
            self.read_sums(arrays, slots)
            for i in range(n):
                slots[i].score, slots[i].n = scores[i], counts[i]
                self.n_samples += counts[i]
            self.replace(written, slots, fold)
        finally:
            free(slots)
        if queue.shape[0] > FIRST_QUEUE:
            self.set_queue(queue.shape[0], False)
        cdef const double[::1] times = arrays.get("times")
        for i in range(queue.shape[0]):
            time = NAN if times is None else times[i]
            self.push(queue[i, 0], queue[i, 1], queue[i, 2], time)
        return 0

    # Learning and forgetting ----------------------------------------------------------------------

    def learn(self, double score, double label, double w, double t=NAN):
        """Learn a sample; return False, and change nothing, if it is refused.

        ``t`` is its time in seconds.
        """
        with self.lock:
            return self.learn_sample(score, label, w, t)

    cdef bint learn_sample(self, double score, double label, double w, double t) except -1 nogil:
        """Learn one sample and drop those that leave the window; False if it is refused.

        ``t`` is the time of the sample in seconds, or NaN.
        """
        cdef Sample sample
        cdef double rate
        if self.refuses(score, label, w):
            return False
        # Where memory runs out in what comes first, the sample is not learned. The index can still
        # be used, unless a subclass was scaling down sums of its own.
        self.check_whole()
        rate = self.rate_until(t)
        self.limit_growth(rate)
        self.prepare(score)
        sample = self.as_sample(score, label, w * (self.growth * rate))
        if self.window > 0:
            self.push(sample.score, sample.weight, sample.sum, t)
        # Where it runs out from here on, the index refuses all further use.
        self.start_change()
        self.growth *= rate
        self.set_clock(t)
        self.add(&sample)
        self.n_samples += 1
        self.forget_oldest()
        self.finish()
        self.changing = False
        return True

    cdef bint holds_sample(
        self, double score, double label, double w, Sample *sample, int64_t *at
    ) except -1 nogil:
        """Return whether a sample can have been learned; write it, and its place in the queue."""
        cdef Slot *slot
        if self.refuses(score, label, w):
            return False
        self.check_whole()
        sample[0] = self.as_sample(score, label, w * self.growth)
        slot = self.find(score)
        if slot == NULL or not self.may_hold(slot, sample):
            return False
        if self.window == 0:
            return True
        at[0] = self.find_queued(sample)
        return at[0] >= 0

    cdef bint unlearn_sample(self, double score, double label, double w) except -1 nogil:
        """Remove one sample; return False, unchanged, if it cannot have been learned."""
        cdef Sample sample
        cdef int64_t at = -1
        if not self.holds_sample(score, label, w, &sample, &at):
            return False
        if at >= 0:
            self.cancel_queued(at)
        self.start_change()
        self.remove(&sample)
        self.finish()
        self.changing = False
        return True

    cdef int forget_oldest(self) except -1 nogil:
        """Remove the oldest sample if there are more than the window holds, or those too old."""
        cdef Sample oldest
        if self.has_time_window():
            while has_left(self.time_at(0)[0], self.aging.clock.now, self.aging.window):
                oldest = self.pop()
                self.remove(&oldest)
            return 0
        if self.window == 0 or self.queue_size <= self.window:
            return 0
        oldest = self.pop()
        return self.remove(&oldest)

    cdef double rate_until(self, double t) noexcept nogil:
        """Return by what the growth is multiplied for a sample at a time."""
        cdef double passed
        cdef Clock *clock
        if self.aging == NULL:
            return self.rate
        clock = &self.aging.clock
        passed = t - clock.now
        if not passed > 0.0:
            return self.rate
        if passed != clock.gap:
            # After so many half-lives nothing is left, and the growth is finite.
            clock.gap, clock.kept = passed, exp2(min(passed / clock.half_life, MOST_HALVES))
        return self.rate * clock.kept

    cdef void set_clock(self, double t) noexcept nogil:
        """Set the clock to the time of a sample; one that goes back counts as equal."""
        if self.aging == NULL:
            return
        if t > self.aging.clock.now or self.aging.clock.now != self.aging.clock.now:
            self.aging.clock.now = t

    cdef int set_aging(self, double half_life, double time_window) except -1:
        """Let a new index forget by time: a half-life in seconds, infinite for none, and a window in
        seconds, 0 for none.
        """
        if half_life == INFINITY and time_window == 0.0:
            return 0
        if self.aging == NULL:
            self.aging = <Aging *> zeros(1, sizeof(Aging))
        self.aging.clock = Clock(half_life=half_life, now=NAN, gap=0.0, kept=1.0)
        self.aging.window = time_window
        if time_window > 0.0:
            self.window = MOST_IN_WINDOW
        return 0

    cdef tuple aging_settings(self):
        """Return the arguments of `set_aging`."""
        if self.aging == NULL:
            return INFINITY, 0.0
        return self.aging.clock.half_life, self.aging.window

    cdef void set_now(self, dict numbers):
        """Set the clock to what `numbers` returned."""
        if self.aging != NULL:
            self.aging.clock.now = numbers["now"]

    cdef bint has_time_window(self) noexcept nogil:
        """Return whether the queue keeps the times of its samples."""
        return self.aging != NULL and self.aging.window > 0.0

    cdef double *time_at(self, int64_t i) noexcept nogil:
        """Return where the time of the ``i``-th oldest sample of the queue is."""
        i += self.queue_start
        if i >= self.queue_room:
            i -= self.queue_room
        return times_of(self.queue, self.queue_room, self.wide) + i

    cdef int check_whole(self) except -1 nogil:
        """Raise if memory ran out in the middle of a change."""
        if self.changing:
            raise MemoryError
        return 0

    cdef int start_change(self) except -1 nogil:
        """Note the start of a change that can't be undone half-way."""
        self.check_whole()
        self.changing = True
        return 0

    cdef int limit_growth(self, double rate) except -1 nogil:
        """Scale down if the next growth would exceed the largest: then it will be in [1, 2)."""
        cdef double growth = self.growth * rate
        cdef int exponent = 0
        if growth > self.largest_growth:
            frexp(growth, &exponent)
            self.scale_down(ldexp(1.0, 1 - exponent))
        return 0

    cdef int scale_down(self, double factor) except -1 nogil:
        """Multiply all weights by a power of two, exactly, and drop slots that have vanished.

        If memory runs out, no slot has changed.
        """
        cdef int64_t n = self.tree.n_scores, kept = 0, n_samples = 0, i
        cdef Sample sample
        cdef Slot *slots = <Slot *> allocated(n, sizeof(Slot))
        try:
            if self.queue_size > 0 and not self.wide:  # small numbers fit no float
                self.set_queue(self.queue_room, True)
            self.copy_slots(slots)
            self.uncount_vanishing(slots, n, factor)
            for i in range(n):
                slots[kept] = slots[i]
                if self.scale_slot(&slots[kept], factor):
                    n_samples += slots[kept].n
                    kept += 1
            self.rebuild(slots, kept)
        finally:
            free(slots)
        self.n_samples = n_samples
        self.growth *= factor
        for i in range(self.queue_size):
            sample = self.queued(i)
            self.scale_sample(&sample, factor)
            self.set_queued(i, &sample)
            if self.vanishes(&sample) or self.find(sample.score) == NULL:
                self.cancel_queued(i)
        return 0

    cdef void uncount_vanishing(self, Slot *slots, int64_t n, double factor) noexcept nogil:
        """Subtract queued samples of which nothing will be left from the counts of their slots."""
        cdef int64_t i
        cdef Sample sample
        for i in range(self.queue_size):
            sample = self.queued(i)
            if sample.weight == 0.0:  # cancelled
                continue
            self.scale_sample(&sample, factor)
            if self.vanishes(&sample):
                slots[first_from(slots, n, sample.score)].n -= 1

    # The queue ------------------------------------------------------------------------------------

    # A ring. Samples whose sums a float holds, such as those of labels 0 and 1 and weight 1, take
    # 16 bytes each; with the first one that does not fit the queue turns `wide`: 24 bytes each.

    cdef int push(self, double score, double w, double s, double t) except -1 nogil:
        """Append a sample to the queue; in a window of time it keeps the time."""
        cdef Sample sample = Sample(score=score, weight=w, sum=s)
        cdef bint wide = self.wide or <double> <float> w != w or <double> <float> s != s
        cdef int64_t room = self.queue_room
        if self.queue_size == room:
            room = max(FIRST_QUEUE, room + room // 2)
            if self.queue_size <= self.window < room:
                room = self.window + 1  # a sample enters before the oldest one leaves
        if room != self.queue_room or wide != self.wide:
            self.set_queue(room, wide)
        self.queue_size += 1
        self.set_queued(self.queue_size - 1, &sample)
        if self.has_time_window():
            self.time_at(self.queue_size - 1)[0] = max(t, self.aging.clock.now)
        return 0

    cdef Sample pop(self) noexcept nogil:
        """Remove the oldest sample from the queue and return it."""
        cdef Sample oldest = self.queued(0)
        self.queue_start += 1
        if self.queue_start == self.queue_room:
            self.queue_start = 0
        self.queue_size -= 1
        return oldest

    cdef Sample queued(self, int64_t i) noexcept nogil:
        """Return the ``i``-th oldest sample of the queue."""
        cdef ShortSample *at
        i += self.queue_start
        if i >= self.queue_room:
            i -= self.queue_room
        if self.wide:
            return (<Sample *> self.queue)[i]
        at = &(<ShortSample *> self.queue)[i]
        return Sample(score=at.score, weight=at.weight, sum=at.sum)

    cdef void set_queued(self, int64_t i, const Sample *sample) noexcept nogil:
        """Set the ``i``-th oldest sample of the queue, whose sums fit."""
        i += self.queue_start
        if i >= self.queue_room:
            i -= self.queue_room
        write_sample(self.queue, self.wide, i, sample)

    cdef int64_t find_queued(self, const Sample *sample) noexcept nogil:
        """Return where the newest such sample is in the queue, or -1."""
        cdef double slack = self.slack_of(sample)
        cdef int64_t i
        cdef Sample at
        for i in range(self.queue_size - 1, -1, -1):
            at = self.queued(i)
            if (
                at.score == sample.score
                and fabs(at.weight - sample.weight) <= tolerance(sample.weight)
                and fabs(at.sum - sample.sum) <= slack
            ):
                return i
        return -1

    cdef void cancel_queued(self, int64_t i) noexcept nogil:
        """Cancel a queued sample that was removed, became negligible, or lost its slot."""
        cdef Sample sample = self.queued(i)
        sample.weight = 0.0
        self.set_queued(i, &sample)

    cdef int set_queue(self, int64_t room, bint wide) except -1 nogil:
        """Move the queue to memory with this many places, wide or short; its samples fit."""
        cdef bint timed = self.has_time_window()
        cdef void *queue = allocated(room, sample_bytes(wide) + (sizeof(double) if timed else 0))
        cdef Sample sample
        cdef int64_t i
        if timed:
            for i in range(self.queue_size):
                times_of(queue, room, wide)[i] = self.time_at(i)[0]
        for i in range(self.queue_size):
            sample = self.queued(i)
            write_sample(queue, wide, i, &sample)
        free(self.queue)
        self.queue, self.wide = queue, wide
        self.queue_start, self.queue_room = 0, room
        return 0

    # Finding --------------------------------------------------------------------------------------

    cdef Chunk *find_chunk(self, double score) noexcept nogil:
        """Return the chunk whose range of keys holds ``score``; O(log n)."""
        cdef Node *node = self.tree.root
        while not is_chunk(node):
            node = node.child[score >= node.key]
        return <Chunk *> node

    cdef void prefetch_chunks(self, const double *scores, int64_t n) noexcept nogil:
        """Prefetch the chunks of the next scores, and the nodes above, into the cache.

        In a large index each step down to a chunk waits for memory. Here all scores, up to `AHEAD`,
        go down one step before the first one goes down the next, so that the waits overlap.
        """
        cdef Node *at[AHEAD]
        cdef Chunk *chunk
        cdef int i
        cdef int n_ways = <int> min(n, <int64_t> AHEAD), n_inner = n_ways
        if self.tree.n_chunks < LARGE:
            return
        for i in range(n_ways):
            at[i] = self.tree.root
        while n_inner > 0:
            n_inner = 0
            for i in range(n_ways):
                if not is_chunk(at[i]):
                    at[i] = at[i].child[scores[i] >= at[i].key]
                    prefetch(at[i], self.node_bytes)
                    n_inner += 1
        for i in range(n_ways):
            chunk = <Chunk *> at[i]
            prefetch(chunk.slots, chunk.size * sizeof(Slot))
            self.prefetch_summary(chunk)

    cdef void prefetch_summary(self, Chunk *chunk) noexcept nogil:
        """Prefetch the memory of the summary of a chunk that is outside of the chunk."""

    cdef Slot *find(self, double score) noexcept nogil:
        """Return the slot of a score, NULL if it has none."""
        cdef Place place
        return place.slot if self.locate(score, &place) else NULL

    cdef bint locate(self, double score, Place *place) noexcept nogil:
        """Set the place of a score; return False if it has no slot: it would be inserted there."""
        cdef Chunk *chunk = self.find_chunk(score)
        cdef int i = find_slot(chunk, score)
        place.chunk, place.slot, place.other = chunk, &chunk.slots[i], NULL
        return holds(chunk, i, score)

    # Slots ----------------------------------------------------------------------------------------

    # A change takes three steps: `insert_slot` or `locate` finds the place of a score, the caller
    # changes the sums of the slot, and `fold_place` folds. `remove_slot` removes a slot and folds.

    cdef int insert_slot(self, double score, Place *place) except -1 nogil:
        """Set the place of a score, with a new and empty slot if it has none; O(log n)."""
        cdef Chunk *chunk
        cdef Chunk *neighbour
        cdef int i, step
        if self.locate(score, place):
            return 0
        chunk = place.chunk
        i = <int> (place.slot - chunk.slots)
        if chunk.size == SLOTS:
            neighbour = self.split_or_shift(chunk, i, score)
            # The score may belong to the neighbour now. The other one of the two has changed as
            # well: `fold_place` folds both.
            self.locate(score, place)
            place.other = chunk if place.chunk == neighbour else neighbour
            chunk = place.chunk
            i = <int> (place.slot - chunk.slots)
        if chunk.size == chunk.room:
            step = GROWS_IN_WINDOW if self.window > 0 else GROWS
            self.set_room(chunk, min(SLOTS, chunk.size + step))
        memmove(&chunk.slots[i + 1], &chunk.slots[i], (chunk.size - i) * sizeof(Slot))
        chunk.slots[i] = Slot(score=score, weight=0.0, sum=0.0, n=0)
        chunk.size += 1
        self.tree.n_scores += 1
        place.slot = &chunk.slots[i]
        return 0

    cdef int remove_slot(self, Place *place) except -1 nogil:
        """Remove the slot of a place, and fold the changes; O(log n)."""
        cdef Chunk *chunk = place.chunk
        cdef Chunk *left
        cdef int i = <int> (place.slot - chunk.slots)
        cdef double score = place.slot.score
        chunk.size -= 1
        memmove(&chunk.slots[i], &chunk.slots[i + 1], (chunk.size - i) * sizeof(Slot))
        self.tree.n_scores -= 1
        if chunk.size == 0 and self.tree.n_chunks > 1:
            self.remove_leaf(chunk)
            return 0
        left = left_of_sparse(chunk)
        if left != NULL:
            return self.merge_chunks(left, left.next)
        if chunk.room - chunk.size > 2 * ROOM_STEP:
            self.set_room(chunk, chunk.size + 1)
        self.mark_ancestors(&chunk.node)
        return self.fold_chunk(chunk, score)

    cdef int fold_place(self, const Place *place) except -1 nogil:
        """Fold the change at a place, and mark its ancestors."""
        if place.other == NULL:
            self.mark_ancestors(&place.chunk.node)
            return self.fold_chunk(place.chunk, place.slot.score)
        self.refold(place.chunk)
        return self.refold(place.other)

    # Summaries ------------------------------------------------------------------------------------

    cdef void mark_ancestors(self, Node *child) noexcept nogil:
        """Mark the ancestors of a child as dirty on its side.

        All ancestors of a dirty node are dirty, so there is nothing left to do above a bit that was
        set before. Rotations keep that: whoever rotates has marked all ancestors, and the two nodes
        that turn are NEW, so that they are folded whatever their bits are.
        """
        cdef Node *node = child.parent
        cdef int bit
        while node != NULL:
            bit = 1 << (node.child[RIGHT] == child)
            if node.dirty & bit:
                return
            node.dirty |= bit
            child = node
            node = node.parent

    cdef int refold(self, Chunk *chunk) except -1 nogil:
        """Fold a chunk from scratch and mark its ancestors."""
        self.mark_ancestors(&chunk.node)
        return self.fold_chunk(chunk, -INFINITY)

    cdef int refold_all(self) except -1 nogil:
        """Fold all chunks from scratch, and all nodes."""
        cdef Chunk *chunk = self.tree.first
        while chunk != NULL:
            self.refold(chunk)
            chunk = chunk.next
        self.fold_dirty()
        return 0

    cdef void fold_dirty(self) noexcept nogil:
        """Fold all dirty nodes, children first."""
        cdef Node *node = self.tree.root
        if node.dirty == CLEAN:
            return
        while node != NULL:
            while True:  # down to a dirty node without dirty children; chunks are never dirty
                if node.child[LEFT].dirty != CLEAN:
                    node = node.child[LEFT]
                elif node.child[RIGHT].dirty != CLEAN:
                    node = node.child[RIGHT]
                else:
                    break
            self.fold_node(node)
            node.dirty = CLEAN
            node = node.parent

    # Chunks ---------------------------------------------------------------------------------------

    cdef int set_room(self, Chunk *chunk, int room) except -1 nogil:
        """Allocate room for this many slots in a chunk, or somewhat more."""
        if reserve(chunk, room) < 0:
            raise MemoryError
        return 0

    cdef Chunk *split_or_shift(self, Chunk *chunk, int slot, double score) except NULL nogil:
        """Make room for ``score``, which belongs at ``slot`` of a full chunk.

        Return the neighbour, new or old, that got some of its slots or of its range: the score may
        belong there now. A run of ascending or descending scores starts a new chunk at its end, so
        that it does not leave half-full chunks.
        """
        cdef Chunk *before = chunk.previous
        cdef Chunk *after = chunk.next
        cdef int n_before = SLOTS if before == NULL else before.size  # a missing one counts as full
        cdef int n_after = SLOTS if after == NULL else after.size
        if slot == chunk.size and after == NULL:
            return self.add_leaf(chunk, 1, score)
        if slot == 0 and before == NULL:
            return self.split_chunk(chunk, 0)  # all slots move, so that the first chunk is empty
        if min(n_before, n_after) > CROWDED:
            return self.split_chunk(chunk, chunk.size // 2)
        if n_before < n_after:
            self.move_slots(before, chunk, (chunk.size - n_before) // 2, LEFT)
            return before
        self.move_slots(chunk, after, (chunk.size - n_after) // 2, RIGHT)
        return after

    cdef Chunk *split_chunk(self, Chunk *chunk, int slot) except NULL nogil:
        """Move the slots from ``slot`` on to a new chunk after ``chunk``; return the new chunk."""
        cdef int n = chunk.size - slot
        cdef Chunk *new = self.add_leaf(chunk, n + 1, chunk.slots[slot].score)
        self.move_slots(chunk, new, n, RIGHT)
        self.set_room(chunk, slot + 1)
        return new

    cdef int move_slots(self, Chunk *left, Chunk *right, int n, int side) except -1 nogil:
        """Move the ``n`` slots next to the border of two chunks to the one on a side.

        before           1 2 3 4 | 5 6
        n = 1, RIGHT     1 2 3 | 4 5 6
        n = 1, LEFT      1 2 3 4 5 | 6
        """
        if side == RIGHT:
            self.set_room(right, right.size + n + 1)
            memmove(&right.slots[n], right.slots, right.size * sizeof(Slot))
            memcpy(right.slots, &left.slots[left.size - n], n * sizeof(Slot))
            left.size -= n
            right.size += n
        else:
            self.set_room(left, left.size + n + 1)
            memcpy(&left.slots[left.size], right.slots, n * sizeof(Slot))
            memmove(right.slots, &right.slots[n], (right.size - n) * sizeof(Slot))
            left.size += n
            right.size -= n
        if right.size > 0:
            set_key_between(left, right.slots[0].score)
        return 0

    cdef int merge_chunks(self, Chunk *left, Chunk *right) except -1 nogil:
        """Move all slots of a chunk to the one before it, remove it, and fold."""
        self.move_slots(left, right, right.size, LEFT)
        if right.node.parent.child[LEFT] == &right.node:
            # ``right`` is a left child. Its sibling, which comes after it, takes over its range,
            # though its slots went to ``left``. So the border after ``left`` becomes the parent's
            # key.
            set_key_between(left, right.node.parent.key)
        self.remove_leaf(right)
        return self.refold(left)

    # Tree -----------------------------------------------------------------------------------------

    cdef Chunk *add_leaf(self, Chunk *chunk, int room, double key) except NULL nogil:
        """Add an empty chunk right after another; scores from ``key`` on belong to it.

            parent             parent
               |                  |
             chunk     -->     node (key)
                               /       \\
                            chunk      new
        """
        cdef Node *parent = chunk.node.parent
        cdef Node *node = NULL
        cdef Chunk *new = NULL
        self.make_nodes(&node, 1)
        try:
            new = self.make_chunk(room)
        finally:
            if new == NULL:
                free(node)
        new.previous, new.next = chunk, chunk.next
        chunk.next = new
        if new.next == NULL:
            self.tree.last = new
        else:
            new.next.previous = new
        node.key = key
        self.replace_child(parent, &chunk.node, node)
        set_children(node, &chunk.node, &new.node)
        self.tree.n_chunks += 1
        self.mark_ancestors(node)
        self.rebalance(parent)
        return new

    cdef void remove_leaf(self, Chunk *chunk) noexcept nogil:
        """Remove a chunk, which must not be the only one; its sibling takes its parent's place."""
        cdef Node *node = chunk.node.parent
        cdef Node *sibling = node.child[node.child[LEFT] == &chunk.node]
        cdef Node *parent = node.parent
        if chunk.previous == NULL:
            self.tree.first = chunk.next
        else:
            chunk.previous.next = chunk.next
        if chunk.next == NULL:
            self.tree.last = chunk.previous
        else:
            chunk.next.previous = chunk.previous
        self.replace_child(parent, node, sibling)
        free(node)
        self.release_chunk(chunk)
        self.tree.n_chunks -= 1
        self.mark_ancestors(sibling)
        self.rebalance(parent)

    cdef void replace_child(self, Node *parent, Node *old, Node *new) noexcept nogil:
        """Replace the child ``old`` of ``parent`` (NULL: of the index) by ``new``."""
        new.parent = parent
        if parent == NULL:
            self.tree.root = new
        else:
            parent.child[parent.child[RIGHT] == old] = new

    cdef void rebalance(self, Node *node) noexcept nogil:
        """Restore leaf counts and balance from a node up to the root."""
        cdef Node *heavy
        cdef Node *light
        cdef int side  # of the heavy child
        while node != NULL:
            side = node.child[RIGHT].leaves > node.child[LEFT].leaves
            heavy, light = node.child[side], node.child[1 - side]
            node.leaves = heavy.leaves + light.leaves
            if heavy.leaves > DELTA * light.leaves:
                if heavy.child[1 - side].leaves >= GAMMA * heavy.child[side].leaves:
                    self.rotate(heavy, side)
                node = self.rotate(node, 1 - side)
            node = node.parent

    cdef Node *rotate(self, Node *node, int side) noexcept nogil:
        """Turn a node down to a side; its other child takes its place and is returned.

        To the left:      node                 top
                         /    \\               /   \\
                        a     top    -->    node    c
                             /   \\         /    \\
                            b     c       a      b
        """
        cdef Node *top = node.child[1 - side]
        node.child[1 - side] = top.child[side]
        node.child[1 - side].parent = node
        self.replace_child(node.parent, node, top)
        top.child[side] = node
        node.parent = top
        top.leaves = node.leaves
        node.leaves = node.child[LEFT].leaves + node.child[RIGHT].leaves
        node.dirty |= NEW
        top.dirty |= NEW
        return top

    # All at once ----------------------------------------------------------------------------------

    cdef int clear(self) except -1 nogil:
        """Make an empty index: one empty chunk is the root."""
        return self.rebuild(NULL, 0)

    cdef void copy_slots(self, Slot *out) noexcept nogil:
        """Write all slots in order; ``out`` has room for `n_scores`."""
        cdef Chunk *chunk = self.tree.first
        while chunk != NULL:
            if chunk.size > 0:
                memcpy(out, chunk.slots, chunk.size * sizeof(Slot))
            out += chunk.size
            chunk = chunk.next

    cdef int rebuild(self, const Slot *slots, int64_t n) except -1 nogil:
        """Replace all slots with these, sorted by score, in a balanced tree; O(n)."""
        cdef int64_t n_chunks = max(1, (n + FILL - 1) // FILL)
        cdef WrittenTree written = WrittenTree(
            shape=<int64_t *> malloc(2 * n_chunks * sizeof(int64_t)),
            keys=<double *> malloc(n_chunks * sizeof(double)),
        )
        cdef WrittenTree end = written
        try:
            if written.shape == NULL or written.keys == NULL:
                raise MemoryError
            write_balanced(slots, n, 0, n_chunks, n_chunks, &end)
            self.replace(written, slots, n > 0)  # an empty chunk has nothing to fold
        finally:
            free(written.shape)
            free(written.keys)
        return 0

    cdef int replace(self, WrittenTree written, const Slot *slots, bint fold) except -1 nogil:
        """Replace all slots with these, in a tree that `write_tree` wrote; ``fold`` them as well.

        If memory runs out, nothing has changed.
        """
        cdef Tree before = self.tree
        cdef Tree tree = Tree(root=NULL, first=NULL, last=NULL, n_scores=0, n_chunks=0)
        cdef bint done = False
        try:
            self.build(&tree, written, slots)
            self.tree = tree
            if fold:
                self.refold_all()
            done = True
        finally:
            if done:
                self.release_tree(&before)
            else:
                self.tree = before
                self.release_tree(&tree)
        return 0

    cdef int build(self, Tree *tree, WrittenTree written, const Slot *slots) except -1 nogil:
        """Create chunks of these slots in an empty tree, and the nodes that `write_tree` wrote."""
        cdef const int64_t *size = written.shape
        cdef Chunk *chunk
        cdef Node *spare = NULL
        cdef int64_t n_missing = 1  # subtrees that are still to come
        while n_missing > 0:
            if size[0] == INNER:
                n_missing += 1
            else:
                n_missing -= 1
                chunk = self.make_chunk(<int> size[0])
                chunk.size = <int> size[0]
                if chunk.size > 0:  # an empty chunk has no slots to copy to
                    memcpy(chunk.slots, slots, chunk.size * sizeof(Slot))
                slots += chunk.size
                append_chunk(tree, chunk)
            size += 1
        self.make_nodes(&spare, tree.n_chunks - 1)
        chunk = tree.first
        tree.root = link_tree(&written, &chunk, &spare)
        return 0

    # Memory ---------------------------------------------------------------------------------------

    cdef Chunk *make_chunk(self, int room) except NULL nogil:
        """Return a new chunk with room for this many slots; it is in no tree yet."""
        cdef Chunk *chunk = <Chunk *> calloc(1, self.chunk_bytes)
        if chunk == NULL or reserve(chunk, room) < 0:
            free(chunk)
            with gil:
                raise MemoryError
        chunk.node.leaves = 1
        return chunk

    cdef int make_nodes(self, Node **spare, int64_t n) except -1 nogil:
        """Make a list of ``n`` nodes, linked by ``parent``; all or none."""
        cdef int64_t i
        cdef Node *node
        for i in range(n):
            node = <Node *> calloc(1, self.node_bytes)
            if node == NULL:
                while spare[0] != NULL:
                    free(take_node(spare))
                raise MemoryError
            node.parent = spare[0]
            spare[0] = node
        return 0

    cdef void release_tree(self, Tree *tree) noexcept nogil:
        """Free all nodes and chunks of a tree, which may lack its root."""
        cdef Chunk *chunk = tree.first
        cdef Chunk *after
        if tree.root != NULL:
            free_nodes(tree.root)
        while chunk != NULL:
            after = chunk.next
            self.release_chunk(chunk)
            chunk = after

    cdef void release_chunk(self, Chunk *chunk) noexcept nogil:
        self.release_summary(chunk)
        free(chunk.slots)
        free(chunk)


# Queue --------------------------------------------------------------------------------------------


cpdef bint has_left(double t, double now, double window) noexcept nogil:
    """Return whether a time is out of a window, in seconds, that ends now.

    Times are rounded to floats, so an age that differs from the window by less than that counts as
    equal: at a constant rate a window of time holds as many samples as one that counts.
    """
    return t < now and now - t + 2.0**-52 * max(fabs(t), fabs(now)) >= window


cdef inline size_t sample_bytes(bint wide) noexcept nogil:
    return sizeof(Sample) if wide else sizeof(ShortSample)


cdef inline double *times_of(void *queue, int64_t room, bint wide) noexcept nogil:
    """Return the times of the samples in a queue, which are behind them."""
    return <double *> (<char *> queue + room * sample_bytes(wide))


cdef inline void write_sample(
    void *queue, bint wide, int64_t i, const Sample *sample
) noexcept nogil:
    """Set place ``i`` of a queue."""
    cdef ShortSample *at
    if wide:
        (<Sample *> queue)[i] = sample[0]
        return
    at = &(<ShortSample *> queue)[i]
    at.score, at.weight, at.sum = sample.score, <float> sample.weight, <float> sample.sum


# Chunks -------------------------------------------------------------------------------------------


cdef int reserve(Chunk *chunk, int room) noexcept nogil:
    """Allocate room for this many slots in a chunk, or somewhat more; -1 without memory."""
    cdef Slot *slots
    room = (room + ROOM_STEP - 1) // ROOM_STEP * ROOM_STEP
    if room != chunk.room and room > 0:
        slots = <Slot *> realloc(chunk.slots, room * sizeof(Slot))
        if slots == NULL:
            return -1
        chunk.slots = slots
        chunk.room = room
    return 0


cdef Chunk *left_of_sparse(Chunk *chunk) noexcept nogil:
    """Return the left one of two chunks to be merged, NULL if ``chunk`` stays as it is."""
    if chunk.size >= SPARSE:
        return NULL
    if chunk.previous != NULL and chunk.previous.size + chunk.size <= JOINED:
        return chunk.previous
    if chunk.next != NULL and chunk.size + chunk.next.size <= JOINED:
        return chunk
    return NULL


cdef void set_key_between(Chunk *left, double key) noexcept nogil:
    """Set the key that separates a chunk from the next one.

    It is in the lowest common ancestor: the first one that has the chunk on its left.
    """
    cdef Node *child = &left.node
    cdef Node *node = child.parent
    while node.child[LEFT] != child:
        child = node
        node = node.parent
    node.key = key


# Trees --------------------------------------------------------------------------------------------


cdef void free_nodes(Node *node) noexcept nogil:
    """Free a node and the nodes below it, but not the chunks."""
    if not is_chunk(node):
        free_nodes(node.child[LEFT])
        free_nodes(node.child[RIGHT])
        free(node)


cdef inline Node *take_node(Node **spare) noexcept nogil:
    """Take a node from a list that `make_nodes` made."""
    cdef Node *node = spare[0]
    spare[0] = node.parent
    return node


cdef inline void set_children(Node *node, Node *left, Node *right) noexcept nogil:
    """Set the first children of a node."""
    node.child[LEFT], node.child[RIGHT] = left, right
    left.parent = right.parent = node
    node.leaves = left.leaves + right.leaves
    node.dirty = NEW


cdef void append_chunk(Tree *tree, Chunk *chunk) noexcept nogil:
    """Add a chunk after the last one of a tree whose nodes are not made yet."""
    chunk.previous = tree.last
    if tree.last == NULL:
        tree.first = chunk
    else:
        tree.last.next = chunk
    tree.last = chunk
    tree.n_chunks += 1
    tree.n_scores += chunk.size


# A written tree is written, and read, from its front; see the top of the module.


cdef inline void write_size(WrittenTree *at, int64_t size) noexcept nogil:
    at.shape[0] = size
    at.shape += 1


cdef inline void write_node(WrittenTree *at, double key) noexcept nogil:
    write_size(at, INNER)
    at.keys[0] = key
    at.keys += 1


cdef void write_tree(Node *node, WrittenTree *at) noexcept nogil:
    """Write the tree below a node."""
    if is_chunk(node):
        write_size(at, (<Chunk *> node).size)
        return
    write_node(at, node.key)
    write_tree(node.child[LEFT], at)
    write_tree(node.child[RIGHT], at)


cdef void write_balanced(
    const Slot *slots, int64_t n_slots, int64_t chunk, int64_t n, int64_t n_chunks, WrittenTree *at
) noexcept nogil:
    """Write a balanced tree of ``n`` chunks, from number ``chunk`` of ``n_chunks`` on.

    All ``n_chunks`` share the slots evenly.
    """
    cdef int64_t first = first_slot_of(chunk, n_chunks, n_slots), half = n // 2
    if n == 1:
        write_size(at, first_slot_of(chunk + 1, n_chunks, n_slots) - first)
        return
    write_node(at, slots[first_slot_of(chunk + half, n_chunks, n_slots)].score)
    write_balanced(slots, n_slots, chunk, half, n_chunks, at)
    write_balanced(slots, n_slots, chunk + half, n - half, n_chunks, at)


cdef inline int64_t first_slot_of(int64_t chunk, int64_t n_chunks, int64_t n_slots) noexcept nogil:
    return chunk * n_slots // n_chunks


cdef Node *link_tree(WrittenTree *at, Chunk **next, Node **spare) noexcept nogil:
    """Link the tree at the front of ``at``, and return its root.

    Its chunks are the ``next`` ones of the list, its nodes come from ``spare``; all three advance.
    """
    cdef Chunk *chunk = next[0]
    cdef Node *node
    cdef Node *left
    cdef int64_t size = at.shape[0]
    at.shape += 1
    if size != INNER:
        next[0] = chunk.next
        return &chunk.node
    node = take_node(spare)
    node.parent = NULL
    node.key = at.keys[0]
    at.keys += 1
    left = link_tree(at, next, spare)
    set_children(node, left, link_tree(at, next, spare))
    return node


# States -------------------------------------------------------------------------------------------


cdef struct Walk:  # what is left of a tree and of scores
    const int64_t *shape
    const double *keys
    const double *scores
    int64_t n_shape, n_keys


def check_index(
    const double[::1] scores,
    const int64_t[::1] counts,
    const int64_t[::1] shape,
    const double[::1] keys,
):
    """Raise ``ValueError`` unless scores and their counts of samples, and a written tree, fit.

    Scores are finite and increase, the tree is complete and balanced, and its keys divide them.
    """
    check_slots_and_tree(scores, counts, shape, keys)


cdef int check_slots_and_tree(
    const double[::1] scores,
    const int64_t[::1] counts,
    const int64_t[::1] shape,
    const double[::1] keys,
) except -1:
    """Do what `check_index` does."""
    cdef Py_ssize_t n = scores.shape[0], i
    cdef Walk walk
    cdef double total = 0.0
    cdef int64_t n_left = n
    require(counts.shape[0] == n, "each score must have a count")
    for i in range(n):
        require(-INFINITY < scores[i] < INFINITY, "scores must be finite")
        require(i == 0 or scores[i - 1] < scores[i], "scores must increase")
        require(counts[i] > 0, "counts must be positive")
        total += counts[i]
    require(total <= 2.0**53, "there must be at most 2**53 samples")
    require(shape.shape[0] == 2 * keys.shape[0] + 1, "the tree must have one key per node")
    for i in range(shape.shape[0]):
        if shape[i] == INNER:
            continue
        require(shape[i] >= 0, "sizes must not be negative")
        require(shape[i] <= SLOTS, "a chunk must hold no more scores than fit")
        require(shape[i] > 0 or shape.shape[0] == 1, "a chunk must not be empty")
        n_left -= shape[i]
        require(n_left >= 0, "sizes must add up")
    require(n_left == 0, "sizes must add up")
    walk.shape, walk.n_shape, walk.n_keys = &shape[0], shape.shape[0], keys.shape[0]
    walk.keys = &keys[0] if keys.shape[0] else NULL
    walk.scores = &scores[0] if n else NULL
    check_subtree(&walk, -INFINITY, INFINITY, 0)
    require(walk.n_shape == 0, "the tree must end with its last chunk")
    return 0


cdef int64_t check_subtree(Walk *walk, double low, double high, int depth) except -1:
    """Walk over the tree in front, whose scores must lie in [low, high); return its chunks."""
    cdef int64_t size, left, right
    cdef double key
    require(walk.n_shape > 0, "the tree must be complete")
    size = walk.shape[0]
    walk.shape += 1
    walk.n_shape -= 1
    if size != INNER:
        if size > 0:
            require(
                low <= walk.scores[0] and walk.scores[size - 1] < high,
                "keys must separate scores",
            )
            walk.scores += size
        return 1
    require(depth < MOST_DEPTH, "the tree must be balanced")
    require(walk.n_keys > 0, "the tree must have one key per node")
    key = walk.keys[0]
    walk.keys += 1
    walk.n_keys -= 1
    require(low < key < high, "keys must be in order")
    left = check_subtree(walk, low, key, depth + 1)
    right = check_subtree(walk, key, high, depth + 1)
    # Kernels walk trees with stacks that are long enough for balanced ones.
    require(max(left, right) <= DELTA * min(left, right), "the tree must be balanced")
    return left + right


def check_held(
    const double[:, ::1] queue, const double[::1] scores, const int64_t[::1] counts
):
    """Raise ``ValueError`` unless slots hold the samples of a window, but for cancelled ones.

    Scores and counts are those that `check_index` accepts.
    """
    check_window(queue, scores, counts)


cdef int check_window(
    const double[:, ::1] queue, const double[::1] scores, const int64_t[::1] counts
) except -1:
    """Do what `check_held` does."""
    cdef Py_ssize_t n = scores.shape[0], low, high, middle, i
    cdef int64_t *left = <int64_t *> allocated(n, sizeof(int64_t))
    try:
        for i in range(n):
            left[i] = counts[i]
        for i in range(queue.shape[0]):
            if queue[i, 1] == 0.0:  # cancelled
                continue
            low, high = 0, n
            while low < high:
                middle = (low + high) >> 1
                if scores[middle] < queue[i, 0]:
                    low = middle + 1
                else:
                    high = middle
            require(
                low < n and scores[low] == queue[i, 0],
                "the window must hold scores of the index",
            )
            left[low] -= 1
            require(left[low] >= 0, "counts must be those of the window")
    finally:
        free(left)
    return 0


def check_held_times(const double[::1] times, Py_ssize_t n, double now, double window):
    """Raise ``ValueError`` unless these are times of ``n`` samples that are in a window now.

    The window is in seconds.
    """
    check_window_times(times, n, now, window)


cdef int check_window_times(
    const double[::1] times, Py_ssize_t n, double now, double window
) except -1:
    """Do what `check_held_times` does."""
    cdef Py_ssize_t i
    require(times.shape[0] == n, "each sample in the window must have a time")
    for i in range(n):
        require((times[i - 1] if i else -INFINITY) <= times[i] <= now, "times must be in order")
    require(n == 0 or now - times[0] < window, "times must be in the window")
    return 0


# Checks -------------------------------------------------------------------------------------------


cdef int ensure(bint holds, str what) except -1:
    """Raise an ``AssertionError`` of ``what`` unless it holds."""
    if not holds:
        raise AssertionError(what)
    return 0


cdef int check_node(Node *node, double low, double high) except -1:
    """Check a node whose scores must lie in [low, high)."""
    cdef Chunk *chunk
    cdef Node *left = node.child[LEFT]
    cdef Node *right = node.child[RIGHT]
    if is_chunk(node):
        chunk = <Chunk *> node
        ensure(right == NULL and node.leaves == 1 and node.dirty == CLEAN, "a chunk is no leaf")
        if chunk.size > 0:
            ensure(low <= chunk.slots[0].score, "a chunk starts below its key")
            ensure(chunk.slots[chunk.size - 1].score < high, "a chunk ends above its key")
        return 0
    ensure(left.parent == node and right.parent == node, "a child has a wrong parent")
    ensure(node.dirty == CLEAN, "a node is dirty")
    ensure(node.leaves == left.leaves + right.leaves, "a node miscounts its leaves")
    ensure(left.leaves <= DELTA * right.leaves, "a node is out of balance")
    ensure(right.leaves <= DELTA * left.leaves, "a node is out of balance")
    ensure(low < node.key < high, "keys are out of order")
    check_node(left, low, node.key)
    return check_node(right, node.key, high)


cdef Chunk *next_leaf(Node *root, Chunk *chunk) noexcept nogil:
    """Return the leaf after a chunk in the tree; for NULL the first one."""
    cdef Node *node = root
    if chunk != NULL:
        node = &chunk.node
        while node.parent != NULL and node.parent.child[RIGHT] == node:
            node = node.parent
        if node.parent == NULL:
            return NULL
        node = node.parent.child[RIGHT]
    while not is_chunk(node):
        node = node.child[LEFT]
    return <Chunk *> node
