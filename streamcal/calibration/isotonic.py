"""Isotonic calibration of a stream in any order, exact after every sample."""

import math
from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import partial
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from streamcal import losses
from streamcal._frames import like_given
from streamcal._state import Arrays, Fields, array_of, as_float, as_int
from streamcal._validation import (
    LARGEST,
    SMALLEST,
    as_score,
    as_vector,
    as_weight,
    check_choice,
    check_count,
    check_within,
    growth_per_sample,
)
from streamcal._whole import Step, do_all
from streamcal.calibration._statistics import statistics_of
from streamcal.calibration.base import Calibrator
from streamcal.calibration.clock import Time, check_forgetting, check_window, in_samples, in_seconds
from streamcal.calibration.context import NO_CONTEXT, Context, FieldValues
from streamcal.calibration.snapshot import Snapshot
from streamcal.calibration.tickets import Ticket
from streamcal.export.curve import linear, steps
from streamcal.export.description import Description, unlearned
from streamcal.isotonic.corp import Decomposition, decompose
from streamcal.isotonic.staircase import INTERPOLATIONS, Interpolation, Staircase
from streamcal.isotonic.sums import sum_bounds
from streamcal.kernels import pav
from streamcal.kernels.expert import Expert
from streamcal.kernels.isotonic import IsotonicExpert, IsotonicRegression
from streamcal.kernels.score_index import LARGEST_GROWTH
from streamcal.losses.names import get_mean
from streamcal.notebook.shape import Samples, Shape

_FEWEST_SCORES = 8
_VANISHED = 2.0**-390  # a weight that is nothing beside that of a new sample
_PRIORS = f"[0, {LARGEST:g}]"


class IsotonicCalibrator(Calibrator):
    """The isotonic map from scores to labels, exact after every added or removed sample.

    After every sample the calibrator holds the non-decreasing map that minimises the total loss of
    all its samples, in any order of scores: the same map that `isotonic_fit` computes for a batch.
    Learning costs O(log² n) and predicting O(log n) in the number n of distinct scores.

    Parameters
    ----------
    loss : str or MeanLoss
        What to minimise; see `streamcal.losses`. ``"log"`` is for probabilities of labels 0 and 1.
    window : int or timedelta, optional
        The number of samples that count: the most recent ones. With a timedelta those count that
        are younger than that when the newest sample was learned.
    half_life : float or timedelta, optional
        The number of samples after which the weight of a sample has halved, at least 0.1; or the
        time after which it has. The map is exact for these weights. It can be combined with
        ``window``.
    prior : float
        The weight of two pseudo-samples, which keep probabilities away from 0 and 1: one with the
        highest label below all scores, and one with the lowest label above them. 0: none. Only the
        log, logistic and exponential losses have a prior (`MeanLoss.prior_labels`).
    interpolation : {"linear", "step"}
        The values between blocks; see `Staircase`.
    max_scores : int
        The greatest number of distinct scores, at least 8. If a new score exceeds it, an eighth of
        the scores are merged with their nearest neighbours; see Notes.

    Raises
    ------
    ValueError
        If a parameter is out of range.
    TypeError
        If the loss is not a mean-type loss.

    Notes
    -----
    `streamcal.kernels.hull` explains the algorithm. Sums of integer weights and labels are exact.
    Other sums are computed along a balanced tree, without subtraction, so a value has an error of a
    few units in the last place of the terms of its block. If one of several samples of a score is
    removed, the rounding errors of the sums of that score remain until it has no samples. In a
    window, the others are summed again if the removed sample weighed a million times as much.

    *Time.* Where ``window`` or ``half_life`` is a timedelta, `learn_one` needs the time ``t`` at
    which a sample is learned: a `datetime`, with or without a zone, or seconds from any origin;
    these don't mix. Older samples age when it is learned, so a prediction is at the time of the
    newest sample. A time that goes back counts as equal to it, since streams are a little out of
    order and a running service can't refuse an event.

    Memory: about 39 bytes per distinct score, more if nearly every score is a block of its own; and
    16 bytes per sample in a window, or 24 if a weight or label needs more than 32 bits, and 8 more
    for its time. Some calls
    of `learn_one` take O(n): one in ``max_scores`` / 8 new scores when ``max_scores`` is reached,
    and one in 128 half-lives. When a window of time has stood still, all that is too old leaves at
    once.

    Weights must be from 1e-60 to 1e60, statistics of labels at most 1e60 in absolute value. With a
    half-life, a score is dropped when its weight is below 2**-400 of that of a new sample.

    Merging moves the lighter of two neighbouring scores to the heavier one, and begins with the
    nearest neighbours; `n_merged` counts the merged scores. The map is then exact for the moved
    scores, and each has moved by less than the gap to its neighbour. Between two merged scores the
    map has no step; the error there is at most the difference of their values. `unlearn_one` cannot
    remove a merged score; a window forgets it in time.

    References
    ----------
    Gokcesu & Gokcesu, *Efficient, Anytime Algorithms for Calibration with Isotonic Regression under
    Strictly Convex Losses*, sections II and V; their stack needs scores in ascending order. Tatti
    (2022, arXiv 2112.06160) inserts and removes binary samples, as points of the ROC hull.

    Examples
    --------
    >>> calibrator = IsotonicCalibrator()
    >>> calibrator.predict_one(0.7)
    0.7
    >>> for score, label in [(0.2, False), (0.9, True), (0.6, True), (0.7, False), (0.1, False)]:
    ...     calibrator.learn_one(score, label)
    >>> calibrator.predict_one(0.65)
    0.5
    >>> calibrator.unlearn_one(0.7, False)
    >>> round(calibrator.predict_one(0.65), 3), calibrator.n_samples
    (0.667, 4)

    With a half-life of an hour, a sample that is an hour old has the weight 1/2:

    >>> from datetime import datetime, timedelta
    >>> calibrator = IsotonicCalibrator(half_life=timedelta(hours=1), prior=0)
    >>> calibrator.learn_one(0.6, True, t=datetime(2025, 1, 1, 12))
    >>> calibrator.learn_one(0.6, False, t=datetime(2025, 1, 1, 13))
    >>> round(calibrator.predict_one(0.6), 3)
    0.333
    """

    def __init__(
        self,
        loss: losses.MeanLossName | losses.Loss = "log",
        *,
        window: int | timedelta | None = None,
        half_life: float | timedelta | None = None,
        prior: float = 1.0,
        interpolation: Interpolation = "linear",
        max_scores: int = 1_000_000,
    ) -> None:
        check_window(window)
        check_choice(interpolation, "interpolation", INTERPOLATIONS)
        check_forgetting(half_life)
        check_count(max_scores, "max_scores", _FEWEST_SCORES)
        check_within(prior, "prior", _PRIORS)
        self.loss = loss
        self.window = window
        self.half_life = half_life
        self.prior = prior
        self.interpolation = interpolation
        self.max_scores = max_scores
        self._loss = get_mean(loss)
        self._learns_shares = str(self._loss.y_range) == "[0, 1]"
        self._statistics, means = statistics_of(self._loss)
        # In the usual case the statistic is the label, and the value the mean.
        self._plain_labels = self._statistics.are_labels
        self._plain_values = type(self._loss).link is losses.MeanLoss.link
        self._step = interpolation == "step"
        if isinstance(window, timedelta) or isinstance(half_life, timedelta):
            self.needs_time = True
        self._regression = IsotonicRegression(
            window=0 if window is None or isinstance(window, timedelta) else window,
            rate=growth_per_sample(in_samples(half_life)),
            prior=prior if self._loss.prior_labels is not None else 0.0,
            labels=self._statistics.bounds,
            means=means,
            max_scores=max_scores,
            half_life=in_seconds(half_life),
            time_window=in_seconds(window) if isinstance(window, timedelta) else 0.0,
        )

    @property
    def n_samples(self) -> int:
        """Number of samples in the current map."""
        return self._regression.n_samples

    @property
    def n_scores(self) -> int:
        """Number of distinct scores in the current map."""
        return self._regression.n_scores

    @property
    def n_merged(self) -> int:
        """Number of scores merged into a neighbour because of ``max_scores``."""
        return self._regression.n_merged

    def learn_one(
        self,
        score: float,
        y: float,
        w: float = 1.0,
        *,
        x: FieldValues | None = None,
        ticket: Ticket | None = None,
        t: Time | None = None,
    ) -> None:
        """Learn a sample; O(log² n_scores).

        Parameters
        ----------
        score : float
            Any finite number.
        y : float or bool
            The label, in the range of the loss.
        w : float
            The weight, positive.
        x, ticket
            Not used, see `Calibrator`.
        t : datetime or float
            The time, if ``window`` or ``half_life`` is a timedelta: a `datetime` or seconds.
            One before that of the newest sample counts as equal to it.

        Raises
        ------
        ValueError
            If an argument is out of range; nothing is learned.
        TypeError
            If an argument is not a number; nothing is learned.
        """
        if self.needs_time:
            seconds, kind = self._read_time(t)
            if kind != self._kind:  # the first time
                do_all(*self._steps(score, y, w, t))
                return
            plain = type(score) is type(y) is type(w) is float and self._plain_labels
            if not (plain and self._regression.learn(score, y, w, seconds)):
                self._regression.learn(*self._check_sample(score, y, w), seconds)
            return
        try:
            s = y + 0.0 if self._plain_labels else self._statistics.of(y)
            learned = self._regression.learn(score, s, w)
        except (TypeError, ValueError, OverflowError):
            learned = False
        if not learned:  # a number of another kind, or none
            self._regression.learn(*self._check_sample(score, y, w))

    def unlearn_one(self, score: float, y: float, w: float = 1.0) -> None:
        """Remove a sample that was learned with the same arguments; O(log² n_scores).

        Raises
        ------
        ValueError
            If no such sample can be among those learned, or an argument is out of range; nothing
            changes. With a window it is looked up among the samples in it, in O(window), and its
            place stays taken until it would have been forgotten. With a half-life, ``w`` is the
            weight as it stands now.
        TypeError
            If an argument is not a number; nothing changes.
        """
        if not self._regression.unlearn(*self._check_sample(score, y, w)):
            raise ValueError(
                f"`score`, `y` and `w` must have been learned together, got {score}, {y} and {w}"
            )

    def _learn_steps(
        self, score: float, y: float, w: float, context: Context = NO_CONTEXT
    ) -> Sequence[Step]:
        if type(self).learn_one is not IsotonicCalibrator.learn_one:
            return super()._learn_steps(score, y, w, context)
        return self._steps(score, y, w, context.t)

    def _steps(self, score: float, y: float, w: float, t: Time | None) -> Sequence[Step]:
        """Return what learns a sample, after checks."""
        if self.needs_time:
            moment = self._read_time(t)
            sample = self._check_sample(score, y, w)
            learn = partial(self._regression.learn, *sample, moment.seconds)
            return learn, *self._kind_steps(moment.kind)
        if type(score) is type(y) is type(w) is float and self._plain_labels:  # the usual case
            low, high = self._statistics.bounds
            in_range = low <= y <= high and 0.0 <= y <= 1.0 and SMALLEST <= w <= LARGEST
            if in_range and -math.inf < score < math.inf:
                return (partial(self._regression.learn, score, y, w),)
        return (partial(self._regression.learn, *self._check_sample(score, y, w)),)

    def _unlearn_steps(self, score: float, y: float, w: float) -> tuple[Step, ...]:
        """Return what unlearns a sample, for `do_all`; it returns False if it can't."""
        return (partial(self._regression.unlearn, *self._check_sample(score, y, w)),)

    def _holds(self, score: float, y: float, w: float) -> bool:
        """Return whether `_unlearn_steps` would unlearn a sample, or raise as they do."""
        return self._regression.holds(*self._check_sample(score, y, w))

    def _check_sample(self, score: Any, y: Any, w: Any) -> tuple[float, float, float]:
        """Return a sample as floats, the statistic for the label, or raise."""
        number, weight = as_score(score), as_weight(w)
        return number, self._statistics.of(y), weight

    def samples(self) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
        """Return distinct scores, ascending, the weight of each and its weighted sum; O(n_scores).

        Arrays of shape ``(n_scores,)``. With binary labels the sums are the weights of the
        positive ones. The prior is no part of it.

        Examples
        --------
        >>> calibrator = IsotonicCalibrator()
        >>> calibrator.learn_many([0.4, 0.3, 0.4], [0, 1, 1])
        >>> calibrator.samples()
        (array([0.3, 0.4]), array([1., 2.]), array([1., 1.]))
        """
        scores, sums, _, growth, _ = self._regression.samples()
        weights, totals = sums / growth
        return scores, weights, totals

    def predict_one(self, score: float, x: FieldValues | None = None) -> float:
        """Return the calibrated value of a score; O(log n_scores).

        Before anything is learned that is the score itself, or the value nearest to it in the
        range of the loss.

        Raises
        ------
        ValueError
            If the score is not finite.
        TypeError
            If it is not a number.
        """
        if self._plain_values:
            try:
                value = self._regression.predict(score, self._step)
            except (TypeError, ValueError, OverflowError):
                value = math.nan
            if value == value:
                return value
        number = as_score(score)
        return float(self._predict(np.array([number]))[0])

    def predict_many(self, scores: ArrayLike, x: Any = None) -> NDArray[np.float64]:
        """Return the calibrated values of ``scores``, shape ``(n_samples,)``."""
        return like_given(self._predict(as_vector(scores, "scores")), scores)

    def _predict(self, scores: NDArray[np.float64]) -> NDArray[np.float64]:
        brackets = np.empty((len(scores), 3))
        self._regression.bracket_many(scores, self._step, brackets)
        return self._interpolate(scores, brackets)

    def _interpolate(
        self, scores: NDArray[np.float64], brackets: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Return the values for what `bracket_many` answered: NaN before anything is learned."""
        low = np.ascontiguousarray(self._loss.link(brackets[:, 0].copy()))
        high = np.ascontiguousarray(self._loss.link(brackets[:, 1].copy()))
        out = pav.blend(low, high, np.ascontiguousarray(brackets[:, 2]))
        cold = np.isnan(brackets[:, 0])
        if cold.any():
            out[cold] = [self._loss.z_range.clip(score) for score in scores[cold]]
        return out

    def learn_many(
        self,
        scores: ArrayLike,
        y: ArrayLike,
        w: ArrayLike | None = None,
        *,
        x: Any = None,
        t: Any = None,
    ) -> None:
        """Learn samples in the order given, in one compiled loop."""
        self._learn_samples(scores, y, w, t, predict=False)

    def predict_learn_many(
        self,
        scores: ArrayLike,
        y: ArrayLike,
        w: ArrayLike | None = None,
        *,
        x: Any = None,
        t: Any = None,
    ) -> NDArray[np.float64]:
        """Predict each sample, then learn it, in one compiled loop; see `Calibrator`."""
        return like_given(self._learn_samples(scores, y, w, t, predict=True), scores)

    def _learn_samples(
        self, scores: ArrayLike, y: ArrayLike, w: ArrayLike | None, t: Any, *, predict: bool
    ) -> NDArray[np.float64]:
        """Learn samples in order; return what was predicted before each, if it is asked for."""
        score_vector, labels, weights = self._check_samples(scores, y, w)
        s = np.ascontiguousarray(self._loss.statistic(labels))
        times = self._read_times(t, len(score_vector))
        if not predict and self._learn_first(score_vector, s, weights):
            return s[:0]
        brackets = np.empty((len(score_vector) if predict else 0, 3))
        learn = partial(
            self._regression.predict_learn_many, score_vector, s, weights, self._step, brackets
        )
        if times is None:
            learn()
        else:
            do_all(*self._kind_steps(times.kind), partial(learn, times.seconds))
        return self._interpolate(score_vector[: len(brackets)], brackets)

    def _learn_first(
        self, scores: NDArray[np.float64], s: NDArray[np.float64], w: NDArray[np.float64]
    ) -> bool:
        """Learn the first samples at once, sorted; return False, unchanged, if that can't be."""
        if self.n_samples or self.half_life is not None or isinstance(self.window, timedelta):
            return False
        if not 1 < len(scores) <= min(self.window or self.max_scores, self.max_scores):
            return False
        # Another thread may write to the arrays: own copies are checked, or the loop skips samples.
        scores, s, w = np.array(scores), np.array(s), np.array(w)
        low, high = np.clip(self._statistics.bounds, -LARGEST, LARGEST)
        fit = np.isfinite(scores) & (w >= SMALLEST) & (w <= LARGEST) & (s >= low) & (s <= high)
        if not fit.all():
            return False
        distinct, place = np.unique(scores, return_inverse=True)
        sums = np.array([np.bincount(place, w), np.bincount(place, w * s)])
        queue = np.column_stack([scores, w, w * s])
        return self._regression.begin(distinct, sums, np.bincount(place), queue)

    def _check_labels(self, y: ArrayLike) -> NDArray[np.float64]:
        labels = as_vector(y, "y", finite=False)
        self._statistics.of_many(labels)
        return labels

    def _learns_all(self) -> bool:
        own = type(self).predict_learn_many is IsotonicCalibrator.predict_learn_many
        return own and self._plain_labels and self._plain_values

    def _sampler(self) -> Callable[..., float] | None:
        own = type(self).learn_one, type(self).predict_one
        plain = own == (IsotonicCalibrator.learn_one, IsotonicCalibrator.predict_one)
        if not plain or not self._learns_all() or not self._knows_times():
            return None
        nearest = self._loss.z_range.clip
        low, high = nearest(-math.inf), nearest(math.inf)
        return partial(self._regression.predict_learn, self._step, low, high)

    def _learns_times(self) -> bool:
        return type(self).predict_learn_many is IsotonicCalibrator.predict_learn_many

    def _batch_kernel(self) -> Expert | None:
        own = type(self).predict_learn_many is IsotonicCalibrator.predict_learn_many
        return self._compiled() if own else None

    def _compiled(self) -> Expert | None:
        own = type(self).learn_one, type(self).predict_one
        plain = own == (IsotonicCalibrator.learn_one, IsotonicCalibrator.predict_one)
        if plain and type(self._loss) is losses.Log and self._plain_values and not self._step:
            return IsotonicExpert(self._regression)
        return None

    def staircase(self) -> Staircase:
        """Return the current map; O(n_scores).

        The prior is part of it: the outermost blocks then reach to infinity, and their weights
        include the pseudo-samples'.

        Raises
        ------
        ValueError
            If nothing has been learned.
        """
        blocks, bounds, growth, _, _ = self._regression.walk(anchored=True)
        return self._make_staircase(blocks, bounds, growth)

    def _make_staircase(
        self, blocks: NDArray[np.float64], bounds: tuple[float, float], growth: float
    ) -> Staircase:
        if not len(blocks):
            raise ValueError("`staircase` needs at least one learned sample, got none")
        lower, upper, weights, sums, centers = blocks.T
        values = self._loss.link((sums / weights).clip(*bounds))
        weights = weights / growth
        return Staircase(lower, upper, values, weights, centers, self.interpolation)

    def snapshot(self) -> Snapshot:
        """Return an immutable copy of the current map: its staircase; O(n_scores).

        With a half-life its values may differ from the calibrator's in the last digit.
        """
        blocks, bounds, growth, n_samples, _ = self._regression.walk(anchored=True)
        if not len(blocks):
            return super().snapshot()
        return Snapshot(self._make_staircase(blocks, bounds, growth).__call__, n_samples)

    def _describe(self) -> Description:
        blocks, *_ = self._regression.walk(anchored=True)
        if not len(blocks):
            nearest = self._loss.z_range.clip
            ends = nearest(-math.inf), nearest(math.inf)
            return unlearned(*ends, of_probabilities=False)
        lower, upper = blocks.T[:2]
        if self._step:
            return Description(steps(self._predict, lower[1:]), None, of_probabilities=False)
        kinks = np.concatenate([lower, upper])
        return Description(linear(self._predict, kinks), None, of_probabilities=False)

    def _facts(self) -> dict[str, int]:
        found = {"distinct scores": self.n_scores}
        return found | ({"merged scores": self.n_merged} if self.n_merged else {})

    def _shape(self) -> Shape:
        blocks, bounds, growth, n_samples, _ = self._regression.walk(anchored=True)
        if not len(blocks):
            return super()._shape()
        stairs = self._make_staircase(blocks, bounds, growth)
        return Shape.of(stairs, n_samples=n_samples, kept=self._kept_scores(), staircase=stairs)

    def _kept_scores(self) -> Samples:
        return self.samples()[:2]

    def corp(self) -> Decomposition:
        """Split the mean log loss of the raw scores into CORP's parts; O(n_scores).

        MCB is how much calibration reduces the loss of the current samples, DSC how much less the
        calibrated scores lose than the overall frequency, UNC the loss of that frequency. The prior
        is left out. `streamcal.metrics.CORP` does the same for a stream of predictions.

        Raises
        ------
        ValueError
            If the loss is not log loss, nothing is learned, or a score is not in [0, 1].

        Examples
        --------
        >>> calibrator = IsotonicCalibrator()
        >>> calibrator.learn_many([0.4, 0.3, 0.2, 0.1, 0.5, 0.9], [0, 0, 0, 1, 1, 1])
        >>> print("{:.4f} = {:.4f} - {:.4f} + {:.4f}".format(*calibrator.corp()))
        0.6986 = 0.3237 - 0.3183 + 0.6931
        """
        if not isinstance(self._loss, losses.Log):
            raise ValueError(f"`corp` needs the log loss, got {self._loss}")
        blocks, bounds, growth, _, slots = self._regression.walk(anchored=False, with_slots=True)
        stairs = self._make_staircase(blocks, bounds, growth)
        scores, (weights, hits) = slots["scores"], slots["sums"]
        if scores[0] < 0.0 or scores[-1] > 1.0:
            raise ValueError(f"`corp` needs scores in [0, 1], got {scores[0]} to {scores[-1]}")
        with np.errstate(invalid="ignore"):  # 0 samples x infinite loss are no loss
            total = np.nansum(hits * self._loss(scores, 1.0))
            total += np.nansum((weights - hits) * self._loss(scores, 0.0))
        return decompose(stairs, float(total / weights.sum()), "log")

    def merge(self, other: "IsotonicCalibrator") -> None:
        """Learn all samples of another calibrator as well; O(n_scores) of both.

        The map is then that of the samples of both streams; their order does not matter. With
        half-lives that count, the newest samples of both get the same weight; with those of time,
        the weight of each sample is that of its age. Also ``calibrator += other``.

        Raises
        ------
        TypeError
            If ``other`` is not an `IsotonicCalibrator`.
        ValueError
            If the loss or the half-life differs, if one of the two has a window, whose order in
            time is not known across streams, or if there are more than 2**53 samples in all.
            Nothing changes. Also if their times are of different kinds.

        Examples
        --------
        >>> a, b = IsotonicCalibrator("squared"), IsotonicCalibrator("squared")
        >>> a.learn_many([1, 2], [0.0, 1.0])
        >>> b.learn_many([1, 3], [1.0, 0.0])
        >>> a += b
        >>> a.staircase().values, a.n_samples
        (array([0.5]), 4)
        """
        if not isinstance(other, IsotonicCalibrator):
            raise TypeError(f"`other` must be an IsotonicCalibrator, got {type(other).__name__}")
        if self._loss != other._loss or self.half_life != other.half_life:
            raise ValueError(
                f"`other` must have the same loss and half_life ({self._loss}, {self.half_life}),"
                f" got {other._loss} and {other.half_life}"
            )
        if self.window or other.window:
            raise ValueError(
                f"`merge` needs calibrators without a window, got {self.window} and {other.window}"
            )
        scores, sums, counts, growth, n_merged = other._regression.samples()
        now, latest = other._regression.now, self._regression.now
        steps: list[Step] = []
        if now == now:  # of samples with times
            self._check_kind(other._kind or self._kind, other)
            steps = [partial(self._regression.advance, now), *self._kind_steps(other._kind)]
            if now < latest:
                sums = sums * 2.0 ** -((latest - now) / in_seconds(self.half_life))
                kept = sums[0] / growth > _VANISHED
                scores, sums = scores[kept], np.ascontiguousarray(sums[:, kept])
                counts = counts[kept]
        if self.n_samples + int(counts.sum()) > 2**53:
            raise ValueError(
                f"`other` must leave at most 2**53 samples in all, got {counts.sum()}"
                f" besides {self.n_samples}"
            )
        do_all(*steps, partial(self._regression.absorb, scores, sums, counts, growth, n_merged))

    def __iadd__(self, other: "IsotonicCalibrator") -> Self:
        self.merge(other)
        return self

    def _freeze(self) -> tuple[Fields, Arrays]:
        fields, arrays = self._regression.state()
        return {**fields, **self._freeze_clock(fields.get("now", math.nan))}, arrays

    def _thaw(self, fields: Fields, arrays: Arrays) -> None:
        growth = as_float(fields["growth"], "growth", 2.0**-200, LARGEST_GROWTH)
        n_merged = as_int(fields["n_merged"], "n_merged")
        numbers = {"growth": growth, "n_merged": n_merged, "now": self._thaw_clock(fields)}
        if isinstance(self.window, timedelta):
            arrays = {**arrays, "times": array_of(arrays, "times", None)}
        self._regression.read(numbers, arrays, sum_bounds(self._loss))


def regression_of(calibrator: IsotonicCalibrator) -> IsotonicRegression:
    """Return the compiled part of a calibrator, for other learners that consist of such parts."""
    return calibrator._regression


def calibrator_of(regression: IsotonicRegression, window: int | None) -> IsotonicCalibrator:
    """Return a calibrator around a compiled part, which is that of a calibrator of this window."""
    calibrator = IsotonicCalibrator(window=window)
    calibrator._regression = regression
    return calibrator
