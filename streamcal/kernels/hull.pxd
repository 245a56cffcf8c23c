from libc.stdint cimport int64_t

from streamcal.kernels.score_index cimport LEFT, RIGHT, SLOTS, Chunk, Node, ScoreIndex


cdef struct Sums:
    double weight
    double sum


cdef struct Edge:
    double first  # scores
    double last
    double weight
    double sum
    Sums beside[2]  # sums of what is left and right of it in the chunk or node that stores it


cdef struct ChunkHull:
    Edge *edges
    int n
    int room
    Sums total


cdef struct Bridge:
    Edge edge
    Sums total[2]  # sums of the children
    # Of these a bridge that does not cross the middle has outer_slope[RIGHT] and under_slope[LEFT].
    Sums part[2]  # what the bridge takes from each child
    double outer_slope[2]  # of the children's edges next to its ends: not pooled into the bridge,
    double under_slope[2]  # and pooled


cdef struct Cursor:
    Node *node  # or chunk: all open edges are in it or below it
    int low  # the open edges of a chunk; the current one is in the middle
    int high
    double above  # open edges lie between these scores
    double below
    Sums beside_node[2]  # sums of what is left and right of the node in the whole hull


cdef inline ChunkHull *hull_of(Chunk *chunk) noexcept nogil:
    return <ChunkHull *> (chunk + 1)


cdef inline Bridge *bridge_of(Node *node) noexcept nogil:
    return <Bridge *> (node + 1)


cdef class Hull(ScoreIndex):
    cdef int set_edges(self, ChunkHull *hull, int n) except -1 nogil
    cdef void edges_around(self, double score, Edge **left, Edge **right) noexcept nogil
    cdef Edge *next_edge(self, double score) noexcept nogil
    cdef Sums pool_front(self, double w, double s, double *end) noexcept nogil
    cdef Sums pool_back(self, double w, double s, double *end) noexcept nogil
    cdef Sums totals(self) noexcept nogil
    cdef int restore_chunk(
        self, Chunk *chunk, const int64_t *lengths, const double *sums
    ) except -1 nogil


cdef bint restore_bridges(Node *node, const double **ends, double slack) noexcept nogil
cdef void copy_bridges(Node *node, double **ends) noexcept nogil
