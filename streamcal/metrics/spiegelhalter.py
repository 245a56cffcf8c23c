"""Spiegelhalter's z: the Brier score compared with that of calibrated probabilities.

If every label is drawn with the probability p that was predicted, the Brier score has mean
Σ p (1 − p) and variance Σ (1 − 2p)² p (1 − p), so that

    z = Σ w (y − p)(1 − 2p) / √(Σ w² (1 − 2p)² p (1 − p))

is nearly standard normal for many samples. z > 0 means that the score is worse than expected and
probabilities are too extreme; z < 0 that it is better and probabilities are too near ½. Samples
with a prediction of ½ have no effect.
"""

import math
from typing import Any

from river.metrics.base import BinaryMetric

from streamcal.metrics._exact_sum import ExactSum
from streamcal.metrics.base import ProbabilityMetric, as_event


class SpiegelhalterZ(ProbabilityMetric, BinaryMetric):
    """Spiegelhalter's z statistic of the Brier score under calibration [1]_; near 0 is good.

    It holds two running sums. As a test it is valid for a fixed number of samples: if z is checked
    after every sample, |z| > 2 occurs sooner or later by chance.

    Parameters
    ----------
    pos_val
        The positive label. None: the label with the greatest probability.

    References
    ----------
    .. [1] Spiegelhalter, D. J. (1986). Probabilistic prediction in patient management and clinical
       trials. Statistics in Medicine 5(5), 421-433.

    Examples
    --------
    >>> from streamcal.metrics import SpiegelhalterZ
    >>> metric = SpiegelhalterZ()
    >>> for yt, yp in zip([0, 0, 0, 1, 1, 1], [0.4, 0.3, 0.2, 0.1, 0.5, 0.9]):
    ...     metric.update(yt, yp)
    >>> metric
    SpiegelhalterZ: 0.68853
    >>> metric.p_value
    0.491119
    """

    def __init__(self, pos_val: Any = True) -> None:
        self.pos_val = pos_val
        self._n_samples = 0
        self._n_varying = 0  # samples with a variance above 0
        self._n_impossible = 0  # samples whose label had the probability 0
        self._excess = ExactSum()
        self._variance = ExactSum()

    def get(self) -> float:
        """Return z; 0 before the first update; ∞ if all predictions are 0 or 1 and one is wrong."""
        if not self._n_varying:
            return math.inf if self._n_impossible else 0.0
        variance = self._variance.value
        return self._excess.value / math.sqrt(variance) if variance > 0.0 else 0.0

    @property
    def p_value(self) -> float:
        """Two-sided p-value of z under calibration, in [0, 1]; 1 before the first update."""
        return math.erfc(abs(self.get()) / math.sqrt(2.0))

    def _add(self, y_true: Any, y_pred: Any, w: float) -> None:
        self._count(*as_event(y_true, y_pred, self.pos_val), w, 1)

    def _remove(self, y_true: Any, y_pred: Any, w: float) -> None:
        p, happened = as_event(y_true, y_pred, self.pos_val)
        if not self._n_samples:
            raise ValueError(f"`y_pred` must have been added before, got {y_pred!r}")
        self._count(p, happened, w, -1)

    def _count(self, p: float, happened: bool, w: float, sign: int) -> None:
        slope = 1.0 - 2.0 * p
        variance = slope * slope * p * (1.0 - p)
        excess = self._excess.plus(sign * w * (happened - p) * slope)
        total = self._variance.plus(sign * w * w * variance)
        # No call from here on, so that an exception finds all or nothing.
        self._n_samples += sign
        self._n_varying += sign * (variance > 0.0)
        self._n_impossible += sign * (p == 1.0 - happened)
        self._excess, self._variance = excess, total
