"""A river classifier with calibrated probabilities."""

import copy
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice, repeat
from typing import Any, Literal, get_args

import numpy as np
from narwhals.stable.v2.typing import IntoDataFrame, IntoSeries
from numpy.typing import ArrayLike, NDArray
from river import base
from river.base.typing import ClfTarget
from river.utils.dataframe import into_frame, to_native_frame, to_native_series, to_numpy

from streamcal._advice import raise_of_features
from streamcal._state import Arrays, Fields, Stateful, as_list, as_name, pack, require, unpack
from streamcal._validation import (
    as_weight,
    check_choice,
    check_count,
    check_label,
    check_mapping,
    is_missing,
)
from streamcal._whole import Step, do_all
from streamcal.calibration.base import Calibrator
from streamcal.calibration.clock import Time, Times
from streamcal.calibration.context import NO_CONTEXT, Context, Contexts
from streamcal.calibration.hedged import HedgedCalibrator
from streamcal.calibration.joint import JointCalibrator
from streamcal.calibration.sampling import as_sampling_rate
from streamcal.calibration.segments import SegmentCalibrator, check_fields
from streamcal.calibration.tickets import Ticket, check_ticket_type
from streamcal.kernels.plain import are_probabilities
from streamcal.notebook.card import MOST_CARDS, card, labelled, note
from streamcal.wrappers._drift import DriftMonitor, Sample
from streamcal.wrappers._features import features_of
from streamcal.wrappers._labels import KnownLabels, check_labels, keep_missing, keep_missing_many
from streamcal.wrappers._sampling import (
    SamplingRate,
    answers_among_all,
    answers_among_kept,
    check_rate,
    check_two_labels,
    columns_among_all,
    rate_of,
    rates_of,
)
from streamcal.wrappers.checks import (
    add_batch_weights,
    as_batch_weights,
    as_probabilities_of_labels,
    as_probability_columns,
    check_calibrator_of_labels,
    check_classifier,
    check_label_of_model,
    check_n_rows,
    check_probabilities,
    check_served,
    frame_of,
    series_of,
)
from streamcal.wrappers.memory import Found, PredictionMemory, Remembered
from streamcal.wrappers.routing import AnyClassifier, BatchRouting, Features
from streamcal.wrappers.served import Served
from streamcal.wrappers.snapshot import ModelSnapshot
from streamcal.wrappers.strategies import (
    FeatureColumns,
    OwningStrategy,
    Raw,
    as_rows,
    make_strategy,
)
from streamcal.wrappers.times import check_time_feature, time_of, times_of

OnDrift = Literal["shrink", "reset", "none"]
_ON_DRIFT: tuple[OnDrift, ...] = get_args(OnDrift)


class CalibratedClassifier(BatchRouting, Stateful, base.Wrapper[Any], base.MiniBatchClassifier):
    """Calibrate the probabilities of a river classifier, sample by sample.

    With the labels False and True (or 0 and 1) one calibrator maps the probability of True. With
    other labels each label has its own calibrator, one against the rest, and the calibrated
    probabilities are divided by their sum. If all of them are 0, the model's own probabilities
    are returned. With more than two labels the default mixes these probabilities, by their
    likelihood so far, with the model's own and with maps of all labels: a temperature, biases, and
    matrix scaling. The keys of a prediction are the model's own label objects.

    A model that has learned one label answers this label only, with probability 1. In a binary
    stream the other label is answered all the same: after n samples the label that was seen has the
    probability (n + ½)/(n + 1), by the rule of Krichevsky and Trofimov [1]_. A stream is binary
    while its labels are False and True, or 0 and 1. Labels that are declared as ``labels`` are
    treated alike. Of K labels, one that the model lacks has the probability (n + ½)/(N + K/2), if n
    of N samples had it; the others share the rest. A probability by this rule is served as it is,
    not calibrated; calibrators learn it as if it were the model's. Other labels are answered as
    soon as the model has them.

    Parameters
    ----------
    classifier : river classifier or pipeline
        The model; it must have probabilities. It is used as it is, not copied, and may have been
        trained before.
    calibrator : Calibrator, JointCalibrator or None
        The prototype that is cloned for each label; it must accept the labels 0 and 1. A
        `JointCalibrator` is cloned once and sees all labels. None means ``HedgedCalibrator()``,
        a mixture that is nearly as good as the best of several calibrators. Any `HedgedCalibrator`,
        also as the base of a `SegmentCalibrator`, adds the maps of all labels.
    labels : sequence of labels, optional
        The labels of the stream, at least two; more may come. They are answered from the first
        sample on, also if the model does not know them yet.
    segments : sequence of str, optional
        Names of features. The probabilities are then right for each value of these features, and
        each pair of values, too: each label has a ``SegmentCalibrator(segments, base=calibrator)``.
        For its other parameters pass a `SegmentCalibrator` as ``calibrator`` instead. A feature
        that a sample lacks is None there. The model gets all features as before, so a pipeline that
        cannot use them discards them.
    sampling_rate : float or str, optional
        If the stream has all positives and a random share of the negatives: this share, in (0, 1],
        or the name of the feature that holds it. Model and calibrator learn the stream as it is;
        each probability that is answered is right among all samples (see `undo_sampling`). A
        feature with several shares should be one of the ``segments``, too: the probabilities must
        be right for each share, before they are changed. It is needed to predict, not to learn.
        Only for the labels False and True, or 0 and 1; other labels raise an error when they are
        first met.
    time : str, optional
        The name of the feature that holds the time of a sample, a `datetime` or a number of
        seconds, if the calibrator forgets by time. Where `learn_one` gets ``t``, that counts
        instead. The model gets all features as before, so a pipeline that cannot use a `datetime`
        discards it: ``compose.Discard("moment") | model``.
    drift_detector : river drift detector, optional
        Cloned. It gets the squared error of each served prediction, (1/2) Σ (hit − p)² over the
        labels, in [0, 1]; a `BinaryDriftDetector` gets whether the likeliest label was wrong, and
        `streamcal.monitoring.CalibrationDrift` labels and probabilities, those of a group as one
        sample.
    on_drift : {"shrink", "reset", "none"}
        What happens to the calibrators after an alarm. With "shrink" new calibrators learn the last
        200 samples again, with "reset" they start with none, and with "none" the old ones go on.
        `n_alarms` counts the alarms. A wrapper with one of river's detectors cannot be written as
        bytes; with `streamcal.monitoring.CalibrationDrift` it can.
    remember : int
        How many of the latest predictions are remembered until their labels arrive, see the notes.
        A prediction whose label is late takes about 1.7 KB; with many labels 0.2 to 0.3 KB each.

    Raises
    ------
    TypeError
        If ``classifier`` is not a classifier, ``calibrator`` is not a calibrator, ``labels`` is not
        a sequence of labels, ``segments`` are not names, or ``drift_detector`` is not a drift
        detector.
    ValueError
        If ``classifier`` has no probabilities, ``calibrator`` does not accept the labels 0 and 1,
        ``labels`` are not two different ones or more, ``time`` is given and the calibrator does
        not forget by time, there are ``segments`` and a `SegmentCalibrator` or a
        `JointCalibrator`, ``sampling_rate`` is not in (0, 1], or ``on_drift`` is none of the above.

    Notes
    -----
    The calibrator always gets a sample's weight ``w``. The model gets it, and every other keyword
    argument, if its ``learn_one`` (or ``learn_many``) accepts the argument.

    If labels are delayed, the model has changed when a label arrives, and its current prediction
    differs from the served one. `predict_proba_one` therefore remembers its predictions, and
    `learn_one` finds them by the features. Predictions and `to_bytes` do not depend on this memory;
    copies and pickles do not contain it. If several predictions have the same features, the one
    is used whose label is about as late as usual; the first label belongs to the oldest. A
    prediction is forgotten after ``remember`` others. It is also forgotten when others with the
    same features wait, and it is older than five mean delays and a hundred predictions.

    Features are remembered if their values are numbers, text, dates, or tuples of these. A list, an
    array, or an object of a class that defines its own comparison is not compared; a late label
    then raises a `RuntimeWarning` once. In this case, or if the process may end before the label
    arrives, call `serve_one` instead, and pass its whole result as ``served`` with the label.

    If samples are predicted before training only for a comparison, and are then learned without
    being predicted again, each is learned with that prediction, as if its label were late;
    `serve_one` does not remember, so compare ``serve_one(x).calibrated``. A transformer that
    learns, such as a `StandardScaler`, changes the features between prediction and label:
    ``CalibratedClassifier(scaler | model)`` has it inside. Within
    ``river.compose.learn_during_predict`` pass ``served``, too: a pipeline that predicts twice
    learns twice.

    References
    ----------
    .. [1] Krichevsky & Trofimov, *The performance of universal encoding*, IEEE Transactions on
       Information Theory 27(2), 1981.

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

    Naive Bayes has learned one label; both are answered:

    >>> from river import naive_bayes
    >>> model = CalibratedClassifier(naive_bayes.GaussianNB(), labels=(False, True))
    >>> model.learn_one({"x": 1.0}, True)
    >>> model.classifier.predict_proba_one({"x": 2.0}), model.predict_proba_one({"x": 2.0})
    ({True: 1.0}, {False: 0.25, True: 0.75})
    """

    def __init__(
        self,
        classifier: AnyClassifier,
        calibrator: Calibrator | JointCalibrator | None = None,
        *,
        labels: Sequence[ClfTarget] | None = None,
        segments: Sequence[str] | None = None,
        sampling_rate: SamplingRate | None = None,
        time: str | None = None,
        drift_detector: base.DriftDetector | base.BinaryDriftDetector | None = None,
        on_drift: OnDrift = "shrink",
        remember: int = 10_000,
    ) -> None:
        check_classifier(classifier)
        if calibrator is None:
            calibrator = HedgedCalibrator()
        if segments is not None:
            segments = check_fields(segments, "segments")
        if labels is not None:
            labels = check_labels(labels)
        prototype = _prototype_of(calibrator, segments)
        check_time_feature(time, prototype)
        check_rate(sampling_rate)
        if sampling_rate is not None and labels is not None:
            check_two_labels(labels)
        check_choice(on_drift, "on_drift", _ON_DRIFT)
        check_count(remember, "remember", 0)
        self.classifier = classifier
        self.calibrator = calibrator
        self.labels = labels
        self.segments = segments
        self.sampling_rate = sampling_rate
        self.time = time
        self.drift_detector = drift_detector
        self.on_drift = on_drift
        self.remember = remember

        # Most libraries of data frames only have strings as column names; this maps them to labels.
        self._label_of_column: dict[str, ClfTarget] = {"False": False, "True": True}
        if labels is not None:
            self._label_of_column.update((str(label), label) for label in labels)
        self._known = KnownLabels(labels, binary=sampling_rate is not None)
        self._strategy = make_strategy(prototype, self._label_of_column)
        self._monitor = None
        if drift_detector is not None:
            self._monitor = DriftMonitor(drift_detector, on_drift)
        self._y_name: str | None = None
        self._memory = PredictionMemory(remember)
        self._set_routes(
            classifier, "learn_one", "predict_proba_one", "learn_many", "predict_proba_many"
        )

    _given = ("classifier",)

    def _freeze(self) -> tuple[Fields, Arrays]:
        fields, arrays = self._strategy.freeze()
        names = [[name, pack(label)] for name, label in self._label_of_column.items()]
        known = self._known.freeze()
        fields = {**fields, "names": names, "y_name": self._y_name, "known": known}
        if self._monitor is not None:
            fields["monitor"] = self._monitor.freeze()
        return fields, arrays

    def _thaw(self, fields: Fields, arrays: Arrays) -> None:
        pairs = [as_list(pair, "names", 2) for pair in as_list(fields["names"], "names")]
        require(all(isinstance(name, str) for name, _ in pairs), "columns must have names")
        label_of_column = {
            name: as_name(unpack(label), "names", none=True) for name, label in pairs
        }
        y_name = as_name(fields["y_name"], "y_name", none=True)
        known = KnownLabels(self.labels, binary=self.sampling_rate is not None)
        known.thaw(fields["known"])
        if self._monitor is not None:
            self._monitor.thaw(fields["monitor"])
        self._strategy.thaw(fields, arrays)
        self._known = known
        self._label_of_column.clear()  # in place: the strategy shares this dict
        self._label_of_column.update(label_of_column)
        self._y_name = y_name

    @property
    def calibrators(self) -> dict[ClfTarget, Any]:
        """The calibrators by label; with the labels False and True there is only that of True."""
        return dict(self._strategy.calibrators)

    def _repr_html_(self) -> str:
        """Return what a notebook shows: the parameters, and a card for each label."""
        parts = self._strategy.parts
        facts = {"alarms": self.n_alarms} if self._monitor else {}
        first = islice(parts.items(), MOST_CARDS)
        shown = [labelled(label, part._repr_html_(), len(parts) == 1) for label, part in first]
        if not parts:
            shown.append(note("no calibrator has learned a sample yet"))
        if len(parts) > len(shown):
            shown.append(note(f"and {len(parts) - MOST_CARDS:,} more labels"))
        return card(self, facts, weights=self._strategy.weights, inside=shown)

    @property
    def n_alarms(self) -> int:
        """How many alarms the drift detector has raised."""
        return self._monitor.n_alarms if self._monitor else 0

    @property
    def needs_propensity(self) -> bool:
        """Whether the calibrator needs the ``propensity`` of a label."""
        return self._strategy.needs_propensity

    @property
    def _wrapped_model(self) -> AnyClassifier:
        return self.classifier

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        from river import linear_model, naive_bayes, preprocessing

        yield {"classifier": preprocessing.StandardScaler() | linear_model.LogisticRegression()}
        yield {"classifier": naive_bayes.GaussianNB()}

    # One sample -----------------------------------------------------------------------------------

    def learn_one(
        self,
        x: Features,
        y: ClfTarget,
        w: float = 1.0,
        *,
        served: Served | Mapping[ClfTarget, float] | None = None,
        t: Time | None = None,
        propensity: float | None = None,
        **kwargs: Any,
    ) -> None:
        """Predict ``x`` with the model, teach the model, then teach the calibrator the prediction.

        Parameters
        ----------
        x : dict
            The features.
        y : bool, int or str
            The label.
        w : float
            Weight of the sample, from 1e-60 to 1e60.
        served : Served, or mapping from label to probability, optional
            The result of `serve_one` for ``x``, or the prediction of the *model* (not of this
            wrapper). Without it, the remembered prediction for these features; if there is none,
            the model predicts ``x`` again.
        t : datetime or float, optional
            The time at which the sample is learned, for calibrators that forget by time: with a
            late label, that of its arrival. Without it, the feature that ``time`` names. The model
            gets it, too, if its ``learn_one`` accepts it.
        propensity : float, optional
            The probability with which this label was asked for, for an `AuditedCalibrator`.
        **kwargs
            For the model, if its ``learn_one`` takes them; an unknown name is an error.

        Raises
        ------
        ValueError, TypeError
            If ``y`` is None or NaN, a probability is not a number in [0, 1], ``w`` is not positive
            and finite, a segment is not text, a number or None, a label is not False or True and
            there is a ``sampling_rate``, or ``served`` is not from this model or from a later state
            of it, or is no mapping from labels to probabilities, or if the calibrator forgets by
            time, and there is no time, or one of another kind than before. Neither the
            model nor a calibrator has learned anything then.
        """
        if type(y) is not bool:
            check_label(y)
        w = 1.0 if type(w) is float and w == 1.0 else as_weight(w)
        if kwargs:
            self._check_arguments(kwargs)
        if t is not None and self._takes_time:
            kwargs["t"] = t
        if needs_time := self._strategy.needs_time:
            t = time_of(x, t, self.time, self._strategy.check_time)
        needs_propensity = self._strategy.needs_propensity
        if needs_propensity or propensity is not None:
            propensity = self._strategy.read_propensity(propensity)
        raw, shown, ticket, found = self._recall(x, served, kwargs, (y,))
        strategy, fields = self._strategy.for_labels(raw), self._strategy.fields
        if fields:
            strategy.check_features(x)
        if self.sampling_rate is not None:
            check_two_labels((*raw, y))
        if self._monitor is not None:
            self._monitor.check_labels((y, *raw, *(shown or ())))

        if type(y) is not bool:
            check_label_of_model(y, raw, self.classifier)

        if found is None and served is None:
            self._memory.warn_if_late(x)
        if found is None or found.aside is None:
            self._memory.store_latest(self._make_ticket)
        try:
            if w == 1.0 and not kwargs:
                self.classifier.learn_one(x, y)
            else:
                self._call("learn_one", x, y, **kwargs, w=w)
        except (TypeError, ValueError, AttributeError) as error:
            raise_of_features(x, error)

        steps: Sequence[Step] = ()
        if self._monitor is not None:
            time = t if needs_time else None
            sample = Sample(raw, self._segments_of(x), y, w, time, propensity)
            current, steps = self._watch(self._monitor, [sample], [shown])
            if current is not self._strategy:  # the calibrators that made the ticket are replaced
                strategy, ticket = current.for_labels(raw), None
        context = NO_CONTEXT
        if fields or ticket is not None or needs_time or needs_propensity:
            context = tuple.__new__(Context, (x, ticket, t, propensity))  # quicker
        learn = strategy.learn_steps(raw, y, w, context)
        take = () if found is None else self._memory.take_steps((found,))
        do_all(*take, *steps, *learn, *self._known.learn_steps(y, self._label_of_column))

    def learn_group(
        self,
        X: Sequence[Features],
        y: Sequence[ClfTarget],
        w: float = 1.0,
        *,
        served: Sequence[Served | Mapping[ClfTarget, float] | None] | None = None,
        t: Time | None = None,
        propensity: float | None = None,
        **kwargs: Any,
    ) -> None:
        """Learn rows that share an outcome, or nearly so; to the calibrators they are one sample.

        Examples are the rows of a game, of a session or of a customer, whose labels come together.
        The model learns each row with the weight ``w``, the calibrators with ``w / len(X)``.

        Parameters
        ----------
        X : sequence of dict
            The features of each row.
        y : sequence of labels
            The label of each row.
        w : float
            Weight of the group, from 1e-60 to 1e60.
        served : sequence, optional
            For each row what `learn_one` accepts as ``served``. Without it, or for None, the
            remembered prediction, as there.
        t : datetime or float, optional
            The time at which the rows are learned, as there. Without it, that of the last row.
        propensity : float, optional
            The probability with which the labels of all rows were asked for, as there.
        **kwargs
            For the model, if its ``learn_one`` takes them; an unknown name is an error.

        Raises
        ------
        ValueError, TypeError
            As `learn_one`, and if lengths differ.

        Examples
        --------
        A model predicts every minute of a game; the result comes at the end:

        >>> from river import linear_model
        >>> model = CalibratedClassifier(linear_model.LogisticRegression())
        >>> for game in range(40):
        ...     minutes = [{"lead": minute * (-1) ** game / 90} for minute in range(90)]
        ...     probabilities = [model.predict_proba_one(x) for x in minutes]
        ...     model.learn_group(minutes, [game % 2 == 0] * 90)
        >>> model.calibrators[True].n_samples
        40
        """
        if hasattr(X, "columns"):
            raise TypeError(
                f"`X` must be a sequence of features, as of `learn_one`, got {type(X).__name__}"
            )
        for name, rows_of in {"X": X, "y": y, "served": served}.items():
            if rows_of is not None and not hasattr(rows_of, "__len__"):
                raise TypeError(f"`{name}` must have one value for each row, got {rows_of!r}")
        if not len(X) == len(y) == len(X if served is None else served):
            raise ValueError(
                f"`y` and `served` must have one value per row of `X` ({len(X)}), got"
                f" {len(y)} and {served if served is None else len(served)}"
            )
        for label in y:
            check_label(label)
        w = as_weight(w)
        as_weight(w / max(len(X), 1))
        self._check_arguments(kwargs)
        if t is not None and self._takes_time:
            kwargs["t"] = t
        if (needs_time := self._strategy.needs_time) and len(X):
            for x in X:  # all rows must have a time
                last = time_of(x, t, self.time, self._strategy.check_time)
            t = last
        propensity = self._strategy.read_propensity(propensity)
        given = [None] * len(X) if served is None else served
        recalled: list[tuple[Raw, Raw | None, Ticket | None, Found | None]] = []
        left: dict[Hashable, list[int]] = {}
        for x, each in zip(X, given, strict=True):
            recalled.append(self._recall(x, each, kwargs, y, left))
            raw, *_ = recalled[-1]
            self._strategy.for_labels(raw).check_features(x)
            if self.sampling_rate is not None:
                check_two_labels((*raw, *y))
            if self._monitor is not None:
                self._monitor.check_labels((*y, *raw, *(recalled[-1][1] or ())))

        found = [row[-1] for row in recalled]
        for x, each, one in zip(X, given, found, strict=True):
            if one is None and each is None:
                self._memory.warn_if_late(x)
        self._memory.store_latest(self._make_ticket, found)
        for x, label in zip(X, y, strict=True):
            self._call("learn_one", x, label, **kwargs, w=w)

        both = zip(recalled, X, y, strict=True)
        rows = [
            (raw, label, Context(x, ticket, t, propensity))
            for (raw, _, ticket, _), x, label in both
        ]
        current = self._strategy
        steps: list[Step] = []
        if self._monitor:
            part, time = w / max(len(X), 1), t if needs_time else None
            samples = [
                Sample(raw, self._segments_of(x), label, part, time, propensity)
                for (raw, label, _), x in zip(rows, X, strict=True)
            ]
            shown = [shown for _, shown, _, _ in recalled]
            current, steps = self._watch(self._monitor, samples, shown, as_group=True)
            if current is not self._strategy:
                rows = [(raw, label, c.with_ticket(None)) for raw, label, c in rows]
        count = self._known.group_steps(y, self._label_of_column, 1.0 / max(len(X), 1))
        learn = current.group_steps(rows, w)
        take = self._memory.take_steps([one for one in found if one is not None])
        do_all(*take, *steps, *learn, *count)

    def _recall(
        self,
        x: Features,
        served: Any,
        kwargs: dict[str, Any],
        labels: Iterable[ClfTarget],
        group: dict[Hashable, list[int]] | None = None,
    ) -> tuple[Raw, Raw | None, Ticket | None, Found | None]:
        """Return the model's probabilities of a sample, the calibrated ones, and the ticket.

        They are those in ``served``, else those that are remembered, else the model predicts. The
        last value is what was found in the memory, which still holds it. ``labels`` are those to be
        learned. For ``group`` see `PredictionMemory.find`.
        """
        if served is not None:
            return *self._read_served(served, labels), None
        found = self._memory.find(x, group)
        if found is None or not found.prediction.raw:
            raw = self._known.complete(self._predict_raw(x, kwargs))
            return raw, None, None, found
        given = found.prediction
        ticket = given.ticket if self._is_current(given.n_alarms) else None
        return given.raw, given.shown, ticket, found

    def serve_one(self, x: Features, **kwargs: Any) -> Served:
        """Return `predict_proba_one` of a sample, and everything that `learn_one` needs later.

        What is learned does not change; an open burst is closed, see `HedgedCalibrator`.

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
        19
        """
        own = self._predict_raw(x, kwargs)
        raw = self._known.complete(own)
        calibrated, ticket = self._strategy.for_labels(raw).serve_one(raw, x)
        if raw is not own:
            calibrated = keep_missing(calibrated, raw, own)
        rate = 1.0
        if self.sampling_rate is not None:
            rate = rate_of(self.sampling_rate, x)
            calibrated = answers_among_all(calibrated, rate)
        return Served(calibrated, dict(raw), ticket, self.n_alarms, rate)

    def predict_proba_one(self, x: Features, **kwargs: Any) -> dict[ClfTarget, float]:
        """Return the calibrated probability of each label of the model.

        The prediction is remembered until the label arrives.

        Parameters
        ----------
        x : dict
            The features.
        **kwargs
            For the model, if its ``predict_proba_one`` takes them; an unknown name is an error.

        Returns
        -------
        dict
            Probabilities in [0, 1] that sum to 1; empty while no label is known.

        Raises
        ------
        ValueError
            If the model's probabilities are not in [0, 1], or one of its labels is NaN.
        """
        return self._predict_and_remember(x, kwargs, "probabilities")

    def predict_one(self, x: Features, **kwargs: Any) -> ClfTarget | None:
        """Return the most probable label; None while no label is known.

        The prediction is remembered, as that of `predict_proba_one`.
        """
        calibrated = self._predict_and_remember(x, kwargs, "label")
        return max(calibrated, key=calibrated.__getitem__) if calibrated else None

    def _predict_and_remember(
        self, x: Features, kwargs: dict[str, Any], asked: str
    ) -> dict[ClfTarget, float]:
        own = self._predict_raw(x, kwargs)
        raw = self._known.complete(own)
        calibrated = among_kept = self._calibrate(own, raw, x)
        if self.sampling_rate is not None:
            calibrated = answers_among_all(calibrated, rate_of(self.sampling_rate, x))
        if self.remember:
            shown = dict(among_kept) if self._monitor else None
            n_alarms = self.n_alarms if self._monitor else 0
            prediction = Remembered(dict(raw), shown, n_alarms)
            self._memory.add(x, prediction, self._make_ticket, asked)
        return calibrated

    def calibrate_one(
        self, raw: Mapping[ClfTarget, float], x: Features | None = None
    ) -> dict[ClfTarget, float]:
        """Return calibrated probabilities for those of the model.

        Parameters
        ----------
        raw : mapping from label to probability
            A result of the model's own ``predict_proba_one``.
        x : dict, optional
            The features; only segments, and a ``sampling_rate`` that names one, need them.

        Returns
        -------
        dict
            As from `predict_proba_one`: under the same keys in the same order, if the model knows
            all labels.

        Examples
        --------
        >>> from river import naive_bayes
        >>> model = CalibratedClassifier(naive_bayes.GaussianNB())
        >>> for _ in range(3):
        ...     model.learn_one({}, "yes", served={"yes": 0.5, "no": 0.5})
        >>> model.calibrate_one({"yes": 0.5, "no": 0.5})
        {'yes': 0.69, 'no': 0.31}
        """
        if x is None and self._strategy.fields:
            raise TypeError(
                "`x` must be the features of the sample, as there are segments, got None"
            )
        check_probabilities(raw)
        calibrated = self._calibrate(raw, self._known.complete(raw), x or {})
        if self.sampling_rate is None:
            return calibrated
        return answers_among_all(calibrated, rate_of(self.sampling_rate, x or {}))

    def snapshot(self) -> ModelSnapshot:
        """Return an immutable copy of wrapper and model that predicts, for other threads."""
        twin = copy.deepcopy(self)
        twin.remember = 0  # no label will come
        return ModelSnapshot(twin)

    def export(self, format: Literal["json", "sql", "onnx"], **options: Any) -> Any:
        """Return the current map of the probability of True, as `Calibrator.export` does.

        Raises
        ------
        ValueError
            As `Calibrator.export`, and if nothing was learned.
        TypeError
            If there are other labels than False and True, segments, a joint calibrator or a
            ``sampling_rate``: the answer is then no map of one score.
        """
        labels = set(self._strategy.calibrators)
        if self.sampling_rate is not None:
            raise TypeError(
                "`export` is for maps of a score alone, but with `sampling_rate` answers depend on"
                " the rate, too: export `calibrators[True]`, and multiply its odds by the rate"
            )
        if not labels:
            raise ValueError("`export` needs a learned sample: no calibrator has learned one")
        if labels != {True}:
            raise TypeError(
                "`export` is for the labels False and True: with others, a probability depends on"
                f" those of all labels, got maps of {sorted(map(str, labels))}"
            )
        return self._strategy.calibrators[True].export(format, **options)

    def _predict_raw(self, x: Features, kwargs: dict[str, Any]) -> Raw:
        """Return the model's own probabilities."""
        raw: Raw
        try:
            if kwargs:
                raw = self._call("predict_proba_one", x, **kwargs)
            else:
                raw = self.classifier.predict_proba_one(x)
        except (TypeError, ValueError, AttributeError) as error:
            raise_of_features(x, error)
        if type(raw) is not dict:
            check_mapping(raw)
            check_probabilities(raw, x)
        elif not are_probabilities(raw):  # obviously
            check_probabilities(raw, x)
        return raw

    def _calibrate(self, own: Raw, raw: Raw, x: Mapping[Any, Any]) -> dict[ClfTarget, float]:
        """Return calibrated probabilities: ``own`` are the model's, ``raw`` those of all labels."""
        calibrated = self._strategy.for_labels(raw).predict_one(raw, x)
        return calibrated if raw is own else keep_missing(calibrated, raw, own)

    def _make_ticket(self, raw: Raw, kept: Any) -> tuple[Ticket | None, Sequence[Step]]:
        """Return the ticket of the calibrators as they are for the model's probabilities.

        ``kept`` are the features as they are remembered. The steps are those of serving.
        """
        if not self._strategy.makes_tickets:
            return None, ()
        served = self._strategy.for_labels(raw).serve_steps(raw, features_of(kept))
        return served.ticket, served.steps

    def _segments_of(self, x: Features) -> Features:
        """Return the features that segments are made of."""
        return {name: x.get(name) for name in self._strategy.fields}

    def _read_served(
        self, served: Any, labels: Iterable[ClfTarget]
    ) -> tuple[Raw, Raw | None, Ticket | None]:
        """Return the model's probabilities, the calibrated ones and the ticket, or raise.

        The calibrated ones are those before the sampling was undone, as the labels are of the kept
        samples. The ticket of calibrators that were replaced after an alarm is left out.
        """
        if not isinstance(served, Served):
            check_served(as_probabilities_of_labels(served), self._labels_with(labels))
            return self._read_probabilities(served), None, None
        raw = self._read_probabilities(served.raw)
        shown = as_probabilities_of_labels(served.calibrated)
        if served.sampling_rate != 1.0:
            shown = answers_among_kept(shown, as_sampling_rate(served.sampling_rate))
        if served.n_alarms > self.n_alarms:
            raise ValueError(
                "`served` must be from this model or an earlier state of it, which has had"
                f" {self.n_alarms} alarms, got one after {served.n_alarms}"
            )
        if not self._is_current(served.n_alarms):
            return raw, shown, None
        if served.ticket is None or not self._strategy.makes_tickets:
            return raw, shown, None
        check_ticket_type(served.ticket)
        self._strategy.for_labels(raw).check_ticket(raw, served.ticket)
        return raw, shown, served.ticket

    def _read_probabilities(self, served: Any) -> Raw:
        """Return the model's probabilities of all labels, or raise; if there were none, none."""
        raw = as_probabilities_of_labels(served)
        return self._known.complete(raw) if raw else raw

    def _labels_with(self, new: Iterable[Any]) -> set[Any]:
        """Return the labels that are known, and ``new`` ones; empty if none was known before."""
        known: set[Any] = {*self._strategy.calibrators, *(self.labels or ())}
        if any(isinstance(label, bool | np.bool_) for label in new):
            known |= {False, True}
        # Not an array that equals a label.
        return known and known.union(label for label in new if isinstance(label, Hashable))

    def _is_current(self, n_alarms: int) -> bool:
        """Return whether the calibrators were not replaced since there were this many alarms."""
        return n_alarms == self.n_alarms or self.on_drift == "none"

    def _watch(
        self,
        monitor: DriftMonitor,
        samples: Iterable[Sample],
        shown: Iterable[Raw | None] = repeat(None),
        *,
        as_group: bool = False,
    ) -> tuple[OwningStrategy, list[Step]]:
        """Update the drift detector; after an alarm make new calibrators.

        The detector gets the errors of ``shown``, the served probabilities; for None, those of the
        current calibrated probabilities. Return the strategy from now on, and what puts it in use
        and keeps the samples, for `do_all`.
        """
        samples = list(samples)
        pairs = zip(samples, shown, strict=False)
        now = ((raw, x, y, p) for (raw, x, y, *_), p in pairs)
        served = [(p or self._calibrate(raw, raw, x), y) for raw, x, y, p in now]
        n_alarms = monitor.update(served, as_group=as_group)
        strategy, steps = self._strategy, monitor.learn_steps(samples, n_alarms)
        if n_alarms and self.on_drift != "none":
            strategy = strategy.fresh()
            for raw, x, y, w, t, propensity in monitor.recent:
                context = Context(x, t=t, propensity=propensity)
                strategy.for_labels(raw).learn_one(raw, y, w, context)
            steps.append(partial(setattr, self, "_strategy", strategy))
        return strategy, steps

    # Mini-batches ---------------------------------------------------------------------------------

    def learn_many(
        self,
        X: IntoDataFrame,
        y: IntoSeries,
        w: Any = 1.0,
        *,
        served: IntoDataFrame | Mapping[ClfTarget, ArrayLike] | None = None,
        t: Any = None,
        propensity: ArrayLike | None = None,
        **kwargs: Any,
    ) -> None:
        """Learn a mini-batch: predict all of it, then teach the model and the calibrators.

        Parameters
        ----------
        X : data frame of shape (n_samples, n_features)
            Of any eager library that narwhals supports: pandas, polars, pyarrow, …
        y : series of shape (n_samples,)
            The labels.
        w : float, series or array of shape (n_samples,)
            Weights, from 1e-60 to 1e60.
        served : data frame, or mapping from label to array, of shape (n_samples,) each
            The predictions of the model for ``X`` when it was served, from its
            ``predict_proba_many``. Without it the model predicts ``X`` again.
        t : series or sequence of datetime or float, of shape (n_samples,)
            The time at which each sample is learned, as of `learn_one`. Without it, the column that
            ``time`` names.
        propensity : array-like of shape (n_samples,), optional
            The probability with which each label was asked for, for an `AuditedCalibrator`.
        **kwargs
            For the model, if its ``learn_many`` takes them; an unknown name is an error.

        Raises
        ------
        ValueError, TypeError
            As `learn_one`, and if lengths differ.
        """
        series = series_of(y)
        labels = series.to_list()
        check_n_rows(X, len(labels))
        for at, label in enumerate(labels):
            if is_missing(label):
                raise ValueError(f"`y` must hold labels, got {label} at position {at}")
        weights = as_batch_weights(w, len(labels))
        if t is not None and self._takes_time:
            kwargs["t"] = t
        times: Times | None = None
        if self._strategy.needs_time:
            times = times_of(X, len(labels), t, self.time, self._strategy.read_times)
        of_labels = self._strategy.read_propensities(propensity, len(labels))
        name = "probabilities" if served is None else "served"
        if served is None:
            served = self._predict_raw_many(X, kwargs)
        columns = served if isinstance(served, Mapping) else self._columns_by_label(served)
        given = X if name == "probabilities" else None
        own = as_probability_columns(columns, len(labels), name, given)
        if name == "served":
            check_served(own, self._labels_with(labels))
        raw = self._known.complete_many(own, len(labels))
        values = self._segment_columns(X)
        contexts = Contexts(values, t=times, propensity=of_labels)
        self._strategy.check_columns(contexts, len(labels))
        if self.sampling_rate is not None:
            check_two_labels((*raw, *set(labels)))
        if self._monitor is not None and labels:
            self._monitor.check_labels((*set(labels), *raw))
        for label in dict.fromkeys(labels):
            check_label_of_model(label, own, self.classifier)

        self._memory.store_latest(self._make_ticket)
        self._call("learn_many", X, y, **add_batch_weights(kwargs, w, weights, X))

        self._y_name = series.name
        # In the order of the rows: that of a set, and so the state, would differ between processes.
        self._label_of_column.update((str(label), label) for label in dict.fromkeys(labels))
        if self._monitor:
            rows = as_rows(raw, len(labels)), as_rows(values, len(labels))
            propensities = repeat(None) if of_labels is None else of_labels.tolist()
            others = labels, weights.tolist(), times or repeat(None), propensities
            samples = map(Sample, *rows, *others)
            do_all(*self._watch(self._monitor, samples)[1])
        self._strategy.for_labels(raw).learn_many(raw, labels, weights, contexts)
        do_all(*self._known.group_steps(labels, self._label_of_column, 1.0))

    def predict_proba_many(self, X: IntoDataFrame, **kwargs: Any) -> IntoDataFrame:
        """Return calibrated probabilities for each row, in a frame of the same library as ``X``.

        The columns are the labels, named as by the model's own ``predict_proba_many``. While no
        label is known, the frame is empty.
        """
        answer = self._predict_raw_many(X, kwargs)
        frame, like = into_frame(answer), into_frame(X)
        raw = self._columns_by_label(answer)
        labels, values = self._calibrate_many(raw, X)
        if not labels or not len(like):
            return answer
        names = dict(zip(raw, frame.columns, strict=True))  # those that the model gave its labels
        columns = {names.get(label, label): values[i] for i, label in enumerate(labels)}
        return to_native_frame(columns, like=frame if raw else like)

    def predict_many(self, X: IntoDataFrame, **kwargs: Any) -> IntoSeries:
        """Return the most probable label of each row, None while no label is known."""
        frame = into_frame(X)
        raw = self._columns_by_label(self._predict_raw_many(X, kwargs))
        labels, values = self._calibrate_many(raw, X)
        winners: list[ClfTarget | None] = [None] * len(frame)
        if labels:
            winners = [labels[at] for at in values.argmax(axis=0)]
        return to_native_series(winners, name=self._y_name, like=frame)

    def _predict_raw_many(self, X: IntoDataFrame, kwargs: dict[str, Any]) -> IntoDataFrame:
        """Return the model's own probabilities, one column for each label."""
        frame_of(X)  # or it raises
        frame: IntoDataFrame = self._call("predict_proba_many", X, **kwargs)
        return frame

    def _calibrate_many(
        self, columns: Mapping[ClfTarget, NDArray[np.float64]], X: IntoDataFrame
    ) -> tuple[list[ClfTarget], NDArray[np.float64]]:
        """Return labels, and their calibrated probabilities of shape ``(n_labels, n_samples)``."""
        n_samples = len(into_frame(X))
        own = as_probability_columns(columns, n_samples, "probabilities", X)
        raw = self._known.complete_many(own, n_samples)
        labels = list(raw)
        if not labels:
            return labels, np.empty((0, n_samples))
        values = self._strategy.for_labels(raw).predict_many(raw, self._segment_columns(X))
        if raw is not own:
            values = keep_missing_many(values, raw, own)
        if self.sampling_rate is not None:
            values = columns_among_all(labels, values, rates_of(self.sampling_rate, X))
        return labels, values

    def _segment_columns(self, X: IntoDataFrame) -> FeatureColumns:
        """Return the columns that segments are made of.

        One that ``X`` lacks is missing in all rows: river's own checks leave columns out.
        """
        if not self._strategy.fields:
            return {}
        frame = into_frame(X)
        nothing = [None] * len(frame)
        columns = {
            name: frame.get_column(name).to_list() if name in frame.columns else nothing
            for name in self._strategy.fields
        }
        return {name: np.fromiter(values, object, len(frame)) for name, values in columns.items()}

    def _columns_by_label(self, frame: IntoDataFrame) -> dict[ClfTarget, NDArray[np.float64]]:
        """Return the columns of a frame of probabilities by their labels."""
        narwhal = into_frame(frame)
        if narwhal.is_empty():
            return {}
        matrix = to_numpy(narwhal)
        labels = [self._label_of_column.get(str(name), name) for name in narwhal.columns]
        return {label: matrix[:, i] for i, label in enumerate(labels)}


def _prototype_of(
    calibrator: Calibrator | JointCalibrator, segments: Sequence[str] | None
) -> Calibrator | JointCalibrator:
    """Return what is cloned for each label, or raise."""
    check_calibrator_of_labels(calibrator)
    if segments is None:
        return calibrator
    prototype: Any = calibrator
    if prototype.is_joint:
        raise ValueError(f"`segments` must be None with a JointCalibrator, got {segments!r}")
    if prototype.fields:
        raise ValueError(
            "`segments` must be None with a SegmentCalibrator, which has `fields`,"
            f" got {segments!r}"
        )
    return SegmentCalibrator(segments, base=prototype)
