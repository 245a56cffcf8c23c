"""Reading the state of a score index: its slots in order, the shape of its tree, its window."""

import math
from datetime import timedelta
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from streamcal._state.checks import Arrays, array_of, require
from streamcal.kernels.score_index import check_held_times, check_index


class IndexState(NamedTuple):
    """What the states of all score indexes hold, checked by `read_index`.

    The queue has the samples of the window, three numbers per row: the score, the weight, which is
    0 for a sample that was taken back, and a third.
    """

    scores: NDArray[np.float64]
    counts: NDArray[np.int64]
    queue: NDArray[np.float64]


def read_index(
    arrays: Arrays, sums: NDArray[np.float64], window: int | timedelta | None, now: float = math.nan
) -> IndexState:
    """Return the slots and the window in a state; ``sums`` has a column for each score.

    ``now`` is the time of the newest sample, where the window is one of time.

    Raises
    ------
    ValueError
        If they are not possible. What sums and queue hold is for the caller to check.
    """
    scores = array_of(arrays, "scores", None)
    counts = array_of(arrays, "counts", None, dtype=np.int64)
    shape = array_of(arrays, "shape", None, dtype=np.int64)
    keys = array_of(arrays, "keys", None)
    queue = array_of(arrays, "queue", None, 3)
    if isinstance(window, timedelta):
        times = array_of(arrays, "times", None)
        check_held_times(times, len(queue), now, window.total_seconds())
    else:
        require(len(queue) <= (window or 0), "the queue must fit the window")
    require(sums.shape[1] == len(scores), "each score must have sums")
    check_index(scores, counts, shape, keys)
    return IndexState(scores, counts, queue)
