"""Probabilities and log odds: the sigmoid, its inverse, and the softmax."""

from libc.math cimport INFINITY, exp, log


cdef inline double sigmoid(double z) noexcept nogil:
    """Return 1 / (1 + exp(-z)), rounded to 1 above 37 and to 0 below -710."""
    return 1.0 / (1.0 + exp(-z))


cdef inline double open_sigmoid(double z) noexcept nogil:
    """Return the sigmoid in the open interval (0, 1)."""
    # Beyond ±34 a float can't represent the difference from 0 and 1.
    return sigmoid(min(max(z, -34.0), 34.0))


cdef inline double clipped(double p, double clip) noexcept nogil:
    """Return a probability clipped to [clip, 1 − clip]."""
    return min(max(p, clip), 1.0 - clip)


cdef inline double logit(double p) noexcept nogil:
    """Return the log odds of a probability in (0, 1)."""
    return log(p / (1.0 - p))


cdef inline void softmax(double *z, Py_ssize_t n) noexcept nogil:
    """Replace ``n`` logits by their probabilities."""
    cdef double top = -INFINITY
    cdef Py_ssize_t k
    for k in range(n):
        top = max(top, z[k])
    for k in range(n):
        z[k] = exp(z[k] - top)
    normalise(z, n)


cdef inline void normalise(double *p, Py_ssize_t n) noexcept nogil:
    """Divide ``n`` numbers by their sum."""
    cdef double total = 0.0
    cdef Py_ssize_t k
    for k in range(n):
        total += p[k]
    for k in range(n):
        p[k] /= total
