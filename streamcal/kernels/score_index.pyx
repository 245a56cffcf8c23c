"""An ordered index of distinct scores: chunks of sorted slots under a weight-balanced tree.

A stream adds and removes scores in any order. Every structure that this library keeps exact on such
a stream is a summary, combined up a balanced tree over the sorted scores (*folded*). This module
has the order, the memory, the window and the growth of weights, and writes and reads them. The
summaries are those of subclasses; `streamcal.kernels.hull` folds the staircase. Five scores in two
chunks:

                  node (key .6)
                 /             \\
      chunk .1 .4 .5   <-->   chunk .6 .9

*Slots.* Each distinct score has one slot: the score, two sums of the subclass, such as the weights
and the weighted labels of its samples, and the number of its samples. A slot is empty if this
number is 0: because of rounding, a sum of floats need not be 0 after all terms are subtracted.

*Chunks.* A chunk is a sorted array of up to `SLOTS` slots. A full chunk moves slots to a neighbour
that has room; if there is none, it splits in two. An empty chunk is removed from the tree, a sparse
one is merged with a neighbour.

*Tree.* Chunks are the leaves of a binary tree that rotations keep in balance (Adams 1993,
"Efficient sets: a balancing act": no child outweighs its sibling more than `DELTA` times, weights
counted in leaves). Scores at or above a node's key are on its right. A chunk is a node without
children.

*Summaries.* A subclass reserves bytes after each node and each chunk (`node_bytes`, `chunk_bytes`)
and writes them in `fold_chunk` and `fold_node`. A change folds its chunk and marks all ancestors as
dirty; `fold_dirty` folds dirty nodes, children first.

*Growth.* A half-life does not change the weights of old samples. Each sample is added with its
weight times ``growth``, which is multiplied by ``rate`` at each sample; only ratios of weights
matter. When growth has become large, all weights are scaled down by a power of two.

*Window.* A queue of samples. When it is longer than the window, the oldest sample is removed.

*Memory.* Nodes, chunks and slots are allocated one by one, so that an index of few scores is small.
Each function allocates its memory before it changes anything. If memory runs out in the middle of
a change nevertheless, the index refuses all further use.
"""

from libc.math cimport INFINITY, fabs, frexp, ldexp
from libc.stdlib cimport calloc, free, malloc, realloc
from libc.string cimport memcpy, memmove

import numpy as np

cpdef enum:
    # No child outweighs its sibling more than DELTA times; GAMMA decides between a single and a
    # double rotation. The pair is proven valid (Hirai & Yamamoto 2011).
    # Less than this would refuse older states: `_slots.py` checks the balance of their trees.
    DELTA = 3
    GAMMA = 2
    INNER = -1  # a node in the shape of a tree

cdef enum:
    ROOM_STEP = 4  # slots that a chunk grows by
    SPARSE = SLOTS // 4  # a chunk of fewer slots is joined to a neighbour,
    JOINED = SLOTS * 5 // 8  # if both together fill no more than this
    CROWDED = SLOTS * 3 // 4  # a neighbour with more slots gets none from a full chunk
    FILL = 96  # slots of a chunk in an index that is built at once
    FIRST_QUEUE = 8
    LARGE = 2000  # chunks of an index that outgrows the cache

# Growth is scaled down from here.
LARGEST_GROWTH = 2.0**128


def restored(kind, settings, numbers, arrays):
    """Return the index that was pickled."""
    index = kind(*settings)
    index.restore(numbers, arrays)
    return index


cdef class ScoreIndex:
    """Scores in order. A subclass sets the sizes of summaries, then calls `clear`."""

    def __cinit__(self):
        self.rate = self.growth = 1.0
        self.largest_growth = LARGEST_GROWTH

    def __dealloc__(self):
        self.release_all()
        free(self.queue)

    def __sizeof__(self):
        """Return how many bytes this object and all it owns take."""
        cdef size_t n = (<object> type(self)).__basicsize__
        cdef Chunk *chunk
        with self.lock:
            n += max(self.n_chunks - 1, 0) * self.node_bytes + self.n_chunks * self.chunk_bytes
            chunk = self.first
            while chunk != NULL:
                n += chunk.room * sizeof(Slot) + self.summary_bytes(chunk)
                chunk = chunk.next
            return n + self.queue_room * sample_bytes(self.wide)

    def check(self):
        """Raise ``AssertionError`` that names the first broken invariant of order and balance."""
        cdef Chunk *chunk = self.first
        cdef Chunk *before = NULL
        cdef double last = -INFINITY
        cdef int64_t n_scores = 0, n_chunks = 0
        cdef int i
        ensure(self.root != NULL, "there is no tree")
        ensure(self.root.parent == NULL, "the root has a parent")
        check_node(self.root, -INFINITY, INFINITY)
        while chunk != NULL:
            ensure(chunk.previous == before, "a chunk is mislinked")
            ensure(chunk == next_leaf(self.root, before), "the chain is not the order of leaves")
            ensure(chunk.size <= min(SLOTS, chunk.room), "a chunk is too full")
            ensure(chunk.size > 0 or self.root == &chunk.node, "a chunk is empty")
            for i in range(chunk.size):
                ensure(last < chunk.slots[i].score, "scores are out of order")
                ensure(chunk.slots[i].n > 0, "a slot is empty")
                last = chunk.slots[i].score
            n_scores += chunk.size
            n_chunks += 1
            before, chunk = chunk, chunk.next
        ensure(before == self.last, "the last chunk is not the last")
        ensure(n_chunks == self.n_chunks == self.root.leaves, "chunks are miscounted")
        ensure(n_scores == self.n_scores, "scores are miscounted")

    # ------------------------------------------------------------------ what a subclass defines

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

    cdef int remove(self, const Sample *sample) except -1 nogil:
        """Remove a sample from the slot of its score."""
        return 0

    cdef bint scale_slot(self, Slot *slot, double factor) noexcept nogil:
        """Multiply the sums of a slot by a power of two; return False if they become 0."""
        slot.weight *= factor
        slot.sum *= factor
        return not has_vanished(slot.weight)

    cdef void scale_sample(self, Sample *sample, double factor) noexcept nogil:
        """Multiply the sums of a queued sample by a power of two."""
        sample.weight *= factor
        sample.sum *= factor

    cdef bint vanishes(self, const Sample *sample) noexcept nogil:
        """Return whether the weight of a queued sample has become 0; it is then cancelled."""
        return has_vanished(sample.weight)

    cdef tuple settings(self):
        """Return the arguments that make an empty index like this one."""
        return ()

    cdef dict numbers(self):
        """Return numbers by name."""
        return {"growth": self.growth}

    cdef dict slots(self):
        """Return the content of the slots: arrays in score order, by name."""
        scores, sums = np.empty(self.n_scores), np.empty((2, self.n_scores))
        counts = np.empty(self.n_scores, np.int64)
        cdef double[::1] x = scores
        cdef double[:, ::1] ws = sums
        cdef int64_t[::1] n = counts
        cdef Chunk *chunk = self.first
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

    # ------------------------------------------------------------------ reading and writing

    def state(self):
        """Return the state for `restore`: numbers and arrays by name."""
        with self.lock:
            self.check_whole()
            return self.numbers(), self.arrays()

    def restore(self, dict numbers, dict arrays):
        """Set the state to what `state` returned, which must have been checked.

        Only for an object that has learned nothing.
        """
        self.restore_slots(arrays, True)
        self.growth = numbers["growth"]

    def __reduce__(self):
        return restored, (type(self), self.settings(), *self.state())

    cdef dict arrays(self):
        """Return slots, tree and queue as arrays by name."""
        cdef Py_ssize_t n = self.n_chunks, i
        shape, keys = np.empty(2 * n - 1, np.int64), np.empty(n - 1)
        queue = np.empty((self.queue_size, 3))
        cdef int64_t[::1] shape_view = shape
        cdef double[::1] keys_view = keys
        cdef double[:, ::1] rows = queue
        cdef int64_t *shape_at = &shape_view[0]
        cdef double *keys_at = &keys_view[0] if n > 1 else NULL
        cdef Sample sample
        copy_tree(self.root, &shape_at, &keys_at)
        for i in range(self.queue_size):
            sample = self.queued(i)
            rows[i, 0], rows[i, 1], rows[i, 2] = sample.score, sample.weight, sample.sum
        return {**self.slots(), "shape": shape, "keys": keys, "queue": queue}

    cdef int restore_slots(self, dict arrays, bint fold) except -1:
        """Replace slots, tree and queue by those that `arrays` returned; also ``fold`` them."""
        cdef const double[::1] scores = arrays["scores"], keys = arrays["keys"]
        cdef const int64_t[::1] counts = arrays["counts"], shape = arrays["shape"]
        cdef const double[:, ::1] queue = arrays["queue"]
        cdef const double *keys_at = &keys[0] if keys.shape[0] else NULL
        cdef Py_ssize_t n = scores.shape[0], i
        cdef Slot *slots = <Slot *> calloc(n + 1, sizeof(Slot))
        if slots == NULL:
            raise MemoryError
        try:
            self.read_sums(arrays, slots)
            for i in range(n):
                slots[i].score, slots[i].n = scores[i], counts[i]
                self.n_samples += counts[i]
            self.replace(&shape[0], keys_at, slots, fold)
        finally:
            free(slots)
        for i in range(queue.shape[0]):
            self.push(queue[i, 0], queue[i, 1], queue[i, 2])
        return 0

    # ------------------------------------------------------------------ changes, growth, window

    cdef int check_whole(self) except -1 nogil:
        """Raise if memory ran out in the middle of a change."""
        if self.changing:
            return out_of_memory()
        return 0

    cdef int start_change(self) except -1 nogil:
        """Note the start of a change that can't be undone half-way."""
        self.check_whole()
        self.changing = True
        return 0

    cdef int limit_growth(self) except -1 nogil:
        """Scale down if growth has no room for one more sample; it is at least 1 afterwards."""
        cdef double growth = self.growth * self.rate
        cdef int exponent = 0
        if growth > self.largest_growth:
            frexp(growth, &exponent)
            self.scale_down(ldexp(1.0, 1 - exponent))
        return 0

    cdef int scale_down(self, double factor) except -1 nogil:
        """Multiply all weights by a power of two, exactly, and drop slots that have vanished.

        If memory runs out, no slot has changed.
        """
        cdef int64_t n = self.n_scores, kept = 0, n_samples = 0, i
        cdef Sample sample
        cdef Slot *slots = <Slot *> malloc((n + 1) * sizeof(Slot))
        if slots == NULL:
            return out_of_memory()
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
        """Subtract queued samples whose weight will become 0 from the counts of their slots.

        A slot without any other sample is left with the weight 0.
        """
        cdef int64_t i, low, high, middle
        cdef Sample sample
        for i in range(self.queue_size):
            sample = self.queued(i)
            if sample.weight == 0.0:
                continue
            self.scale_sample(&sample, factor)
            if not self.vanishes(&sample):
                continue
            low, high = 0, n - 1
            while low < high:
                middle = (low + high) // 2
                if slots[middle].score < sample.score:
                    low = middle + 1
                else:
                    high = middle
            slots[low].n -= 1
            if slots[low].n == 0:
                slots[low].weight = 0.0

    cdef int forget_oldest(self) except -1 nogil:
        """Remove the oldest sample if there are more than the window holds."""
        cdef Sample oldest
        if self.window == 0 or self.queue_size <= self.window:
            return 0
        oldest = self.pop()
        return self.remove(&oldest)

    # ------------------------------------------------------------------ the queue

    # A ring. Samples whose sums a float holds, such as those of labels 0 and 1 and weight 1, take
    # 16 bytes each; with the first one that does not fit the queue turns `wide`: 24 bytes each.

    cdef int push(self, double score, double w, double s) except -1 nogil:
        """Append a sample to the queue."""
        cdef Sample sample = Sample(score=score, weight=w, sum=s)
        cdef bint wide = self.wide or <double> <float> w != w or <double> <float> s != s
        cdef int64_t room = self.queue_room
        if self.queue_size == room:
            room = max(FIRST_QUEUE, room + room // 2)
            if self.queue_size <= self.window < room:
                room = self.window + 1
        if room != self.queue_room or wide != self.wide:
            self.set_queue(room, wide)
        self.queue_size += 1
        self.set_queued(self.queue_size - 1, &sample)
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
        put(self.queue, self.wide, i, sample)

    cdef int64_t find_queued(self, const Sample *sample, double slack) noexcept nogil:
        """Return where the newest such sample is in the queue, or -1; sums may differ by ``slack``.
        """
        cdef int64_t i
        cdef Sample at
        for i in range(self.queue_size - 1, -1, -1):
            at = self.queued(i)
            if (
                at.score == sample.score
                and fabs(at.weight - sample.weight) <= same_within(sample.weight)
                and fabs(at.sum - sample.sum) <= slack
            ):
                return i
        return -1

    cdef void cancel_queued(self, int64_t i) noexcept nogil:
        """Cancel a queued sample that was removed, or whose weight has become 0."""
        cdef Sample sample = self.queued(i)
        sample.weight = 0.0
        self.set_queued(i, &sample)

    cdef int set_queue(self, int64_t room, bint wide) except -1 nogil:
        """Move the queue to memory with this many places, wide or short; its samples fit."""
        cdef void *queue = malloc(room * sample_bytes(wide))
        cdef Sample sample
        cdef int64_t i
        if queue == NULL:
            return out_of_memory()
        for i in range(self.queue_size):
            sample = self.queued(i)
            put(queue, wide, i, &sample)
        free(self.queue)
        self.queue, self.wide = queue, wide
        self.queue_start, self.queue_room = 0, room
        return 0

    # ------------------------------------------------------------------ finding

    cdef Chunk *find_chunk(self, double score) noexcept nogil:
        """Return the chunk whose range of keys holds ``score``; O(log n)."""
        cdef Node *node = self.root
        while not is_chunk(node):
            node = node.child[score >= node.key]
        return <Chunk *> node

    cdef void fetch(self, const double *scores, int64_t n) noexcept nogil:
        """Prefetch the chunks of the next scores, and the nodes above, into the cache.

        In a large index each step down to a chunk waits for memory. Here all scores, up to `AHEAD`,
        go down one step before the first one goes down the next, so that the waits overlap.
        """
        cdef Node *at[AHEAD]
        cdef Chunk *chunk
        cdef int i
        cdef int n_ways = <int> min(n, <int64_t> AHEAD), n_inner = n_ways
        if self.n_chunks < LARGE:
            return
        for i in range(n_ways):
            at[i] = self.root
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
            self.fetch_summary(chunk)

    cdef void fetch_summary(self, Chunk *chunk) noexcept nogil:
        """Prefetch the memory of the summary of a chunk that is outside of the chunk."""

    cdef Slot *find(self, double score) noexcept nogil:
        """Return the slot of a score, NULL if it has none."""
        cdef Place place
        return place.slot if self.locate(score, &place) else NULL

    cdef bint locate(self, double score, Place *place) noexcept nogil:
        """Set the place of a score; return False if it has no slot."""
        cdef Chunk *chunk = self.find_chunk(score)
        cdef int i = find_slot(chunk, score)
        place.chunk, place.slot, place.other = chunk, &chunk.slots[i], NULL
        return holds(chunk, i, score)

    # ------------------------------------------------------------------ slots

    # A change takes three steps: `open` or `locate` the place of a score, change the sums of its
    # slot, and `fold_place`. `close` takes a slot out and folds.

    cdef int add(self, double score, double w, double s) except -1 nogil:
        """Add a sample's sums to the slot of its score, and fold; O(log n)."""
        cdef Place place
        self.open(score, &place)
        place.slot.weight += w
        place.slot.sum += s
        place.slot.n += 1
        return self.fold_place(&place)

    cdef int open(self, double score, Place *place) except -1 nogil:
        """Set the place of a score, with a new and empty slot if it has none; O(log n)."""
        cdef Chunk *chunk
        cdef Chunk *neighbour
        cdef int i
        if self.locate(score, place):
            return 0
        chunk = place.chunk
        i = <int> (place.slot - chunk.slots)
        if chunk.size == SLOTS:
            neighbour = self.relieve(chunk, i, score)
            self.locate(score, place)
            place.other = chunk if place.chunk == neighbour else neighbour
            chunk = place.chunk
            i = <int> (place.slot - chunk.slots)
        if chunk.size == chunk.room:
            # In a window chunks shrink as often as they grow; else they keep growing.
            self.set_room(chunk, min(SLOTS, chunk.size + (4 if self.window > 0 else 16)))
        memmove(&chunk.slots[i + 1], &chunk.slots[i], (chunk.size - i) * sizeof(Slot))
        chunk.slots[i] = Slot(score=score, weight=0.0, sum=0.0, n=0)
        chunk.size += 1
        self.n_scores += 1
        place.slot = &chunk.slots[i]
        return 0

    cdef int close(self, Place *place) except -1 nogil:
        """Remove the slot of a place, and fold the changes; O(log n)."""
        cdef Chunk *chunk = place.chunk
        cdef Chunk *left
        cdef int i = <int> (place.slot - chunk.slots)
        cdef double score = place.slot.score
        chunk.size -= 1
        memmove(&chunk.slots[i], &chunk.slots[i + 1], (chunk.size - i) * sizeof(Slot))
        self.n_scores -= 1
        if chunk.size == 0 and self.n_chunks > 1:
            self.remove_leaf(chunk)
            return 0
        left = left_of_sparse(chunk)
        if left != NULL:
            return self.join(left, left.next)
        if chunk.room - chunk.size > 2 * ROOM_STEP:
            self.set_room(chunk, chunk.size + 1)
        self.mark(&chunk.node)
        return self.fold_chunk(chunk, score)

    cdef int fold_place(self, const Place *place) except -1 nogil:
        """Fold the change at a place, and mark its ancestors."""
        if place.other == NULL:
            self.mark(&place.chunk.node)
            return self.fold_chunk(place.chunk, place.slot.score)
        self.refold(place.chunk)
        return self.refold(place.other)

    # ------------------------------------------------------------------ summaries

    cdef void mark(self, Node *child) noexcept nogil:
        """Mark the ancestors of a child as dirty on its side.

        All ancestors of a dirty node are dirty: each has the bit of the side where that node is, or
        is NEW. So there is nothing left to do above a bit that was set before.
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
        self.mark(&chunk.node)
        return self.fold_chunk(chunk, -INFINITY)

    cdef int refold_all(self) except -1 nogil:
        """Fold all chunks from scratch, and all nodes."""
        cdef Chunk *chunk = self.first
        while chunk != NULL:
            self.refold(chunk)
            chunk = chunk.next
        self.fold_dirty()
        return 0

    cdef void fold_dirty(self) noexcept nogil:
        """Fold all dirty nodes, children first."""
        cdef Node *node = self.root
        if node.dirty == CLEAN:
            return
        while node != NULL:
            while True:  # down to a dirty node without dirty children
                if node.child[LEFT].dirty != CLEAN:
                    node = node.child[LEFT]
                elif node.child[RIGHT].dirty != CLEAN:
                    node = node.child[RIGHT]
                else:
                    break
            self.fold_node(node)
            node.dirty = CLEAN
            node = node.parent

    # ------------------------------------------------------------------ chunks

    cdef int set_room(self, Chunk *chunk, int room) except -1 nogil:
        """Allocate room for this many slots in a chunk, or somewhat more."""
        if reserve(chunk, room) < 0:
            return out_of_memory()
        return 0

    cdef Chunk *relieve(self, Chunk *chunk, int slot, double score) except NULL nogil:
        """Make room for ``score`` at ``slot`` of a full chunk, or in a neighbour.

        Return the neighbour whose slots changed, too. A run of ascending or descending scores
        starts a new chunk at its end, so that it does not leave half-full chunks.
        """
        cdef Chunk *before = chunk.previous
        cdef Chunk *after = chunk.next
        cdef int n_before = SLOTS if before == NULL else before.size
        cdef int n_after = SLOTS if after == NULL else after.size
        if slot == chunk.size and after == NULL:
            return self.add_leaf(chunk, 1, score)
        if slot == 0 and before == NULL:
            return self.split(chunk, 0)
        if min(n_before, n_after) > CROWDED:
            return self.split(chunk, chunk.size // 2)
        if n_before < n_after:
            self.move_slots(before, chunk, -((chunk.size - n_before) // 2))
            return before
        self.move_slots(chunk, after, (chunk.size - n_after) // 2)
        return after

    cdef Chunk *split(self, Chunk *chunk, int slot) except NULL nogil:
        """Move the slots from ``slot`` on to a new chunk after ``chunk``; return the new chunk."""
        cdef int n = chunk.size - slot
        cdef Chunk *new = self.add_leaf(chunk, n + 1, chunk.slots[slot].score)
        self.move_slots(chunk, new, n)
        self.set_room(chunk, slot + 1)
        return new

    cdef int move_slots(self, Chunk *left, Chunk *right, int n) except -1 nogil:
        """Move the last ``n`` slots of a chunk to the next chunk, or the first -``n`` of that back.

        before    1 2 3 4 | 5 6
        n = 1     1 2 3 | 4 5 6
        n = -1    1 2 3 4 5 | 6
        """
        if n > 0:
            self.set_room(right, right.size + n + 1)
            memmove(&right.slots[n], right.slots, right.size * sizeof(Slot))
            memcpy(right.slots, &left.slots[left.size - n], n * sizeof(Slot))
        else:
            self.set_room(left, left.size - n + 1)
            memcpy(&left.slots[left.size], right.slots, -n * sizeof(Slot))
            memmove(right.slots, &right.slots[-n], (right.size + n) * sizeof(Slot))
        left.size -= n
        right.size += n
        if right.size > 0:
            set_key_between(left, right.slots[0].score)
        return 0

    cdef int join(self, Chunk *left, Chunk *right) except -1 nogil:
        """Move all slots of a chunk to the one before it, remove it, and fold."""
        self.move_slots(left, right, -right.size)
        if right.node.parent.child[LEFT] == &right.node:
            # Its sibling, on the right, would inherit its range of scores.
            set_key_between(left, right.node.parent.key)
        self.remove_leaf(right)
        return self.refold(left)

    # ------------------------------------------------------------------ tree

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
            self.last = new
        else:
            new.next.previous = new
        node.key = key
        self.replace_child(parent, &chunk.node, node)
        adopt(node, &chunk.node, &new.node)
        self.n_chunks += 1
        self.mark(node)
        self.rebalance(parent)
        return new

    cdef void remove_leaf(self, Chunk *chunk) noexcept nogil:
        """Remove a chunk, which must not be the only one; its sibling takes its parent's place."""
        cdef Node *node = chunk.node.parent
        cdef Node *sibling = node.child[node.child[LEFT] == &chunk.node]
        cdef Node *parent = node.parent
        if chunk.previous == NULL:
            self.first = chunk.next
        else:
            chunk.previous.next = chunk.next
        if chunk.next == NULL:
            self.last = chunk.previous
        else:
            chunk.next.previous = chunk.previous
        self.replace_child(parent, node, sibling)
        free(node)
        self.release_chunk(chunk)
        self.n_chunks -= 1
        self.mark(sibling)
        self.rebalance(parent)

    cdef void replace_child(self, Node *parent, Node *old, Node *new) noexcept nogil:
        """Replace the child ``old`` of ``parent`` (NULL: of the index) by ``new``."""
        new.parent = parent
        if parent == NULL:
            self.root = new
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

    # ------------------------------------------------------------------ all at once

    cdef int clear(self) except -1 nogil:
        """Make an empty index: one empty chunk is the root."""
        return self.rebuild(NULL, 0)

    cdef void copy_slots(self, Slot *out) noexcept nogil:
        """Write all slots in order; ``out`` has room for `n_scores`."""
        cdef Chunk *chunk = self.first
        while chunk != NULL:
            if chunk.size > 0:
                memcpy(out, chunk.slots, chunk.size * sizeof(Slot))
            out += chunk.size
            chunk = chunk.next

    cdef int rebuild(self, const Slot *slots, int64_t n) except -1 nogil:
        """Replace the content by these slots, sorted by score, in a balanced tree; O(n)."""
        cdef int64_t n_chunks = max(1, (n + FILL - 1) // FILL)
        cdef int64_t *shape = <int64_t *> malloc(2 * n_chunks * sizeof(int64_t))
        cdef double *keys = <double *> malloc(n_chunks * sizeof(double))
        cdef int64_t *shape_at = shape
        cdef double *keys_at = keys
        try:
            if shape == NULL or keys == NULL:
                out_of_memory()
            write_balanced(slots, n, 0, n_chunks, n_chunks, &shape_at, &keys_at)
            self.replace(shape, keys, slots, n > 0)
        finally:
            free(shape)
            free(keys)
        return 0

    cdef int replace(
        self, const int64_t *shape, const double *keys, const Slot *slots, bint fold
    ) except -1 nogil:
        """Replace the content by these slots, in the tree of `copy_tree`; also ``fold`` them.

        If memory runs out, nothing has changed.
        """
        cdef Content held = self.set_aside()
        cdef bint done = False
        try:
            self.build(shape, keys, slots)
            if fold:
                self.refold_all()
            done = True
        finally:
            self.conclude(held, done)
        return 0

    cdef int build(
        self, const int64_t *shape, const double *keys, const Slot *slots
    ) except -1 nogil:
        """Make chunks of these slots, and the tree of `copy_tree` over them; there is none yet."""
        cdef Chunk *chunk
        cdef Node *spare = NULL
        cdef int64_t n_open = 1, i = 0  # subtrees that are still to come
        while n_open > 0:
            if shape[i] == INNER:
                n_open += 1
            else:
                n_open -= 1
                chunk = self.make_chunk(<int> shape[i])
                chunk.size = <int> shape[i]
                if chunk.size > 0:  # an empty chunk has no slots to copy to
                    memcpy(chunk.slots, slots, chunk.size * sizeof(Slot))
                slots += chunk.size
                self.append(chunk)
            i += 1
        self.make_nodes(&spare, self.n_chunks - 1)
        chunk = self.first
        self.root = grown(&shape, &keys, &chunk, &spare)
        return 0

    cdef Content set_aside(self) noexcept nogil:
        """Detach the tree and all chunks, and return them."""
        cdef Content held = Content(
            root=self.root,
            first=self.first,
            last=self.last,
            n_scores=self.n_scores,
            n_chunks=self.n_chunks,
        )
        self.put_back(Content(root=NULL, first=NULL, last=NULL, n_scores=0, n_chunks=0))
        return held

    cdef void put_back(self, Content held) noexcept nogil:
        """Set tree and chunks to what `set_aside` returned."""
        self.root = held.root
        self.first, self.last = held.first, held.last
        self.n_scores, self.n_chunks = held.n_scores, held.n_chunks

    cdef void conclude(self, Content held, bint done) noexcept nogil:
        """Free the detached tree if its successor is ``done``, else restore it."""
        cdef Content stays = self.set_aside()
        if not done:
            held, stays = stays, held
        self.put_back(held)
        self.release_all()
        self.put_back(stays)

    # ------------------------------------------------------------------ memory

    cdef Chunk *make_chunk(self, int room) except NULL nogil:
        """Return a new chunk with room for this many slots; it is in no tree yet."""
        cdef Chunk *chunk = <Chunk *> calloc(1, self.chunk_bytes)
        if chunk == NULL or reserve(chunk, room) < 0:
            free(chunk)
            out_of_memory()
            return NULL
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
                    free(take(spare))
                return out_of_memory()
            node.parent = spare[0]
            spare[0] = node
        return 0

    cdef void append(self, Chunk *chunk) noexcept nogil:
        """Append a chunk after the last one; the caller puts it into the tree."""
        chunk.previous = self.last
        if self.last == NULL:
            self.first = chunk
        else:
            self.last.next = chunk
        self.last = chunk
        self.n_chunks += 1
        self.n_scores += chunk.size

    cdef void release_all(self) noexcept nogil:
        """Free all nodes and chunks."""
        cdef Chunk *chunk = self.first
        cdef Chunk *after
        if self.root != NULL:
            free_nodes(self.root)
        while chunk != NULL:
            after = chunk.next
            self.release_chunk(chunk)
            chunk = after
        self.put_back(Content(root=NULL, first=NULL, last=NULL, n_scores=0, n_chunks=0))

    cdef void release_chunk(self, Chunk *chunk) noexcept nogil:
        self.release_summary(chunk)
        free(chunk.slots)
        free(chunk)


cdef int out_of_memory() except -1 with gil:
    raise MemoryError


cdef int check_lengths(
    const double[::1] scores, const double[::1] labels, const double[::1] w
) except -1:
    """Raise unless scores, labels and weights have the same length."""
    if not scores.shape[0] == labels.shape[0] == w.shape[0]:
        raise ValueError(
            "scores, labels and weights must be as many,"
            f" got {scores.shape[0]}, {labels.shape[0]} and {w.shape[0]}"
        )
    return 0


# ---------------------------------------------------------------------- queue


cdef inline size_t sample_bytes(bint wide) noexcept nogil:
    return sizeof(Sample) if wide else sizeof(ShortSample)


cdef inline void put(void *queue, bint wide, int64_t i, const Sample *sample) noexcept nogil:
    """Set place ``i`` of a queue."""
    cdef ShortSample *at
    if wide:
        (<Sample *> queue)[i] = sample[0]
        return
    at = &(<ShortSample *> queue)[i]
    at.score, at.weight, at.sum = sample.score, <float> sample.weight, <float> sample.sum


# ---------------------------------------------------------------------- chunks


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


# ---------------------------------------------------------------------- trees


cdef void free_nodes(Node *node) noexcept nogil:
    """Free a node and the nodes below it, but not the chunks."""
    if not is_chunk(node):
        free_nodes(node.child[LEFT])
        free_nodes(node.child[RIGHT])
        free(node)


cdef inline Node *take(Node **spare) noexcept nogil:
    """Take a node from a list that `make_nodes` made."""
    cdef Node *node = spare[0]
    spare[0] = node.parent
    return node


cdef inline void adopt(Node *node, Node *left, Node *right) noexcept nogil:
    """Set the first children of a node."""
    node.child[LEFT], node.child[RIGHT] = left, right
    left.parent = right.parent = node
    node.leaves = left.leaves + right.leaves
    node.dirty = NEW


cdef void copy_tree(Node *node, int64_t **shape, double **keys) noexcept nogil:
    """Write a tree in preorder: the size of a chunk, or INNER for a node, whose key goes along."""
    if is_chunk(node):
        shape[0][0] = (<Chunk *> node).size
        shape[0] += 1
        return
    shape[0][0] = INNER
    shape[0] += 1
    keys[0][0] = node.key
    keys[0] += 1
    copy_tree(node.child[LEFT], shape, keys)
    copy_tree(node.child[RIGHT], shape, keys)


cdef void write_balanced(
    const Slot *slots,
    int64_t n_slots,
    int64_t chunk,
    int64_t n,
    int64_t n_chunks,
    int64_t **shape,
    double **keys,
) noexcept nogil:
    """Write a balanced tree of ``n`` chunks from ``chunk`` on as `copy_tree` does.

    All ``n_chunks`` share the slots evenly: chunk i starts at slot i * n_slots // n_chunks.
    """
    cdef int64_t half = n // 2
    if n == 1:
        shape[0][0] = (chunk + 1) * n_slots // n_chunks - chunk * n_slots // n_chunks
        shape[0] += 1
        return
    shape[0][0] = INNER
    shape[0] += 1
    keys[0][0] = slots[(chunk + half) * n_slots // n_chunks].score
    keys[0] += 1
    write_balanced(slots, n_slots, chunk, half, n_chunks, shape, keys)
    write_balanced(slots, n_slots, chunk + half, n - half, n_chunks, shape, keys)


cdef Node *grown(
    const int64_t **shape, const double **keys, Chunk **next, Node **spare
) noexcept nogil:
    """Return the tree of `copy_tree`, made of the next chunks and unused nodes."""
    cdef Chunk *chunk = next[0]
    cdef Node *node
    cdef Node *left
    cdef int64_t part = shape[0][0]
    shape[0] += 1
    if part != INNER:
        next[0] = chunk.next
        return &chunk.node
    node = take(spare)
    node.parent = NULL
    node.key = keys[0][0]
    keys[0] += 1
    left = grown(shape, keys, next, spare)
    adopt(node, left, grown(shape, keys, next, spare))
    return node


# ---------------------------------------------------------------------- checks


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
