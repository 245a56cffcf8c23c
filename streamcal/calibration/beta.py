"""Online beta calibration: a three-parameter map that bends the two ends apart.

A probability p becomes sigmoid(a · ln p − b · ln(1 − p) + c) with a, b ≥ 0: what is right where the
scores of either class follow a beta distribution (Kull, Silva Filho & Flach, *Beta Calibration*,
AISTATS 2017). With a = b it is Platt's map of the log odds; a ≠ b puts right a model that is too
sure of one class only. The parameters start at the identity (1, 1, 0) and follow the log loss by
online Newton steps, as `streamcal.PlattCalibrator` does.
"""

import numpy as np

from streamcal._state import Arrays, Fields, require
from streamcal._validation import as_score, as_weight, check_half_life
from streamcal.calibration.probability import (
    ProbabilityCalibrator,
    as_label,
    as_probability,
    check_clip,
)
from streamcal.kernels import newton as kernels


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
        Scores nearer to 0 or 1 than this count as if they were this near; in [2**-53, 0.5).

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

        self._numbers = np.zeros(kernels.THETA + 3 + 9)
        self._numbers[[kernels.GAMMA, kernels.PRIOR]] = gamma, prior
        self._numbers[kernels.FADE] = 0.5 ** (1.0 / half_life) if half_life else 1.0
        self._numbers[[kernels.CLIP, kernels.SIZE]] = clip, limit
        self._numbers[kernels.THETA : kernels.THETA + 2] = 1.0
        self._numbers[kernels.THETA + 3 :: 4] = prior

    @property
    def parameters(self) -> tuple[float, float, float]:
        """The current (a, b, c)."""
        a, b, c = self._numbers[kernels.THETA : kernels.THETA + 3].tolist()
        return a, b, c

    def learn_one(self, score: float, y: float, w: float = 1.0) -> None:
        """Take one Newton step towards the label ``y`` in [0, 1] of ``score`` in [0, 1].

        Raises
        ------
        ValueError, TypeError
            If an argument is not such a number or ``w`` is not from 1e-60 to 1e60.
        """
        weight = 1.0 if w == 1.0 else as_weight(w)
        kernels.beta_learn(self._numbers, as_probability(score), as_label(y), weight)

    def predict_one(self, score: float) -> float:
        """Return the calibrated probability of ``score`` in [0, 1], in the open interval (0, 1).

        Before anything is learned it is the score itself.
        """
        return kernels.beta_predict(self._numbers, as_probability(score))

    def _freeze(self) -> tuple[Fields, Arrays]:
        numbers = self._numbers
        return {"n": float(numbers[kernels.N_LEARNED])}, {"numbers": numbers[kernels.THETA :]}

    def _thaw(self, fields: Fields, arrays: Arrays) -> None:
        numbers = arrays["numbers"]
        require(numbers.shape == (12,) and np.isfinite(numbers).all(), "numbers must be finite")
        require((numbers[:2] >= 0.0).all(), "slopes must not be negative")
        require(fields["n"] >= 0.0, "a count must not be negative")
        self._numbers[kernels.THETA :] = numbers
        self._numbers[kernels.N_LEARNED] = fields["n"]
