"""Empirical utility maximisation: the threshold with the best metric on past samples.

`maximize` relies on calibrated probabilities. EUM relies on past samples: it takes any scores,
calibrated or not, and the threshold at which past (score, label) pairs have the best metric [1]_.
Here it is updated sample by sample, over all samples, a window or with a half-life.

References
----------
.. [1] Koyejo, O., Natarajan, N., Ravikumar, P. and Dhillon, I. S. (2014). Consistent binary
   classification with generalized performance metrics. NeurIPS.
"""

import math
from datetime import timedelta
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from streamcal._frames import like_given
from streamcal._state import Arrays, Fields, Stateful, are_in, array_of, as_float, require
from streamcal._state.clone import Cloned
from streamcal._state.score_index import read_index
from streamcal._validation import (
    as_score,
    as_vector,
    as_weight,
    as_weights,
    check_same_length,
    growth_per_sample,
)
from streamcal._whole import do_all
from streamcal.calibration.clock import (
    Time,
    Timed,
    check_forgetting,
    check_window,
    in_samples,
    in_seconds,
)
from streamcal.decision.goals import AnyMetric, as_parameter, get_metric
from streamcal.kernels.confusion_index import LARGEST_GROWTH, ConfusionIndex
from streamcal.kernels.score_index import MOST_WEIGHT

Vector = NDArray[np.float64]


class ThresholdCurve(NamedTuple):
    """The metric at every threshold that gives different labels.

    Attributes
    ----------
    thresholds : ndarray of shape (n_scores + 1,)
        inf, then the distinct scores, descending; the label is 1 from the threshold up.
    utilities : ndarray of shape (n_scores + 1,)
        The metric of past samples at each threshold.

    Examples
    --------
    >>> rule = EUMThreshold("f1")
    >>> for score, y in [(0.2, 0), (0.9, 1), (0.6, 1), (0.7, 0)]:
    ...     rule.learn_one(score, y)
    >>> curve = rule.curve()
    >>> curve.thresholds
    array([inf, 0.9, 0.7, 0.6, 0.2])
    >>> curve.utilities.round(3)
    array([0.   , 0.667, 0.5  , 0.8  , 0.667])
    """

    thresholds: Vector
    utilities: Vector


class EUMThreshold(Timed, Stateful, Cloned):
    """The threshold that maximises a metric on past (score, label) pairs, kept up to date.

    Parameters
    ----------
    metric : str, Metric or river metric
        See `streamcal.decision.get_metric`.
    window : int, timedelta or None
        Keep only this many of the last samples; None keeps all. With a timedelta: those that were
        younger than that when the newest one was learned.
    half_life : float, timedelta or None
        After how many samples the weight of a sample is halved, at least 0.1, or after which time;
        None: never.

    Raises
    ------
    ValueError, TypeError
        If the metric is unknown, ``window`` not a positive int or timedelta, or ``half_life`` less
        than 0.1.

    Notes
    -----
    Learning costs O(log n) for n distinct scores. When the threshold is read after a change, it is
    found by branch and bound in the tree: exactly, in O(n) at worst, in some tens of microseconds
    for 100,000 scores. A metric that is a Python function is evaluated at all thresholds.

    Where ``window`` or ``half_life`` is a timedelta, each sample has a time ``t``, as for
    `IsotonicCalibrator`: older samples age when it is learned, and a time that goes back counts as
    equal to that of the newest sample.

    Examples
    --------
    >>> eum = EUMThreshold("f1")
    >>> for score, label in [(0.9, 1), (0.8, 0), (0.7, 1), (0.2, 0), (0.1, 0)]:
    ...     eum.learn_one(score, label)
    >>> eum.threshold, eum.utility
    (0.7, 0.8)
    >>> eum.predict_one(0.75)
    True
    """

    def __init__(
        self,
        metric: AnyMetric = "f1",
        *,
        window: int | timedelta | None = None,
        half_life: float | timedelta | None = None,
    ) -> None:
        check_window(window)
        check_forgetting(half_life)
        self.metric = metric
        self.window = window
        self.half_life = half_life
        self._metric = get_metric(metric)
        self.needs_time = isinstance(window, timedelta) or isinstance(half_life, timedelta)
        self._index = ConfusionIndex(
            self._metric.spec,
            window=0 if window is None or isinstance(window, timedelta) else window,
            rate=growth_per_sample(in_samples(half_life)),
            half_life=in_seconds(half_life),
            time_window=in_seconds(window) if isinstance(window, timedelta) else 0.0,
        )

    @property
    def n_scores(self) -> int:
        """Number of distinct scores held."""
        return self._index.n_scores

    @property
    def threshold(self) -> float:
        """The best threshold: scores from here up get the label 1; inf if none should get it.

        It is inf before anything is learned, and any one of several equally good thresholds.
        """
        return self._optimum()[0]

    @property
    def utility(self) -> float:
        """The metric of past samples at the best threshold."""
        return self._optimum()[1]

    def _optimum(self) -> tuple[float, float]:
        best = self._index.best()
        if best is None:  # the metric is a Python function
            (thresholds, utilities), n_changes = self._curve_and_changes()
            at = int(utilities.argmax())
            best = float(thresholds[at]), float(utilities[at])
            self._index.remember(n_changes, *best)
        return best

    def predict_one(self, score: float) -> bool | None:
        """Return whether ``score`` reaches the best threshold; None before anything is learned."""
        reached = as_score(score) >= self.threshold
        return reached if self.n_scores else None

    def predict_many(self, scores: ArrayLike) -> NDArray[np.bool_]:
        """Return which of ``scores``, shape ``(n_samples,)``, reach the best threshold.

        For a Series that is one with the same index, and with its name followed by ``_label``.
        """
        reached: NDArray[np.bool_] = as_vector(scores, "scores") >= self.threshold
        return like_given(reached, scores, "label")

    def learn_one(self, score: float, y: float, w: float = 1.0, *, t: Time | None = None) -> None:
        """Learn that ``score`` was followed by the label ``y`` (0 or 1), with weight ``w``.

        ``t`` is the time, if ``window`` or ``half_life`` is a timedelta: a `datetime` or seconds.
        """
        if self.needs_time:
            seconds, kind = self._read_time(t)
            if kind != self._kind:  # the first time
                learn = partial(self._index.learn, *self._as_sample(score, y, w), seconds)
                do_all(learn, *self._kind_steps(kind))
                return
            plain = type(score) is type(w) is float
            if not (plain and y in (0, 1) and self._index.learn(score, y, w, seconds)):
                self._index.learn(*self._as_sample(score, y, w), seconds)
            return
        try:
            learned = self._index.learn(score, y, w)
        except (TypeError, ValueError, OverflowError):
            learned = False
        if not learned:  # not plain floats: convert or raise
            self._index.learn(*self._as_sample(score, y, w))

    def _as_sample(self, score: Any, y: Any, w: Any) -> tuple[float, float, float]:
        """Return a sample as floats, or raise."""
        number, weight = as_score(score), as_weight(w)
        if y not in (0, 1):
            raise ValueError(f"`y` must be 0 or 1, got {y!r}")
        return number, float(y), weight

    def learn_many(
        self, scores: ArrayLike, y: ArrayLike, w: ArrayLike | None = None, *, t: Any = None
    ) -> None:
        """Learn samples in the order given; arrays of shape ``(n_samples,)``.

        ``t`` has a time for each sample, where they are needed.
        """
        score_vector, labels = as_vector(scores, "scores"), as_vector(y, "y")
        check_same_length(labels, len(score_vector), "y")
        weights = as_weights(w, len(score_vector))
        bad = (labels != 0.0) & (labels != 1.0)
        if bad.any():
            at = int(np.argmax(bad))
            raise ValueError(f"`y` must be 0 or 1, got {labels[at]} at position {at}")
        times = self._read_times(t, len(score_vector))
        learn = partial(self._index.learn_many, score_vector, labels, weights)
        if times is None:
            learn()
        else:
            do_all(*self._kind_steps(times.kind), partial(learn, times.seconds))

    def curve(self) -> ThresholdCurve:
        """Return the metric at every threshold that gives different labels, in O(n).

        Returns
        -------
        thresholds, utilities : ndarrays of shape (n_scores + 1,)
            A named tuple: inf, then the distinct scores, descending; and the metric of past
            samples if the label is 1 from each threshold up.
        """
        return self._curve_and_changes()[0]

    def _curve_and_changes(self) -> tuple[ThresholdCurve, int]:
        """Return the curve, and the number of changes before it."""
        scores, positive, negative, growth, n_changes = self._index.walk()
        thresholds = np.concatenate([[math.inf], scores])
        hits = np.concatenate([[0.0], positive.cumsum()]) / growth
        alarms = np.concatenate([[0.0], negative.cumsum()]) / growth
        # Sums from the other end: a difference of sums would be rounding alone where it is small.
        misses = np.concatenate([positive[::-1].cumsum()[::-1], [0.0]]) / growth
        rejections = np.concatenate([negative[::-1].cumsum()[::-1], [0.0]]) / growth
        tables = np.array([hits, alarms, misses, rejections])
        return ThresholdCurve(thresholds, self._metric._values(tables)), n_changes

    def _parameters(self) -> Fields:
        return {**super()._parameters(), "metric": as_parameter(self.metric)}

    def _freeze(self) -> tuple[Fields, Arrays]:
        fields, arrays = self._index.state()
        return {**fields, **self._freeze_clock(fields.get("now", math.nan))}, arrays

    def _thaw(self, fields: Fields, arrays: Arrays) -> None:
        sums = array_of(arrays, "sums", 2, None)
        now = self._thaw_clock(fields)
        scores, counts, queue = read_index(arrays, sums, self.window, now)
        growth = as_float(fields["growth"], "growth", 1.0, LARGEST_GROWTH)
        for part in (sums, queue[:, 1:]):
            require(((part >= 0.0) & (part < MOST_WEIGHT)).all(), "sums must not be negative")
        require(are_in(queue[:, 0], scores).all(), "the window must hold scores that are known")
        if self.window:
            place = np.searchsorted(scores, queue[:, 0])
            n_held = np.bincount(place, minlength=len(scores))
            require((n_held == counts).all(), "counts must be those of the window")
        self._index.restore({"growth": growth, "now": now}, arrays)
