"""Online beta calibration: a three-parameter map that bends the two ends apart.

A probability p becomes sigmoid(a · ln p − b · ln(1 − p) + c) with a, b ≥ 0: what is right where the
scores of either class follow a beta distribution (Kull, Silva Filho & Flach, *Beta Calibration*,
AISTATS 2017). With a = b it is Platt's map of the log odds; a ≠ b puts right a model that is too
sure of one class only. The parameters start at the identity (1, 1, 0) and follow the log loss by
online Newton steps, as `streamcal.PlattCalibrator` does.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from streamcal._state import Arrays, Fields, array_of, require
from streamcal._validation import as_score, as_weight, check_half_life
from streamcal.calibration.probability import (
    ProbabilityCalibrator,
    as_label,
    as_probabilities,
    as_probability,
    check_clip,
    check_curvature,
)
from streamcal.kernels.newton import Beta


class BetaCalibrator(ProbabilityCalibrator):
    """Three-parameter calibration of a probability, learned by online Newton steps.

    Memory and time per sample are constant.

    Parameters
    ----------
    gamma : float
        Inverse step size of the Newton step, positive. Smaller is faster and rougher.
    prior : float
        Curvature assumed before the first sample, positive. Larger starts slower.
    limit : float
        The parameters a and b stay in [0, limit], c in [−limit, limit]; more than 1.
    half_life : float, optional
        Halve the hold of past samples on the step size with every so many that follow, at least
        0.1: the map then follows a stream that drifts. None: steps get ever smaller.
    clip : float
        Scores nearer to 0 or 1 than this count as if they were this near; in [1e-15, 0.5).

    Raises
    ------
    ValueError, TypeError
        If a parameter is out of its range.

    Examples
    --------
    A model whose claims of 99 % are right, while its claims of 1 % are wrong one time in four:

    >>> calibrator = BetaCalibrator()
    >>> for i in range(2000):
    ...     calibrator.learn_one(0.99, i % 100 > 0)
    ...     calibrator.learn_one(0.01, i % 4 == 0)
    >>> round(calibrator.predict_one(0.99), 2), round(calibrator.predict_one(0.01), 2)
    (0.99, 0.25)
    """

    def __init__(
        self,
        gamma: float = 0.1,
        prior: float = 100.0,
        limit: float = 100.0,
        half_life: float | None = None,
        clip: float = 1e-6,
    ) -> None:
        as_weight(gamma, "gamma")
        as_weight(prior, "prior")
        if not as_score(limit, "limit") > 1.0:
            raise ValueError(f"`limit` must be more than 1, got {limit}")
        check_half_life(half_life)
        check_clip(clip)
        self.gamma = gamma
        self.prior = prior
        self.limit = limit
        self.half_life = half_life
        self.clip = clip

        fade = 0.5 ** (1.0 / half_life) if half_life else 1.0
        self._beta = Beta(gamma, prior, limit, clip, fade)

    @property
    def parameters(self) -> tuple[float, float, float]:
        """The current (a, b, c)."""
        return self._beta.parameters

    def learn_one(self, score: float, y: float, w: float = 1.0) -> None:
        """Take one Newton step towards the label ``y`` in [0, 1] of ``score`` in [0, 1].

        Raises
        ------
        ValueError, TypeError
            If an argument is not such a number or ``w`` is not from 1e-60 to 1e60.
        """
        weight = 1.0 if w == 1.0 else as_weight(w)
        self._beta.learn(as_probability(score), as_label(y), weight)

    def predict_one(self, score: float) -> float:
        """Return the calibrated probability of ``score`` in [0, 1], in the open interval (0, 1).

        Before anything is learned it is the score itself.
        """
        return self._beta.predict(as_probability(score))

    def predict_many(self, scores: ArrayLike) -> NDArray[np.float64]:
        """Return the calibrated probabilities of ``scores``, shape ``(n_samples,)``."""
        vector = as_probabilities(scores)
        out = np.empty(len(vector))
        self._beta.predict_many(vector, out)
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
        self._beta.predict_learn_many(*samples, out)
        return out

    def _freeze(self) -> tuple[Fields, Arrays]:
        return {}, {"numbers": self._beta.state()}

    def _thaw(self, fields: Fields, arrays: Arrays) -> None:
        numbers = array_of(arrays, "numbers", 13)
        theta, n_learned = numbers[:3], float(numbers[12])
        require((theta[:2] >= 0.0).all(), "slopes must not be negative")
        require((np.abs(theta) <= self.limit).all(), "parameters must be within the limit")
        check_curvature(numbers[3:12].reshape(3, 3))
        require(n_learned >= 0.0 and n_learned.is_integer(), "samples must be a number")
        self._beta.restore(numbers)
