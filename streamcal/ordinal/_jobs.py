"""Jobs over boundaries and blocks of samples, in threads or in a pool of the caller.

A job takes a range of boundaries and a block of samples and returns a *summary* of three rows: for
each boundary the sum of its differences, the least prefix sum, and the end of that prefix.
Summaries of neighbouring blocks combine associatively (`combine`); those of different boundaries
are independent. So jobs can run anywhere and in any order: in threads, since the kernel releases
the interpreter's lock, or in a pool of the caller, which gets each block once.
"""

from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from streamcal._processes import Pool, run_in, size_of

Summary = NDArray[np.float64]
"""Sums, least prefix sums, and cuts, shape (3, n_boundaries)."""

_LANES = 4  # boundaries that the kernel takes at once


def sum_prefixes(
    labels: NDArray[np.uint16],
    w: NDArray[np.float64],
    differences: NDArray[np.float64],
    first: int = 0,
    stop: int | None = None,
) -> Summary:
    """Summarise a block of samples for some boundaries.

    Parameters
    ----------
    labels : ndarray of uint16, shape (n_samples,)
        Labels from 0, in score order.
    w : ndarray of shape (n_samples,) or (0,)
        Weights, negative where the next sample has the same score; empty for ones and no ties.
    differences : ndarray of shape (n_labels, n_boundaries)
        ``loss(k, y) - loss(k + 1, y)`` for label y and boundary k.
    first, stop : int
        The block.

    Returns
    -------
    ndarray of shape (3, n_boundaries)
        Sums, least sums of the prefixes that end with a sample of the block, and their first ends.

    Examples
    --------
    >>> differences = np.array([[-1.0], [1.0]])
    >>> sum_prefixes(np.array([0, 0, 1, 0], np.uint16), np.empty(0), differences)
    array([[-2.],
           [-2.],
           [ 2.]])
    """
    from streamcal.kernels import thresholds as kernels

    out = np.empty((3, differences.shape[1]))
    kernels.sum_prefixes(labels, w, first, len(labels) if stop is None else stop, differences, out)
    return out


def combine(left: Summary, right: Summary) -> Summary:
    """Combine the summaries of two neighbouring blocks; associative.

    Examples
    --------
    >>> left, right = np.array([[-2.0], [-2.0], [2.0]]), np.array([[-1.0], [-1.0], [3.0]])
    >>> combine(left, right)
    array([[-3.],
           [-3.],
           [ 3.]])
    """
    later = left[0] + right[1]
    better = later < left[1]
    return np.stack(
        [left[0] + right[0], np.where(better, later, left[1]), np.where(better, right[2], left[2])]
    )


class JobOptions(NamedTuple):
    """Where jobs run, and how many samples each takes (None: a default)."""

    n_jobs: int = 1
    block_size: int | None = None
    pool: Pool | None = None

    @property
    def in_one_thread(self) -> bool:
        """Whether all jobs run in the thread of the caller."""
        return self.n_jobs == 1 and self.pool is None


def solve(
    labels: NDArray[np.uint16],
    w: NDArray[np.float64],
    differences: NDArray[np.float64],
    options: JobOptions = JobOptions(),  # noqa: B008  (a tuple)
) -> NDArray[np.int64]:
    """Return the best cut of each boundary by itself, by jobs over boundaries and blocks."""
    n_jobs, block_size, pool = options
    if pool is not None and block_size is None:
        block_size = -(-len(labels) // size_of(pool))
    n, n_boundaries = len(labels), differences.shape[1]
    blocks = [(first, min(n, first + (block_size or n))) for first in range(0, n, block_size or n)]
    if pool is not None:
        pieces = [(labels[i:j], w[i:j] if len(w) else w, differences) for i, j in blocks]
        found = run_in(pool, _summarise_piece, pieces)
        # Cuts are counted from the start of a piece.
        parts = [[s + np.array([[0], [0], [i]]) for s, (i, _) in zip(found, blocks, strict=True)]]
    elif n_jobs == 1:
        parts = [[sum_prefixes(labels, w, differences, *samples) for samples in blocks]]
    else:
        step = -(-n_boundaries // (_LANES * n_jobs)) * _LANES
        columns = [
            np.ascontiguousarray(differences[:, k : k + step]) for k in range(0, n_boundaries, step)
        ]
        tasks = [(labels, w, part, *samples) for part in columns for samples in blocks]
        with ThreadPoolExecutor(n_jobs) as threads:
            done = list(threads.map(sum_prefixes, *zip(*tasks, strict=True)))
        parts = [done[i : i + len(blocks)] for i in range(0, len(done), len(blocks))]
    summaries = []
    for part in parts:
        whole = part[0]
        for summary in part[1:]:
            whole = combine(whole, summary)
        summaries.append(whole)
    _, least, cuts = np.concatenate(summaries, axis=1)
    return np.where(least < 0.0, cuts, 0).astype(np.int64)


def _summarise_piece(
    piece: tuple[NDArray[np.uint16], NDArray[np.float64], NDArray[np.float64]],
) -> Summary:
    """Run a job in a pool of the caller."""
    return sum_prefixes(*piece)
