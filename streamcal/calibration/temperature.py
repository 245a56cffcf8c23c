"""Online temperature scaling: one number for all labels.

Probabilities p_k become proportional to p_k ** (1 / T): less confident for T > 1, more confident
for T < 1, in the same order of labels (Guo, Pleiss, Sun & Weinberger, *On Calibration of Modern
Neural Networks*, ICML 2017, section 4.2). The log loss is convex in 1 / T, which starts at 1 and is
learned by online Newton steps.
"""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from functools import partial

import numpy as np
from river.base.typing import ClfTarget

from streamcal._validation import as_weight, check_label
from streamcal._whole import Step, do_all
from streamcal.calibration.clock import Time
from streamcal.calibration.joint import JointCalibrator, as_probabilities_by_label
from streamcal.calibration.newton import NewtonSteps
from streamcal.kernels.newton import Temperature


class TemperatureCalibrator(NewtonSteps, JointCalibrator):
    """One temperature for the probabilities of all labels, learned by online Newton steps.

    It needs few samples for any number of labels. It cannot correct single labels.

    Parameters
    ----------
    gamma : float
        Inverse step size of the Newton step, positive. Smaller is faster and rougher.
    prior : float
        Curvature assumed before the first sample, positive. Larger starts slower.
    limit : float
        The temperature stays in [1 / limit, limit]; more than 1, at most 1e60.
    half_life : float or timedelta, optional
        The number of samples after which the influence of a sample on the step size is
        halved, at least 0.1, or the time after which it is. None: steps become ever
        smaller. With a timedelta, `learn_one` needs the time ``t`` of each sample.
    clip : float
        Smaller probabilities are replaced by this number, which is in [1e-15, 0.5).

    Raises
    ------
    ValueError, TypeError
        If a parameter is out of its range.

    Examples
    --------
    A model that claims 90 % for one of three labels and is right half of the time:

    >>> calibrator = TemperatureCalibrator()
    >>> raw = {"cold": 0.05, "warm": 0.9, "hot": 0.05}
    >>> for y in ["warm", "cold", "warm", "hot"] * 500:
    ...     calibrator.learn_one(raw, y)
    >>> round(calibrator.predict_one(raw)["warm"], 2), round(calibrator.temperature, 1)
    (0.5, 4.2)
    """

    def __init__(
        self,
        gamma: float = 0.1,
        prior: float = 10.0,
        limit: float = 100.0,
        half_life: float | timedelta | None = None,
        clip: float = 1e-6,
    ) -> None:
        settings = self._set_up(gamma, prior, limit, half_life, clip)
        self._kernel: Temperature = Temperature(*settings, self._seconds)

    @property
    def temperature(self) -> float:
        """The current T."""
        return 1.0 / self._kernel.exponent

    def learn_one(
        self, raw: Mapping[ClfTarget, float], y: ClfTarget, w: float = 1.0, *, t: Time | None = None
    ) -> None:
        """Take one Newton step towards the true label.

        Nothing is learned from a label without a probability, or if it is the only label.

        Raises
        ------
        ValueError, TypeError
            If ``raw`` does not map labels to numbers in [0, 1], ``y`` is not a label, or ``w`` is
            not from 1e-60 to 1e60.
        """
        do_all(*self._steps(raw, y, w, t))

    def _learn_steps(
        self, raw: Mapping[ClfTarget, float], y: ClfTarget, w: float, t: Time | None = None
    ) -> Sequence[Step]:
        if type(self).learn_one is not TemperatureCalibrator.learn_one:
            return super()._learn_steps(raw, y, w, t)
        return self._steps(raw, y, w, t)

    def _steps(
        self, raw: Mapping[ClfTarget, float], y: ClfTarget, w: float, t: Time | None
    ) -> Sequence[Step]:
        """Return what learns a sample, after checks."""
        weight = as_weight(w)
        vector = np.array([*as_probabilities_by_label(raw).values()])
        check_label(y)
        moment = self._read_time(t)
        places = [place for place, label in enumerate(raw) if label == y]
        if not places or len(raw) < 2:
            return ()
        if not self.needs_time:
            return (partial(self._kernel.learn, vector, places[0], weight),)
        learn = partial(self._kernel.learn, vector, places[0], weight, moment.seconds)
        return learn, *self._kind_steps(moment.kind)

    def predict_one(self, raw: Mapping[ClfTarget, float]) -> dict[ClfTarget, float]:
        """Return the calibrated probability of each label; the state does not change.

        Before anything is learned, these are the model's probabilities, divided by their sum.
        """
        vector = np.array([*as_probabilities_by_label(raw).values()])
        out = np.empty(len(vector))
        total = float(vector.sum())
        if self._kernel.n_samples == 0.0 and total > 0.0:
            out = vector / total
        elif len(vector):
            self._kernel.predict(vector, out)
        return dict(zip(raw, out.tolist(), strict=True))

    def _facts(self) -> dict[str, float]:
        return {"temperature": self.temperature}
