from libc.stdint cimport int64_t

cpdef enum:
    SLOTS = 128  # slots in a chunk at most


cdef struct Slot:
    double score
    double weight
    double sum
    int64_t n


cdef struct Node:
    Node *parent
    Node *left  # NULL in a chunk
    Node *right
    double key  # scores from here on are on the right
    int leaves
    int dirty


cdef struct Chunk:
    Node node
    Chunk *previous
    Chunk *next
    Slot *slots
    int size
    int room


cdef struct Content:  # what an index holds, its queue aside
    Node *root
    Chunk *first
    Chunk *last
    int64_t n_scores
    int64_t n_chunks


cdef struct Queued:
    double score
    double weight
    double sum


cdef int out_of_memory() except -1 with gil


cdef class ScoreIndex:
    cdef Node *root
    cdef Chunk *first
    cdef Chunk *last
    cdef size_t node_bytes
    cdef size_t chunk_bytes
    cdef readonly int64_t n_scores
    cdef int64_t n_chunks

    cdef Queued *queue
    cdef int64_t queue_start
    cdef readonly int64_t queue_size
    cdef int64_t queue_room

    # What an owner of summaries defines.
    cdef int fold_chunk(self, Chunk *chunk, double score) except -1 nogil
    cdef void fold_node(self, Node *node) noexcept nogil
    cdef void release_summary(self, Chunk *chunk) noexcept nogil
    cdef size_t summary_bytes(self, Chunk *chunk) noexcept nogil

    cdef int clear(self) except -1 nogil
    cdef void release_all(self) noexcept nogil
    cdef Chunk *find_chunk(self, double score) noexcept nogil
    cdef Slot *find(self, double score) noexcept nogil
    cdef Slot *open(self, double score, Chunk **at, Chunk **other) except NULL nogil
    cdef int add(self, double score, double w, double s) except -1 nogil
    cdef int close(self, double score) except -1 nogil
    cdef int refold(self, Chunk *chunk) except -1 nogil
    cdef void mark(self, Node *child) noexcept nogil
    cdef void fold_dirty(self) noexcept nogil
    cdef int rebuild(self, const Slot *slots, int64_t n) except -1 nogil
    cdef void copy_slots(self, Slot *out) noexcept nogil
    cdef int grow(self, const int64_t *shape, int64_t n_parts, const double *keys, const Slot *slots) except -1 nogil
    cdef int append(self, const Slot *slots, int n) except -1 nogil
    cdef int make_nodes(self, Node **spare, int64_t n) except -1 nogil
    cdef Content set_aside(self) noexcept nogil
    cdef void put_back(self, Content held) noexcept nogil
    cdef void conclude(self, Content held, bint done) noexcept nogil

    cdef int push(self, double score, double w, double s) except -1 nogil
    cdef Queued pop(self) noexcept nogil
    cdef Queued *queued(self, int64_t i) noexcept nogil

    cdef Chunk *make_chunk(self, int room) except NULL nogil
    cdef Node *make_node(self) except NULL nogil
    cdef void free_chunk(self, Chunk *chunk) noexcept nogil
    cdef int set_room(self, Chunk *chunk, int room) except -1 nogil
    cdef Chunk *make_room(self, Chunk *chunk, int slot, double score) except NULL nogil
    cdef Chunk *split(self, Chunk *chunk, int slot) except NULL nogil
    cdef Chunk *add_leaf(self, Chunk *chunk, int room, double key) except NULL nogil
    cdef void remove_leaf(self, Chunk *chunk) noexcept nogil
    cdef Chunk *settle(self, Chunk *chunk, bint *joined) except? NULL nogil
    cdef void join(self, Chunk *chunk, Chunk *after) noexcept nogil
    cdef void replace_child(self, Node *parent, Node *old, Node *new) noexcept nogil
    cdef void rebalance(self, Node *node) noexcept nogil
    cdef Node *rotate_left(self, Node *node) noexcept nogil
    cdef Node *rotate_right(self, Node *node) noexcept nogil


cdef enum:
    CLEAN = 0
    LEFT_DIRTY = 1
    RIGHT_DIRTY = 2
    NEW = 4


cdef inline bint is_chunk(Node *node) noexcept nogil:
    return node.left == NULL


cdef inline int find_slot(Chunk *chunk, double score) noexcept nogil:
    """Return the first slot of a chunk whose score is at least ``score``."""
    cdef int low = 0, high = chunk.size, middle
    while low < high:
        middle = (low + high) >> 1
        if chunk.slots[middle].score < score:
            low = middle + 1
        else:
            high = middle
    return low


cdef inline bint holds(Chunk *chunk, int slot, double score) noexcept nogil:
    return slot < chunk.size and chunk.slots[slot].score == score


cdef void copy_tree(Node *node, int64_t **shape, double **keys) noexcept nogil
