"""Labels as a mean-type loss uses them: their statistic, whose mean gives the value of a block."""

import math
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamcal._validation import LARGEST, as_number
from streamcal.isotonic.staircase import label_range
from streamcal.losses import MeanLoss


def statistics_of(loss: MeanLoss) -> tuple["LabelStatistics", tuple[float, float]]:
    """Return the statistics of labels for a loss, and the range of their means.

    For losses of this library they are kept.
    """
    own = type(loss).__module__.startswith("streamcal.")
    return _kept_statistics(loss) if own else (LabelStatistics(loss), loss.mean_range)


@lru_cache(64)
def _kept_statistics(loss: MeanLoss) -> tuple["LabelStatistics", tuple[float, float]]:
    return LabelStatistics(loss), loss.mean_range


class LabelStatistics:
    """The statistics of labels for one loss, with checks; they do not change.

    Attributes
    ----------
    are_labels : bool
        Whether the statistic is the label itself and all numbers of a range are labels.
    bounds : (float, float)
        The least and the greatest statistic; ±inf where that is not known. Between these a kernel
        learns without further checks. A prior's two samples have these statistics.

    Examples
    --------
    >>> from streamcal import losses
    >>> statistics = LabelStatistics(losses.Log())
    >>> statistics.are_labels, statistics.bounds, statistics.of(True)
    (True, (0.0, 1.0), 1.0)
    """

    def __init__(self, loss: MeanLoss) -> None:
        self._loss = loss
        labels = label_range(loss)
        self.are_labels = type(loss).statistic is MeanLoss.statistic and labels is not None
        self.bounds = (-math.inf, math.inf)
        if loss.prior_labels is not None:
            low, high = map(loss.statistic, loss.prior_labels)
            self.bounds = float(low), float(high)
        elif self.are_labels and labels is not None:
            self.bounds = labels

    def of(self, y: Any) -> float:
        """Return the statistic of a label; raise unless the loss is defined and sums are finite."""
        label = as_number(y, "y")
        self._loss.check_labels(label)
        s = self._loss.statistic(label)
        if abs(s) > LARGEST:
            raise _too_large_error(s)
        return s

    def of_many(self, labels: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the statistics of labels; raise unless `of` accepts each."""
        self._loss.check_labels(labels)
        s = np.ascontiguousarray(self._loss.statistic(labels))
        large = np.abs(s) > LARGEST
        if large.any():
            at = int(np.argmax(large))
            raise _too_large_error(s[at], f" at position {at}")
        return s


def _too_large_error(s: float, where: str = "") -> ValueError:
    return ValueError(f"`y` must have a statistic of at most {LARGEST:g} in size, got {s}{where}")
