"""Which neighbouring scores to merge when there are too many."""

import numpy as np
from numpy.typing import NDArray


def nearest_pairs(
    scores: NDArray[np.float64], weights: NDArray[np.float64], n_pairs: int
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return which scores to merge and the neighbours that take them in, ``n_pairs`` at most.

    The nearest pairs come first. No score is in two pairs, and the heavier score of a pair stays.

    Examples
    --------
    >>> nearest_pairs(np.array([0.1, 0.2, 0.9]), np.array([1.0, 3.0, 1.0]), 1)
    (array([0]), array([1]))
    """
    gaps = np.diff(0.5 * scores)  # halves: the distance itself may overflow
    # Pairs whose gap is smaller than those on both sides; of equal gaps every other one is.
    odd = np.arange(len(gaps)) % 2 == 1
    closer = (gaps[:-1] < gaps[1:]) | ((gaps[:-1] == gaps[1:]) & ~odd[:-1])
    narrow = np.flatnonzero(np.r_[True, ~closer] & np.r_[closer, True])
    left = np.sort(narrow[np.argsort(gaps[narrow], kind="stable")[:n_pairs]])
    left_heavier = weights[left] >= weights[left + 1]
    return left + left_heavier, left + ~left_heavier
