from libc.stdint cimport int64_t

from streamcal.kernels.confusion cimport Formula
from streamcal.kernels.remainders cimport Remainders
from streamcal.kernels.score_index cimport Chunk, ScoreIndex


cdef struct Sums:
    double positive
    double negative


cdef class ConfusionIndex(ScoreIndex):
    cdef readonly object spec
    cdef Formula formula
    cdef Remainders remainders  # of a window's sums
    cdef int64_t n_changes
    cdef bint known  # whether the two that follow are up to date
    cdef double threshold
    cdef double utility

    cdef int find_remainders(self) except -1 nogil
    cdef void search(self) noexcept nogil
    cdef void search_chunk(self, Chunk *chunk, Sums left, Sums right) noexcept nogil
