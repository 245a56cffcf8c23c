"""River models whose probabilities, or predictions, are calibrated as they are served.

A wrapper reads what its model says of a sample *before* the model learns it, teaches that score and
the label to a calibrator, and serves the calibrated value of the next score. So a calibrator only
ever sees what the model says of samples it has not learned, which is what it will be asked for.
"""

import reprlib
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from narwhals.stable.v2.typing import IntoDataFrame, IntoSeries
from numpy.typing import ArrayLike, NDArray
from river import base
from river.active.base import ActiveLearningClassifier
from river.base.typing import ClfTarget, FeatureName
from river.utils.dataframe import (
    into_frame,
    into_series,
    to_native_frame,
    to_native_series,
    to_numpy,
)

from streamcal._json import LEAST, MOST, as_count, as_items, as_pairs, as_share, from_pairs
from streamcal._routing import Routing, last_step, name_of
from streamcal._state import (
    Arrays,
    Fields,
    Stateful,
    as_list,
    as_name,
    as_names,
    check_alike,
    nest,
    pack,
    require,
    state_of,
    unpack,
)
from streamcal._validation import (
    as_number,
    as_score,
    as_vector,
    as_weight,
    as_weights,
    check_choice,
)
from streamcal.calibration.base import Calibrator
from streamcal.calibration.hedged import HedgedCalibrator, Ticket
from streamcal.calibration.isotonic import IsotonicCalibrator
from streamcal.calibration.joint import JointCalibrator

Features = dict[FeatureName, Any]
_KEPT = 200  # samples that outlive an alarm where calibrators shrink

ON_DRIFT = ("shrink", "reset", "none")


@dataclass(frozen=True, slots=True)
class Served:
    """What `CalibratedClassifier.serve_one` answered: show it, keep it, give it back.

    Attributes
    ----------
    calibrated : dict
        The calibrated probability of each label: what is shown.
    raw : dict
        What the model said of each.
    tickets : dict
        What the label's hedge is to be given back, if its calibrator is one; see
        `streamcal.HedgedCalibrator`.
    n_alarms : int
        How often a drift detector had raised alarm by then.

    Examples
    --------
    >>> import json
    >>> served = Served({"yes": 0.75, "no": 0.25}, {"yes": 0.5, "no": 0.5})
    >>> kept = json.dumps(served.to_dict())
    >>> kept[:44]
    '{"calibrated": [["yes", 0.75], ["no", 0.25]]'
    >>> Served.from_dict(json.loads(kept)) == served
    True
    """

    calibrated: dict[ClfTarget, float]
    raw: dict[ClfTarget, float]
    tickets: dict[ClfTarget, Ticket] = field(default_factory=dict)
    n_alarms: int = 0

    def to_dict(self) -> dict[str, Any]:
        """Return all of it as a dict that JSON keeps exactly, for `from_dict`.

        A label is written beside its value, not as a key, since keys of JSON are text. It may be a
        bool, an int, a finite float, a str, None or a tuple of these. A NumPy scalar is written as
        the Python value that is equal to it, and comes back as that.

        Raises
        ------
        TypeError
            If a label is of another kind.
        ValueError
            If a label is NaN or infinite, or a number is none that `from_dict` takes.
        """
        return {
            "calibrated": as_pairs(_check_served(self.calibrated)),
            "raw": as_pairs(_check_served(self.raw)),
            "tickets": as_pairs({label: [n, list(p)] for label, (n, p) in self.tickets.items()}),
            "n_alarms": self.n_alarms,
        }

    @classmethod
    def from_dict(cls, kept: Mapping[str, Any]) -> "Served":
        """Return what `to_dict` was called on, after it went through JSON or not.

        Raises
        ------
        TypeError
            If ``kept`` is not a mapping, or something in it is of the wrong type.
        ValueError
            If something is missing, is there twice or is not known, or is out of its range.
        """
        if not isinstance(kept, Mapping):
            raise TypeError(f"`kept` must be what `to_dict` returned, got {reprlib.repr(kept)}")
        if set(kept) != {"calibrated", "raw", "tickets", "n_alarms"}:
            raise ValueError(f"`kept` must be what `to_dict` returned, got {reprlib.repr(kept)}")
        shown, raw, tickets = (from_pairs(kept[at]) for at in ("calibrated", "raw", "tickets"))
        return cls(
            {label: as_share(p) for label, p in shown.items()},
            {label: as_share(p) for label, p in raw.items()},
            {label: _as_ticket(ticket) for label, ticket in tickets.items()},
            as_count(kept["n_alarms"]),
        )


def _as_ticket(kept: Any) -> Ticket:
    n_learned, answers = as_items(kept, "a count and answers in a ticket", 2)
    shares = as_items(answers, "a list of answers in a ticket")
    return Ticket(as_count(n_learned), tuple(as_share(p) for p in shares))


class CalibratedClassifier(
    Routing, Stateful, base.Wrapper[base.Classifier], base.MiniBatchClassifier
):
    """Calibrate the probabilities of a river classifier, sample by sample.

    With the labels False and True (or 0 and 1) one calibrator maps the probability of True. With
    any other labels each has a calibrator of its own, label against rest, and the calibrated values
    are renormalised to sum to 1. If all of them are 0, the model's own probabilities are served.
    Keys of the answer are the model's own label objects.

    Parameters
    ----------
    classifier : river classifier or pipeline
        The model; it must have probabilities. It is used as it is, not copied, and may have been
        trained before.
    calibrator : Calibrator, JointCalibrator or None
        The prototype that is cloned for each label; it must accept the labels 0 and 1. A
        `JointCalibrator` is cloned once and sees all labels. None means ``HedgedCalibrator()``,
        a mixture that is nearly as good as the best of several calibrators.
    drift_detector : river drift detector, optional
        Cloned, and shown the squared error of each probability served, (1/2) Σ (hit − p)² over the
        labels, in [0, 1]; a `BinaryDriftDetector` is shown whether the likeliest label was wrong.
    on_drift : {"shrink", "reset", "none"}
        What becomes of the calibrators when it raises alarm: they start anew from the last 200
        samples, or from none, or go on. `n_alarms` counts. With a detector there are no bytes.

    Raises
    ------
    TypeError
        If ``classifier`` is not a classifier, ``calibrator`` not a calibrator, or
        ``drift_detector`` not a drift detector.
    ValueError
        If ``classifier`` has no probabilities, ``calibrator`` refuses the labels 0 and 1, or
        ``on_drift`` is none of the above.

    Notes
    -----
    A sample's weight ``w`` always reaches the calibrator. It reaches the model where the model's
    ``learn_one`` (or ``learn_many``) takes one, and so does every other keyword argument.

    Where labels come late, the model has changed since it served the sample, and its answer now is
    not what the user saw. Show `serve_one` instead of `predict_proba_one`, and give all of its
    answer back as ``served`` together with the label. Where that cannot be, as in
    ``evaluate.progressive_val_score(…, delay=48)``, tell the hedge at least:
    ``CalibratedClassifier(model, HedgedCalibrator(delay=48))``. Within
    ``river.compose.learn_during_predict`` ``served`` is the way, too: being asked twice, a pipeline
    would learn twice.

    Examples
    --------
    >>> from river import datasets, evaluate, linear_model, metrics, preprocessing
    >>> from streamcal import CalibratedClassifier
    >>> model = preprocessing.StandardScaler() | linear_model.PAClassifier()
    >>> evaluate.progressive_val_score(datasets.Bananas(), model.clone(), metrics.LogLoss())
    LogLoss: 0.95...
    >>> model = CalibratedClassifier(model)
    >>> evaluate.progressive_val_score(datasets.Bananas(), model, metrics.LogLoss())
    LogLoss: 0.69...
    """

    def __init__(
        self,
        classifier: base.Classifier,
        calibrator: Calibrator | JointCalibrator | None = None,
        *,
        drift_detector: base.DriftDetector | base.BinaryDriftDetector | None = None,
        on_drift: str = "shrink",
    ) -> None:
        _check_classifier(classifier)
        if calibrator is None:
            calibrator = HedgedCalibrator()
        if not isinstance(calibrator, JointCalibrator):
            _check_calibrator(calibrator)
        check_choice(on_drift, "on_drift", ON_DRIFT)
        self.classifier = classifier
        self.calibrator = calibrator
        self.drift_detector = drift_detector
        self.on_drift = on_drift

        self._calibrators: dict[ClfTarget, Calibrator] = {}
        self._joint = calibrator.clone() if isinstance(calibrator, JointCalibrator) else None
        self._watch = None
        if drift_detector is not None:
            self._watch = _Watch(drift_detector, _KEPT if on_drift == "shrink" else 0)
        # Frames of most libraries have strings for column names: the labels these stand for.
        self._labels: dict[str, ClfTarget] = {"False": False, "True": True}
        self._y_name: str | None = None
        self._set_routes(
            classifier, "learn_one", "predict_proba_one", "learn_many", "predict_proba_many"
        )

    _given = ("classifier",)

    def _freeze(self) -> tuple[Fields, Arrays]:
        labels = [pack(label) for label in self._calibrators]
        names = [[name, pack(label)] for name, label in self._labels.items()]
        states = [nest(calibrator.to_bytes()) for calibrator in self._calibrators.values()]
        if self._joint is not None:
            states = [nest(self._joint.to_bytes())]
        fields = {"calibrated": labels, "names": names, "y_name": self._y_name}
        return fields, {str(at): state for at, state in enumerate(states)}

    def _thaw(self, fields: Fields, arrays: Arrays) -> None:
        labels = as_names(fields["calibrated"], "calibrated")
        names = [as_list(pair, "names", 2) for pair in as_list(fields["names"], "names")]
        require(all(isinstance(name, str) for name, _ in names), "columns must have names")
        of_names = {name: as_name(unpack(label), "names") for name, label in names}
        y_name = as_name(fields["y_name"], "y_name", none=True)
        if self._joint is not None:
            require(not labels, "a joint calibrator must be the only one")
            joint = JointCalibrator.from_bytes(state_of(arrays, "0"))
            check_alike([joint], [self._joint])
            self._joint = joint
        restored = [Calibrator.from_bytes(state_of(arrays, str(i))) for i in range(len(labels))]
        check_alike(restored, [self.calibrator] * len(labels))
        self._calibrators = dict(zip(labels, restored, strict=True))
        self._labels, self._y_name = of_names, y_name

    @property
    def calibrators(self) -> dict[ClfTarget, Calibrator]:
        """The calibrator of each label, by label; of True alone where labels are False and True."""
        return dict(self._calibrators)

    @property
    def n_alarms(self) -> int:
        """How often the drift detector has raised alarm."""
        return self._watch.n_alarms if self._watch else 0

    @property
    def _wrapped_model(self) -> base.Classifier:
        return self.classifier

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        from river import linear_model, naive_bayes, preprocessing

        yield {"classifier": preprocessing.StandardScaler() | linear_model.LogisticRegression()}
        yield {"classifier": naive_bayes.GaussianNB()}

    def _unit_test_skips(self) -> set[str]:
        # A batch is scored before any of it is learned; a loop scores each sample after the last.
        return self.classifier._unit_test_skips() | {"check_learn_many_matches_learn_one"}

    def learn_one(
        self,
        x: Features,
        y: ClfTarget,
        w: float = 1.0,
        *,
        served: "Served | Mapping[ClfTarget, float] | None" = None,
        **kwargs: Any,
    ) -> None:
        """Teach the calibrator what the model says of ``x`` now, then the model itself.

        Parameters
        ----------
        x : dict
            The features.
        y : bool, int or str
            The label.
        w : float
            Weight of the sample, from 1e-60 to 1e60.
        served : Served, or mapping from label to probability, optional
            What `serve_one` answered of ``x``, or what the *model* (not this wrapper) said of it.
            Without it the model is asked again.
        **kwargs
            For the model, where its ``learn_one`` takes them.

        Raises
        ------
        ValueError, TypeError
            If ``y`` is None or NaN, a probability is not a number in [0, 1], ``w`` not positive and
            finite, or ``served`` not of this model or of a later state of it. Neither the model nor
            a calibrator has learned anything then.
        """
        if y != y or y is None:
            raise ValueError(f"`y` must be a label, got {y}")
        tickets = shown = None
        if isinstance(served, Served):
            raw = _check_served(served.raw)
            shown = _check_served(served.calibrated)
            if served.n_alarms == self.n_alarms or self.on_drift == "none":
                tickets = served.tickets
                self._check_tickets(tickets)
        elif served is not None:
            raw = _check_served(served)
        elif kwargs:
            raw = self.classifier.predict_proba_one(x, **self._route("predict_proba_one", kwargs))
        else:
            raw = self.classifier.predict_proba_one(x)
        binary = len(raw) == 2 and True in raw and False in raw
        for p in (raw[True],) if binary else raw.values():
            if not LEAST <= p <= MOST:
                raise ValueError(f"probabilities must lie in [0, 1], got {raw}")

        if w == 1.0 and not kwargs:
            self.classifier.learn_one(x, y)
        else:
            w = as_weight(w)
            self.classifier.learn_one(x, y, **self._route("learn_one", {**kwargs, "w": w}))

        if self._watch is not None and self._look(self._watch, [(raw, y, w)], shown):
            tickets = None  # of calibrators that are gone
        self._teach(raw, y, w, tickets)

    def _check_tickets(self, tickets: Mapping[ClfTarget, Ticket]) -> None:
        """Raise unless the calibrators as they are now, or were, have given these tickets."""
        if not isinstance(self.calibrator, HedgedCalibrator):
            return
        for label, ticket in tickets.items():
            calibrator = self._calibrators.get(label)
            if not isinstance(calibrator, HedgedCalibrator):
                raise ValueError(
                    f"`served` must come from this model, which has no calibrator of {label!r} yet"
                )
            calibrator.check_ticket(ticket)

    def _teach(
        self,
        raw: Mapping[ClfTarget, float],
        y: ClfTarget,
        w: float,
        tickets: Mapping[ClfTarget, Ticket] | None = None,
    ) -> None:
        """Teach the calibrators one sample."""
        if self._joint is not None:
            self._joint.learn_one(raw, y, w)
            return
        for label in (True,) if len(raw) == 2 and True in raw and False in raw else raw:
            calibrator = self._calibrators.get(label)
            if calibrator is None:
                calibrator = self._new_calibrator(label, raw)
            hit = y == label  # 1 and np.True_ are True
            if tickets and label in tickets and isinstance(calibrator, HedgedCalibrator):
                calibrator.learn_one(raw[label], hit, w, served=tickets[label])
            else:
                calibrator.learn_one(raw[label], hit, w)

    def serve_one(self, x: Features, **kwargs: Any) -> Served:
        """Return `predict_proba_one` of a sample, and all that its label is to bring back.

        The state does not change.

        Examples
        --------
        >>> from collections import deque
        >>> from river import linear_model
        >>> model, waiting = CalibratedClassifier(linear_model.LogisticRegression()), deque()
        >>> for i in range(300):
        ...     x, y = {"x": i % 2}, i % 4 > 0
        ...     waiting.append((x, y, model.serve_one(x)))
        ...     if len(waiting) > 20:  # the label of 20 samples ago has come
        ...         x, y, served = waiting.popleft()
        ...         model.learn_one(x, y, served=served)
        >>> round(model.calibrators[True].mean_delay)
        20
        """
        raw = self.classifier.predict_proba_one(x, **self._route("predict_proba_one", kwargs))
        tickets = {
            label: calibrator.serve_one(raw[label])[1]
            for label, calibrator in self._calibrators.items()
            if label in raw and isinstance(calibrator, HedgedCalibrator)
        }
        return Served(self.calibrate_one(raw), dict(raw), tickets, self.n_alarms)

    def predict_proba_one(self, x: Features, **kwargs: Any) -> dict[ClfTarget, float]:
        """Return the calibrated probability of each label the model knows.

        Parameters
        ----------
        x : dict
            The features.
        **kwargs
            For the model, where its ``predict_proba_one`` takes them.

        Returns
        -------
        dict
            Probabilities in [0, 1] that sum to 1; empty while the model knows no label.
        """
        if not kwargs:
            return self.calibrate_one(self.classifier.predict_proba_one(x))
        routed = self._route("predict_proba_one", kwargs)
        return self.calibrate_one(self.classifier.predict_proba_one(x, **routed))

    def calibrate_one(self, raw: Mapping[ClfTarget, float]) -> dict[ClfTarget, float]:
        """Return calibrated probabilities for those of the model.

        Parameters
        ----------
        raw : mapping from label to probability
            An answer of the model's own ``predict_proba_one``.

        Returns
        -------
        dict
            As from `predict_proba_one`, under the same keys in the same order.

        Examples
        --------
        >>> from river import naive_bayes
        >>> model = CalibratedClassifier(naive_bayes.GaussianNB())
        >>> for _ in range(3):
        ...     model.learn_one({}, "yes", served={"yes": 0.5, "no": 0.5})
        >>> model.calibrate_one({"yes": 0.5, "no": 0.5})
        {'yes': 0.69, 'no': 0.31}
        """
        if self._joint is not None:
            return self._joint.predict_one(raw)
        calibrated = {**raw}
        if len(raw) == 2 and True in raw and False in raw:
            calibrator = self._calibrators.get(True)
            if calibrator is not None:
                p = calibrator.predict_one(raw[True])
                calibrated[True] = p
                calibrated[False] = 1.0 - p
            return calibrated
        if not raw:
            return calibrated
        total = 0.0
        for label, p in raw.items():
            calibrator = self._calibrators.get(label)
            p = float(p) if calibrator is None else calibrator.predict_one(p)
            calibrated[label] = p
            total += p
        if total > 0.0:
            return {label: p / total for label, p in calibrated.items()}
        total = float(sum(raw.values()))
        if total > 0.0:
            return {label: p / total for label, p in raw.items()}
        return dict.fromkeys(raw, 1.0 / len(raw))

    def learn_many(
        self,
        X: IntoDataFrame,
        y: IntoSeries,
        w: Any = 1.0,
        *,
        served: IntoDataFrame | Mapping[ClfTarget, ArrayLike] | None = None,
        **kwargs: Any,
    ) -> None:
        """Learn a mini-batch: score all of it, then teach the model and the calibrators.

        Parameters
        ----------
        X : data frame of shape (n_samples, n_features)
            Of any eager library that narwhals knows: pandas, polars, pyarrow, …
        y : series of shape (n_samples,)
            The labels.
        w : float, series or array of shape (n_samples,)
            Weights, from 1e-60 to 1e60.
        served : data frame, or mapping from label to array, of shape (n_samples,) each
            What the model said of ``X`` when it was served: an answer of its
            ``predict_proba_many``. Without it the model is asked again.
        **kwargs
            For the model, where its ``learn_many`` takes them.

        Raises
        ------
        ValueError, TypeError
            As `learn_one`, and if lengths differ.
        """
        series = into_series(y)
        labels = series.to_list()
        n_samples = len(labels)
        if len(into_frame(X)) != n_samples:
            raise ValueError(f"`y` must have one label per row of `X`, got {n_samples}")
        for at, label in enumerate(labels):
            if label is None or label != label:
                raise ValueError(f"`y` must hold labels, got {label} at position {at}")
        weights = _weights_of(w, n_samples)
        if served is None:
            served = self._raw_many(X, kwargs)
        raw = _check_columns(
            served if isinstance(served, Mapping) else self._columns(served), n_samples
        )

        kwargs = _with_weights(kwargs, w, weights, X)
        self.classifier.learn_many(X, y, **self._route("learn_many", kwargs))  # type: ignore[attr-defined]

        self._y_name = series.name
        self._labels.update((str(label), label) for label in set(labels))
        if self._watch is not None or self._joint is not None:
            rows = _rows(raw, n_samples)
            if self._watch is not None:
                self._look(self._watch, zip(rows, labels, weights.tolist(), strict=True))
            if self._joint is not None:
                for sample in zip(rows, labels, weights.tolist(), strict=True):
                    self._joint.learn_one(*sample)
                return
        for label in (True,) if _is_binary(raw) else tuple(raw):
            calibrator = self._calibrators.get(label)
            if calibrator is None:
                calibrator = self._new_calibrator(label, raw)
            hits = np.fromiter((y_i == label for y_i in labels), np.float64, n_samples)
            calibrator.learn_many(raw[label], hits, weights)

    def predict_proba_many(self, X: IntoDataFrame, **kwargs: Any) -> IntoDataFrame:
        """Return calibrated probabilities for each row, in a frame of the same library as ``X``.

        The columns are the labels, as the model's own ``predict_proba_many`` names them; a model
        that knows no label yet answers with an empty frame.
        """
        frame = self._raw_many(X, kwargs)
        names = into_frame(frame).columns
        _, values = self._calibrate_columns(self._columns(frame))
        if not len(values):
            return frame
        return to_native_frame(dict(zip(names, values, strict=True)), like=into_frame(frame))

    def predict_many(self, X: IntoDataFrame, **kwargs: Any) -> IntoSeries:
        """Return the most probable label of each row, None while the model knows none."""
        labels, values = self._calibrate_columns(self._columns(self._raw_many(X, kwargs)))
        frame = into_frame(X)
        winners: list[ClfTarget | None] = [None] * len(frame)
        if len(values):
            winners = [labels[at] for at in values.argmax(axis=0)]
        return to_native_series(winners, name=self._y_name, like=frame)

    def _raw_many(self, X: IntoDataFrame, kwargs: dict[str, Any]) -> IntoDataFrame:
        """Return the model's own probabilities, one column for each label."""
        arguments = self._route("predict_proba_many", kwargs)
        frame: IntoDataFrame = self.classifier.predict_proba_many(X, **arguments)  # type: ignore[attr-defined]
        return frame

    def _columns(self, frame: IntoDataFrame) -> dict[ClfTarget, NDArray[np.float64]]:
        """Return the columns of a frame of probabilities under the labels they stand for."""
        narwhal = into_frame(frame)
        if narwhal.is_empty():
            return {}
        matrix = to_numpy(narwhal)
        return {self._labels.get(str(c), c): matrix[:, i] for i, c in enumerate(narwhal.columns)}

    def _calibrate_columns(
        self, raw: dict[ClfTarget, NDArray[np.float64]]
    ) -> tuple[list[ClfTarget], NDArray[np.float64]]:
        """Return the labels and their calibrated probabilities, shape ``(n_labels, n_samples)``."""
        labels, served = list(raw), np.array(list(raw.values()))
        if not labels:
            return labels, served
        if self._joint is not None:
            answers = [self._joint.predict_one(row) for row in _rows(raw, served.shape[1])]
            return labels, np.array([[answer[label] for answer in answers] for label in labels])
        if _is_binary(raw):
            calibrator = self._calibrators.get(True)
            if calibrator is None:
                return labels, served
            p = calibrator.predict_many(raw[True])
            return labels, np.array([p if label else 1.0 - p for label in labels])
        values = served.copy()
        for i, label in enumerate(labels):
            if (calibrator := self._calibrators.get(label)) is not None:
                values[i] = calibrator.predict_many(served[i])
        total = values.sum(axis=0)
        if (empty := total <= 0.0).any():
            values[:, empty] = served[:, empty]
            values[:, empty & (values.sum(axis=0) <= 0.0)] = 1.0
            total = values.sum(axis=0)
        return labels, values / total

    def _new_calibrator(self, label: ClfTarget, raw: Mapping[ClfTarget, Any]) -> Calibrator:
        self._labels.update((str(known), known) for known in raw)
        prototype = self.calibrator
        assert isinstance(prototype, Calibrator)
        calibrator = self._calibrators[label] = prototype.clone()
        return calibrator

    def _look(
        self,
        watch: "_Watch",
        samples: Iterable[tuple[Mapping[ClfTarget, float], ClfTarget, float]],
        shown: dict[ClfTarget, float] | None = None,
    ) -> bool:
        """Show the detector what was served, do as ``on_drift`` says if it raises alarm.

        Without ``shown``, that of one sample, it is what would be served now. Return whether the
        calibrators are new.
        """
        samples = list(samples)
        alarm = watch.look([(shown or self.calibrate_one(raw), y) for raw, y, _ in samples])
        renew = alarm and self.on_drift != "none"
        if renew:
            self._calibrators.clear()
            if isinstance(self.calibrator, JointCalibrator):
                self._joint = self.calibrator.clone()
            for raw, y, w in watch.recent:
                self._teach(raw, y, w)
        watch.recent.extend(samples)
        return renew


class _Watch:
    """A drift detector at work, and the samples that would outlive an alarm."""

    def __init__(
        self, prototype: base.DriftDetector | base.BinaryDriftDetector, n_recent: int
    ) -> None:
        if not isinstance(prototype, base.DriftDetector | base.BinaryDriftDetector):
            raise TypeError(
                f"`drift_detector` must be a river drift detector, got {name_of(prototype)}"
            )
        self.detector = prototype.clone()
        self.recent: deque[tuple[Mapping[ClfTarget, float], ClfTarget, float]] = deque(
            maxlen=n_recent
        )
        self.n_alarms = 0

    def look(self, samples: list[tuple[dict[ClfTarget, float], ClfTarget]]) -> bool:
        """Show the detector the errors of some answers; return whether it raised alarm."""
        before = self.n_alarms
        for answer, y in samples:
            if not answer:
                continue
            if isinstance(self.detector, base.BinaryDriftDetector):
                self.detector.update(max(answer, key=answer.__getitem__) != y)
            else:
                error = sum((p - (label == y)) ** 2 for label, p in answer.items())
                error += y not in answer  # a label that the model does not know
                self.detector.update(0.5 * error)
            self.n_alarms += bool(self.detector.drift_detected)
        return self.n_alarms > before


class CalibratedRegressor(Routing, Stateful, base.Wrapper[base.Regressor], base.MiniBatchRegressor):
    """Recalibrate the predictions of a river regressor by a non-decreasing map, sample by sample.

    The map is the calibrator's: with `IsotonicCalibrator` and the squared or the Poisson loss, what
    is served is the mean of the labels where the model predicts alike; with a calibrator for the
    pinball loss it is their quantile. The order of the model's predictions is kept.

    Parameters
    ----------
    regressor : river regressor or pipeline
        The model. It is used as it is, not copied, and may have been trained before.
    calibrator : Calibrator or None
        The prototype, which is cloned. None means ``IsotonicCalibrator("squared")``.

    Raises
    ------
    TypeError
        If ``regressor`` is not a regressor or ``calibrator`` not a `Calibrator`.

    Notes
    -----
    Weights, other keyword arguments and labels that come late are treated as by
    `CalibratedClassifier`.

    Examples
    --------
    >>> from river import datasets, evaluate, linear_model, metrics, preprocessing
    >>> from streamcal import CalibratedRegressor
    >>> model = preprocessing.StandardScaler() | linear_model.LinearRegression()
    >>> evaluate.progressive_val_score(datasets.TrumpApproval(), model.clone(), metrics.MAE())
    MAE: 1.31...
    >>> model = CalibratedRegressor(model)
    >>> evaluate.progressive_val_score(datasets.TrumpApproval(), model, metrics.MAE())
    MAE: 0.95...
    """

    def __init__(self, regressor: base.Regressor, calibrator: Calibrator | None = None):
        final = last_step(regressor)
        if not isinstance(final, base.Regressor):
            raise TypeError(f"`regressor` must be a river regressor, got {name_of(final)}")
        if calibrator is None:
            calibrator = IsotonicCalibrator("squared")
        _check_is_calibrator(calibrator)
        self.regressor = regressor
        self.calibrator = calibrator

        self._calibrator: Calibrator = calibrator.clone()
        self._y_name: str | None = None
        self._set_routes(regressor, "learn_one", "predict_one", "learn_many", "predict_many")

    _given = ("regressor",)

    def _freeze(self) -> tuple[Fields, Arrays]:
        return {"y_name": self._y_name}, {"calibrator": nest(self._calibrator.to_bytes())}

    def _thaw(self, fields: Fields, arrays: Arrays) -> None:
        calibrator = Calibrator.from_bytes(state_of(arrays, "calibrator"))
        check_alike([calibrator], [self.calibrator])
        self._y_name = as_name(fields["y_name"], "y_name", none=True)
        self._calibrator = calibrator

    @property
    def _wrapped_model(self) -> base.Regressor:
        return self.regressor

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        from river import linear_model, preprocessing

        yield {"regressor": preprocessing.StandardScaler() | linear_model.LinearRegression()}

    def _unit_test_skips(self) -> set[str]:
        # A batch is scored before any of it is learned; a loop scores each sample after the last.
        return self.regressor._unit_test_skips() | {"check_learn_many_matches_learn_one"}

    def learn_one(
        self,
        x: Features,
        y: float,
        w: float = 1.0,
        *,
        served: float | None = None,
        **kwargs: Any,
    ) -> None:
        """Teach the calibrator what the model predicts for ``x`` now, then the model itself.

        Parameters
        ----------
        x : dict
            The features.
        y : float
            The label, in the range of the calibrator's loss.
        w : float
            Weight of the sample, from 1e-60 to 1e60.
        served : float, optional
            What the *model* (not this wrapper) predicted for ``x`` when it was served. Without it
            the model is asked again.
        **kwargs
            For the model, where its ``learn_one`` takes them.

        Raises
        ------
        ValueError, TypeError
            If ``y`` is not a label of the calibrator, a prediction not a finite number, or ``w``
            not positive and finite. Neither the model nor the calibrator has learned anything then.
        """
        label, w = as_number(y, "y"), as_weight(w)
        self._calibrator._check_labels([label])
        if served is None:
            raw = self._raw_one(x, kwargs)
        else:
            raw = as_score(served, "served")
        self.regressor.learn_one(x, y, **self._route("learn_one", _with_weight(kwargs, w)))
        self._calibrator.learn_one(raw, label, w)

    def predict_one(self, x: Features, **kwargs: Any) -> float:
        """Return the calibrated prediction; the model's own before the first label.

        Parameters
        ----------
        x : dict
            The features.
        **kwargs
            For the model, where its ``predict_one`` takes them.

        Raises
        ------
        ValueError, TypeError
            If the model's prediction is not a finite number.
        """
        return self.calibrate_one(self._raw_one(x, kwargs))

    def calibrate_one(self, raw: float) -> float:
        """Return the calibrated prediction for one of the model's own.

        Examples
        --------
        >>> from river import linear_model
        >>> model = CalibratedRegressor(linear_model.LinearRegression())
        >>> for y in (2.0, 4.0, 9.0):
        ...     model.learn_one({}, y, served=1.5)
        >>> model.calibrate_one(1.5)
        5.0
        """
        return self._calibrator.predict_one(raw)

    def learn_many(
        self,
        X: IntoDataFrame,
        y: IntoSeries,
        w: Any = 1.0,
        *,
        served: IntoSeries | ArrayLike | None = None,
        **kwargs: Any,
    ) -> None:
        """Learn a mini-batch: predict all of it, then teach the model and the calibrator.

        Parameters
        ----------
        X : data frame of shape (n_samples, n_features)
            Of any eager library that narwhals knows: pandas, polars, pyarrow, …
        y : series of shape (n_samples,)
            The labels.
        w : float, series or array of shape (n_samples,)
            Weights, from 1e-60 to 1e60.
        served : series or array of shape (n_samples,)
            What the model predicted for ``X`` when it was served. Without it the model is asked
            again.
        **kwargs
            For the model, where its ``learn_many`` takes them.

        Raises
        ------
        ValueError, TypeError
            As `learn_one`, and if lengths differ.
        """
        series = into_series(y)
        labels = self._calibrator._check_labels(series.to_numpy())
        n_samples = len(labels)
        if len(into_frame(X)) != n_samples:
            raise ValueError(f"`y` must have one label per row of `X`, got {n_samples}")
        weights = _weights_of(w, n_samples)
        if served is None:
            raw = as_vector(self._raw_many(X, kwargs), "predictions")
        else:
            raw = as_vector(np.asarray(served), "served")
        if len(raw) != n_samples:
            raise ValueError(
                f"predictions must have one row per label ({n_samples}), got {len(raw)}"
            )
        kwargs = _with_weights(kwargs, w, weights, X)
        self.regressor.learn_many(X, y, **self._route("learn_many", kwargs))  # type: ignore[attr-defined]
        self._y_name = series.name
        self._calibrator.learn_many(raw, labels, weights)

    def predict_many(self, X: IntoDataFrame, **kwargs: Any) -> IntoSeries:
        """Return the calibrated prediction for each row, in a series of the same library."""
        values = self._calibrator.predict_many(self._raw_many(X, kwargs))
        return to_native_series(values, name=self._y_name, like=into_frame(X))

    def _raw_one(self, x: Features, kwargs: dict[str, Any]) -> float:
        """Return the model's own prediction."""
        if not kwargs:
            return as_score(self.regressor.predict_one(x), "prediction")
        routed = self._route("predict_one", kwargs)
        return as_score(self.regressor.predict_one(x, **routed), "prediction")

    def _raw_many(self, X: IntoDataFrame, kwargs: dict[str, Any]) -> NDArray[np.float64]:
        """Return the model's own predictions."""
        arguments = self._route("predict_many", kwargs)
        predictions = self.regressor.predict_many(X, **arguments)  # type: ignore[attr-defined]
        return np.asarray(into_series(predictions).to_numpy(), dtype=np.float64)


def _weights_of(w: Any, n_samples: int) -> NDArray[np.float64]:
    """Return the weights of a batch, given as one number or one for each sample."""
    if _is_number(w):
        return np.full(n_samples, as_weight(w))
    return as_weights(w, n_samples)


def _with_weights(
    kwargs: dict[str, Any], w: Any, weights: NDArray[np.float64], X: IntoDataFrame
) -> dict[str, Any]:
    """Return keyword arguments for ``learn_many`` of a model, weights that are not 1 included."""
    if _is_number(w):
        return kwargs if w == 1.0 else {**kwargs, "w": w}
    return {**kwargs, "w": _as_series(weights, X)}


def _with_weight(kwargs: dict[str, Any], w: float) -> dict[str, Any]:
    return kwargs if w == 1.0 and not kwargs else {**kwargs, "w": w}


def _is_number(w: Any) -> bool:
    return isinstance(w, int | float | np.number)


def _rows(
    raw: Mapping[ClfTarget, NDArray[np.float64]], n_samples: int
) -> list[dict[ClfTarget, float]]:
    """Return the probabilities of a batch sample by sample."""
    columns = [column.tolist() for column in raw.values()]
    return [
        dict(zip(raw, (column[i] for column in columns), strict=True)) for i in range(n_samples)
    ]


def _is_binary(labels: Mapping[ClfTarget, Any]) -> bool:
    return len(labels) == 2 and True in labels and False in labels


def _as_series(weights: NDArray[np.float64], X: IntoDataFrame) -> IntoSeries:
    return to_native_series(weights, name="w", like=into_frame(X))


def _check_classifier(classifier: Any) -> None:
    """Raise unless ``classifier`` is a river classifier that has probabilities."""
    final = last_step(classifier)
    if not isinstance(final, base.Classifier):
        raise TypeError(f"`classifier` must be a river classifier, got {name_of(final)}")
    if isinstance(final, ActiveLearningClassifier):
        raise TypeError(
            "`classifier` must answer with probabilities alone; calibrate the model inside"
            f" {name_of(final)} instead"
        )
    if type(final).predict_proba_one is base.Classifier.predict_proba_one:
        raise ValueError(
            "`classifier` must have probabilities, but there is no `predict_proba_one` in"
            f" {name_of(final)}"
        )


def _check_is_calibrator(calibrator: Any) -> None:
    if not isinstance(calibrator, Calibrator):
        raise TypeError(f"`calibrator` must be a Calibrator or None, got {name_of(calibrator)}")


def _check_calibrator(calibrator: Any) -> None:
    """Raise unless ``calibrator`` is a `Calibrator` that learns from the labels 0 and 1."""
    _check_is_calibrator(calibrator)
    try:
        calibrator._check_labels([0.0, 1.0])
    except ValueError as error:
        raise ValueError(f"`calibrator` must accept the labels 0 and 1, but {error}") from None


def _check_served(served: Any) -> dict[ClfTarget, float]:
    """Return the probabilities of one sample as floats under their labels."""
    if not isinstance(served, Mapping):
        raise TypeError(f"`served` must map labels to probabilities, got {served!r}")
    checked = {label: as_number(p, "served") for label, p in served.items()}
    if not all(LEAST <= p <= MOST for p in checked.values()):
        raise ValueError(f"probabilities must lie in [0, 1], got {checked}")
    return checked


def _check_columns(
    columns: Mapping[ClfTarget, ArrayLike], n_samples: int
) -> dict[ClfTarget, NDArray[np.float64]]:
    """Return the probabilities of a batch as vectors of ``n_samples`` under their labels."""
    checked = {}
    for label, column in columns.items():
        vector = as_vector(column, "served")
        if len(vector) != n_samples:
            raise ValueError(
                f"probabilities must have one row per label ({n_samples}), got {len(vector)}"
            )
        good = (vector >= LEAST) & (vector <= MOST)
        if not good.all():
            at = int(np.argmin(good))
            raise ValueError(f"probabilities must lie in [0, 1], got {vector[at]} at position {at}")
        checked[label] = vector
    return checked
