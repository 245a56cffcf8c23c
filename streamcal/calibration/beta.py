"""Online beta calibration: a three-parameter map with a different slope at each end.

A probability p becomes sigmoid(a · ln p − b · ln(1 − p) + c) with a, b ≥ 0. This map is
correct if the scores of each class follow a beta distribution (Kull, Silva Filho & Flach, *Beta
Calibration*, AISTATS 2017). With a = b it is Platt's map of the log odds; a ≠ b corrects a model
that is overconfident for one class only. The parameters start at the identity (1, 1, 0) and follow
the log loss by online Newton steps, as `streamcal.PlattCalibrator` does.
"""

from datetime import timedelta

import numpy as np

from streamcal.calibration.newton import NewtonSteps
from streamcal.calibration.probability import CompiledCalibrator
from streamcal.export.curve import linear, logistic
from streamcal.export.description import Description, unlearned
from streamcal.export.maps import Logistic
from streamcal.kernels.newton import Beta


class BetaCalibrator(NewtonSteps, CompiledCalibrator):
    """Three-parameter calibration of a probability, learned by online Newton steps.

    Memory and time per sample are constant.

    Parameters
    ----------
    gamma : float
        Inverse step size of the Newton step, positive. Smaller is faster and rougher.
    prior : float
        Curvature assumed before the first sample, positive. Larger starts slower.
    limit : float
        The parameters a and b stay in [0, limit], c in [−limit, limit]; more than 1, at most 1e60.
    half_life : float or timedelta, optional
        The number of samples after which the influence of a sample on the step size is
        halved, at least 0.1, or the time after which it is; the map then follows drift.
        None: steps become ever smaller. With a timedelta, `learn_one` needs the time ``t``
        of each sample.
    clip : float
        Scores are clipped to [clip, 1 − clip]; ``clip`` is in [1e-15, 0.5).

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
        half_life: float | timedelta | None = None,
        clip: float = 1e-6,
    ) -> None:
        settings = self._set_up(gamma, prior, limit, half_life, clip)
        self._kernel: Beta = Beta(*settings, self._seconds)

    @property
    def parameters(self) -> tuple[float, float, float]:
        """The current (a, b, c)."""
        return self._kernel.parameters

    def _describe(self) -> Description:
        if not self.n_samples:
            return unlearned(0.0, 1.0, of_probabilities=True)
        of, value = self.parameters, self._kernel.predict_many
        formula = Logistic.clipped("beta", *of, self.clip)
        if formula is None:
            return Description(linear(value, np.empty(0)))
        return Description(logistic(value, (formula.low, formula.high), of), formula)

    def _facts(self) -> dict[str, float]:
        return dict(zip("abc", self.parameters, strict=True))
