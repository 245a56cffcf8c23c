cdef void row_probabilities(
    double *above, Py_ssize_t bounds, double n_samples, double *out, Py_ssize_t *sizes
) noexcept nogil
