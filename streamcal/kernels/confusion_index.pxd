cimport cython
from libc.stdint cimport int64_t

from streamcal.kernels.confusion cimport Formula
from streamcal.kernels.remainders cimport Remainders
from streamcal.kernels.score_index cimport Chunk, Node, Queued, ScoreIndex


cdef struct Sums:
    double positive
    double negative


cdef class ConfusionIndex(ScoreIndex):
    cdef cython.pymutex lock
    cdef readonly object spec
    cdef Formula formula
    cdef readonly int64_t window
    cdef readonly double rate
    cdef readonly double growth
    cdef Remainders remainders  # of a window's sums
    cdef bint changing
    cdef int64_t n_changes
    cdef bint known  # whether the two that follow are up to date
    cdef double threshold
    cdef double utility

    cdef int learn_sample(self, double score, double y, double w) except -1 nogil
    cdef int add_sample(self, double score, double positive, double negative) except -1 nogil
    cdef int remove(self, Queued *sample) except -1 nogil
    cdef int scale_down(self) except -1 nogil
    cdef int drop_vanished(self) except -1 nogil
    cdef int find_remainders(self) except -1 nogil
    cdef int refold_all(self) except -1 nogil
    cdef void search(self) noexcept nogil
    cdef void search_chunk(
        self, Chunk *chunk, double tp, double fp, double P, double N
    ) noexcept nogil
    cdef tuple slots(self)
    cdef dict arrays(self)
