from streamcal.kernels.exclusive cimport Shared


cdef class Expert(Shared):
    cdef double answer(self, double score) except? -1.0 nogil
    cdef int teach(self, double score, double y, double w) except -1 nogil


cdef inline bint is_sample(double score, double y, double w) noexcept nogil:
    """Return whether this can be learned: another thread may write to the arrays of a batch."""
    return 0.0 <= score <= 1.0 and 0.0 <= y <= 1.0 and 1e-60 <= w <= 1e60
