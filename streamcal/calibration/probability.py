"""What calibrators of probabilities have in common: scores and labels in [0, 1].

Sums of probabilities, which wrappers and ensembles make, overshoot 1 by some rounding. That much is
forgiven; anything further outside [0, 1] is refused, since it is no probability.
"""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from streamcal._validation import as_number, as_score, as_vector
from streamcal.calibration.base import Calibrator
from streamcal.losses import Log

_LOSS = Log()
_ROUNDING = 1e-9


class ProbabilityCalibrator(Calibrator):
    """A calibrator of probabilities: scores in [0, 1], labels 0 and 1 or a share between them."""

    def _check_labels(self, y: ArrayLike) -> NDArray[np.float64]:
        labels = as_vector(y, "y", finite=False)
        _LOSS.check_labels(labels)
        return labels

    def _check_samples(
        self, scores: ArrayLike, y: ArrayLike, w: ArrayLike | None
    ) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
        vector, labels, weights = super()._check_samples(scores, y, w)
        return as_probabilities(vector), labels, weights


def as_probability(score: float) -> float:
    """Return a score as a Python float in [0, 1], or raise.

    Examples
    --------
    >>> as_probability(1.0 + 1e-12)
    1.0
    """
    p = score if type(score) is float else as_score(score)
    if 0.0 <= p <= 1.0:
        return p
    if -_ROUNDING <= p <= 1.0 + _ROUNDING:
        return min(max(p, 0.0), 1.0)
    as_score(p)
    raise ValueError(f"`score` must be a probability in [0, 1], got {p}")


def as_probabilities(scores: ArrayLike) -> NDArray[np.float64]:
    """Return scores as a vector in [0, 1], or raise with the first position that is not."""
    vector = as_vector(scores, "scores")
    outside = (vector < 0.0) | (vector > 1.0)
    if not outside.any():
        return vector
    far = (vector < -_ROUNDING) | (vector > 1.0 + _ROUNDING)
    if far.any():
        at = int(np.argmax(far))
        raise ValueError(f"`scores` must lie in [0, 1], got {vector[at]} at position {at}")
    return vector.clip(0.0, 1.0)


def as_label(y: float) -> float:
    """Return a label as a Python float in [0, 1], or raise."""
    label = y if type(y) is float else as_number(y, "y")
    if not 0.0 <= label <= 1.0:
        _LOSS.check_labels(label)
    return label


def check_clip(clip: float) -> None:
    """Raise unless ``clip`` lies in [2**-53, 0.5): below that 1 − clip is 1."""
    if not 2.0**-53 <= as_score(clip, "clip") < 0.5:
        raise ValueError(f"`clip` must lie in [2**-53, 0.5), got {clip}")


def check_count(n: Any, name: str, least: int) -> None:
    """Raise unless ``n`` is an int of at least ``least``."""
    if isinstance(n, bool) or not isinstance(n, int | np.integer) or n < least:
        raise ValueError(f"`{name}` must be an int of at least {least}, got {n!r}")
