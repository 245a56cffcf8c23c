"""Which samples can be learned."""

from libc.math cimport INFINITY


cdef inline bint can_be_learned(double score, double w) noexcept nogil:
    """Return whether score and weight are in range; NaN is not, as it fails every comparison."""
    return -INFINITY < score < INFINITY and 1e-60 <= w <= 1e60


cdef inline bint is_sample(double score, double y, double w) noexcept nogil:
    """Return whether this can be learned: another thread may write to the arrays of a batch."""
    return 0.0 <= score <= 1.0 and 0.0 <= y <= 1.0 and 1e-60 <= w <= 1e60


cdef inline int check_lengths(
    const double[::1] scores, const double[::1] labels, const double[::1] w
) except -1:
    """Raise unless scores, labels and weights have the same length."""
    if not scores.shape[0] == labels.shape[0] == w.shape[0]:
        raise ValueError(
            "scores, labels and weights must be as many,"
            f" got {scores.shape[0]}, {labels.shape[0]} and {w.shape[0]}"
        )
    return 0


cdef inline int check_length(Py_ssize_t n, Py_ssize_t expected) except -1:
    """Raise unless an array has the expected length."""
    if n != expected:
        raise ValueError(f"there must be {expected} numbers, got {n}")
    return 0
