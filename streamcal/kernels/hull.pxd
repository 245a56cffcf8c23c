from libc.stdint cimport int64_t

from streamcal.kernels.score_index cimport Chunk, Node, ScoreIndex


cdef struct Edge:
    double first  # scores
    double last
    double weight
    double sum
    double before_weight
    double before_sum
    double behind_weight
    double behind_sum


cdef struct ChunkHull:
    Edge *edges
    int n
    int room
    double weight
    double sum


cdef struct Bridge:
    Edge edge
    double left_weight  # totals of the children
    double left_sum
    double right_weight
    double right_sum
    double left_part_weight  # what the bridge takes from each child
    double left_part_sum
    double right_part_weight
    double right_part_sum
    double left_outer  # slopes next to where the bridge starts and ends
    double left_inner
    double right_inner
    double right_outer


cdef struct Sums:
    double weight
    double sum


cdef struct Cursor:
    Node *node
    int low
    int high
    double above
    double below
    Sums before
    Sums behind


cdef inline ChunkHull *hull_of(Chunk *chunk) noexcept nogil:
    return <ChunkHull *> (chunk + 1)


cdef inline Bridge *bridge_of(Node *node) noexcept nogil:
    return <Bridge *> (node + 1)


cdef class Hull(ScoreIndex):
    cdef int set_edges(self, Chunk *chunk, int n) except -1 nogil
    cdef void around(self, double score, Edge **left, Edge **right) noexcept nogil
    cdef Edge *behind(self, double score) noexcept nogil
    cdef Sums pool_front(self, double w, double s, double *last) noexcept nogil
    cdef Sums pool_back(self, double w, double s, double *first) noexcept nogil
    cdef Sums totals(self) noexcept nogil
    cdef int restore_chunk(self, Chunk *chunk, const int64_t *lengths, const double *sums) except -1 nogil


cdef bint restore_bridges(Node *node, const double **ends, double slack) noexcept nogil
cdef void copy_bridges(Node *node, double **ends) noexcept nogil
