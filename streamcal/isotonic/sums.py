"""Checks of sums in states: the range of labels bounds the sums of a block of samples."""

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from streamcal.kernels.isotonic import check_all_sums
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


def sum_bounds(loss: MeanLoss) -> tuple[float, float, float, float]:
    """Return the least mean of a statistic and its slack for rounding, and the greatest and its.

    Examples
    --------
    >>> from streamcal.losses import Log
    >>> sum_bounds(Log())
    (0.0, 1e-09, 1.0, 1e-09)
    """
    own = type(loss).__module__.startswith("streamcal.")
    return _kept_bounds(loss) if own else _sum_bounds(loss)


def _sum_bounds(loss: MeanLoss) -> tuple[float, float, float, float]:
    low, high = statistic_range(loss)
    # Removals cause rounding errors; a link that is undefined below 0, as linex's, allows none.
    tolerant = type(loss).link is MeanLoss.link or loss.prior_labels is not None
    least = 1e-9 if tolerant else 0.0
    return low, max(least, 1e-12 * abs(low)), high, max(least, 1e-12 * abs(high))


_kept_bounds = lru_cache(64)(_sum_bounds)


def check_sums(w: NDArray[np.float64], s: NDArray[np.float64], loss: MeanLoss) -> None:
    """Raise unless these can be sums of weights and of weighted statistics, up to rounding."""
    check_all_sums(w, s, sum_bounds(loss))
