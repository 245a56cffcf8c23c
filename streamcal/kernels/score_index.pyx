"""An ordered index of distinct scores: chunks of sorted slots under a weight-balanced tree.

A stream brings scores in any order and takes them back in any order. Every structure that this
library keeps exact on such a stream is a summary, folded up a balanced tree over the scores in
order. This file keeps the order, the memory and the window's queue. It knows nothing of summaries;
`streamcal.kernels.hull` folds the staircase. Five scores in two chunks:

                  node (key .6)
                 /             \\
      chunk .1 .4 .5   <-->   chunk .6 .9

*Slots.* A distinct score takes one slot: the score, two sums of the owner, such as the weights and
the weighted labels of what was learned at it, and the number of its samples. The number decides
when a slot is empty, because a sum of floats from which everything was taken back need not be 0.

*Chunks.* Up to `SLOTS` slots lie side by side in a chunk, sorted. A full chunk first evens out with
a neighbour that has room, and splits in two otherwise. An empty chunk leaves the tree, a sparse one
joins a neighbour.

*Tree.* Chunks are the leaves of a binary tree that rotations keep in balance (Adams 1993,
"Efficient sets: a balancing act": no child outweighs its sibling more than `DELTA` times, weights
counted in leaves). Scores at or above a node's key live on its right. A chunk is a node without
children.

*Summaries.* The owner asks for room behind each node and each chunk (`node_bytes`, `chunk_bytes`)
and fills it in `fold_chunk` and `fold_node`. A change marks all ancestors of a chunk as dirty;
`fold_dirty` folds dirty nodes, children first.

*Memory.* Nodes, chunks and slots are allocated one by one, so that an index of few scores is small.
Each function allocates what it needs before it changes anything.
"""

from libc.math cimport INFINITY
from libc.stdlib cimport calloc, free, realloc
from libc.string cimport memcpy, memmove

cpdef enum:
    # No child outweighs its sibling more than DELTA times; GAMMA decides between a single and a
    # double rotation. The pair is proven valid (Hirai & Yamamoto 2011).
    DELTA = 3
    GAMMA = 2
    INNER = -1  # a node in the shape of a tree

cdef enum:
    ROOM_STEP = 16  # slots that a chunk grows by
    FILL = 96  # slots of a chunk in an index that is built at once
    FIRST_QUEUE = 8


cdef class ScoreIndex:
    """Scores in order. A subclass sets the sizes of summaries, then calls `clear`."""

    def __dealloc__(self):
        self.release_all()
        free(self.queue)

    def __sizeof__(self):
        """Return how many bytes this object and all it owns take."""
        cdef size_t n = (<object> type(self)).__basicsize__
        cdef Chunk *chunk = self.first
        n += max(self.n_chunks - 1, 0) * self.node_bytes + self.n_chunks * self.chunk_bytes
        while chunk != NULL:
            n += chunk.room * sizeof(Slot) + self.summary_bytes(chunk)
            chunk = chunk.next
        return n + self.queue_room * sizeof(Queued)

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

    # ------------------------------------------------------------------ what an owner defines

    cdef int fold_chunk(self, Chunk *chunk, double score) except -1 nogil:
        """Renew the summary of a chunk in which only the slot of ``score`` has changed.

        With a score of minus infinity all of it has.
        """
        return 0

    cdef void fold_node(self, Node *node) noexcept nogil:
        """Renew the summary of a node from those of its children."""

    cdef void release_summary(self, Chunk *chunk) noexcept nogil:
        """Free what the summary of a chunk holds outside of it."""

    cdef size_t summary_bytes(self, Chunk *chunk) noexcept nogil:
        """Return how many bytes the summary of a chunk holds outside of it."""
        return 0

    # ------------------------------------------------------------------ memory

    cdef int clear(self) except -1 nogil:
        """Make an empty index: one empty chunk is the root."""
        return self.rebuild(NULL, 0)

    cdef void release_all(self) noexcept nogil:
        """Free all nodes and chunks."""
        cdef Chunk *chunk = self.first
        cdef Chunk *after
        if self.root != NULL:
            free_nodes(self.root)
        while chunk != NULL:
            after = chunk.next
            self.free_chunk(chunk)
            chunk = after
        self.root = NULL
        self.first = self.last = NULL
        self.n_scores = self.n_chunks = 0

    cdef Chunk *make_chunk(self, int room) except NULL nogil:
        """Return a new chunk with room for so many slots; it is in no tree yet."""
        cdef Chunk *chunk = <Chunk *> calloc(1, self.chunk_bytes)
        if chunk == NULL:
            out_of_memory()
            return NULL
        chunk.node.leaves = 1
        if reserve(chunk, room) < 0:
            free(chunk)
            out_of_memory()
            return NULL
        return chunk

    cdef Node *make_node(self) except NULL nogil:
        """Return a new node; it is in no tree yet."""
        cdef Node *node = <Node *> calloc(1, self.node_bytes)
        if node == NULL:
            out_of_memory()
        return node

    cdef void free_chunk(self, Chunk *chunk) noexcept nogil:
        self.release_summary(chunk)
        free(chunk.slots)
        free(chunk)

    cdef int set_room(self, Chunk *chunk, int room) except -1 nogil:
        """Give a chunk room for so many slots, or somewhat more."""
        if reserve(chunk, room) < 0:
            out_of_memory()
            return -1
        return 0

    # ------------------------------------------------------------------ finding

    cdef Chunk *find_chunk(self, double score) noexcept nogil:
        """Return the chunk whose range of keys holds ``score``; O(log n)."""
        cdef Node *node = self.root
        while not is_chunk(node):
            node = node.right if score >= node.key else node.left
        return <Chunk *> node

    cdef Slot *find(self, double score) noexcept nogil:
        """Return the slot of a score, NULL where it has none."""
        cdef Chunk *chunk = self.find_chunk(score)
        cdef int slot = find_slot(chunk, score)
        return &chunk.slots[slot] if holds(chunk, slot, score) else NULL

    # ------------------------------------------------------------------ summaries

    cdef void mark(self, Node *child) noexcept nogil:
        """Mark the ancestors of a child as dirty on its side."""
        cdef Node *node = child.parent
        cdef int bit
        while node != NULL:
            bit = LEFT_DIRTY if node.left == child else RIGHT_DIRTY
            if node.dirty & bit:
                return
            node.dirty |= bit
            child = node
            node = node.parent

    cdef int refold(self, Chunk *chunk) except -1 nogil:
        """Fold a chunk from scratch and mark its ancestors."""
        self.mark(&chunk.node)
        return self.fold_chunk(chunk, -INFINITY)

    cdef void fold_dirty(self) noexcept nogil:
        """Fold all dirty nodes, children first."""
        cdef Node *node = self.root
        if node.dirty == CLEAN:
            return
        while node != NULL:
            while True:
                if node.left.dirty != CLEAN:
                    node = node.left
                elif node.right.dirty != CLEAN:
                    node = node.right
                else:
                    break
            self.fold_node(node)
            node.dirty = CLEAN
            node = node.parent

    # ------------------------------------------------------------------ slots

    cdef int add(self, double score, double w, double s) except -1 nogil:
        """Add a sample's sums to the slot of its score, and fold its chunk; O(log n)."""
        cdef Chunk *chunk = NULL
        cdef Chunk *other = NULL
        cdef Slot *slot = self.open(score, &chunk, &other)
        slot.weight += w
        slot.sum += s
        slot.n += 1
        if other == NULL:
            self.mark(&chunk.node)
            return self.fold_chunk(chunk, score)
        self.refold(chunk)
        return self.refold(other)

    cdef Slot *open(self, double score, Chunk **at, Chunk **other) except NULL nogil:
        """Return the slot of a score, a new and empty one where there is none; O(log n).

        ``at`` is set to its chunk. Where a full chunk was relieved, ``other`` is set to the second
        chunk whose slots have changed.
        """
        cdef Chunk *chunk = self.find_chunk(score)
        cdef int i = find_slot(chunk, score)
        cdef Chunk *neighbour
        at[0] = chunk
        if holds(chunk, i, score):
            return &chunk.slots[i]
        if chunk.size == SLOTS:
            neighbour = self.make_room(chunk, i, score)
            at[0] = self.find_chunk(score)
            other[0] = chunk if at[0] == neighbour else neighbour
            chunk = at[0]
            i = find_slot(chunk, score)
        if chunk.size == chunk.room:
            self.set_room(chunk, chunk.size + 1)
        memmove(&chunk.slots[i + 1], &chunk.slots[i], (chunk.size - i) * sizeof(Slot))
        chunk.slots[i].score = score
        chunk.slots[i].weight = chunk.slots[i].sum = 0.0
        chunk.slots[i].n = 0
        chunk.size += 1
        self.n_scores += 1
        return &chunk.slots[i]

    cdef int close(self, double score) except -1 nogil:
        """Remove the slot of a score that has one, and fold what has changed; O(log n)."""
        cdef Chunk *chunk = self.find_chunk(score)
        cdef int i = find_slot(chunk, score)
        cdef bint joined = False
        chunk.size -= 1
        memmove(&chunk.slots[i], &chunk.slots[i + 1], (chunk.size - i) * sizeof(Slot))
        self.n_scores -= 1
        chunk = self.settle(chunk, &joined)
        if chunk == NULL:
            return 0
        if joined:
            return self.refold(chunk)
        if chunk.room - chunk.size > 3 * ROOM_STEP:
            self.set_room(chunk, chunk.size + ROOM_STEP)
        self.mark(&chunk.node)
        return self.fold_chunk(chunk, score)

    # ------------------------------------------------------------------ chunks

    cdef Chunk *make_room(self, Chunk *chunk, int slot, double score) except NULL nogil:
        """Relieve a full chunk before ``score`` enters it at ``slot``.

        Return the neighbour whose slots changed as well. A run of ascending or descending scores
        starts a fresh chunk at its end instead of leaving half-full ones behind.
        """
        cdef Chunk *before = chunk.previous
        cdef Chunk *after = chunk.next
        cdef int n_before = SLOTS, n_after = SLOTS, n
        if slot == chunk.size and after == NULL:
            return self.add_leaf(chunk, 1, score)
        if slot == 0 and before == NULL:
            return self.split(chunk, 0)
        if before != NULL:
            n_before = before.size
        if after != NULL:
            n_after = after.size
        if min(n_before, n_after) > SLOTS * 3 // 4:
            return self.split(chunk, chunk.size // 2)
        if n_before < n_after:
            n = (chunk.size - n_before) // 2
            self.set_room(before, n_before + n + 1)
            memcpy(&before.slots[n_before], chunk.slots, n * sizeof(Slot))
            before.size += n
            chunk.size -= n
            memmove(chunk.slots, &chunk.slots[n], chunk.size * sizeof(Slot))
            set_key_behind(before, chunk.slots[0].score)
            return before
        n = (chunk.size - n_after) // 2
        self.set_room(after, n_after + n + 1)
        memmove(&after.slots[n], after.slots, n_after * sizeof(Slot))
        chunk.size -= n
        memcpy(after.slots, &chunk.slots[chunk.size], n * sizeof(Slot))
        after.size += n
        set_key_behind(chunk, after.slots[0].score)
        return after

    cdef Chunk *split(self, Chunk *chunk, int slot) except NULL nogil:
        """Move the slots from ``slot`` on into a new chunk behind ``chunk``; return that."""
        cdef int n = chunk.size - slot
        cdef Chunk *new = self.add_leaf(chunk, n + 1, chunk.slots[slot].score)
        memcpy(new.slots, &chunk.slots[slot], n * sizeof(Slot))
        new.size = n
        chunk.size = slot
        self.set_room(chunk, slot + 1)
        return new

    cdef Chunk *settle(self, Chunk *chunk, bint *joined) except? NULL nogil:
        """Unhook a chunk that became empty, or join one that became sparse to a neighbour.

        Return the chunk that holds the slots now, NULL where there are none.
        """
        cdef Chunk *before = chunk.previous
        cdef Chunk *after = chunk.next
        cdef Chunk *sparse
        if before == NULL and after == NULL:
            return chunk
        if chunk.size == 0:
            self.remove_leaf(chunk)
            return NULL
        if chunk.size >= SLOTS // 4:
            return chunk
        if before != NULL and fit_together(before, chunk):
            sparse, chunk = chunk, before
        elif after != NULL and fit_together(chunk, after):
            sparse = after
        else:
            return chunk
        self.set_room(chunk, chunk.size + sparse.size)
        self.join(chunk, sparse)
        joined[0] = True
        return chunk

    cdef void join(self, Chunk *chunk, Chunk *after) noexcept nogil:
        """Move the slots of ``after`` behind those of ``chunk`` and unhook it."""
        memcpy(&chunk.slots[chunk.size], after.slots, after.size * sizeof(Slot))
        chunk.size += after.size
        if after.node.parent.left == &after.node:
            # Its sibling, on the right, would inherit its range of scores.
            set_key_behind(chunk, after.node.parent.key)
        self.remove_leaf(after)

    # ------------------------------------------------------------------ tree

    cdef Chunk *add_leaf(self, Chunk *chunk, int room, double key) except NULL nogil:
        """Hook a new chunk in right behind another; scores from ``key`` on belong to it."""
        cdef Node *parent = chunk.node.parent
        cdef Node *node = self.make_node()
        cdef Chunk *new = <Chunk *> calloc(1, self.chunk_bytes)
        if new == NULL or reserve(new, room) < 0:
            free(node)
            free(new)
            out_of_memory()
            return NULL
        new.node.leaves = 1
        new.previous = chunk
        new.next = chunk.next
        chunk.next = new
        if new.next == NULL:
            self.last = new
        else:
            new.next.previous = new
        node.left = &chunk.node
        node.right = &new.node
        node.parent = parent
        node.leaves = 2
        node.dirty = NEW
        node.key = key
        self.replace_child(parent, &chunk.node, node)
        chunk.node.parent = new.node.parent = node
        self.n_chunks += 1
        self.mark(node)
        self.rebalance(parent)
        return new

    cdef void remove_leaf(self, Chunk *chunk) noexcept nogil:
        """Unhook a chunk, which must not be the only one, and free it with its parent."""
        cdef Node *node = chunk.node.parent
        cdef Node *sibling = node.left if node.right == &chunk.node else node.right
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
        sibling.parent = parent
        free(node)
        self.free_chunk(chunk)
        self.n_chunks -= 1
        self.mark(sibling)
        self.rebalance(parent)

    cdef void replace_child(self, Node *parent, Node *old, Node *new) noexcept nogil:
        """Put ``new`` where ``parent`` (the index itself when NULL) had the child ``old``."""
        if parent == NULL:
            self.root = new
        elif parent.left == old:
            parent.left = new
        else:
            parent.right = new

    cdef void rebalance(self, Node *node) noexcept nogil:
        """Restore leaf counts and balance from a node up to the root."""
        cdef Node *left
        cdef Node *right
        while node != NULL:
            left, right = node.left, node.right
            node.leaves = left.leaves + right.leaves
            if right.leaves > DELTA * left.leaves:
                if right.left.leaves >= GAMMA * right.right.leaves:
                    self.rotate_right(right)
                node = self.rotate_left(node)
            elif left.leaves > DELTA * right.leaves:
                if left.right.leaves >= GAMMA * left.left.leaves:
                    self.rotate_left(left)
                node = self.rotate_right(node)
            node = node.parent

    cdef Node *rotate_left(self, Node *node) noexcept nogil:
        """Turn a node down to the left; its right child takes its place and is returned."""
        cdef Node *top = node.right
        node.right = top.left
        node.right.parent = node
        top.left = node
        self.replace_child(node.parent, node, top)
        turned(node, top)
        return top

    cdef Node *rotate_right(self, Node *node) noexcept nogil:
        """Turn a node down to the right; its left child takes its place and is returned."""
        cdef Node *top = node.left
        node.left = top.right
        node.left.parent = node
        top.right = node
        self.replace_child(node.parent, node, top)
        turned(node, top)
        return top

    # ------------------------------------------------------------------ all at once

    cdef void copy_slots(self, Slot *out) noexcept nogil:
        """Write all slots in order; ``out`` has room for `n_scores`."""
        cdef Chunk *chunk = self.first
        while chunk != NULL:
            if chunk.size > 0:
                memcpy(out, chunk.slots, chunk.size * sizeof(Slot))
            out += chunk.size
            chunk = chunk.next

    cdef int rebuild(self, const Slot *slots, int64_t n) except -1 nogil:
        """Hold these slots, sorted by score, instead, in a balanced tree; O(n)."""
        cdef Content held = self.set_aside()
        cdef Chunk *chunk
        cdef Node *spare = NULL
        cdef int64_t n_chunks = max(1, (n + FILL - 1) // FILL), i, start
        cdef bint done = False
        try:
            for i in range(n_chunks):
                start = i * n // n_chunks
                self.append(&slots[start], <int> ((i + 1) * n // n_chunks - start))
            self.make_nodes(&spare, n_chunks - 1)
            chunk = self.first
            self.root = balanced(&chunk, &spare, n_chunks)
            chunk = self.first if n > 0 else NULL
            while chunk != NULL:
                self.refold(chunk)
                chunk = chunk.next
            done = True
        finally:
            self.conclude(held, done)
        self.fold_dirty()
        return 0

    cdef int grow(
        self,
        const int64_t *shape,
        int64_t n_parts,
        const double *keys,
        const Slot *slots,
    ) except -1 nogil:
        """Hold these slots in the tree that `copy_tree` wrote instead; nothing is folded."""
        cdef Content held = self.set_aside()
        cdef Chunk *chunk
        cdef Node *spare = NULL
        cdef int64_t i
        cdef bint done = False
        try:
            for i in range(n_parts):
                if shape[i] != INNER:
                    self.append(slots, <int> shape[i])
                    slots += shape[i]
            self.make_nodes(&spare, self.n_chunks - 1)
            chunk = self.first
            self.root = grown(&shape, &keys, &chunk, &spare)
            done = True
        finally:
            self.conclude(held, done)
        return 0

    cdef int append(self, const Slot *slots, int n) except -1 nogil:
        """Put a chunk of these slots behind the last one; the tree is the caller's."""
        cdef Chunk *chunk = self.make_chunk(n)
        if n > 0:  # an empty chunk has no slots to copy to
            memcpy(chunk.slots, slots, n * sizeof(Slot))
        chunk.size = n
        chunk.previous = self.last
        if self.last == NULL:
            self.first = chunk
        else:
            self.last.next = chunk
        self.last = chunk
        self.n_chunks += 1
        self.n_scores += n
        return 0

    cdef int make_nodes(self, Node **spare, int64_t n) except -1 nogil:
        """Make a list of ``n`` nodes, linked by ``parent``; all or none."""
        cdef int64_t i
        cdef Node *node
        for i in range(n):
            node = <Node *> calloc(1, self.node_bytes)
            if node == NULL:
                while spare[0] != NULL:
                    take(spare, &node)
                    free(node)
                return out_of_memory()
            node.parent = spare[0]
            spare[0] = node
        return 0

    cdef Content set_aside(self) noexcept nogil:
        """Take out the tree and all chunks, and return them."""
        cdef Content held = Content(
            root=self.root,
            first=self.first,
            last=self.last,
            n_scores=self.n_scores,
            n_chunks=self.n_chunks,
        )
        self.root = NULL
        self.first = self.last = NULL
        self.n_scores = self.n_chunks = 0
        return held

    cdef void conclude(self, Content held, bint done) noexcept nogil:
        """Free what was set aside if its successor is ``done``, else put it back."""
        cdef Content stays = self.set_aside()
        if not done:
            held, stays = stays, held
        self.put_back(held)
        self.release_all()
        self.put_back(stays)

    cdef void put_back(self, Content held) noexcept nogil:
        """Hold what `set_aside` returned."""
        self.root = held.root
        self.first, self.last = held.first, held.last
        self.n_scores, self.n_chunks = held.n_scores, held.n_chunks

    # ------------------------------------------------------------------ the window's queue

    cdef int push(self, double score, double w, double s) except -1 nogil:
        """Append a sample to the queue."""
        cdef Queued *at
        cdef Queued *queue
        cdef int64_t room, i
        if self.queue_size == self.queue_room:
            room = max(FIRST_QUEUE, self.queue_size + self.queue_size // 2)
            queue = <Queued *> calloc(room, sizeof(Queued))
            if queue == NULL:
                out_of_memory()
                return -1
            for i in range(self.queue_size):
                queue[i] = self.queued(i)[0]
            free(self.queue)
            self.queue = queue
            self.queue_start = 0
            self.queue_room = room
        self.queue_size += 1
        at = self.queued(self.queue_size - 1)
        at.score = score
        at.weight = w
        at.sum = s
        return 0

    cdef Queued pop(self) noexcept nogil:
        """Take the oldest sample from the queue."""
        cdef Queued oldest = self.queue[self.queue_start]
        self.queue_start += 1
        if self.queue_start == self.queue_room:
            self.queue_start = 0
        self.queue_size -= 1
        return oldest

    cdef Queued *queued(self, int64_t i) noexcept nogil:
        """Return the ``i``-th oldest sample of the queue."""
        i += self.queue_start
        return &self.queue[i if i < self.queue_room else i - self.queue_room]


cdef int out_of_memory() except -1 with gil:
    raise MemoryError


cdef int reserve(Chunk *chunk, int room) noexcept nogil:
    """Give a chunk room for so many slots, or somewhat more; -1 where there is no memory for it."""
    cdef Slot *slots
    room = (room + ROOM_STEP - 1) // ROOM_STEP * ROOM_STEP
    if room != chunk.room and room > 0:
        slots = <Slot *> realloc(chunk.slots, room * sizeof(Slot))
        if slots == NULL:
            return -1
        chunk.slots = slots
        chunk.room = room
    return 0


cdef void free_nodes(Node *node) noexcept nogil:
    """Free a node and the nodes below it, but not the chunks."""
    if not is_chunk(node):
        free_nodes(node.left)
        free_nodes(node.right)
        free(node)


cdef void take(Node **spare, Node **node) noexcept nogil:
    """Take a node from a list that `make_nodes` made."""
    node[0] = spare[0]
    spare[0] = node[0].parent


cdef Node *balanced(Chunk **next, Node **spare, int64_t n) noexcept nogil:
    """Return a balanced tree of the next ``n`` chunks, made of spare nodes; all is to be folded."""
    cdef Chunk *chunk = next[0]
    cdef Node *node
    if n == 1:
        next[0] = chunk.next
        return &chunk.node
    take(spare, &node)
    node.left = balanced(next, spare, n // 2)
    node.key = next[0].slots[0].score
    node.right = balanced(next, spare, n - n // 2)
    node.parent = NULL
    node.left.parent = node.right.parent = node
    node.leaves = <int> n
    node.dirty = NEW
    return node


cdef Node *grown(
    const int64_t **shape, const double **keys, Chunk **next, Node **spare
) noexcept nogil:
    """Return the tree that `copy_tree` wrote, made of the next chunks and of spare nodes."""
    cdef Chunk *chunk = next[0]
    cdef Node *node
    cdef int64_t part = shape[0][0]
    shape[0] += 1
    if part != INNER:
        next[0] = chunk.next
        return &chunk.node
    take(spare, &node)
    node.key = keys[0][0]
    keys[0] += 1
    node.left = grown(shape, keys, next, spare)
    node.right = grown(shape, keys, next, spare)
    node.parent = NULL
    node.left.parent = node.right.parent = node
    node.leaves = node.left.leaves + node.right.leaves
    return node


cdef void set_key_behind(Chunk *chunk, double key) noexcept nogil:
    """Set the key that separates a chunk from the next one."""
    cdef Node *child = &chunk.node
    cdef Node *node = child.parent
    while node.left != child:
        child = node
        node = node.parent
    node.key = key


cdef bint fit_together(Chunk *chunk, Chunk *after) noexcept nogil:
    """Return whether two chunks fill at most five eighths of one."""
    return chunk.size + after.size <= SLOTS * 5 // 8


cdef void turned(Node *node, Node *top) noexcept nogil:
    """Bring parents, leaf counts and marks up to date after ``top`` has risen above ``node``."""
    top.parent = node.parent
    node.parent = top
    top.leaves = node.leaves
    node.leaves = node.left.leaves + node.right.leaves
    node.dirty |= NEW
    top.dirty |= NEW


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
    copy_tree(node.left, shape, keys)
    copy_tree(node.right, shape, keys)


cdef int ensure(bint holds, str what) except -1:
    """Raise an ``AssertionError`` of ``what`` unless it holds."""
    if not holds:
        raise AssertionError(what)
    return 0


cdef int check_node(Node *node, double low, double high) except -1:
    """Check a node whose scores must lie in [low, high)."""
    cdef Chunk *chunk
    if is_chunk(node):
        chunk = <Chunk *> node
        ensure(node.right == NULL and node.leaves == 1 and node.dirty == CLEAN, "a chunk is no leaf")
        if chunk.size > 0:
            ensure(low <= chunk.slots[0].score, "a chunk starts below its key")
            ensure(chunk.slots[chunk.size - 1].score < high, "a chunk ends above its key")
        return 0
    ensure(node.left.parent == node and node.right.parent == node, "a child has a wrong parent")
    ensure(node.dirty == CLEAN, "a node is dirty")
    ensure(node.leaves == node.left.leaves + node.right.leaves, "a node miscounts its leaves")
    ensure(node.left.leaves <= DELTA * node.right.leaves, "a node is out of balance")
    ensure(node.right.leaves <= DELTA * node.left.leaves, "a node is out of balance")
    ensure(low < node.key < high, "keys are out of order")
    check_node(node.left, low, node.key)
    return check_node(node.right, node.key, high)


cdef Chunk *next_leaf(Node *root, Chunk *chunk) noexcept nogil:
    """Return the leaf behind a chunk in the tree, the first one behind NULL."""
    cdef Node *node = root
    if chunk != NULL:
        node = &chunk.node
        while node.parent != NULL and node.parent.right == node:
            node = node.parent
        if node.parent == NULL:
            return NULL
        node = node.parent.right
    while not is_chunk(node):
        node = node.left
    return <Chunk *> node
