"""How the probabilities of a classifier are calibrated: binary, one-vs-rest or jointly.

`streamcal.CalibratedClassifier` holds a `OneVsRest`, a `HedgedJointly` or a `Joint` strategy. The
model's labels may change with each sample, so the wrapper calls ``for_labels`` each time. For the
labels False and True, `OneVsRest` returns a `Binary` strategy.

Throughout, ``raw`` are the model's probabilities of one sample by label, and ``x`` its features,
which segments are made of. ``columns`` are the probabilities of a batch: an array of shape
``(n_samples,)`` for each label; ``X`` holds the same of each field of segments. A ``context`` has
the features as ``x``, ``contexts`` of a batch have ``X``.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import repeat
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from river.base.typing import ClfTarget

from streamcal._state import (
    Arrays,
    Fields,
    as_list,
    as_names,
    fill,
    nested,
    pack,
    prefixed,
    require,
    without_prefix,
)
from streamcal._whole import Step, do_all
from streamcal.calibration.base import Calibrator, raise_no_propensity
from streamcal.calibration.clock import Timed, Times
from streamcal.calibration.context import NO_CONTEXT, Context, Contexts
from streamcal.calibration.joint import JointCalibrator
from streamcal.calibration.joint_hedge import JointHedge
from streamcal.calibration.tickets import Prediction, Ticket

Features = Mapping[Any, Any]
FeatureColumns = Mapping[str, NDArray[Any]]
Raw = Mapping[ClfTarget, float]
Columns = Mapping[ClfTarget, NDArray[np.float64]]
Labels = Sequence[ClfTarget]
Weights = NDArray[np.float64]
Rows = Sequence[tuple[Raw, ClfTarget, Context]]
"""Of a group: the model's probabilities, the label, and what else comes with a row."""


class Strategy(ABC):
    """A way to predict with calibrators and to teach them."""

    needs_time = False  # whether calibrators need the time at which a sample is learned
    needs_propensity = False  # whether they need the propensity of a label

    @abstractmethod
    def predict_one(self, raw: Raw, x: Features) -> dict[ClfTarget, float]:
        """Return calibrated probabilities under the same labels in the same order."""

    def check_features(self, x: Features) -> None:  # noqa: B027  most have no segments
        """Raise unless `learn_one` accepts these features."""

    def learn_one(self, raw: Raw, y: ClfTarget, w: float, context: Context = NO_CONTEXT) -> None:
        """Teach the calibrators one sample."""
        do_all(*self.learn_steps(raw, y, w, context))

    @abstractmethod
    def learn_steps(
        self, raw: Raw, y: ClfTarget, w: float, context: Context = NO_CONTEXT
    ) -> Sequence[Step]:
        """Return what teaches a sample, as `learn_one` does, for `do_all`."""

    def group_steps(self, rows: Rows, w: float) -> list[Step]:
        """Return what teaches rows that share an outcome, as one sample of weight ``w``."""
        steps: list[Step] = []
        for raw, y, context in rows:
            steps += self.learn_steps(raw, y, w / len(rows), context)
        return steps

    def serve_one(self, raw: Raw, x: Features) -> tuple[dict[ClfTarget, float], Ticket | None]:
        """Return `predict_one`, and the ticket that the calibrators need with a late label."""
        return self.predict_one(raw, x), None

    def check_ticket(self, raw: Raw, ticket: Any) -> None:  # noqa: B027  most need none
        """Raise unless these calibrators have made the ticket, now or in an earlier state."""

    def predict_many(self, columns: Columns, X: FeatureColumns) -> NDArray[np.float64]:
        """Return calibrated probabilities of shape ``(n_labels, n_samples)``, n_labels > 0."""
        return _predict_rows(self.predict_one, columns, X)

    def learn_many(
        self, columns: Columns, labels: Labels, weights: Weights, contexts: Contexts
    ) -> None:
        """Teach the calibrators a batch."""
        n_samples = len(labels)
        each = contexts.samples(n_samples, contexts.x, times=self.needs_time)
        rows = as_rows(columns, n_samples), each
        for raw, context, y, w in zip(*rows, labels, weights.tolist(), strict=True):
            self.learn_one(raw, y, w, context)


class OwningStrategy(Strategy):
    """A strategy that owns its calibrators: what a wrapper holds, saves and restores."""

    makes_tickets = False  # whether late labels need what `serve_one` returns
    fields: tuple[str, ...] = ()  # the features that calibrators use

    @property
    def calibrators(self) -> Mapping[ClfTarget, Calibrator]:
        """The calibrators of single labels."""
        return {}

    @property
    def parts(self) -> Mapping[ClfTarget, Calibrator | JointCalibrator]:
        """What a notebook shows: the calibrators, by label."""
        return self.calibrators

    @property
    def weights(self) -> dict[str, float]:
        """The weights of the maps of all labels, if such maps are mixed."""
        return {}

    def for_labels(self, raw: Mapping[ClfTarget, object]) -> Strategy:
        """Return the strategy for predictions with these labels."""
        return self

    def check_columns(self, contexts: Contexts, n_samples: int) -> None:
        """Raise unless `learn_many` accepts the features of a batch, and its times."""

    def check_time(self, t: Any) -> None:
        """Raise unless `learn_one` accepts a time; calibrators of labels have learned the same."""
        self._any()._read_time(t)

    def read_propensity(self, propensity: Any) -> float | None:
        """Return the propensity of a label, or raise; None if none is needed."""
        if propensity is not None:
            raise_no_propensity(type(self._any()).__name__)
        return None

    def read_propensities(self, propensity: Any, n_samples: int) -> Any:
        """Return the propensities of the labels of a batch, or raise; None if none are needed."""
        self.read_propensity(propensity)

    def read_times(self, t: Any, n_samples: int) -> Times | None:
        """Return the times of a batch, or raise."""
        return self._any()._read_times(t, n_samples)

    @abstractmethod
    def _any(self) -> Timed:
        """Return one of the calibrators, of those that have learned if there are any."""

    @abstractmethod
    def fresh(self) -> Self:
        """Return a strategy of the same kind whose calibrators have learned nothing."""

    @abstractmethod
    def freeze(self) -> tuple[Fields, Arrays]:
        """Return the state as fields for JSON and arrays, for `thaw`."""

    @abstractmethod
    def thaw(self, fields: Fields, arrays: Arrays) -> None:
        """Restore a state that `freeze` returned, or raise."""


def make_strategy(
    calibrator: Calibrator | JointCalibrator, label_of_column: dict[str, ClfTarget]
) -> OwningStrategy:
    """Return the strategy for a prototype that accepts the labels 0 and 1."""
    prototype: Any = calibrator
    if prototype.is_joint:
        return Joint(prototype)
    if prototype._mixing is None:
        return OneVsRest(prototype, label_of_column)
    return HedgedJointly(prototype, label_of_column)


class LabelCalibrators:
    """Calibrators of single labels, cloned from a prototype when a label is first learned.

    ``label_of_column`` maps column names of data frames to labels; the wrapper owns it.
    """

    def __init__(self, prototype: Calibrator, label_of_column: dict[str, ClfTarget]) -> None:
        self.prototype = prototype
        self.by_label: dict[ClfTarget, Calibrator] = {}  # of the prototype's class
        self._label_of_column = label_of_column
        self.has_fields = bool(prototype.fields)
        # Predicts, checks and makes tickets for labels that have no calibrator yet.
        self.unlearned = prototype.clone()

    def learn_steps(
        self, label: ClfTarget, raw: Raw, y: ClfTarget, w: float, context: Context
    ) -> Sequence[Step]:
        """Return what teaches the calibrator of a label whether ``y`` is it, for `do_all`.

        The ticket is that of this calibrator, or None.
        """
        calibrator, steps = self._find(label, raw)
        hit = 1.0 if y == label else 0.0  # 1 and np.True_ are True
        return [*steps, *calibrator._learn_steps(raw[label], hit, w, context)]

    def group_steps(self, label: ClfTarget, rows: Rows, w: float) -> list[Step]:
        """Return what teaches the calibrator of a label which rows of a group have this label.

        The tickets are those of this calibrator.
        """
        calibrator, steps = self._find(label, rows[0][0])
        scores = [float(raw[label]) for raw, *_ in rows]
        hits = [1.0 if y == label else 0.0 for _, y, _ in rows]
        contexts = Contexts.of(context for *_, context in rows)
        return [*steps, *calibrator._group_steps(scores, hits, w, contexts)]

    def _find(self, label: ClfTarget, known: Iterable[ClfTarget]) -> tuple[Any, list[Step]]:
        """Return the calibrator of a label; if it is new, also the steps that add it.

        ``known`` are all labels of the model.
        """
        calibrator = self.by_label.get(label)
        if calibrator is not None:
            return calibrator, []
        calibrator, names = self.prototype.clone(), {str(each): each for each in known}
        add = partial(self.by_label.__setitem__, label, calibrator)
        return calibrator, [partial(self._label_of_column.update, names), add]

    def learn_many(
        self,
        label: ClfTarget,
        columns: Columns,
        labels: Labels,
        weights: Weights,
        contexts: Contexts,
    ) -> None:
        """Teach the calibrator of a label which of the batch's labels are this label."""
        calibrator, steps = self._find(label, columns)
        hits = np.fromiter((y == label for y in labels), np.float64, len(labels))
        calibrator.learn_many(columns[label], hits, weights, **calibrator._keywords(contexts))
        do_all(*steps)

    def predict_with_fields(self, label: ClfTarget, p: float, x: Features) -> float:
        """Return the calibrated probability of a label, if calibrators need fields."""
        calibrator = self.by_label.get(label)
        if calibrator is not None:
            return float(calibrator.predict_one(p, x))
        self.unlearned._check_fields(x)
        return float(p)

    def predict_many(
        self, label: ClfTarget, p: NDArray[np.float64], X: FeatureColumns
    ) -> NDArray[np.float64]:
        """Return the calibrated probabilities of a label for a batch."""
        calibrator = self.by_label.get(label)
        if calibrator is None:
            if self.has_fields:
                self.unlearned.predict_many(p, X)  # or it raises
            return p
        return calibrator.predict_many(p, **self._columns(X))

    def serve_one(self, label: ClfTarget, p: float, x: Features) -> Prediction:
        """Return the calibrated probability of a label, and the ticket of its calibrator.

        A label that has no calibrator yet keeps the model's probability.
        """
        calibrator = self.by_label.get(label)
        given = (x,) if self.has_fields else ()
        if calibrator is None:
            return Prediction(float(p), self.unlearned.serve_one(p, *given).ticket)
        return calibrator.serve_one(p, *given)

    def check_ticket(self, label: ClfTarget, own: Any) -> None:
        """Raise unless the calibrator of a label has made the ticket."""
        self.by_label.get(label, self.unlearned)._check_ticket(own)

    def _columns(self, X: FeatureColumns) -> dict[str, Any]:
        return {"x": X} if self.has_fields else {}


class Binary(Strategy):
    """The labels False and True, or 0 and 1: only the probability of True is calibrated.

    The probability of False is one minus that.
    """

    def __init__(self, calibrators: LabelCalibrators) -> None:
        self._calibrators = calibrators
        self._has_fields = calibrators.has_fields

    def predict_one(self, raw: Raw, x: Features) -> dict[ClfTarget, float]:
        calibrated = {**raw}
        calibrator = self._calibrators.by_label.get(True)
        if calibrator is not None:
            p = calibrator.predict_one(raw[True], **({"x": x} if self._has_fields else {}))
            calibrated[True], calibrated[False] = p, 1.0 - p
        else:
            self.check_features(x)
        return calibrated

    def check_features(self, x: Features) -> None:
        if self._has_fields:
            self._calibrators.unlearned._check_fields(x)

    def learn_steps(
        self, raw: Raw, y: ClfTarget, w: float, context: Context = NO_CONTEXT
    ) -> Sequence[Step]:
        calibrator = self._calibrators.by_label.get(True)
        if calibrator is None:
            return self._calibrators.learn_steps(True, raw, y, w, context)
        # The usual case, without another call. True is 1.
        return calibrator._learn_steps(raw[True], 1.0 if y == 1 else 0.0, w, context)

    def check_ticket(self, raw: Raw, ticket: Any) -> None:
        self._calibrators.check_ticket(True, ticket)

    def serve_one(self, raw: Raw, x: Features) -> tuple[dict[ClfTarget, float], Ticket | None]:
        p, ticket = self._calibrators.serve_one(True, raw[True], x)
        calibrated = {**raw}
        if True in self._calibrators.by_label:
            calibrated[True], calibrated[False] = p, 1.0 - p
        return calibrated, ticket

    def predict_many(self, columns: Columns, X: FeatureColumns) -> NDArray[np.float64]:
        p = self._calibrators.predict_many(True, columns[True], X)
        if True not in self._calibrators.by_label:
            return np.array(list(columns.values()))
        return np.array([p if label else 1.0 - p for label in columns])

    def learn_many(
        self, columns: Columns, labels: Labels, weights: Weights, contexts: Contexts
    ) -> None:
        self._calibrators.learn_many(True, columns, labels, weights, contexts)


class OneVsRest(OwningStrategy):
    """Each label has its own calibrator; calibrated probabilities are divided by their sum.

    A label that has no calibrator yet keeps the model's probability. Samples with the labels False
    and True go to a `Binary` that shares the calibrators, since a third label may come later.
    """

    def __init__(self, prototype: Calibrator, label_of_column: dict[str, ClfTarget]) -> None:
        self._calibrators = LabelCalibrators(prototype, label_of_column)
        self._label_of_column = label_of_column
        self._binary = Binary(self._calibrators)
        self.makes_tickets = prototype.makes_tickets
        self.needs_time = self._binary.needs_time = prototype.needs_time
        self.needs_propensity = prototype.needs_propensity
        self.fields = tuple(prototype.fields)

    @property
    def calibrators(self) -> Mapping[ClfTarget, Calibrator]:
        return self._calibrators.by_label

    def for_labels(self, raw: Mapping[ClfTarget, object]) -> Strategy:
        return self._binary if len(raw) == 2 and True in raw and False in raw else self

    def predict_one(self, raw: Raw, x: Features) -> dict[ClfTarget, float]:
        if self.fields:
            predict = self._calibrators.predict_with_fields
            return _normalised({label: predict(label, p, x) for label, p in raw.items()}, raw)
        calibrated = {}
        for label, p in raw.items():
            calibrator = self._calibrators.by_label.get(label)
            calibrated[label] = float(p) if calibrator is None else calibrator.predict_one(p)
        return _normalised(calibrated, raw)

    def check_features(self, x: Features) -> None:
        if self.fields:
            self._calibrators.unlearned._check_fields(x)

    def check_columns(self, contexts: Contexts, n_samples: int) -> None:
        self._calibrators.unlearned._read_contexts(contexts, n_samples)  # or it raises

    def _any(self) -> Timed:
        return next(iter(self._calibrators.by_label.values()), self._calibrators.unlearned)

    def check_time(self, t: Any) -> None:
        for calibrator in self._calibrators.by_label.values():  # quicker than `_any`
            calibrator._read_time(t)
            return
        super().check_time(t)

    def read_propensity(self, propensity: Any) -> float | None:
        return self._calibrators.unlearned._read_propensity(propensity)

    def read_propensities(self, propensity: Any, n_samples: int) -> Any:
        return self._calibrators.unlearned._read_propensities(propensity, np.zeros(n_samples))

    def learn_steps(
        self, raw: Raw, y: ClfTarget, w: float, context: Context = NO_CONTEXT
    ) -> Sequence[Step]:
        steps: list[Step] = []
        owns: Iterable[Context] = repeat(context)
        if context.ticket is not None:
            owns = (context.with_ticket(Ticket(own)) for own in context.ticket)
        for label, own in zip(raw, owns, strict=False):
            steps += self._calibrators.learn_steps(label, raw, y, w, own)
        return steps

    def group_steps(self, rows: Rows, w: float) -> list[Step]:
        labels = dict.fromkeys(label for raw, *_ in rows for label in raw)
        if self.for_labels(labels) is self._binary:
            labels = {True: None}
        steps: list[Step] = []
        for label in labels:
            known = [
                (raw, y, context.with_ticket(self._own_ticket(raw, label, context.ticket)))
                for raw, y, context in rows
                if label in raw
            ]
            steps += self._calibrators.group_steps(label, known, w)
        return steps

    def _own_ticket(self, raw: Raw, label: ClfTarget, ticket: Ticket | None) -> Ticket | None:
        """Return the ticket of the calibrator of a label, from that of all labels ``raw``."""
        if ticket is None or self.for_labels(raw) is self._binary:
            return ticket
        return Ticket(self._owns(ticket)[list(raw).index(label)])

    def _owns(self, ticket: Ticket) -> tuple[Any, ...]:
        """Return the content of the tickets of single labels."""
        return ticket

    def serve_one(self, raw: Raw, x: Features) -> tuple[dict[ClfTarget, float], Ticket | None]:
        calibrated: dict[ClfTarget, float] = {}
        owns = []
        for label, p in raw.items():
            calibrated[label], own = self._calibrators.serve_one(label, p, x)
            if own is not None:
                owns.append(tuple(own))
        return _normalised(calibrated, raw), Ticket(owns) if self.makes_tickets else None

    def check_ticket(self, raw: Raw, ticket: Any) -> None:
        self._check_owns(raw, ticket)

    def _check_owns(self, raw: Raw, owns: Any) -> None:
        """Raise unless these are tickets of the calibrators of single labels."""
        if not isinstance(owns, tuple) or len(owns) != len(raw):
            raise TypeError(f"`served.ticket` must have a part for each label, got {owns!r}")
        for label, own in zip(raw, owns, strict=True):
            if not isinstance(own, tuple):
                raise TypeError(f"`served.ticket` must have a part for each label, got {owns!r}")
            self._calibrators.check_ticket(label, Ticket(own))

    def predict_many(self, columns: Columns, X: FeatureColumns) -> NDArray[np.float64]:
        raw = np.array(list(columns.values()))
        many = self._calibrators.predict_many
        values = np.array([many(label, raw[i], X) for i, label in enumerate(columns)])
        total = values.sum(axis=0)
        if (zero := total <= 0.0).any():
            values[:, zero] = raw[:, zero]
            values[:, zero & (values.sum(axis=0) <= 0.0)] = 1.0
            total = values.sum(axis=0)
        return np.asarray(values / total)

    def learn_many(
        self, columns: Columns, labels: Labels, weights: Weights, contexts: Contexts
    ) -> None:
        for label in columns:
            self._calibrators.learn_many(label, columns, labels, weights, contexts)

    def fresh(self) -> Self:
        return type(self)(self._calibrators.prototype, self._label_of_column)

    def freeze(self) -> tuple[Fields, Arrays]:
        labels = [pack(label) for label in self.calibrators]
        states = [nested(calibrator) for calibrator in self.calibrators.values()]
        return {"calibrated": labels}, {str(i): state for i, state in enumerate(states)}

    def thaw(self, fields: Fields, arrays: Arrays) -> None:
        labels = as_names(fields["calibrated"], "calibrated", none=True)
        prototype = self._calibrators.prototype
        restored = [fill(prototype.clone(), arrays, str(i)) for i in range(len(labels))]
        self._calibrators.by_label = dict(zip(labels, restored, strict=True))


class HedgedJointly(OneVsRest):
    """For more than two labels, `OneVsRest` is one of the maps that a `JointHedge` mixes.

    Samples with two labels teach only the calibrators of these labels. So nothing is lost when a
    third label comes: the mixture starts from what one-vs-rest answers.
    """

    def __init__(self, prototype: Calibrator, label_of_column: dict[str, ClfTarget]) -> None:
        super().__init__(prototype, label_of_column)
        self._joint = self._make_joint()

    @property
    def weights(self) -> dict[str, float]:
        return self._joint.weights if self._joint.n_samples else {}

    def predict_one(self, raw: Raw, x: Features) -> dict[ClfTarget, float]:
        calibrated = super().predict_one(raw, x)
        return self._joint.predict_one(raw, calibrated) if len(raw) > 2 else calibrated

    def serve_one(self, raw: Raw, x: Features) -> tuple[dict[ClfTarget, float], Ticket | None]:
        calibrated, ticket = super().serve_one(raw, x)
        if ticket is None or len(raw) < 3:
            return calibrated, ticket
        mixture, of_joint = self._joint.serve_one(raw, calibrated)
        return mixture, Ticket((tuple(ticket), tuple(of_joint)))

    def learn_steps(
        self, raw: Raw, y: ClfTarget, w: float, context: Context = NO_CONTEXT
    ) -> Sequence[Step]:
        if len(raw) < 3:
            return super().learn_steps(raw, y, w, context)
        one_vs_rest, of_joint = self._read_joint(raw, context)
        t = self._any()._read_time(context.t).seconds
        steps = self._joint.learn_steps(raw, one_vs_rest, y, w, of_joint, t)
        own = None if context.ticket is None else Ticket(context.ticket[0])
        return [*steps, *super().learn_steps(raw, y, w, context.with_ticket(own))]

    def group_steps(self, rows: Rows, w: float) -> list[Step]:
        steps: list[Step] = []
        many = [row for row in rows if len(row[0]) > 2]
        if many:
            joint = [
                (raw, own, y, of_joint)
                for raw, y, context in many
                for own, of_joint in [self._read_joint(raw, context)]
            ]
            t = self._any()._read_time(rows[-1][2].t).seconds
            steps = self._joint.group_steps(joint, w, t)
        return [*steps, *super().group_steps(rows, w)]

    def _owns(self, ticket: Ticket) -> tuple[Any, ...]:
        owns: tuple[Any, ...] = ticket[0]
        return owns

    def _own_ticket(self, raw: Raw, label: ClfTarget, ticket: Ticket | None) -> Ticket | None:
        if ticket is not None and len(raw) < 3 and self.for_labels(raw) is self:
            return Ticket(ticket[list(raw).index(label)])
        return super()._own_ticket(raw, label, ticket)

    def _read_joint(
        self, raw: Raw, context: Context
    ) -> tuple[dict[ClfTarget, float], Ticket | None]:
        """Return what one-vs-rest answered, and the ticket of the mixture, if any."""
        if context.ticket is None:
            return super().predict_one(raw, context.x or {}), None
        of_joint = Ticket(context.ticket[1])
        return self._joint.served_one_vs_rest(raw, of_joint), of_joint

    def check_ticket(self, raw: Raw, ticket: Any) -> None:
        if len(raw) < 3:
            self._check_owns(raw, ticket)
            return
        if not isinstance(ticket, tuple) or len(ticket) != 2:
            raise TypeError(f"`served.ticket` must be a ticket of `serve_one`, got {ticket!r}")
        owns, of_joint = ticket
        self._check_owns(raw, owns)
        self._joint.check_ticket(of_joint, len(raw))

    def predict_many(self, columns: Columns, X: FeatureColumns) -> NDArray[np.float64]:
        calibrated = super().predict_many(columns, X)
        if len(columns) < 3:
            return calibrated
        one_vs_rest = dict(zip(columns, calibrated, strict=True))
        return _predict_rows(self._joint.predict_one, columns, one_vs_rest)

    def learn_many(
        self, columns: Columns, labels: Labels, weights: Weights, contexts: Contexts
    ) -> None:
        strategy = OneVsRest if len(columns) < 3 else Strategy  # a mixture learns row by row
        strategy.learn_many(self, columns, labels, weights, contexts)

    def _make_joint(self) -> JointHedge:
        mixing = self._calibrators.prototype._mixing
        if mixing is None:
            raise TypeError("the prototype must mix calibrators")
        return JointHedge(*mixing)

    def freeze(self) -> tuple[Fields, Arrays]:
        fields, arrays = super().freeze()
        if self._joint.n_samples:
            fields["joint"], joint = self._joint.freeze()
            arrays |= prefixed("joint", joint)
        return fields, arrays

    def thaw(self, fields: Fields, arrays: Arrays) -> None:
        joint = self._make_joint()
        if "joint" in fields:
            joint.thaw(fields["joint"], without_prefix("joint", arrays))
        super().thaw(fields, arrays)
        self._joint = joint


class Joint(OwningStrategy):
    """One `JointCalibrator` sees the probabilities of all labels."""

    def __init__(self, prototype: JointCalibrator) -> None:
        self._prototype = prototype
        self._calibrator = prototype.clone()
        self.needs_time = prototype.needs_time

    @property
    def parts(self) -> Mapping[ClfTarget, Calibrator | JointCalibrator]:
        return {"all labels": self._calibrator}

    def predict_one(self, raw: Raw, x: Features) -> dict[ClfTarget, float]:
        return self._calibrator.predict_one(raw)

    def learn_steps(
        self, raw: Raw, y: ClfTarget, w: float, context: Context = NO_CONTEXT
    ) -> Sequence[Step]:
        return self._calibrator._learn_steps(raw, y, w, context.t)

    def group_steps(self, rows: Rows, w: float) -> list[Step]:
        if not rows:
            return []
        pairs = [(raw, y) for raw, y, _ in rows]
        return [*self._calibrator._group_steps(pairs, w / len(rows), rows[-1][2].t)]

    def _any(self) -> Timed:
        return self._calibrator

    def fresh(self) -> Self:
        return type(self)(self._prototype)

    def freeze(self) -> tuple[Fields, Arrays]:
        return {"calibrated": []}, {"0": nested(self._calibrator)}

    def thaw(self, fields: Fields, arrays: Arrays) -> None:
        labels = as_list(fields["calibrated"], "calibrated")
        require(not labels, "a joint calibrator must be the only one")
        self._calibrator = fill(self._prototype.clone(), arrays, "0")


def _normalised(calibrated: dict[ClfTarget, float], raw: Raw) -> dict[ClfTarget, float]:
    """Return probabilities divided by their sum; if that is 0, ``raw`` divided by its sum."""
    for values in (calibrated, raw):
        total = float(sum(values.values()))
        if total > 0.0:
            return {label: p / total for label, p in values.items()}
    return dict.fromkeys(raw, 1.0 / len(raw)) if raw else {}


def _predict_rows(
    predict_one: Callable[..., Mapping[ClfTarget, float]],
    columns: Columns,
    *others: Mapping[Any, NDArray[Any]],
) -> NDArray[np.float64]:
    """Return the probabilities for each row, from ``predict_one`` of the row in all arguments."""
    n_samples = len(next(iter(columns.values())))
    answers = list(map(predict_one, *(as_rows(each, n_samples) for each in (columns, *others))))
    return np.array([[answer[label] for answer in answers] for label in columns])


def as_rows(columns: Mapping[Any, NDArray[Any]], n_samples: int) -> list[dict[Any, Any]]:
    """Return the probabilities, or the features, of a batch sample by sample.

    Examples
    --------
    >>> as_rows({"a": np.array([0.25, 0.5]), "b": np.array([0.75, 0.5])}, 2)
    [{'a': 0.25, 'b': 0.75}, {'a': 0.5, 'b': 0.5}]
    """
    lists = {label: column.tolist() for label, column in columns.items()}
    return [{label: values[i] for label, values in lists.items()} for i in range(n_samples)]
