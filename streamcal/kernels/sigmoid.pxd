"""The sigmoid, and the same kept away from 0 and 1."""

from libc.math cimport exp


cdef inline double sigmoid(double z) noexcept nogil:
    """Return 1 / (1 + exp(-z)), rounded to 1 above 37 and to 0 below -710."""
    return 1.0 / (1.0 + exp(-z))


cdef inline double open_sigmoid(double z) noexcept nogil:
    """Return the sigmoid in the open interval (0, 1)."""
    # Beyond ±34 a float can't represent the difference from 0 and 1.
    return sigmoid(min(max(z, -34.0), 34.0))
