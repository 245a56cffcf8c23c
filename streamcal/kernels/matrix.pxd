cimport cython


@cython.final
cdef class Matrix:
    cdef readonly Py_ssize_t n_labels
    cdef Py_ssize_t base  # the row of logs that the temperature multiplies
    cdef Py_ssize_t n_rows  # of logs that are features
    cdef Py_ssize_t most  # labels that have weights
    cdef double gamma
    cdef double prior
    cdef double limit
    cdef double fade
    cdef double slope  # the temperature's inverse
    cdef double slope_curvature
    cdef double[:, ::1] weights  # of each label's logit
    cdef double[::1] inverse  # of the curvature: its lower triangle, row by row
    cdef Py_ssize_t next_restored  # the direction whose prior curvature is restored next
    cdef double[::1] features
    cdef double[::1] direction
    cdef double[::1] column
    cdef double[::1] errors

    cdef Py_ssize_t fill(self, const double[:, ::1] logs, const Py_ssize_t[::1] places) noexcept nogil
    cdef void softmax(
        self, const double[:, ::1] logs, const Py_ssize_t[::1] places, double[::1] out
    ) noexcept nogil
    cdef void step(self, const Py_ssize_t[::1] places, double h, double w) noexcept nogil
