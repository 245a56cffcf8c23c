"""Optimal thresholds of a stream, exact after every sample that is learned or unlearned."""

import math
from datetime import timedelta
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from streamcal._frames import like_given
from streamcal._state import Arrays, Fields, Stateful, array_of, as_float, require
from streamcal._state.clone import Cloned
from streamcal._state.score_index import read_index
from streamcal._validation import (
    as_number,
    as_score,
    as_vector,
    as_weight,
    as_weights,
    check_same_length,
    growth_per_sample,
)
from streamcal._whole import Step, do_all
from streamcal.calibration.clock import (
    Time,
    Timed,
    check_forgetting,
    check_window,
    in_samples,
    in_seconds,
)
from streamcal.kernels.label_index import LabelIndex
from streamcal.kernels.min_plus import MOST_LABELS, MinPlus
from streamcal.kernels.prefix_extrema import PrefixExtrema
from streamcal.kernels.score_index import LARGEST_GROWTH, MOST_WEIGHT, check_held
from streamcal.losses import TaskLoss, TaskLossName, ZeroOneError, get_task
from streamcal.losses.task import LABELS_OF_SMALL_TABLES, check_n_labels
from streamcal.ordinal.samples import Samples, as_ranks, is_accurate, spread_of
from streamcal.ordinal.thresholds import Thresholds, find_cuts

_MOST_ADDITIONS = 256  # that a sum in the tree goes through: in a chunk, then at each level


class _Optimum(NamedTuple):
    """The number of distinct scores, the best thresholds, their loss, and if they are certified."""

    n_scores: int
    thresholds: NDArray[np.float64]
    risk: float
    certified: bool


class StreamingThresholds(Timed, Stateful, Cloned):
    """The thresholds that cut a stream of scores into ordinal labels with the least loss.

    After every sample learned or unlearned they are those that `optimal_thresholds` would find from
    scratch on the samples held. Learning costs O(K log n) for n distinct scores; nothing is solved
    again.

    The meaning of a score must not change. If the model that gives the scores keeps learning, old
    scores become outdated: `ThresholdClassifier` scores its window again from time to time.

    Parameters
    ----------
    n_labels : int
        How many labels there are, K; at least 2. Labels are the ints 1..K.
    loss : str or TaskLoss
        What to minimise: "absolute", "squared", "zero-one", "asymmetric" or a `TaskLoss`.
    window : int or timedelta, optional
        Keep only this many of the last samples. With a timedelta: those that were younger than that
        when the newest one was learned.
    half_life : float or timedelta, optional
        After how many samples the weight of a sample is halved, at least 0.1; or after which time.
        It can be combined with a window.

    Raises
    ------
    ValueError
        If a parameter is out of range, or a table of costs has another size.
    TypeError
        If the loss is not a task loss.

    Notes
    -----
    For a loss that is convex in the predicted label, the nodes of a tree hold prefix extrema, as
    described in `streamcal.kernels.prefix_extrema`. For other losses and up to 8 labels they hold
    the least costs between any two labels (`streamcal.kernels.min_plus`), which is K times the
    work. For other losses and more labels they hold prefix extrema, whose thresholds are optimal if
    they are sorted; if not, the problem is solved from scratch when the thresholds are read. The
    same happens when rounding errors unsort the thresholds of a convex loss.

    Any thread may call any method at any time: calls run one after the other.

    Where ``window`` or ``half_life`` is a timedelta, each sample has a time ``t``, as for
    `IsotonicCalibrator`: older samples age when it is learned, and a time that goes back counts as
    equal to that of the newest sample.

    Integer weights and losses give exact sums, and then the thresholds do not depend on the order
    of the samples, even where several cost the same. Other sums are added along a balanced tree;
    their error is some units in the last place of the summed weights. If weights differ by many
    orders of magnitude, light samples are lost in this error, and thresholds need not be optimal
    for them. `result` computes a bound, and says by ``certified`` whether it can matter. Where the
    nodes hold least costs, no error is large: costs are added, and none is negative.

    References
    ----------
    Yamasaki & Tanaka, *Parallel Algorithm for Optimal Threshold Labeling of Ordinal Regression
    Methods*, Theorems 1 and 2 and appendix A, whose blocks are the nodes of the tree here.

    Examples
    --------
    >>> thresholds = StreamingThresholds(3)
    >>> for score, label in [(0.2, 1), (0.4, 2), (0.5, 1), (0.6, 2), (0.7, 3), (0.9, 3)]:
    ...     thresholds.learn_one(score, label)
    >>> thresholds.thresholds, thresholds.risk
    (array([0.3 , 0.65]), 1.0)
    >>> thresholds.predict_one(0.68)
    3
    >>> thresholds.unlearn_one(0.4, 2)
    >>> thresholds.thresholds, thresholds.risk
    (array([0.55, 0.65]), 0.0)
    """

    def __init__(
        self,
        n_labels: int,
        loss: TaskLossName | TaskLoss = "absolute",
        *,
        window: int | timedelta | None = None,
        half_life: float | timedelta | None = None,
    ):
        check_n_labels(n_labels)
        check_window(window)
        check_forgetting(half_life)
        self.n_labels = n_labels
        self.loss = loss
        self.window = window
        self.half_life = half_life
        self._loss = get_task(loss)
        self.needs_time = isinstance(window, timedelta) or isinstance(half_life, timedelta)
        few = not self._loss.is_convex(n_labels) and n_labels <= MOST_LABELS
        kind: type[LabelIndex] = MinPlus if few else PrefixExtrema
        self._index = kind(
            costs=np.ascontiguousarray(self._loss.table(n_labels).T),
            window=0 if window is None or isinstance(window, timedelta) else window,
            rate=growth_per_sample(in_samples(half_life)),
            half_life=in_seconds(half_life),
            time_window=in_seconds(window) if isinstance(window, timedelta) else 0.0,
        )
        # The last solution from scratch, and the number of changes before it.
        self._last_solve: tuple[int, _Optimum] | None = None

    @classmethod
    def _unit_test_params(cls) -> Any:
        yield {"n_labels": 3}

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_last_solve": None}

    @property
    def n_samples(self) -> int:
        """Number of samples held."""
        return self._index.n_samples

    @property
    def n_scores(self) -> int:
        """Number of distinct scores held."""
        return self._index.n_scores

    def learn_one(self, score: float, y: int, w: float = 1.0, *, t: Time | None = None) -> None:
        """Learn a sample; O(K log n_scores).

        Parameters
        ----------
        score : float
            Any finite number.
        y : int
            The label, from 1 to ``n_labels``.
        w : float
            The weight, from 1e-60 to 1e60.
        t : datetime or float
            The time, if ``window`` or ``half_life`` is a timedelta: a `datetime` or seconds. One
            before that of the newest sample counts as equal to it.

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
                do_all(*self.learn_steps(score, y, w, t))
                return
            plain = type(score) is type(w) is float and type(y) is int and 0 < y <= self.n_labels
            if not (plain and self._index.learn(score, y - 1.0, w, seconds)):
                self._index.learn(*self._as_sample(score, y, w), seconds)
            return
        try:
            learned = self._index.learn(score, y - 1.0, w)
        except (TypeError, ValueError, OverflowError):
            learned = False
        if not learned:  # not plain floats: convert or raise
            self._index.learn(*self._as_sample(score, y, w))

    def learn_steps(
        self, score: float, y: int, w: float, t: Time | None = None
    ) -> tuple[Step, ...]:
        """Return what learns a sample, as `learn_one` does, for `do_all`."""
        moment = self._read_time(t)
        learn = partial(self._index.learn, *self._as_sample(score, y, w), moment.seconds)
        return learn, *self._kind_steps(moment.kind)

    def unlearn_one(self, score: float, y: int, w: float = 1.0) -> None:
        """Remove a sample that was learned with the same arguments; O(K log n_scores).

        Raises
        ------
        ValueError
            If no such sample has been learned, or an argument is out of range; nothing changes.
            With a window, the sample is searched in it, in O(window), and its slot stays occupied
            until the sample would have left the window. With a half-life, ``w`` is the present
            weight.
        TypeError
            If an argument is not a number; nothing changes.

        Notes
        -----
        Without a window only the sums of a score's samples are stored. A sample that weighs 10⁻¹⁷
        of another one is lost in their sum, and stays lost when the heavy one is removed. With a
        window it is kept.
        """
        if not self._index.unlearn(*self._as_sample(score, y, w)):
            raise ValueError(
                f"`score`, `y` and `w` must have been learned together, got {score}, {y} and {w}"
            )

    def _as_sample(self, score: Any, y: Any, w: Any) -> tuple[float, float, float]:
        """Return a sample as floats, with labels that count from 0; or raise."""
        number, weight = as_score(score), as_weight(w)
        rank = as_number(y, "y")
        if not (1.0 <= rank <= self.n_labels and rank.is_integer()):
            raise ValueError(f"`y` must be an int from 1 to {self.n_labels}, got {y}")
        return number, rank - 1.0, weight

    def learn_many(
        self, scores: ArrayLike, y: ArrayLike, w: ArrayLike | None = None, *, t: Any = None
    ) -> None:
        """Learn samples in the order given; arrays of shape ``(n_samples,)``.

        ``t`` has a time for each sample, where they are needed.
        O(n_samples log n_scores + K n_scores).

        Raises
        ------
        ValueError, TypeError
            As `learn_one`; nothing is learned.
        """
        vector = as_vector(scores, "scores")
        ranks, _ = as_ranks(y, self.n_labels)
        check_same_length(ranks, len(vector), "y")
        weights = as_weights(w, len(vector))
        times = self._read_times(t, len(vector))
        learn = partial(self._index.learn_many, vector, ranks.astype(np.float64), weights)
        if times is None:
            learn()
        else:
            do_all(*self._kind_steps(times.kind), partial(learn, times.seconds))

    def predict_one(self, score: float) -> int | None:
        """Return the label of a score; None before anything is learned; O(K + log K log n_scores).

        Raises
        ------
        ValueError
            If the score is not finite.
        TypeError
            If it is not a number.
        """
        number = as_score(score)
        label = self._index.predict(number)
        if label is None:
            return None
        if label >= 0:
            return 1 + label
        found = self._solve_from_scratch()
        if not found.n_scores:
            return None
        return 1 + int(np.searchsorted(found.thresholds, number, side="right"))

    def predict_many(self, scores: ArrayLike) -> NDArray[np.int64]:
        """Return the labels of scores, shape ``(n_samples,)``.

        For a Series they are one with the same index, and with its name followed by ``_label``.

        Raises
        ------
        ValueError
            If nothing has been learned, or a score is not finite.
        """
        vector = as_vector(scores, "scores")
        labels = 1 + np.searchsorted(self.thresholds, vector, side="right")
        return like_given(labels, scores, "label")

    @property
    def thresholds(self) -> NDArray[np.float64]:
        """The thresholds, shape ``(n_labels - 1,)``; O(K log n_scores).

        Raises
        ------
        ValueError
            If nothing has been learned.
        """
        return self._check_learned(self._optimum(with_risk=False)).thresholds.copy()

    @property
    def risk(self) -> float:
        """The total task loss of the current samples; O(n_scores)."""
        return self._optimum(with_risk=True).risk

    def result(self) -> Thresholds:
        """Return thresholds and risk as `optimal_thresholds` does; O(n_scores).

        Raises
        ------
        ValueError
            If nothing has been learned.
        """
        _, thresholds, risk, certified = self._check_learned(self._optimum(with_risk=True))
        return Thresholds(thresholds.copy(), risk, "streaming", certified)

    def _optimum(self, with_risk: bool) -> _Optimum:
        """Return the optimum, solved from scratch if the tree does not give it."""
        n_scores, thresholds, risk, weight, integers = self._index.answer(with_risk)
        if thresholds is None:
            return self._solve_from_scratch()
        certified = isinstance(self._index, MinPlus)  # which adds costs, and none is negative
        if with_risk and not certified:
            table = self._index.table()
            scale = weight * float(spread_of(table).max())
            costs = table if integers else None
            certified = is_accurate(risk, scale, _MOST_ADDITIONS, costs)
        return _Optimum(n_scores, thresholds, risk, certified)

    @staticmethod
    def _check_learned(found: _Optimum) -> _Optimum:
        """Return an optimum that rests on samples, or raise."""
        if not found.n_scores:
            raise ValueError("`thresholds` need at least one learned sample, got none")
        return found

    def _solve_from_scratch(self) -> _Optimum:
        """Solve from scratch, unless nothing has changed since the last time."""
        solved = self._last_solve
        if solved is not None and solved[0] == self._index.n_changes:
            return solved[1]
        n_changes, growth, scores, weights = self._index.samples()
        if not len(scores):
            return _Optimum(0, np.empty(0), 0.0, True)
        at, ranks = np.nonzero(weights)
        samples = Samples.sorted(
            scores[at],
            ranks.astype(np.uint16),
            np.ascontiguousarray(weights[at, ranks]),
            self.n_labels,
            weights.sum(axis=0),
        )
        method = "subsequence" if isinstance(self._loss, ZeroOneError) else "dp"
        table = self._index.table()
        thresholds = samples.thresholds(find_cuts(samples, table, method))
        answers = np.searchsorted(thresholds, scores, side="right")
        # Summed in the order of the index, for the same rounding.
        risk = float(np.cumsum(weights * table[answers])[-1]) / growth
        certified = method == "dp" or samples.is_accurate(risk * growth, table)
        found = _Optimum(len(scores), thresholds, risk, certified)
        self._last_solve = n_changes, found
        return found

    def _freeze(self) -> tuple[Fields, Arrays]:
        fields, arrays = self._index.state()
        fields |= self._freeze_clock(fields.get("now", math.nan))
        if self.n_labels > LABELS_OF_SMALL_TABLES:
            arrays["table"] = self._index.table()
        return fields, arrays

    @classmethod
    def _check_room(cls, parameters: Fields, arrays: Arrays) -> None:
        # Memory grows with the square of this number. States of many labels hold the table of
        # costs, so that few bytes can't make the constructor allocate much memory.
        n_labels = parameters.get("n_labels", 0)
        if not isinstance(n_labels, int) or n_labels > LABELS_OF_SMALL_TABLES:
            array_of(arrays, "table", n_labels, n_labels)

    def _thaw(self, fields: Fields, arrays: Arrays) -> None:
        weights = array_of(arrays, "weights", None, self.n_labels)
        now = self._thaw_clock(fields)
        scores, counts, queue = read_index(arrays, weights.T, self.window, now)
        growth = as_float(fields["growth"], "growth", 2.0**-200, LARGEST_GROWTH)
        for some in (weights, queue[:, 1]):
            require(((some >= 0.0) & (some < MOST_WEIGHT)).all(), "weights must not be negative")
        require(np.isin(queue[:, 2], np.arange(self.n_labels)).all(), "the queue must hold labels")
        check_held(queue, scores, counts)
        self._index.restore({"growth": growth, "now": now}, arrays)
