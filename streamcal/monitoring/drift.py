"""A drift detector that finds when probabilities stop being right."""

import math
from collections.abc import Callable, Sequence
from typing import Any

from river import base

from streamcal._state.clone import Cloned
from streamcal._validation import as_within, check_label
from streamcal.monitoring._bets import Betting, check_predictions


class CalibrationDrift(Cloned, Betting, base.DriftDetector):
    """Detect when probabilities stop being right, with a bound on false alarms.

    As long as probabilities are right, the mean number of samples to a false alarm is at least
    ``run_length`` [1]_ [2]_. It is a drift detector of river that takes labels and probabilities,
    and the ``drift_detector`` of `streamcal.CalibratedClassifier`, which shows it the probabilities
    that it serves.

    Parameters
    ----------
    run_length : float
        The least mean number of samples to a false alarm, from 1 to 1e15.
    pos_val
        The label whose probability is watched. None: the label with the greatest probability.

    Attributes
    ----------
    n_samples : int
        How many samples have been added since the last alarm.

    Notes
    -----
    The bets are those of `CalibrationTest`; each of them stakes 1 before each sample, and their
    mean is the statistic of Shiryaev and Roberts. If probabilities are right, given all earlier
    probabilities and labels, this statistic grows by at most 1 for each sample in the mean (for
    weights of 1, by 1: less the number of samples, it is a martingale). So the mean number of
    samples to the first alarm is at least the mean of the statistic then, which is at least
    ``run_length``. O(1) memory and time for each sample. After an alarm the next `update` begins
    anew.

    References
    ----------
    .. [1] Roberts, S. W. (1966). A comparison of some control chart procedures. Technometrics 8(3).
    .. [2] Shin, J., Ramdas, A. and Rinaldo, A. (2022). E-detectors: a nonparametric framework for
       sequential change detection. arXiv 2203.03532.

    Examples
    --------
    After 2,000 samples all odds become e times as large:

    >>> import numpy as np
    >>> rng = np.random.default_rng(1)
    >>> p = rng.random(4_000)
    >>> odds = p / (1.0 - p) * np.where(np.arange(4_000) < 2_000, 1.0, np.e)
    >>> y = rng.random(4_000) < odds / (1.0 + odds)
    >>> detector = CalibrationDrift(run_length=20_000)
    >>> for at, (y_true, y_pred) in enumerate(zip(y, p)):
    ...     detector.update(y_true, y_pred)
    ...     if detector.drift_detected:
    ...         break
    >>> at, detector.since
    (2097, 2000)
    """

    takes_probabilities = True
    """What tells a wrapper to pass labels and probabilities, in place of errors."""

    def __init__(self, run_length: float = 20_000, pos_val: Any = True) -> None:
        self.run_length: float = as_within(run_length, "run_length", "[1, 1e15]")
        super().__init__(pos_val, spends=False)

    # Other detectors of river take one number.
    def update(self, y_true: Any, y_pred: Any, w: float = 1.0) -> None:  # type: ignore[override]
        """Add a prediction and its label, as in `CalibrationTest.update`; see `drift_detected`.

        Raises
        ------
        ValueError, TypeError
            If the label is missing, or a probability or the weight out of range; nothing changes.
        """
        self._add_anew(lambda detector: detector._add(y_true, y_pred, w))

    def update_group(self, y_true: Any, y_preds: Sequence[Any], w: float = 1.0) -> None:
        """Add predictions that share an outcome, as in `CalibrationTest.update_group`.

        They are one sample. The wrapper's ``learn_group`` does so.

        Parameters
        ----------
        y_true
            The label of all rows.
        y_preds : sequence
            For each row what `update` takes as ``y_pred``; missing ones are left out.
        w : float
            The weight of the sample, in (0, 1].

        Raises
        ------
        ValueError, TypeError
            As `update` does, and if ``y_preds`` is no sequence; nothing changes.
        """
        check_label(y_true, "y_true")
        check_predictions(y_preds)
        self._update_rows([y_true] * len(y_preds), y_preds, w)

    def _update_rows(self, y_trues: Sequence[Any], y_preds: Sequence[Any], w: float = 1.0) -> None:
        """Do what `update_group` does, with a label for each row."""
        self._add_anew(lambda detector: detector._add_group(y_trues, y_preds, w))

    def _add_anew(self, add: Callable[["CalibrationDrift"], None]) -> None:
        """Add a sample; after an alarm, to fresh stakes."""
        if not self.drift_detected:
            add(self)
        else:
            fresh = type(self)(self.run_length, self.pos_val)
            add(fresh)
            self._bets = fresh._bets

    @property
    def drift_detected(self) -> bool:
        """Whether the statistic has reached ``run_length`` at the last sample."""
        # Nothing is kept of it: an interrupt between the bets and a flag would lose an alarm.
        return self.log_statistic >= math.log(self.run_length)

    @property
    def log_statistic(self) -> float:
        """The logarithm of the statistic; an alarm comes when it reaches that of ``run_length``."""
        return self._bets.log_value()

    @property
    def since(self) -> int | None:
        """After about how many samples since the last alarm calibration was lost.

        None unless `drift_detected`.
        """
        return self._bets.since() if self.drift_detected else None
