cimport cython

from streamcal.kernels.exclusive cimport Shared
from streamcal.kernels.expert cimport Expert


cdef struct Newton:
    double theta[3]
    double curvature[3][3]
    double n_samples
    double gamma
    double prior
    double fade


cdef int check_numbers(int d, const double[::1] numbers) except -1


cdef class Beta(Expert):
    cdef Newton newton
    cdef double limit
    cdef double clip

    cdef void features(self, double p, double *x) noexcept nogil
    cdef double value(self, const double *x) noexcept nogil


@cython.final
cdef class Temperature(Shared):
    cdef Newton newton
    cdef double limit
    cdef double clip

    cdef double log_of(self, double p) noexcept nogil
