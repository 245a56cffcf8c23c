"""Online Platt scaling: a logistic map of the log odds, followed by one Newton step per sample.

A probability p becomes sigmoid(a · logit p + b). The two numbers start at the identity (1, 0) and
follow the log loss by the online Newton step (Hazan, Agarwal & Kale, *Logarithmic Regret Algorithms
for Online Convex Optimization*, Machine Learning 2007), as Gupta & Ramdas propose in *Online Platt
Scaling with Calibeating*, ICML 2023, Section 2: its regret against the best (a, b) in hindsight
grows with log n only, whatever the data.
"""

from math import exp, hypot, inf, log

import numpy as np
from numpy.typing import ArrayLike, NDArray

from streamcal._state import Arrays, Fields, require
from streamcal._validation import as_number, as_score, as_vector, as_weight
from streamcal.calibration.base import Calibrator
from streamcal.losses import Log

_LOSS = Log()
_ROUNDING = 1e-9  # sums of probabilities overshoot 1 by this much at most
_STEEPEST = 34.0  # sigmoid(±34) is the last value a float still tells from 0 and 1


class PlattCalibrator(Calibrator):
    """Two-parameter logistic calibration of a probability, learned by online Newton steps.

    Memory and time per sample are constant. Against `streamcal.IsotonicCalibrator` it learns from
    fewer samples, but it can only stretch and shift the log odds.

    Parameters
    ----------
    gamma : float
        Inverse step size of the Newton step, positive. Smaller is faster and rougher.
    prior : float
        Curvature assumed before the first sample, positive. Larger starts slower.
    radius : float
        The parameters (a, b) stay within this distance from the origin; more than 1.
    clip : float
        Scores nearer to 0 or 1 than this count as if they were this near; in (0, 0.5). Naive Bayes
        and trees answer 0 and 1, whose log odds are infinite.

    Attributes
    ----------
    slope, intercept : float
        The current a and b.

    Raises
    ------
    ValueError
        If a parameter is out of its range.

    Notes
    -----
    ``gamma``, ``prior`` and ``radius`` default to the constants of the paper's Algorithm 1, which
    it found not to matter much. A sample of weight w counts as w samples in one step: its gradient
    and its curvature are multiplied by w. Learning it w times is w steps, which is close but not
    the same.

    Examples
    --------
    A model that is right in three cases of four but claims 99 %:

    >>> calibrator = PlattCalibrator()
    >>> calibrator.predict_one(0.99)
    0.99
    >>> for i in range(1000):
    ...     calibrator.learn_one(0.99, i % 4 > 0)
    ...     calibrator.learn_one(0.01, i % 4 == 0)
    >>> round(calibrator.predict_one(0.99), 2)
    0.75
    """

    def __init__(
        self,
        gamma: float = 0.1,
        prior: float = 100.0,
        radius: float = 100.0,
        clip: float = 1e-6,
    ):
        as_weight(gamma, "gamma")
        as_weight(prior, "prior")
        if not as_score(radius, "radius") > 1.0:
            raise ValueError(f"`radius` must be more than 1, got {radius}")
        if not 0.0 < as_score(clip, "clip") < 0.5:
            raise ValueError(f"`clip` must lie in (0, 0.5), got {clip}")
        self.gamma = gamma
        self.prior = prior
        self.radius = radius
        self.clip = clip

        self.slope = 1.0
        self.intercept = 0.0
        # Σ w · gradient · gradientᵀ + prior · I, a symmetric matrix of three numbers
        self._curve_aa = self._curve_bb = float(prior)
        self._curve_ab = 0.0
        self._untouched = True

    def learn_one(self, score: float, y: float, w: float = 1.0) -> None:
        """Take one Newton step towards the label ``y`` in [0, 1] of ``score`` in [0, 1].

        Raises
        ------
        ValueError, TypeError
            If an argument is not such a number or ``w`` is not from 1e-60 to 1e60.
        """
        s = self._log_odds(_as_probability(score))
        label = as_number(y, "y")
        if not 0.0 <= label <= 1.0:
            _LOSS.check_labels(label)
        weight = 1.0 if w == 1.0 else as_weight(w)

        slope, intercept = self.slope, self.intercept
        error = _sigmoid(slope * s + intercept) - label
        curvature = weight * error * error
        aa = self._curve_aa + curvature * s * s
        ab = self._curve_ab + curvature * s
        bb = self._curve_bb + curvature
        # det A ≥ prior · (trace A − prior); rounding may say less where one score dominates.
        det = aa * bb - ab * ab
        least = self.prior * (aa + bb - self.prior)
        if det < least:
            det = least
        elif not det < inf:
            raise ValueError(f"`w` must not make the sum of squared gradients overflow, got {w}")
        # Newton's direction is A⁻¹ · (s, 1), up to the factor that comes with the weighted error.
        step = weight * error / (self.gamma * det)
        slope -= step * (bb * s - ab)
        intercept -= step * (aa - ab * s)
        if slope * slope + intercept * intercept > self.radius * self.radius:
            slope, intercept = _project(slope, intercept, aa, ab, bb, self.radius)

        self.slope, self.intercept = slope, intercept
        self._curve_aa, self._curve_ab, self._curve_bb = aa, ab, bb
        self._untouched = False

    def predict_one(self, score: float) -> float:
        """Return the calibrated probability of ``score`` in [0, 1], in the open interval (0, 1).

        Before anything is learned it is the score itself.
        """
        p = _as_probability(score)
        if self._untouched:
            return p
        return _sigmoid(self.slope * self._log_odds(p) + self.intercept)

    def _freeze(self) -> tuple[Fields, Arrays]:
        numbers = [self.slope, self.intercept, self._curve_aa, self._curve_ab, self._curve_bb]
        return {"untouched": self._untouched}, {"numbers": np.array(numbers)}

    def _thaw(self, fields: Fields, arrays: Arrays) -> None:
        numbers = arrays["numbers"]
        require(numbers.shape == (5,) and np.isfinite(numbers).all(), "numbers must be finite")
        require(numbers[2] > 0.0 and numbers[4] > 0.0, "curvatures must be positive")
        self.slope, self.intercept, *curve = numbers.tolist()
        self._curve_aa, self._curve_ab, self._curve_bb = curve
        self._untouched = bool(fields["untouched"])

    def _log_odds(self, p: float) -> float:
        clip = self.clip
        if p < clip:
            p = clip
        elif p > 1.0 - clip:
            p = 1.0 - clip
        return log(p / (1.0 - p))

    def _check_labels(self, y: ArrayLike) -> NDArray[np.float64]:
        labels = as_vector(y, "y", finite=False)
        _LOSS.check_labels(labels)
        return labels

    def _check_samples(
        self, scores: ArrayLike, y: ArrayLike, w: ArrayLike | None
    ) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
        vector, labels, weights = super()._check_samples(scores, y, w)
        outside = (vector < -_ROUNDING) | (vector > 1.0 + _ROUNDING)
        if outside.any():
            at = int(np.argmax(outside))
            raise ValueError(f"`scores` must lie in [0, 1], got {vector[at]} at position {at}")
        return vector, labels, weights


def _as_probability(score: float) -> float:
    """Return a score as a float in [0, 1]."""
    p = score if type(score) is float else as_score(score)
    if 0.0 <= p <= 1.0:
        return p
    if -_ROUNDING <= p <= 1.0 + _ROUNDING:
        return min(max(p, 0.0), 1.0)
    raise ValueError(f"`score` must be a probability in [0, 1], got {p}")


def _sigmoid(z: float) -> float:
    if z > _STEEPEST:
        z = _STEEPEST
    elif z < -_STEEPEST:
        z = -_STEEPEST
    return 1.0 / (1.0 + exp(-z))


def _project(
    a: float, b: float, aa: float, ab: float, bb: float, radius: float
) -> tuple[float, float]:
    """Return the point of the disc that is nearest to (a, b) in the metric of A = [aa ab; ab bb].

    It is (A + λI)⁻¹ A (a, b) for the λ > 0 that puts it on the circle; its norm falls in λ.
    """
    u, v = aa * a + ab * b, ab * a + bb * b

    def point(shift: float) -> tuple[float, float]:
        p, q = aa + shift, bb + shift
        det = p * q - ab * ab
        return (q * u - ab * v) / det, (p * v - ab * u) / det

    low, high = 0.0, hypot(u, v) / radius  # at `high` the norm is below the radius
    for _ in range(100):
        middle = 0.5 * (low + high)
        if hypot(*point(middle)) > radius:
            low = middle
        else:
            high = middle
    return point(high)
