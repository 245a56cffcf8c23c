from streamcal.kernels.expert cimport Expert


cdef struct Bin:
    double weight  # of the samples whose answer was in the bin
    double sum  # of their weighted labels


cdef class Platt(Expert):
    cdef readonly double slope
    cdef readonly double intercept
    cdef double aa  # the curvature, a symmetric matrix
    cdef double ab
    cdef double bb
    cdef double n_samples
    cdef double gamma
    cdef double prior
    cdef double limit
    cdef double clip
    cdef double fade
    cdef int n_bins
    cdef Bin *bins

    cdef inline Bin *bin_of(self, double q) noexcept nogil
