"""Weights of the boundaries between ranks, for `streamcal.kernels.cusum`: memory and new labels.

A row has the weights of a feature at all boundaries and, with averaging, as many numbers of its lag.
A new label divides one boundary in two. Four ranks, weights 2, 4 and 6, and a label that becomes::

    rank 0 of 5    | 0  2  4  6       a new boundary at the end begins at zero
    rank 2 of 5    | 2  2  2  6       between two labels both take half of the old one
    rank 4 of 5    | 2  4  6  0
"""

from libc.stdlib cimport free
from libc.string cimport memcpy, memset

from streamcal.kernels.memory cimport resize


cdef int extend(double **rows, Py_ssize_t width, Py_ssize_t n, Py_ssize_t room) except -1:
    """Give ``n`` rows room for more, which are zero."""
    resize(<void **> rows, room * width, sizeof(double))
    memset(rows[0] + n * width, 0, (room - n) * width * sizeof(double))
    return 0


cdef void free_layout(Layout *own) noexcept:
    free(own.costs)
    free(own.bias)
    free(own.rows)
    free(own.recent)
    free(own.products)
    free(own.scores)
    free(own.margins)
    free(own.sizes)
    memset(own, 0, sizeof(Layout))


cdef void rescale(
    double *row, Py_ssize_t width, Py_ssize_t parts, double mass, double stored, double lag
) noexcept nogil:
    """Subtract ``mass`` times the row from its lag, then multiply both."""
    cdef Py_ssize_t j
    for j in range(width):
        if parts == 2:
            row[width + j] = lag * row[width + j] - mass * row[j]
        row[j] *= stored


cdef void split(
    const double *old, Py_ssize_t bounds, double *new, Py_ssize_t n_new, Py_ssize_t rank,
    bint repeat,
) noexcept nogil:
    """Write weights with one more boundary, for a new label of that rank.

    Between two labels both new boundaries take half the weights of the old one, so that the new
    label's score lies midway; at an end the boundary begins at zero. ``repeat``: biases along a
    shared direction, where a new threshold begins at its neighbour's.
    """
    cdef Py_ssize_t j, at = min(max(rank - 1, 0), max(bounds - 1, 0))
    if n_new == bounds:  # a row of the shared direction; or there is no boundary yet
        memcpy(new, old, bounds * sizeof(double))
    elif bounds == 0:
        new[0] = 0.0
    elif repeat or 0 < rank <= bounds:
        for j in range(n_new):
            new[j] = old[j if j <= at else j - 1]
        if not repeat:
            new[at] *= 0.5
            new[at + 1] *= 0.5
    else:
        memcpy(new if rank else new + 1, old, bounds * sizeof(double))
        new[bounds if rank else 0] = 0.0


cdef void split_margins(
    const double *old, Py_ssize_t bounds, double *new, Py_ssize_t n_new, Py_ssize_t rank
) noexcept nogil:
    """Write margins of a past sample with one more boundary, for a new label of that rank."""
    cdef Py_ssize_t j
    if n_new == bounds:
        return
    if bounds == 0:
        new[0] = 0.0
        return
    for j in range(n_new):
        if j < rank and j < bounds:
            new[j] = old[j]
        elif j > 0:
            new[j] = old[j - 1]
    if rank == 0:
        new[0] = max(old[0], 0.0)
    elif rank > bounds:
        new[bounds] = min(old[bounds - 1], 0.0)
