cimport cython


@cython.final
cdef class Matrix:
    cdef readonly Py_ssize_t n_labels
    cdef Py_ssize_t base  # the row of logs that the slope multiplies
    cdef Py_ssize_t n_rows  # of logs that are features
    cdef Py_ssize_t most  # labels that have weights
    cdef double gamma
    cdef double prior
    cdef double limit
    cdef double fade
    cdef double slope
    cdef double slope_curvature
    cdef double[:, ::1] weights  # a row for each feature, a column for each label
    cdef double[::1] inverse  # of the curvature: its lower triangle, row by row
    cdef Py_ssize_t next_restored  # the direction whose prior curvature is restored next
    cdef double[::1] features
    cdef double[::1] sums  # of weighted features, for each label
    cdef double[::1] direction
    cdef double[::1] column

    cdef void predict(
        self, const double[:, ::1] logs, const Py_ssize_t[::1] places, double *out
    ) noexcept nogil
    cdef void learn(
        self, const double[:, ::1] logs, const Py_ssize_t[::1] places, double *errors, double w
    ) noexcept nogil
    cdef void update_inverse(self, double h, double w, double *scale) noexcept nogil


@cython.final
cdef class JointMaps:
    cdef readonly object temperature
    cdef readonly tuple matrices
    cdef double clip
    cdef double[:, ::1] vectors  # of the last sample: probabilities of model and one-vs-rest
    cdef double[:, ::1] logs  # the logs of these, less their means
    cdef double[:, ::1] answers  # of each map

    cdef int compute_answers(self, raw, one_vs_rest, const Py_ssize_t[::1] places) except -1
