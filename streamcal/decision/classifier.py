"""A river model that predicts the label with the best expected metric, not the likeliest one.

One metric is computed over the whole stream, so the value of a decision depends on the counts so
far. These counts are carried from sample to sample and enter the expectation of the metric. For
single samples the rule is then a threshold that depends on the metric reached so far (for F1 it
tends to half of it: online F-measure optimisation); the samples of a frame are decided jointly.
"""

import copy
import math
from collections.abc import Hashable, Iterable, Iterator, Mapping
from datetime import timedelta
from typing import Any, Literal, get_args

import numpy as np
from narwhals.stable.v2.typing import IntoDataFrame, IntoSeries
from numpy.typing import ArrayLike, NDArray
from river import base, compose
from river.base.typing import ClfTarget
from river.utils.dataframe import into_frame, into_series, to_native_series

from streamcal._state import Arrays, Fields, Stateful, array_of, as_name, pack, require, unpack
from streamcal._validation import (
    MOST_COUNT,
    as_probabilities,
    check_label,
    check_mapping,
    check_probability_range,
    decay_per_sample,
)
from streamcal.calibration.clock import (
    NO_MOMENT,
    Moment,
    Time,
    Timed,
    Times,
    as_time_list,
    check_forgetting,
    in_samples,
    in_seconds,
)
from streamcal.decision.goals import AnyMetric, as_parameter, get_metric
from streamcal.decision.maximization import Counts, Decision, as_labels, expected_utility, maximize
from streamcal.wrappers.checks import as_probabilities_of_labels, check_classifier, check_served
from streamcal.wrappers.classifier import CalibratedClassifier
from streamcal.wrappers.routing import (
    AnyClassifier,
    BatchRouting,
    Features,
    Routing,
    last_step,
    name_of,
)
from streamcal.wrappers.snapshot import ModelSnapshot
from streamcal.wrappers.times import check_time_feature, moment_of, time_of, times_of

History = Literal["labels", "expected"]
_HISTORIES = (*get_args(History), None)


class DecisionClassifier(
    Timed, BatchRouting, Stateful, base.Wrapper[Any], base.MiniBatchClassifier
):
    """Decide for the labels that maximise a metric over the stream.

    Parameters
    ----------
    classifier : river classifier or pipeline
        A binary classifier with probabilities, preferably calibrated, such as
        `streamcal.CalibratedClassifier`. It is not copied.
    metric : str, Metric or river metric
        The metric to maximise; see `streamcal.decision.get_metric`.
    history : {"labels", "expected", None}
        The counts that are carried: those of decisions and labels; those expected from
        probabilities, which do not depend on labels that may be late or biased; or none.
    half_life : float, timedelta or None
        After how many samples a carried count is halved, or after which time; None: never.
    pos_val : bool, int or str
        The positive label.
    time : str, optional
        The name of the feature that holds the time of a sample, a `datetime` or a number of
        seconds, if ``half_life`` is a timedelta. Where `learn_one` gets ``t``, that counts instead.

    Raises
    ------
    TypeError, ValueError
        If ``classifier`` is not a classifier, or another argument is not as described.

    Notes
    -----
    Predicting changes nothing. `learn_one` and `learn_many` update the counts: they repeat the
    decision of `predict_one` and `predict_many`. If labels come late, pass the decision that was
    served as ``decided``, and the probabilities of the classifier as ``served``.

    Where ``half_life`` is a timedelta, counts age when a sample is learned, by the time since the
    newest sample before it. A time that goes back counts as equal to the newest one. A batch ages
    counts until its newest time, and its own decisions count in full.

    Examples
    --------
    >>> from river import datasets, linear_model, metrics, preprocessing
    >>> from streamcal.decision import evaluate
    >>> model = preprocessing.StandardScaler() | linear_model.LogisticRegression()
    >>> evaluate(datasets.Phishing(), DecisionClassifier(model, "f2"), metrics.FBeta(2.0))
    FBeta: 87.42%
    """

    def __init__(
        self,
        classifier: AnyClassifier,
        metric: AnyMetric = "f1",
        *,
        history: History | None = "labels",
        half_life: float | timedelta | None = None,
        pos_val: bool | int | str = True,
        time: str | None = None,
    ) -> None:
        if not hasattr(last_step(classifier), "predict_proba_one"):
            check_classifier(classifier)  # it says what to write instead
            raise TypeError(f"`classifier` must be a river classifier, got {name_of(classifier)}")
        if history not in _HISTORIES:
            raise ValueError(f"`history` must be 'labels', 'expected' or None, got {history!r}")
        check_forgetting(half_life)
        self.needs_time = isinstance(half_life, timedelta)
        check_time_feature(time, self, "`half_life` is a timedelta")
        positive: Any = pos_val
        if not isinstance(positive, Hashable) or positive is None or positive != positive:
            raise ValueError(f"`pos_val` must be a label, got {pos_val!r}")
        self.classifier = classifier
        self.metric = metric
        self.history = history
        self.half_life = half_life
        self.pos_val = pos_val
        self.time = time
        self._set_routes(
            classifier, "learn_one", "predict_proba_one", "learn_many", "predict_proba_many"
        )
        self._metric = get_metric(metric)
        self._decay = decay_per_sample(in_samples(half_life))
        self._now = math.nan  # the newest time, in seconds
        self._negative: ClfTarget | None = False if isinstance(pos_val, bool) else None
        self._claimed = np.zeros(4)
        self._realised = np.zeros(4)

    _given = ("classifier",)
    _passes_probabilities = True

    def _parameters(self) -> Fields:
        found = {**super()._parameters(), "metric": as_parameter(self.metric)}
        if self.time is None:  # as in states from before there was one
            del found["time"]
        return found

    def _freeze(self) -> tuple[Fields, Arrays]:
        counts = {"claimed": self._claimed, "realised": self._realised}
        return {"negative": pack(self._negative), **self._freeze_clock(self._now)}, counts

    def _thaw(self, fields: Fields, arrays: Arrays) -> None:
        claimed, realised = array_of(arrays, "claimed", 4), array_of(arrays, "realised", 4)
        for counts in (claimed, realised):
            require(((counts >= 0.0) & (counts <= MOST_COUNT)).all(), "counts are not negative")
        negative = as_name(unpack(fields["negative"]), "negative", none=True)
        require(negative != self.pos_val, "the negative label must be another")
        self._now = self._thaw_clock(fields)
        self._negative, self._claimed, self._realised = negative, claimed, realised

    @property
    def _wrapped_model(self) -> AnyClassifier:
        return self.classifier

    @property
    def _multiclass(self) -> bool:
        return False

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        from river import linear_model, preprocessing

        model = preprocessing.StandardScaler() | linear_model.LogisticRegression()
        yield {"classifier": model, "metric": "accuracy", "history": None}

    @property
    def counts(self) -> Counts:
        """The confusion counts to which the next decision adds."""
        return Counts(*self._carried_counts().tolist())

    @property
    def claim_gap(self) -> float:
        """The metric of the counts expected from probabilities, less that of the actual counts.

        It is near 0 if probabilities are calibrated, positive if they are too optimistic and
        negative if they are too pessimistic. It can be the input of a river drift detector. With a
        ``half_life`` it forgets as the counts do.
        """
        if not self._realised.any():
            return 0.0
        claimed = self._metric(*self._claimed)
        return float(claimed - self._metric(*self._realised))

    def snapshot(self) -> ModelSnapshot:
        """Return an immutable copy of wrapper and model that predicts, for other threads.

        It decides from the counts so far.
        """
        twin = copy.deepcopy(self)
        inside: Any = last_step(twin.classifier)
        if hasattr(inside, "remember"):
            inside.remember = 0  # no label will come
        return ModelSnapshot(twin)

    def decide(self, probabilities: ArrayLike) -> Decision[np.bool_]:
        """Return the best labels for probabilities of the positive label and the counts so far."""
        return maximize(probabilities, self._metric, counts=self._carried_counts())

    def predict_proba_one(self, x: Features, **kwargs: Any) -> dict[ClfTarget, float]:
        """Return the classifier's own probabilities."""
        answer: dict[ClfTarget, float] = self._call("predict_proba_one", x, **kwargs)
        return answer

    def predict_one(self, x: Features, **kwargs: Any) -> ClfTarget | None:
        """Return the decision for one sample; None while the classifier has no label."""
        raw = self.predict_proba_one(x, **kwargs)
        if not raw:
            return None
        return self._as_label(bool(self.decide([self._p_positive(raw)]).labels[0]), raw)

    def decide_many(self, xs: Iterable[Mapping[Any, Any]]) -> list[ClfTarget | None]:
        """Return the joint decision for samples; None for each without probabilities."""
        raws = [self.classifier.predict_proba_one(dict(x)) for x in xs]
        known = [raw for raw in raws if raw]
        labels = iter(self.decide([self._p_positive(raw) for raw in known]).labels.tolist())
        return [self._as_label(next(labels), raw) if raw else None for raw in raws]

    def learn_one(
        self,
        x: Features,
        y: ClfTarget,
        *,
        served: Any = None,
        decided: ClfTarget | None = None,
        t: Time | None = None,
        **kwargs: Any,
    ) -> None:
        """Decide for ``x``, learn the sample, then count the decision against its label.

        Parameters
        ----------
        x : dict
            The features.
        y : bool, int or str
            The label.
        served : mapping from label to probability, or Served, optional
            The probabilities when the sample was served; by default they are computed again. That
            closes an open burst (see `HedgedCalibrator`), so pass them if labels arrive together. A
            result of `CalibratedClassifier.serve_one` is passed on to that classifier.
        decided : bool, int or str, optional
            The decision that was served; by default it is made again from the counts so far.
        t : datetime or float, optional
            The time at which the sample is learned, if ``half_life`` is a timedelta; without it,
            the feature that ``time`` names. The classifier gets it, too, where it takes one.
        **kwargs
            The classifier gets those that its ``learn_one`` takes, such as a weight ``w``. Each
            decision counts once, for any weight.
        """
        self._check_label(y)
        self._check_arguments(kwargs)
        moment = moment_of(self, x, t, self.time)
        if t is not None and self._takes_time:
            kwargs["t"] = t
        raw = predict_again(self.classifier, x) if served is None else probabilities_in(served)
        if raw is not served and served is not None:
            kwargs["served"] = served
        if served is not None:
            check_served(as_probabilities_of_labels(raw), self._known_labels())
        if raw:
            p, hits = np.array([self._p_positive(raw)]), np.array([y == self.pos_val])
            if decided is None:
                chosen = self.decide(p).labels
            else:
                self._check_label(decided)
                chosen = np.array([decided == self.pos_val])
        else:
            p, hits, chosen = np.empty(0), np.empty(0, bool), np.empty(0, bool)
        counts = self._counts_with(p, chosen, hits, moment)
        negative = self._negative_with([y])
        self._call("learn_one", x, y, **kwargs)
        # Only now, and without a call: if the model raises, nothing is counted.
        self._claimed, self._realised, self._now, self._kind = counts
        self._negative = negative

    def learn_batch(
        self, xs: Iterable[Mapping[Any, Any]], ys: Iterable[ClfTarget], *, t: Any = None
    ) -> None:
        """Decide jointly, learn each sample, then count the decisions against the labels.

        ``t`` has a time for each sample, as of `learn_one`; without it, each has the feature that
        ``time`` names.
        """
        samples = [(dict(x), y) for x, y in zip(xs, ys, strict=True)]
        for _, y in samples:
            self._check_label(y)
        if t is not None:
            t = as_time_list(t.to_pylist() if hasattr(t, "to_pylist") else t, len(samples))
        newest = self._newest_of([x for x, _ in samples], t)
        raws = [(predict_again(self.classifier, x), y) for x, y in samples]
        known = [(self._p_positive(raw), y == self.pos_val) for raw, y in raws if raw]
        p = np.array([p for p, _ in known], dtype=np.float64)
        hits = np.array([hit for _, hit in known], dtype=np.bool_)
        counts = self._counts_with(p, self._decide_jointly(p), hits, newest)
        negative = self._negative_with([y for _, y in samples])
        for i, (x, y) in enumerate(samples):
            self._call("learn_one", x, y, **({} if t is None else {"t": t[i]}))
        self._claimed, self._realised, self._now, self._kind = counts
        self._negative = negative

    def _newest_of(self, xs: list[Features], t: list[Any] | None) -> Moment:
        """Return the newest time of a batch, or raise; none if counts do not forget by time."""
        if self.needs_time and t is None and self.time is not None:
            t = [time_of(x, None, self.time, self._read_time) for x in xs]
        return _newest(self._read_times(t, len(xs)))

    def _decide_jointly(self, p: NDArray[np.float64]) -> NDArray[np.bool_]:
        return self.decide(p).labels if len(p) else np.empty(0, dtype=np.bool_)

    def predict_many(self, X: IntoDataFrame, **kwargs: Any) -> IntoSeries:
        """Return the joint decision for a frame, as a series of the same library."""
        frame = into_frame(X)
        if not hasattr(self.classifier, "predict_proba_many"):
            labels = self.decide_many(frame.iter_rows(named=True))
            return to_native_series(labels, name=None, like=frame)
        p = self._p_positive_many(X, kwargs)
        if p is None:
            return to_native_series([None] * len(frame), name=None, like=frame)
        chosen = self.decide(p).labels.tolist()
        return to_native_series([self._as_label(hit, {}) for hit in chosen], name=None, like=frame)

    def predict_proba_many(self, X: IntoDataFrame, **kwargs: Any) -> IntoDataFrame:
        """Return the classifier's own probabilities."""
        answer: IntoDataFrame = self._call("predict_proba_many", X, **kwargs)
        return answer

    def learn_many(self, X: IntoDataFrame, y: IntoSeries, *, t: Any = None, **kwargs: Any) -> None:
        """Decide jointly, learn a frame, then count the decisions against the labels.

        ``t`` has a time for each sample, as of `learn_one`; without it, the column that ``time``
        names has it.
        """
        labels = into_series(y).to_list()
        frame = into_frame(X)
        if len(frame) != len(labels):
            raise ValueError(f"`y` must have one label per row of `X`, got {len(labels)}")
        if not hasattr(self.classifier, "learn_many"):
            self.learn_batch(frame.iter_rows(named=True), labels, t=t)
            return
        for label in labels:
            self._check_label(label)
        times = None
        if self.needs_time:
            if t is None and self.time is None:
                self._read_times(None, len(labels))  # raises
            times = times_of(X, len(labels), t, self.time, self._read_times)
        if t is not None and self._takes_time:
            kwargs["t"] = t
        p, hits = self._p_positive_many(X, {}), np.array([y == self.pos_val for y in labels], bool)
        if p is None:
            p, hits = np.empty(0), hits[:0]
        counts = self._counts_with(p, self._decide_jointly(p), hits, _newest(times))
        negative = self._negative_with(labels)
        self._call("learn_many", X, y, **kwargs)
        self._claimed, self._realised, self._now, self._kind = counts
        self._negative = negative

    def _p_positive_many(
        self, X: IntoDataFrame, kwargs: dict[str, Any]
    ) -> NDArray[np.float64] | None:
        frame = into_frame(self.predict_proba_many(X, **kwargs))
        if frame.is_empty():
            return None
        for name in frame.columns:
            # Most libraries of data frames have only strings as column names.
            if str(name) == str(self.pos_val):
                p = frame.get_column(name).to_numpy().astype(np.float64)
                return as_probabilities(p, "probabilities")
        return np.zeros(len(frame))

    def _carried_counts(self) -> NDArray[np.float64]:
        if self.history is None:
            return np.zeros(4)
        return self._realised if self.history == "labels" else self._claimed

    def _counts_with(
        self,
        p: NDArray[np.float64],
        chosen: NDArray[np.bool_],
        hits: NDArray[np.bool_],
        newest: Moment,
    ) -> tuple[NDArray[np.float64], NDArray[np.float64], float, str | None]:
        """Return both counts with the decisions of a batch added, the newest time, and its kind.

        Counts are decayed by the length of the batch, or by the time until its newest sample.
        """
        keep, n_chosen = self._decay ** len(p), int(chosen.sum())
        now, kind = self._now, self._kind
        if newest.kind is not None:
            passed = newest.seconds - now
            if passed > 0.0:
                keep = 2.0 ** (-passed / in_seconds(self.half_life))
            now, kind = max(newest.seconds, now), newest.kind  # now is NaN at first

        def add(counts: NDArray[np.float64], positive: NDArray[np.float64]) -> NDArray[np.float64]:
            tp, total = float(positive[chosen].sum()), float(positive.sum())
            added = (tp, n_chosen - tp, total - tp, len(p) - n_chosen - (total - tp))
            return np.maximum(counts * keep + added, 0.0)

        claimed, realised = add(self._claimed, p), add(self._realised, hits.astype(np.float64))
        return claimed, realised, now, kind

    def _p_positive(self, raw: Mapping[ClfTarget, float]) -> float:
        """Return the probability of the positive label."""
        check_mapping(raw)
        if len(raw) > 2:
            raise ValueError(f"`classifier` must be binary, got probabilities of {list(raw)}")
        p = float(raw.get(self.pos_val, 0.0))
        check_probability_range({self.pos_val: p})
        return min(max(p, 0.0), 1.0)

    def _as_label(self, positive: bool, raw: Mapping[ClfTarget, float]) -> ClfTarget | None:
        """Return a decision as a label of the user; None if the negative label is not known yet."""
        if positive:
            return next((label for label in raw if label == self.pos_val), self.pos_val)
        for label in raw:
            if label != self.pos_val:
                return label
        return self._negative

    def _known_labels(self) -> list[ClfTarget]:
        """Return both labels, or none if the negative one is not known yet."""
        if self._negative is None:
            return [False, True] if isinstance(self.pos_val, bool) else []
        return [self._negative, self.pos_val]

    def _check_label(self, y: Any) -> None:
        check_label(y)
        if self._negative is not None and y != self.pos_val and y != self._negative:
            raise ValueError(
                f"`y` must be {self.pos_val!r} or {self._negative!r}, as labels are binary,"
                f" got {y!r}"
            )

    def _negative_with(self, labels: Iterable[ClfTarget]) -> ClfTarget | None:
        """Return the negative label, which may be among these."""
        return next((y for y in labels if y != self.pos_val), self._negative)


def claim_gap(
    probabilities: ArrayLike,
    labels: ArrayLike,
    y: ArrayLike,
    metric: AnyMetric = "f1",
    *,
    counts: Any = None,
) -> float:
    """Return the utility of decisions that probabilities predict, less the actual utility.

    Its mean over batches is 0 if probabilities are calibrated and labels independent. A drift
    detector can watch it, to raise an alarm when calibration is lost.

    Parameters
    ----------
    probabilities, labels, y : array-like of shape (n_samples,)
        Probabilities of the label 1; the decisions, 0 or 1; the actual labels, 0 or 1.
    metric : str, Metric or river metric
        See `get_metric`.
    counts : sequence (tp, fp, fn, tn) of floats, or None
        Counts carried into the batch.

    Examples
    --------
    >>> round(claim_gap([0.9, 0.8, 0.1], [1, 1, 0], [1, 0, 0], "f1"), 3)
    0.208
    """
    kind = get_metric(metric)
    claimed = expected_utility(probabilities, labels, kind, counts=counts)
    n = len(np.asarray(probabilities))
    chosen, hits = as_labels(labels, n, "labels"), as_labels(y, n, "y")
    table = np.array([chosen & hits, chosen & ~hits, ~chosen & hits, ~chosen & ~hits]).sum(axis=1)
    before = np.zeros(4) if counts is None else np.asarray(counts, dtype=np.float64)
    return claimed - float(kind(*(before + table)))


def _newest(times: Times | None) -> Moment:
    """Return the newest of the times of a batch; none if there are none."""
    if times is None or not len(times):
        return NO_MOMENT
    return Moment(float(times.seconds.max()), times.kind)


def probabilities_in(served: Any) -> Mapping[ClfTarget, float]:
    """Return the probabilities of a `Served` or of a mapping, or raise."""
    probabilities = getattr(served, "calibrated", served)
    if not isinstance(probabilities, Mapping):
        raise TypeError(
            f"`served` must be a mapping from label to probability, or a Served, got {served!r}"
        )
    return probabilities


def predict_again(classifier: Any, x: Features) -> Mapping[ClfTarget, float]:
    """Return the probabilities of a sample whose label has come.

    They must not be remembered by a `CalibratedClassifier`, as if they waited for a label, too.
    """
    # To river, a pipeline is an instance of the class of its last step, but has no `serve_one`.
    while True:
        if isinstance(classifier, compose.Pipeline):
            x, classifier = classifier.transform_one(x), classifier._last_step
        elif isinstance(classifier, Routing) and classifier._passes_probabilities:
            classifier = classifier._wrapped_model
        else:
            break
    if isinstance(classifier, CalibratedClassifier):  # others may count what they serve
        return classifier.serve_one(x).calibrated
    answer: Mapping[ClfTarget, float] = classifier.predict_proba_one(x)
    return answer
