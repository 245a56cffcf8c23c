"""Online Platt scaling: a logistic map of the log odds, followed by one Newton step per sample.

A probability p becomes sigmoid(a · logit p + b). The two numbers start at the identity (1, 0) and
follow the log loss by the online Newton step (Hazan, Agarwal & Kale, *Logarithmic Regret Algorithms
for Online Convex Optimization*, Machine Learning 2007), as Gupta & Ramdas propose in *Online Platt
Scaling with Calibeating*, ICML 2023, Section 2: its regret against the best (a, b) in hindsight
grows only as log n, for any data.
"""

import math
from datetime import timedelta

import numpy as np

from streamcal._state import Arrays, Fields, array_of, require
from streamcal._validation import check_count
from streamcal.calibration.newton import NewtonSteps
from streamcal.calibration.probability import MOST_BINS, CompiledCalibrator
from streamcal.export.curve import Curve, Vector, first_true, linear, logistic, scaled
from streamcal.export.description import Description, unlearned
from streamcal.export.maps import Logistic
from streamcal.kernels.platt import Platt


class PlattCalibrator(NewtonSteps, CompiledCalibrator):
    """Two-parameter logistic calibration of a probability, learned by online Newton steps.

    Memory and time per sample are constant. It needs fewer samples than
    `streamcal.IsotonicCalibrator`, but it can only scale and shift the log odds.

    Parameters
    ----------
    gamma : float
        Inverse step size of the Newton step, positive. Smaller is faster and rougher.
    prior : float
        Curvature assumed before the first sample, positive. Larger starts slower.
    limit : float
        The parameters (a, b) stay within this distance from the origin; more than 1, at most 1e60.
    clip : float
        Scores are clipped to [clip, 1 − clip]; ``clip`` is in [1e-15, 0.5). Naive Bayes and trees
        predict 0 and 1, whose log odds are infinite.
    calibeating : int
        The number of bins of equal width for Platt's predictions, at most 1,000,000. The result is
        then the mean label of the earlier samples in the bin; see Notes. 0: no bins.
    half_life : float or timedelta, optional
        The number of samples after which the influence of a sample on the step size, and
        its weight in the bins, are halved; at least 0.1, or the time after which it is.
        None: steps become ever smaller. With a timedelta, `learn_one` needs the time ``t``
        of each sample.

    Raises
    ------
    ValueError
        If a parameter is out of its range.

    Notes
    -----
    The defaults of ``gamma``, ``prior`` and ``limit`` are the constants of the paper's Algorithm 1.

    Calibeating ("tracking" in the paper's Section 3, after Foster & Hart) predicts the mean of the
    earlier labels in each bin of Platt's predictions. On any stream of n labels, the mean Brier
    score with m bins is at most that of the best constant for each bin in hindsight, plus about
    m (1 + ln n) / n. This does not say that the predictions are calibrated: after 1,000 zeros and
    then 1,000 ones in a bin, they were running means, 0.155 on average, while half of the labels
    were ones. Each bin starts with Platt's prediction as one sample. A map with bins need not
    increase with the score. Some tens of bins are usual.

    A sample of weight w takes one step with w times its gradient and curvature. Learning it w times
    takes w steps; the result is close, but not the same.

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

    A half-life of a day, for samples with times: a year later, the old ones count nothing.

    >>> from datetime import datetime, timedelta
    >>> calibrator = PlattCalibrator(half_life=timedelta(days=1), calibeating=1)
    >>> begin = datetime(2025, 1, 1)
    >>> for i in range(100):
    ...     calibrator.learn_one(0.5, 1, t=begin + timedelta(minutes=i))
    >>> calibrator.learn_one(0.5, 0, t=begin + timedelta(days=365))
    >>> round(calibrator.predict_one(0.5), 2)
    0.44
    """

    def __init__(
        self,
        gamma: float = 0.1,
        prior: float = 100.0,
        limit: float = 100.0,
        clip: float = 1e-6,
        calibeating: int = 0,
        half_life: float | timedelta | None = None,
    ) -> None:
        settings = self._set_up(gamma, prior, limit, half_life, clip)
        check_count(calibeating, "calibeating", 0, MOST_BINS)
        self.calibeating = calibeating
        self._kernel: Platt = Platt(*settings, calibeating, self._seconds)

    @property
    def slope(self) -> float:
        """The factor of the log odds."""
        return self._kernel.slope

    @property
    def intercept(self) -> float:
        """The number added to the scaled log odds."""
        return self._kernel.intercept

    def _facts(self) -> dict[str, float]:
        return {"slope": self.slope, "intercept": self.intercept}

    def _describe(self) -> Description:
        if not self.n_samples:
            return unlearned(0.0, 1.0, of_probabilities=True)
        a, value = self.slope, self._kernel.predict_many
        formula = Logistic.clipped("platt", a, a, self.intercept, self.clip)
        if formula is None:
            return Description(linear(value, np.empty(0)))
        if self.calibeating:
            return Description(self._curve_in_bins(formula))
        curve = logistic(value, (formula.low, formula.high), (a, a, self.intercept))
        return Description(curve, formula)

    def _curve_in_bins(self, formula: Logistic) -> Curve:
        """Return the map with calibeating: in each bin Platt's answer counts as one sample."""
        numbers, bins, _ = self._kernel.state()
        platt = Platt(self.gamma, self.prior, self.limit, self.clip, 1.0, 0)
        platt.restore(numbers, np.empty((2, 0)), math.nan)
        n, (weights, _) = self.calibeating, bins
        ends = np.array([formula.low, formula.high])

        def bin_of(scores: Vector) -> Vector:
            return np.minimum(np.floor(platt.predict_many(scores) * n), n - 1.0)

        first, last = bin_of(ends).tolist()
        rises = first < last
        starts = np.arange(min(first, last) + 1.0, max(first, last) + 1.0)
        low, high = (np.full(len(starts), end) for end in ends)
        jumps = first_true(lambda x: (bin_of(x) >= starts) == rises, low, high)
        of = formula.a, formula.b, formula.c
        plain = logistic(self._kernel.predict_many, (formula.low, formula.high), of)
        assert plain.curvature is not None
        curvature = scaled(
            plain.curvature, lambda p: 1.0 / (weights[bin_of(p).astype(np.int64)] + 1.0)
        )
        return Curve(plain.value, ends, np.unique(jumps), curvature)

    def _freeze(self) -> tuple[Fields, Arrays]:
        numbers, bins, now = self._kernel.state()
        return self._freeze_clock(now), {"numbers": numbers, "bins": bins}

    @classmethod
    def _check_room(cls, parameters: Fields, arrays: Arrays) -> None:
        n_bins = parameters.get("calibeating", 0)
        require(
            n_bins == array_of(arrays, "bins", 2, None).shape[1],
            "the number of bins must be `calibeating`",
        )

    def _thaw(self, fields: Fields, arrays: Arrays) -> None:
        bins = array_of(arrays, "bins", 2, None)
        numbers = array_of(arrays, "numbers", None)
        self._kernel.read(numbers, bins, self._thaw_clock(fields))
