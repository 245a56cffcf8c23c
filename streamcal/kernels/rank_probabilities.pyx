"""Probabilities of ranks from those of "rank k or more", one for each boundary.

    above         .9    .3    .5           .3 and .5 rise: both become their mean
    pooled        .9    .4    .4
    rank        0     1     2     3
               .1    .5    0     .4        differences; then one sample is spread evenly
"""

import numpy as np


def class_probabilities(double[:, ::1] above, double n_samples, double[:, ::1] out):
    """Turn the probabilities of "rank k or more" into those of each rank, row by row.

    ``above`` has a column for each boundary, and is overwritten. Rows that do not fall are made to
    fall, by the nearest such sequence in squares: neighbours that rise are pooled. Then one sample,
    spread evenly over the ranks, is added to the ``n_samples`` behind the probabilities, which
    keeps them above 0.
    """
    cdef Py_ssize_t i
    cdef Py_ssize_t[::1] sizes = np.empty(above.shape[1], np.intp)
    with nogil:
        for i in range(above.shape[0]):
            row_probabilities(&above[i, 0], above.shape[1], n_samples, &out[i, 0], &sizes[0])


cdef void row_probabilities(
    double *above, Py_ssize_t bounds, double n_samples, double *out, Py_ssize_t *sizes
) noexcept nogil:
    """Do for one row what `class_probabilities` does."""
    cdef Py_ssize_t j, b, i, size, top = 0, at = 0
    cdef double mean, previous = 1.0, share = 1.0 / (bounds + 1)
    for j in range(bounds):  # pooled stretches so far; their means lie at the front of the row
        mean, size = above[j], 1
        while top > 0 and above[top - 1] <= mean:
            top -= 1
            mean = (mean * size + above[top] * sizes[top]) / (size + sizes[top])
            size += sizes[top]
        above[top], sizes[top] = mean, size
        top += 1
    for b in range(top):
        for i in range(sizes[b]):
            out[at] = ((previous - above[b]) * n_samples + share) / (n_samples + 1.0)
            previous = above[b]
            at += 1
    out[at] = (previous * n_samples + share) / (n_samples + 1.0)
