"""Online Platt scaling: a logistic map of the log odds, followed by one Newton step per sample.

A probability p becomes sigmoid(a · logit p + b). The two numbers start at the identity (1, 0) and
follow the log loss by the online Newton step (Hazan, Agarwal & Kale, *Logarithmic Regret Algorithms
for Online Convex Optimization*, Machine Learning 2007), as Gupta & Ramdas propose in *Online Platt
Scaling with Calibeating*, ICML 2023, Section 2: its regret against the best (a, b) in hindsight
grows with log n only, whatever the data.
"""

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from streamcal._state import Arrays, Fields, array_of, require
from streamcal._validation import LARGEST, as_score, as_weight, check_half_life
from streamcal.calibration.probability import (
    MOST_BINS,
    ProbabilityCalibrator,
    as_label,
    as_probabilities,
    as_probability,
    check_clip,
    check_count,
    check_curvature,
)
from streamcal.kernels.platt import Platt


class PlattCalibrator(ProbabilityCalibrator):
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
        Scores nearer to 0 or 1 than this count as if they were this near; in [1e-15, 0.5). Naive
        Bayes and trees answer 0 and 1, whose log odds are infinite.
    calibeating : int
        Into how many bins of equal width the answers are sorted, each then replaced by the mean
        label of those before it in its bin; 0 for none, at most 1,000,000. See Notes.
    half_life : float, optional
        Halve the hold of past samples on the step size, and their weight in the bins, with every
        so many that follow, at least 0.1. None: steps get ever smaller.

    Raises
    ------
    ValueError
        If a parameter is out of its range.

    Notes
    -----
    ``gamma``, ``prior`` and ``radius`` default to the constants of the paper's Algorithm 1, which
    it found not to matter much.

    Calibeating ("tracking" in the paper's Section 3, after Foster & Hart) guarantees calibration
    whatever the data: in each bin of what Platt scaling says, the mean label is served. The first
    of these is Platt's own answer, as one sample, where the paper starts with none. A map with bins
    need not rise with the score; some tens of bins are usual.

    A sample of weight w counts as w samples in one step: its gradient
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
        calibeating: int = 0,
        half_life: float | None = None,
    ) -> None:
        as_weight(gamma, "gamma")
        as_weight(prior, "prior")
        if not 1.0 < as_score(radius, "radius") <= LARGEST:
            raise ValueError(f"`radius` must be more than 1 and at most {LARGEST:g}, got {radius}")
        check_clip(clip)
        check_count(calibeating, "calibeating", 0, MOST_BINS)
        check_half_life(half_life)
        self.gamma = gamma
        self.prior = prior
        self.radius = radius
        self.clip = clip
        self.calibeating = calibeating
        self.half_life = half_life

        fade = 0.5 ** (1.0 / half_life) if half_life else 1.0
        self._platt = Platt(gamma, prior, radius, clip, fade, calibeating)

    @property
    def slope(self) -> float:
        """By what the log odds are multiplied."""
        return self._platt.slope

    @property
    def intercept(self) -> float:
        """What is then added to them."""
        return self._platt.intercept

    def learn_one(self, score: float, y: float, w: float = 1.0) -> None:
        """Take one Newton step towards the label ``y`` in [0, 1] of ``score`` in [0, 1].

        Raises
        ------
        ValueError, TypeError
            If an argument is not such a number or ``w`` is not from 1e-60 to 1e60.
        """
        weight = 1.0 if w == 1.0 else as_weight(w)
        self._platt.learn(as_probability(score), as_label(y), weight)

    def predict_one(self, score: float) -> float:
        """Return the calibrated probability of ``score`` in [0, 1], in the open interval (0, 1).

        Before anything is learned it is the score itself.
        """
        return self._platt.predict(as_probability(score))

    def predict_many(self, scores: ArrayLike) -> NDArray[np.float64]:
        """Return the calibrated probabilities of ``scores``, shape ``(n_samples,)``."""
        vector = as_probabilities(scores)
        out = np.empty(len(vector))
        self._platt.predict_many(vector, out)
        return out

    def learn_many(self, scores: ArrayLike, y: ArrayLike, w: ArrayLike | None = None) -> None:
        """Learn samples in the order given, in one compiled loop."""
        self.predict_learn_many(scores, y, w)

    def predict_learn_many(
        self, scores: ArrayLike, y: ArrayLike, w: ArrayLike | None = None
    ) -> NDArray[np.float64]:
        """Predict each sample, then learn it, in one compiled loop; see `Calibrator`."""
        samples = self._check_samples(scores, y, w)
        out = np.empty(len(samples[0]))
        self._platt.predict_learn_many(*samples, out)
        return out

    def _freeze(self) -> tuple[Fields, Arrays]:
        numbers, bins = self._platt.state()
        return {}, {"numbers": numbers, "bins": bins}

    @classmethod
    def _check_room(cls, parameters: Fields, arrays: Arrays) -> None:
        n_bins = parameters.get("calibeating", 0)
        require(n_bins == array_of(arrays, "bins", 2, None).shape[1], "bins must be as many")

    def _thaw(self, fields: Fields, arrays: Arrays) -> None:
        numbers = array_of(arrays, "numbers", 6)
        bins = array_of(arrays, "bins", 2, self.calibeating)
        slope, intercept, aa, ab, bb, n_learned = numbers.tolist()
        check_curvature(np.array([[aa, ab], [ab, bb]]))
        within = math.hypot(slope, intercept) <= self.radius * (1.0 + 1e-9)
        require(within, "slope and intercept must be within the radius")
        require(n_learned >= 0.0 and n_learned.is_integer(), "samples must be a number")
        require((bins[1] >= 0.0).all() and (bins[1] <= bins[0]).all(), "labels must be in [0, 1]")
        self._platt.restore(numbers.tolist(), bins)
