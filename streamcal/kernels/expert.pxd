cdef class Expert:
    cdef double answer(self, double score) noexcept nogil
    cdef int teach(self, double score, double y, double w) except -1 nogil
