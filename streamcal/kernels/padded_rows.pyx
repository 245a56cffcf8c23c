"""Rows of floats that JAX reads without a copy, in few sizes: a program is compiled for each size.

With 64 as the least power of two, rows of 3, 100 and 40,000 floats get::

    room    64   128   32,768 + 8,192
"""

import numpy as np

CHUNK = 1 << 15  # samples whose derivatives are computed at once: their arrays stay in cache


cpdef Py_ssize_t room_for(Py_ssize_t n):
    """Return ``n`` with its last chunk padded to a power of two ≥ 64: few sizes are compiled.
    """
    cdef Py_ssize_t rest = n % CHUNK, power = 64
    while power < rest:
        power *= 2
    return n - rest + (power if rest else 0)


cdef aligned(Py_ssize_t n_rows, Py_ssize_t n):
    """Return rows of zeros that begin at multiples of 64 bytes: JAX reads these without a copy."""
    cdef double[::1] zeros = np.zeros(n_rows * n + 8)
    cdef Py_ssize_t ahead = (8 - <size_t> &zeros[0] // 8 % 8) % 8
    return np.asarray(zeros)[ahead : ahead + n_rows * n].reshape(n_rows, n)


def padded(rows):
    """Return a copy of rows, padded to `room_for` their length with the last of each."""
    cdef Py_ssize_t n = len(rows[0])
    out = aligned(len(rows), room_for(n))
    for row, padded_row in zip(rows, out):
        padded_row[:n] = row
        padded_row[n:] = row[n - 1]
    return out
