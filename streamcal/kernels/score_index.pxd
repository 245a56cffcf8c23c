cimport cython
from libc.stdint cimport int64_t

from streamcal.kernels.clock cimport Clock
from streamcal.kernels.exclusive cimport Shared


cpdef enum:
    SLOTS = 128  # slots in a chunk at most; less would refuse old states (`check_index`)


cdef enum:
    AHEAD = 8  # samples of a batch whose way is fetched at once


cdef enum:
    LEFT = 0  # sides of a node; a function that takes a side mirrors what it does
    RIGHT = 1


cdef enum:  # bits of a node that is to be folded
    CLEAN = 0
    LEFT_CHANGED = 1 << LEFT
    RIGHT_CHANGED = 1 << RIGHT
    NEW = 4  # the node has other children than before


cdef struct Slot:
    double score
    double weight
    double sum
    int64_t n


cdef struct Node:
    Node *parent
    Node *child[2]  # NULL in a chunk
    double key  # scores from here on are on the right
    int leaves
    int dirty


cdef struct Chunk:  # a leaf: the node comes first, so that a chunk can be cast to one
    Node node
    Chunk *previous
    Chunk *next
    Slot *slots
    int size
    int room


cdef struct Place:
    Chunk *chunk
    Slot *slot
    Chunk *other  # the neighbour that slots were moved from or to, or NULL


cdef struct Tree:
    Node *root
    Chunk *first  # the chunks in order are a linked list
    Chunk *last
    int64_t n_scores
    int64_t n_chunks


cdef struct WrittenTree:  # see *Written* in the module; or what is left of it
    int64_t *shape
    double *keys


cdef struct Sample:
    double score
    double weight  # 0 marks a cancelled sample, where one can be cancelled
    double sum


cdef struct ShortSample:
    double score
    float weight
    float sum


cdef struct Aging:
    Clock clock
    double window  # in seconds; 0: none


cdef class ScoreIndex(Shared):
    cdef bint changing
    cdef bint wide  # whether the queue has a Sample in each place, else a ShortSample
    cdef readonly int64_t window
    cdef Aging *aging  # of an index that forgets by time, else NULL
    cdef readonly double rate
    cdef readonly double growth
    cdef double largest_growth
    cdef readonly int64_t n_samples

    cdef Tree tree
    cdef size_t node_bytes  # of a Node, or a Chunk, and of the summary behind it
    cdef size_t chunk_bytes

    cdef void *queue
    cdef int64_t queue_start
    cdef readonly int64_t queue_size
    cdef int64_t queue_room

    # What a subclass defines: summaries,
    cdef int fold_chunk(self, Chunk *chunk, double score) except -1 nogil
    cdef void fold_node(self, Node *node) noexcept nogil
    cdef void release_summary(self, Chunk *chunk) noexcept nogil
    cdef size_t summary_bytes(self, Chunk *chunk) noexcept nogil
    cdef void prefetch_summary(self, Chunk *chunk) noexcept nogil
    # which samples it learns and what its sums are made of,
    cdef bint refuses(self, double score, double label, double w) noexcept nogil
    cdef Sample as_sample(self, double score, double label, double w) noexcept nogil
    cdef int prepare(self, double score) except -1 nogil
    cdef int add(self, const Sample *sample) except -1 nogil
    cdef int remove(self, const Sample *sample) except -1 nogil
    cdef bint may_hold(self, const Slot *slot, const Sample *sample) noexcept nogil
    cdef double slack_of(self, const Sample *sample) noexcept nogil
    cdef void finish(self) noexcept nogil
    # what scaling leaves of them,
    cdef bint scale_slot(self, Slot *slot, double factor) noexcept nogil
    cdef void scale_sample(self, Sample *sample, double factor) noexcept nogil
    cdef bint vanishes(self, const Sample *sample) noexcept nogil
    # and what is written and read: see *State* in the module.
    cdef tuple settings(self)
    cdef dict numbers(self)
    cdef dict arrays(self)
    cdef object queued_times(self)
    cdef dict slots(self)
    cdef int read_sums(self, dict arrays, Slot *slots) except -1

    cdef int check_whole(self) except -1 nogil
    cdef int start_change(self) except -1 nogil
    cdef bint learn_sample(self, double score, double label, double w, double t) except -1 nogil
    cdef bint holds_sample(
        self, double score, double label, double w, Sample *sample, int64_t *at
    ) except -1 nogil
    cdef bint unlearn_sample(self, double score, double label, double w) except -1 nogil
    cdef int forget_oldest(self) except -1 nogil
    cdef int limit_growth(self, double rate) except -1 nogil
    cdef int set_aging(self, double half_life, double time_window) except -1
    cdef tuple aging_settings(self)
    cdef void set_now(self, dict numbers)
    cdef bint has_time_window(self) noexcept nogil
    cdef double *time_at(self, int64_t i) noexcept nogil
    cdef double rate_until(self, double t) noexcept nogil
    cdef void set_clock(self, double t) noexcept nogil
    cdef int scale_down(self, double factor) except -1 nogil
    cdef void uncount_vanishing(self, Slot *slots, int64_t n, double factor) noexcept nogil

    cdef int push(self, double score, double w, double s, double t) except -1 nogil
    cdef Sample pop(self) noexcept nogil
    cdef Sample queued(self, int64_t i) noexcept nogil
    cdef void set_queued(self, int64_t i, const Sample *sample) noexcept nogil
    cdef int64_t find_queued(self, const Sample *sample) noexcept nogil
    cdef void cancel_queued(self, int64_t i) noexcept nogil
    cdef int set_queue(self, int64_t room, bint wide) except -1 nogil

    cdef Chunk *find_chunk(self, double score) noexcept nogil
    cdef Slot *find(self, double score) noexcept nogil
    cdef void prefetch_chunks(self, const double *scores, int64_t n) noexcept nogil
    cdef bint locate(self, double score, Place *place) noexcept nogil

    cdef int insert_slot(self, double score, Place *place) except -1 nogil
    cdef int remove_slot(self, Place *place) except -1 nogil
    cdef int fold_place(self, const Place *place) except -1 nogil

    cdef void mark_ancestors(self, Node *child) noexcept nogil
    cdef int refold(self, Chunk *chunk) except -1 nogil
    cdef int refold_all(self) except -1 nogil
    cdef void fold_dirty(self) noexcept nogil

    cdef int set_room(self, Chunk *chunk, int room) except -1 nogil
    cdef Chunk *split_or_shift(self, Chunk *chunk, int slot, double score) except NULL nogil
    cdef Chunk *split_chunk(self, Chunk *chunk, int slot) except NULL nogil
    cdef int move_slots(self, Chunk *left, Chunk *right, int n, int side) except -1 nogil
    cdef int merge_chunks(self, Chunk *left, Chunk *right) except -1 nogil

    cdef Chunk *add_leaf(self, Chunk *chunk, int room, double key) except NULL nogil
    cdef void remove_leaf(self, Chunk *chunk) noexcept nogil
    cdef void replace_child(self, Node *parent, Node *old, Node *new) noexcept nogil
    cdef void rebalance(self, Node *node) noexcept nogil
    cdef Node *rotate(self, Node *node, int side) noexcept nogil

    cdef int clear(self) except -1 nogil
    cdef void copy_slots(self, Slot *out) noexcept nogil
    cdef int rebuild(self, const Slot *slots, int64_t n) except -1 nogil
    cdef int restore_slots(self, dict arrays, bint fold) except -1
    cdef int replace(self, WrittenTree written, const Slot *slots, bint fold) except -1 nogil
    cdef int build(self, Tree *tree, WrittenTree written, const Slot *slots) except -1 nogil

    cdef Chunk *make_chunk(self, int room) except NULL nogil
    cdef int make_nodes(self, Node **spare, int64_t n) except -1 nogil
    cdef void release_tree(self, Tree *tree) noexcept nogil
    cdef void release_chunk(self, Chunk *chunk) noexcept nogil


cdef inline bint is_chunk(Node *node) noexcept nogil:
    return node.child[LEFT] == NULL


cdef inline void *summary_of(Node *node) noexcept nogil:
    """Return the summary behind a node or a chunk."""
    return <void *> (<Chunk *> node + 1) if is_chunk(node) else <void *> (node + 1)


cdef inline int64_t first_from(const Slot *slots, int64_t n, double score) noexcept nogil:
    """Return the first of ``n`` slots whose score is at least ``score``, or n."""
    cdef int64_t low = 0, high = n, middle
    while low < high:
        middle = (low + high) >> 1
        if slots[middle].score < score:
            low = middle + 1
        else:
            high = middle
    return low


cdef inline int find_slot(Chunk *chunk, double score) noexcept nogil:
    """Return the first slot of a chunk whose score is at least ``score``."""
    return <int> first_from(chunk.slots, chunk.size, score)


cdef inline bint holds(Chunk *chunk, int slot, double score) noexcept nogil:
    return slot < chunk.size and chunk.slots[slot].score == score


cdef inline bint has_vanished(double w) noexcept nogil:
    """Return whether a weight is nothing beside that of a new sample, about 1."""
    return w < 2.0**-400


cdef inline bint lost_digits(double left, double taken) noexcept nogil:
    """Return whether so little is left of a sum that digits of it were lost."""
    return left < 1e-6 * taken


cdef inline double tolerance(double x) noexcept nogil:
    """Return by how much two sums of size ``x`` may differ and still count as the same."""
    return 1e-9 * x


cdef int check_slots_and_tree(
    const double[::1] scores,
    const int64_t[::1] counts,
    const int64_t[::1] shape,
    const double[::1] keys,
) except -1


cdef int check_window(
    const double[:, ::1] queue, const double[::1] scores, const int64_t[::1] counts
) except -1


cdef int check_window_times(
    const double[::1] times, Py_ssize_t n, double now, double window
) except -1
