from libc.stdint cimport int64_t

from streamcal.kernels.expert cimport Expert
from streamcal.kernels.hull cimport ChunkHull, Edge, Hull
from streamcal.kernels.score_index cimport Place, Slot


cdef struct Bracket:
    double low  # the means left and right of a score; NaN if there is none
    double high
    double share  # how far from left to right the score lies


cdef class IsotonicRegression(Hull):
    cdef readonly double prior
    cdef readonly double lowest
    cdef readonly double highest
    cdef readonly double least
    cdef readonly double most
    cdef readonly double floor
    cdef readonly double ceiling
    cdef double floor_end
    cdef double ceiling_start
    cdef readonly int64_t max_scores
    cdef readonly int64_t n_merged
    cdef double lowest_value  # nearest to the lowest and the highest label, but off them
    cdef double highest_value

    cdef Bracket bracket(self, double score, bint step) noexcept nogil
    cdef double value(self, double score, bint step) noexcept nogil
    cdef int absorb_slots(
        self,
        const double[::1] scores,
        const double[:, ::1] sums,
        const int64_t[::1] counts,
        double factor,
    ) except -1
    cdef object blocks(self, bint anchored)
    cdef Py_ssize_t pool_edges(self, double[:, ::1] rows, double prior) noexcept nogil
    cdef void find_centers(self, double[:, ::1] rows, Py_ssize_t n) noexcept nogil
    cdef void restore_digits(self, Slot *slot, double w) noexcept nogil
    cdef int set_hull(self, ChunkHull *hull, const ChunkHull *other, const Edge *edges) except -1
    cdef int set_sums(self, Place *place, double w, double s) except -1 nogil
    cdef int make_place(self) except -1 nogil


cdef class IsotonicExpert(Expert):
    cdef readonly IsotonicRegression regression
