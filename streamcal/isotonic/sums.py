"""Checks of sums in states: the range of labels bounds the sums of a block of samples."""

import math

import numpy as np
from numpy.typing import NDArray

from streamcal._state import require
from streamcal._state.score_index import MOST_WEIGHT
from streamcal.losses import MeanLoss


def statistic_range(loss: MeanLoss) -> tuple[float, float]:
    """Return the least and the greatest statistic that a label can have.

    Examples
    --------
    >>> from streamcal.losses import Logistic, Poisson
    >>> statistic_range(Logistic()), statistic_range(Poisson())
    ((0.0, 1.0), (0.0, inf))
    """
    labels = loss.y_range
    with np.errstate(all="ignore"):
        try:
            ends = [float(loss.statistic(end)) for end in (labels.low, labels.high)]
        except (ArithmeticError, ValueError):  # a statistic that is not defined there
            ends = [math.nan]
    if any(map(math.isnan, ends)):
        return -math.inf, math.inf
    return min(ends), max(ends)


def check_sums(w: NDArray[np.float64], s: NDArray[np.float64], loss: MeanLoss) -> None:
    """Raise unless these can be sums of weights and of weighted statistics, up to rounding."""
    require((w > 0.0).all() and (w < MOST_WEIGHT).all(), "weights must be positive")
    low, high = statistic_range(loss)
    # Removals cause rounding errors; a link that is undefined below 0, as linex's, allows none.
    tolerant = type(loss).link is MeanLoss.link or loss.prior_labels is not None
    for end, sign in ((low, 1.0), (high, -1.0)):
        if abs(end) < math.inf:
            slack = max(1e-9 if tolerant else 0.0, 1e-12 * abs(end))
            require((sign * (s - end * w) >= -slack * w).all(), "labels must be in their range")
