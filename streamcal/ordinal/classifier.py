"""A river classifier of ordinal labels around a river regressor.

The regressor gives a score; a `ScoreModel` turns it into a label, by rounding or by thresholds, and
into probabilities, by a calibrator for each boundary. It learns scores that were served, which are
of samples that the regressor had not learned. From time to time a `Rescorer` scores the window
again, in this process or in another one, and hands thresholds for the new scores to the score
model, which uses them if they are better.
"""

import copy
import math
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta, timezone
from functools import partial
from itertools import islice, repeat, takewhile
from typing import Any

import numpy as np
from numpy.typing import NDArray
from river import base
from river.base.typing import ClfTarget

from streamcal._advice import about_features
from streamcal._state import (
    Arrays,
    Fields,
    Stateful,
    array_of,
    as_float,
    as_int,
    as_list,
    as_names,
    pack,
    require,
    unpack,
)
from streamcal._validation import LARGEST, SMALLEST, as_weight, check_bool, check_count
from streamcal._whole import Step, do_all
from streamcal.calibration.clock import Time, Timed, check_span, in_seconds, or_time
from streamcal.kernels.score_index import check_held_times, has_left
from streamcal.losses import (
    AbsoluteError,
    AsymmetricError,
    SquaredError,
    TaskLoss,
    TaskLossName,
    ZeroOneError,
    get_task,
)
from streamcal.losses.task import check_n_labels
from streamcal.ordinal._label_order import LabelOrder
from streamcal.ordinal._rescoring import Rescored, Rescorer, Window
from streamcal.ordinal._score_model import ScoreModel
from streamcal.ordinal.thresholds import METHODS, Thresholds
from streamcal.wrappers.checks import check_regressor
from streamcal.wrappers.routing import AnyRegressor, Features, Routing
from streamcal.wrappers.snapshot import ModelSnapshot
from streamcal.wrappers.times import check_time_feature, moment_of

Sample = tuple[Features, ClfTarget, float, float, float]
"""Features, label, recorded score, weight, and time in seconds; NaN where samples are counted."""

_LOSSES_OF_ANY_SIZE = (AbsoluteError, SquaredError, ZeroOneError, AsymmetricError)


class ThresholdClassifier(Timed, Routing, Stateful, base.Wrapper[Any], base.Classifier):
    """Ordinal classification: a regressor's score, rounded or cut by optimal thresholds.

    The regressor learns the rank of the label. Its score of a sample, taken *before* the sample is
    learned, is added to a window of recent scores. Labels are served by rounding, by
    the thresholds that minimise the task loss on this window, or by thresholds for new scores of
    the window: by what has had the least task loss lately.

    Parameters
    ----------
    regressor : river regressor or pipeline
        Used as it is, not copied.
    labels : sequence, optional
        All labels in their order, of any kind; a label that is not among them is refused. By
        default labels are added when they first occur, in their natural order. The regressor then
        learns the values of numbers. Give labels of other kinds here: their ranks change when a new
        label sorts before them.
    loss : str or TaskLoss
        What to minimise: "absolute", "squared", "zero-one", "asymmetric" or a `TaskLoss`; a table
        of costs needs ``labels``.
    window : int or timedelta
        How many samples the thresholds and probabilities rest on. With a timedelta they rest on
        those that were younger than that when the newest one was learned; each sample then has a
        time, and memory grows with the rate of samples.
    every : int or None
        After how many samples the window is scored again with the current regressor, and solved
        again. That takes ``window / every`` predictions of the regressor for each sample. None:
        never.
    n_jobs : int
        The number of jobs that solve for the thresholds again; see `optimal_thresholds`.
    background : bool
        Whether to do that in another process. The process is *spawned*, so a script must keep its
        work under ``if __name__ == "__main__":``; jobs are threads there. Learning continues
        meanwhile. When the result arrives, the samples learned since are added with their scores.
        When it arrives depends on the machine.
    time : str, optional
        The name of the feature that holds the time of a sample, a `datetime` or a number of
        seconds, if ``window`` is a timedelta. Where `learn_one` gets ``t``, that counts instead.
        The regressor gets all features as before, so a pipeline that cannot use a `datetime`
        discards it: ``compose.Discard("moment") | model``.

    Raises
    ------
    ValueError
        If a parameter is out of range.
    TypeError
        If ``regressor`` is not a river regressor, or the loss not a task loss.

    Notes
    -----
    Rounding is to the nearest of the values that the regressor learns. For both kinds of thresholds
    their task loss above that of rounding is summed, and the influence of a sample on this sum
    halves after 2,000 samples. The lower sum is followed if it is below zero by more than 0.7
    standard errors; otherwise rounding is.

    New scores of old samples are too good, since the regressor has learned these samples, so
    probabilities rest on the recorded scores alone, whichever way gives the label. `predict_one`
    minimises the task loss; it need not return the most probable label of `predict_proba_one`.
    Those probabilities are differences of calibrated P(y > k | score), with one calibrator for each
    boundary. Isotonic regression preserves order, so P(y > k) ≥ P(y > k + 1) at every score;
    rounding errors are clipped.

    Learning costs O(K log² window), and one predict_one and learn_one of the regressor.

    Where ``window`` is a timedelta, a time that goes back counts as equal to that of the newest
    sample. A sample that leaves the window while it is scored again does not count afterwards.
    ``every`` and the 2,000 samples above are numbers of samples all the same.

    References
    ----------
    Yamasaki & Tanaka, *Parallel Algorithm for Optimal Threshold Labeling of Ordinal Regression
    Methods*. The regressor is what they call the one-dimensional transformation.

    Examples
    --------
    >>> from river import datasets, linear_model, preprocessing
    >>> from streamcal.metrics import MAE
    >>> model = ThresholdClassifier(
    ...     preprocessing.StandardScaler() | linear_model.LinearRegression(),
    ...     labels=("light", "medium", "heavy"),
    ... )
    >>> metric = MAE(labels=model.labels)
    >>> for x, grams in datasets.ChickWeights():
    ...     y = "light" if grams < 70 else "medium" if grams < 140 else "heavy"
    ...     metric.update(y, model.predict_one(x))
    ...     model.learn_one(x, y)
    >>> metric
    MAE: 0.17...
    >>> model.predict_one(x)
    'heavy'
    >>> {label: round(p, 1) for label, p in model.predict_proba_one(x).items()}
    {'light': 0.0, 'medium': 0.0, 'heavy': 1.0}
    """

    _given = ("regressor",)

    def __init__(
        self,
        regressor: AnyRegressor,
        labels: Sequence[ClfTarget] | None = None,
        *,
        loss: TaskLossName | TaskLoss = "absolute",
        window: int | timedelta = 10_000,
        every: int | None = 1_000,
        n_jobs: int = 1,
        background: bool = False,
        time: str | None = None,
    ):
        check_regressor(regressor)
        if isinstance(window, timedelta):
            check_span(window, "window")
        else:
            or_time(partial(check_count, name="window"), window, "window")
        check_count(every, "every", optional=True)
        check_count(n_jobs, "n_jobs")
        check_bool(background, "background")
        self.needs_time = isinstance(window, timedelta)
        check_time_feature(time, self, "`window` is a timedelta")
        self.regressor = regressor
        self.labels = labels
        self.loss = loss
        self.window = window
        self.every = every
        self.n_jobs = n_jobs
        self.background = background
        self.time = time

        self._order = LabelOrder.of(labels)
        task = get_task(loss)
        if type(task) in _LOSSES_OF_ANY_SIZE:  # no need to make a table to check the size
            check_n_labels(max(len(self._order), 2))
        elif labels is not None:
            task.table(len(self._order))
        n_most = None if isinstance(window, timedelta) else window
        self._samples: deque[Sample] = deque(maxlen=n_most)
        self._now = math.nan  # the newest time, in seconds
        self._score_model: ScoreModel | None = None
        self._solution: Thresholds | None = None
        self._n_samples = 0
        self._rescorer = Rescorer(every, background)
        self._set_routes(regressor, "learn_one", "predict_one")

    @property
    def thresholds(self) -> NDArray[np.float64]:
        """The thresholds that `predict_one` uses, shape ``(n_labels - 1,)``.

        While it rounds, these are the middles between the values that the regressor learns.

        Raises
        ------
        ValueError
            If not two labels are known, or nothing has been learned.
        """
        if self._score_model is None:
            raise ValueError("`thresholds` need two known labels and a learned sample")
        return self._score_model.thresholds

    @property
    def solution(self) -> Thresholds | None:
        """The result of the last repeated solve, for the scores at that time; None before."""
        return self._solution

    def learn_one(
        self, x: Features, y: ClfTarget, w: float = 1.0, *, t: Time | None = None, **kwargs: Any
    ) -> None:
        """Score a sample, teach the regressor its rank, and record the score.

        Parameters
        ----------
        x : dict
            The features.
        y : int, str or bool
            The label.
        w : float
            Weight of the sample, from 1e-60 to 1e60. The regressor gets it if its ``learn_one``
            takes ``w``.
        t : datetime or float, optional
            The time at which the sample is learned, if ``window`` is a timedelta; without it, the
            feature that ``time`` names. The regressor gets it, too, where it takes one.
        **kwargs
            The regressor gets those that its ``learn_one`` takes.

        Raises
        ------
        ValueError, TypeError
            If ``y`` is None, NaN or not one of the given labels, or without these a number above
            1e60, ``w`` is not positive, the time is missing or of another kind than before, or the
            regressor predicts a value that is not finite. An error of the regressor while the
            window is scored again, in the background too, is raised here once; old samples without
            a finite score are left out. In all cases nothing is learned.
        """
        w = as_weight(w)
        if t is not None and self._takes_time:
            kwargs["t"] = t
        given = self._route("learn_one", {**kwargs, "w": w}) if kwargs or w != 1.0 else kwargs
        order = self._order.including(y)
        moment = moment_of(self, x, t, self.time)
        score = self._score(x, {})
        self._update_thresholds()
        now = self._now if moment.seconds < self._now else moment.seconds
        n_old = self._n_older_than(now)
        model, sample = self._score_model, (x.copy(), y, score, w, now)
        steps: list[Step] = []
        if model is None and len(order) > 1:
            model = self._make_score_model(order, [*islice(self._samples, n_old, None), sample])
        elif model is not None:
            if order is not self._order:
                model = self._make_score_model(order, self._samples)
            steps += model.learn_steps(score, order.ranks[y], w, now)
        changes: dict[str, Any] = {"_order": order, "_score_model": model}
        changes |= {"_n_samples": self._n_samples + 1, "_now": now, "_kind": moment.kind}
        steps += repeat(self._samples.popleft, n_old)
        steps += partial(self._samples.append, sample), partial(vars(self).update, changes)
        self.regressor.learn_one(x, order.target(y), **given)
        do_all(*steps)

    def predict_one(self, x: Features, **kwargs: Any) -> ClfTarget | None:
        """Return the label, by the way that has had the least task loss; None if none is known.

        Raises
        ------
        ValueError
            If the regressor predicts a value that is not finite.
        """
        if self._score_model is None:
            self._check_arguments(kwargs)
            return self._samples[-1][1] if self._samples else None
        return self._order.labels[self._score_model.predict_one(self._score(x, kwargs))]

    def predict_proba_one(self, x: Features, **kwargs: Any) -> dict[ClfTarget, float]:
        """Return the calibrated probability of each label; empty while nothing is learned.

        Raises
        ------
        ValueError
            If the regressor predicts a value that is not finite.
        """
        if self._score_model is None:
            self._check_arguments(kwargs)
            return {self._samples[-1][1]: 1.0} if self._samples else {}
        probabilities = self._score_model.predict_proba_one(self._score(x, kwargs))
        return dict(zip(self._order.labels, probabilities, strict=True))

    def snapshot(self) -> ModelSnapshot:
        """Return an immutable copy of wrapper and model that predicts, for other threads."""
        return ModelSnapshot(copy.deepcopy(self))

    def _score(self, x: Features, kwargs: dict[str, Any]) -> float:
        routed = self._route("predict_one", kwargs) if kwargs else kwargs
        score = float(self.regressor.predict_one(x, **routed))
        if not -np.inf < score < np.inf:
            hint = about_features(x)
            raise ValueError(f"`regressor` must predict finite numbers, got {score}{hint}")
        return score

    # Scores and thresholds ------------------------------------------------------------------------

    def _n_older_than(self, now: float) -> int:
        """Return how many samples leave the window for one at this time."""
        if not isinstance(self.window, timedelta):
            return int(len(self._samples) == self.window)
        window = in_seconds(self.window)
        return sum(takewhile(bool, (has_left(s[-1], now, window) for s in self._samples)))

    def _make_score_model(self, order: LabelOrder, samples: Iterable[Sample]) -> ScoreModel:
        """Return thresholds and calibrators learned from recorded scores."""
        _, labels, scores, w, times = zip(*samples, strict=True)
        ranks = np.array([order.ranks[y] for y in labels], np.int64)
        model = ScoreModel(order.targets, self.loss, self.window)
        model.learn_many(np.array(scores), ranks, np.array(w), np.array(times))
        if self._score_model is not None:
            model.follow_as(self._score_model)
        return model

    def _recorded_ranks(self, order: LabelOrder) -> NDArray[np.int64]:
        """Return the ranks of the labels in the window."""
        return np.array([order.ranks[y] for _, y, *_ in self._samples], np.int64)

    def _recorded_times(self) -> NDArray[np.float64] | None:
        """Return the times of the samples in the window, if they have times."""
        return np.array([t for *_, t in self._samples]) if self.needs_time else None

    def _update_thresholds(self) -> None:
        """Take over re-solved thresholds that are ready, and start the next solve if it is due."""
        found = self._rescorer.poll()
        if found is not None:
            self._serve_resolved(found)
        due = self._rescorer.due
        if due is None or self._n_samples < due:
            return
        if self._score_model is None:
            self._rescorer.postpone(self._n_samples)
        elif self._rescorer.ready(self._n_samples):
            # Lists: `zip` would make an object for each sample, and so start the garbage collector.
            window = Window(
                [x for x, *_ in self._samples],
                self._recorded_ranks(self._order),
                np.array([w for _, _, _, w, _ in self._samples]),
                self._recorded_times(),
                len(self._order),
                self.loss,
                self.window,
                self.n_jobs,
                self._n_samples,
            )
            found = self._rescorer.start(self.regressor, window)
            if found is not None:
                self._serve_resolved(found)

    def _serve_resolved(self, found: Rescored) -> None:
        """Serve re-solved thresholds, once they have learned the samples since the window."""
        model = self._score_model
        if model is None or found.thresholds.n_labels != model.n_labels:
            return  # with a new label the result is outdated: the next one has it
        n_held = len(self._samples)
        n_old = max(n_held - (self._n_samples - found.n_samples), 0)
        for _, y, score, w, t in islice(self._samples, n_old, None):
            found.thresholds.learn_one(score, self._order.ranks[y] + 1, w, t=t)
        model.resolved, self._solution = found.thresholds, found.solution

    # Bytes ----------------------------------------------------------------------------------------

    def _freeze(self) -> tuple[Fields, Arrays]:
        features = [
            [[pack(name), _pack_value(value)] for name, value in s[0].items()]
            for s in self._samples
        ]
        fields: Fields = {
            "order": pack(self._order.labels),
            "features": features,
            "n_samples": self._n_samples,
            "due": self._rescorer.due,
            "solution": None,
            **self._freeze_clock(self._now),
        }
        arrays: Arrays = {
            "ranks": self._recorded_ranks(self._order),
            "samples": np.array([s[2:4] for s in self._samples], np.float64).reshape(-1, 2),
        }
        times = self._recorded_times()
        if times is not None:
            arrays["times"] = times
        if self._score_model is not None:
            arrays |= self._score_model.freeze()
        if self._solution is not None:
            found = self._solution
            fields["solution"] = [found.risk, found.method, found.certified]
            arrays["solution"] = found.thresholds
        return fields, arrays

    def _thaw(self, fields: Fields, arrays: Arrays) -> None:
        order = self._order.restored(fields["order"])
        n_labels = len(order)
        ranks = array_of(arrays, "ranks", None, dtype=np.int64)
        samples = array_of(arrays, "samples", len(ranks), 2)
        now = self._thaw_clock(fields)
        if isinstance(self.window, timedelta):
            times = array_of(arrays, "times", len(ranks))
            check_held_times(times, len(ranks), now, in_seconds(self.window))
            newest = times[-1] if len(times) else None
            known = None if self._kind is None else now
            require(newest == known and (newest is None) == (now != now), "the newest must be held")
        else:
            times = np.full(len(ranks), now)
            few = len(ranks) <= self.window
            require(few, "there must be no more samples than the window holds")
        require(((ranks >= 0) & (ranks < n_labels)).all(), "ranks must be those of labels")
        w = samples[:, 1]
        require(((w >= SMALLEST) & (w <= LARGEST)).all(), "weights must be in range")
        features = [_read_features(x) for x in as_list(fields["features"], "features", len(ranks))]
        n_samples = as_int(fields["n_samples"], "n_samples", len(ranks))
        due = fields["due"]
        require((due is None) == (self.every is None), "`due` must be None where `every` is")
        model = ScoreModel.thaw(arrays, order.targets, self.loss, self.window, now)
        require(model is None or len(ranks), "thresholds must rest on samples")
        if fields["solution"] is not None:
            self._solution = _read_solution(fields["solution"], arrays, n_labels)
        self._rescorer.due = None if due is None else as_int(due, "due")
        self._order, self._n_samples, self._score_model = order, n_samples, model
        self._now = now
        rows = zip(features, ranks.tolist(), samples.tolist(), times.tolist(), strict=True)
        self._samples.extend((x, order.labels[rank], *known, t) for x, rank, known, t in rows)

    def _parameters(self) -> Fields:
        found = super()._parameters()
        if self.time is None:  # as in states from before there was one
            del found["time"]
        return found

    @property
    def _wrapped_model(self) -> AnyRegressor:
        return self.regressor

    @property
    def _multiclass(self) -> bool:
        return True

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        from river import linear_model, preprocessing

        yield {"regressor": preprocessing.StandardScaler() | linear_model.LinearRegression()}


def _read_features(packed: Any) -> Features:
    """Return the features of a sample in a state, or raise."""
    pairs = [as_list(pair, "features", 2) for pair in as_list(packed, "features")]
    names = as_names([name for name, _ in pairs], "features", none=True)
    return dict(zip(names, (_unpack_value(value) for _, value in pairs), strict=True))


def _pack_value(value: Any) -> Any:
    """Return the value of a feature as JSON; of the zone of a `datetime` the offset is kept."""
    if type(value) is not datetime:
        return pack(value)
    offset = value.utcoffset()
    zone = None if offset is None else pack(offset)
    return {"datetime": [value.replace(tzinfo=None).isoformat(), value.fold, zone]}


def _unpack_value(packed: Any) -> Any:
    """Return the argument of `_pack_value`, or raise."""
    if not isinstance(packed, dict) or "datetime" not in packed:
        return unpack(packed)
    text, fold, offset = as_list(packed["datetime"], "a datetime", 3)
    zone = None if offset is None else timezone(unpack(offset))
    return datetime.fromisoformat(text).replace(tzinfo=zone, fold=fold)


def _read_solution(packed: Any, arrays: Arrays, n_labels: int) -> Thresholds:
    """Return the solution in a state, or raise."""
    risk, method, certified = as_list(packed, "solution", 3)
    thresholds = array_of(arrays, "solution", None, finite=False)
    require(1 <= len(thresholds) < max(n_labels, 2), "a solution must be of known labels")
    require((thresholds[1:] >= thresholds[:-1]).all(), "thresholds must be in order")
    require(not np.isnan(thresholds[0]), "thresholds must be numbers")
    require(method in METHODS, "a solution must have a known method")
    require(isinstance(certified, bool), "a solution is certified or is not")
    return Thresholds(thresholds, as_float(risk, "risk", 0.0), method, certified)
