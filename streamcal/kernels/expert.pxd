from streamcal.kernels.exclusive cimport Shared


cdef class Expert(Shared):
    cdef double answer(self, double score) except? -1.0 nogil
    cdef int teach(self, double score, double y, double w, double t) except -1 nogil
