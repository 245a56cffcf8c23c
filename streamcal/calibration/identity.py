"""No calibration: what every other method has to beat."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from streamcal._state import Arrays, Fields
from streamcal._validation import as_weight
from streamcal.calibration.probability import (
    ProbabilityCalibrator,
    as_label,
    as_probabilities,
    as_probability,
)


class IdentityCalibrator(ProbabilityCalibrator):
    """Return the score itself; learn nothing.

    The baseline of a comparison, and the member of a `streamcal.HedgedCalibrator` that is right
    where the model is calibrated already.

    Examples
    --------
    >>> calibrator = IdentityCalibrator()
    >>> calibrator.learn_one(0.9, 0)
    >>> calibrator.predict_one(0.9)
    0.9
    """

    def learn_one(self, score: float, y: float, w: float = 1.0) -> None:
        """Check the sample; nothing is learned.

        Raises
        ------
        ValueError, TypeError
            If ``score`` or ``y`` is not a number in [0, 1], or ``w`` not from 1e-60 to 1e60.
        """
        as_probability(score)
        as_label(y)
        if w != 1.0:
            as_weight(w)

    def predict_one(self, score: float) -> float:
        """Return the score, a probability in [0, 1]."""
        return as_probability(score)

    def predict_many(self, scores: ArrayLike) -> NDArray[np.float64]:
        """Return a copy of the scores, shape ``(n_samples,)``."""
        return as_probabilities(scores).copy()

    def _freeze(self) -> tuple[Fields, Arrays]:
        return {}, {}

    def _thaw(self, fields: Fields, arrays: Arrays) -> None:
        pass
