"""Sums of floats."""

from libc.math cimport INFINITY, fabs


cdef struct Sum:
    double total, lost


cdef inline double two_sum_error(double a, double b, double total) noexcept nogil:
    """Return the rounding error of ``total``, the rounded a + b (Knuth)."""
    cdef double part = total - a
    return (a - (total - part)) + (b - part)


cdef inline void add(Sum *sum, double x) noexcept nogil:
    """Add to a sum, and its rounding error to ``lost``.

    Otherwise the terms of light samples after heavy ones would be lost. An infinite sum has no
    rounding error.
    """
    cdef double new = sum.total + x
    cdef double error = two_sum_error(sum.total, x, new)
    sum.total = new
    if fabs(error) < INFINITY:
        sum.lost += error


cdef inline double dot(const double *a, const double *b, Py_ssize_t n) noexcept nogil:
    """Return the sum of products, in four parts that a processor can add at the same time."""
    cdef double s0 = 0.0, s1 = 0.0, s2 = 0.0, s3 = 0.0
    cdef Py_ssize_t i = 0
    while i + 4 <= n:
        s0 += a[i] * b[i]
        s1 += a[i + 1] * b[i + 1]
        s2 += a[i + 2] * b[i + 2]
        s3 += a[i + 3] * b[i + 3]
        i += 4
    while i < n:
        s0 += a[i] * b[i]
        i += 1
    return (s0 + s1) + (s2 + s3)


cdef inline bint rises(double w, double s, double next_w, double next_s) noexcept nogil:
    """Return whether the mean s / w is below the next one: neighbours that are not pooled."""
    return next_s * w > s * next_w
