"""The base class of calibrators of a one-dimensional score."""

import copy
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta
from functools import partial
from itertools import pairwise, repeat
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NoReturn, TypeGuard, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from streamcal._advice import did_you_mean, shown
from streamcal._frames import like_given
from streamcal._state import Stateful
from streamcal._state.clone import Cloned
from streamcal._validation import (
    as_score,
    as_vector,
    as_weight,
    as_weights,
    check_order,
    check_same_length,
)
from streamcal._whole import Step, do_all, write_to
from streamcal.calibration.clock import Time, Timed, Times
from streamcal.calibration.context import NO_CONTEXT, Context, Contexts, FieldValues
from streamcal.calibration.snapshot import OneAtATime, Snapshot
from streamcal.calibration.tickets import Prediction, Ticket
from streamcal.export.description import Description
from streamcal.kernels.exclusive import no_fork
from streamcal.kernels.expert import Expert
from streamcal.notebook.card import card
from streamcal.notebook.shape import NO_SAMPLES, Samples, Shape


class Calibrator(Timed, Stateful, Cloned, ABC):
    """An online map from scores to calibrated values.

    A calibrator uses scores and labels, not the model. So it works with a river pipeline (through
    `streamcal.CalibratedClassifier`), a column of a file or a neural network.

    A calibrator may also need fields of a sample, such as the country: it names them in ``fields``
    and gets their values as ``x``. It may need what it served when a late label comes: then
    ``makes_tickets`` is true, `serve_one` returns a ticket, and `learn_one` gets it. One that
    forgets by time ``needs_time``: `learn_one` gets the time ``t`` at which the sample is learned.
    All others ignore ``x`` and ``t``, and have no tickets.

    The methods for many samples are loops by default; a subclass with a compiled loop overrides
    them. Bad input raises before the first sample is learned, so an error changes nothing.

    Attributes
    ----------
    fields : tuple of str
        The names of the values that the calibrator needs as ``x``; usually none.
    makes_tickets : bool
        Whether late labels need the ticket of `serve_one`.
    needs_propensity : bool
        Whether `learn_one` needs the ``propensity`` of a label, as that of `AuditedCalibrator`.
    needs_time : bool
        Whether it must know the time at which a sample is learned.
    is_joint : bool
        Whether it maps the probabilities of all labels at once, as a `JointCalibrator` does.

    Examples
    --------
    >>> import numpy as np
    >>> class MeanLabel(Calibrator):
    ...     def __init__(self):
    ...         self.total = self.n = 0
    ...
    ...     def learn_one(self, score, y, w=1.0, *, x=None, ticket=None, t=None):
    ...         self.total, self.n = self.total + w * y, self.n + w
    ...
    ...     def predict_one(self, score, x=None):
    ...         return self.total / self.n if self.n else 0.5
    ...
    ...     def _check_labels(self, y):
    ...         return np.asarray(y, dtype=float)
    >>> MeanLabel().predict_learn_many([0.2, 0.9, 0.4], [1, 1, 0])
    array([0.5, 1. , 1. ])
    """

    _learns_shares: bool = False  # whether labels are 0, 1 or between them
    _counts_scores: bool = False  # whether it learns from scores without labels
    fields: tuple[str, ...] = ()
    makes_tickets: bool = False
    needs_propensity: bool = False
    is_joint: ClassVar[bool] = False

    @abstractmethod
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
        """Learn that ``score`` was followed by the label ``y``, with weight ``w``.

        ``x`` has the values of ``fields``. If the label is late, ``ticket`` is that of `serve_one`.
        ``t`` is the time at which the sample is learned, where ``needs_time`` is true.
        """

    @abstractmethod
    def predict_one(self, score: float, x: FieldValues | None = None) -> float:
        """Return the calibrated value of ``score``; the state does not change.

        ``x`` has the values of ``fields``.
        """

    def serve_one(self, score: float, x: FieldValues | None = None) -> Prediction:
        """Return `predict_one` of a score, and the ticket to pass back with a late label.

        Examples
        --------
        >>> from streamcal import PlattCalibrator
        >>> PlattCalibrator().serve_one(0.25)
        Prediction(value=0.25, ticket=None)
        """
        return Prediction(self.predict_one(score, **self._given_x(x)), None)

    def _serve_steps(
        self, score: float, x: FieldValues | None = None
    ) -> tuple[Prediction, Sequence[Step]]:
        """Return `serve_one`, and what it still has to change, as steps for `do_all`."""
        return self.serve_one(score, **self._given_x(x)), ()

    @abstractmethod
    def _check_labels(self, y: ArrayLike) -> NDArray[np.float64]:
        """Return labels as floats of shape ``(n_samples,)``, or raise ``ValueError``."""

    def learn_many(
        self,
        scores: ArrayLike,
        y: ArrayLike,
        w: ArrayLike | None = None,
        *,
        x: Any = None,
        t: Any = None,
    ) -> None:
        """Learn samples in the order given; arrays of shape ``(n_samples,)``.

        ``x`` has a column for each of ``fields``: a mapping or a data frame. ``t`` has the time of
        each sample, where ``needs_time`` is true.
        """
        samples = self._check_samples(scores, y, w)
        read = self._read_contexts(Contexts(x, t=t), len(samples[0]))
        rows = zip(*(column.tolist() for column in samples), strict=True)
        for i, sample in enumerate(rows):
            self.learn_one(*sample, **({} if read is None else self._keywords(read[i])))

    def learn_group(
        self,
        scores: ArrayLike,
        y: ArrayLike,
        w: float = 1.0,
        *,
        x: Sequence[FieldValues] | None = None,
        tickets: Sequence[Ticket | None] | None = None,
        t: Time | None = None,
    ) -> None:
        """Learn rows that share an outcome, each with an equal part of the weight ``w``.

        Examples are the rows of a game, of a session or of a customer, whose labels come together.
        A calibrator that makes tickets learns them as one sample.

        Parameters
        ----------
        scores, y : array_like of shape (n_rows,)
            Scores and labels.
        w : float
            The weight of the group, from 1e-60 to 1e60.
        x : sequence of mappings, of length n_rows
            The values of ``fields`` of each row.
        tickets : sequence of Ticket or None, of length n_rows
            What was served for each row. Without a ticket, the current prediction counts.
        t : datetime or float, optional
            The time at which the rows are learned, where ``needs_time`` is true.

        Raises
        ------
        ValueError, TypeError
            As `learn_one`, and if lengths differ; nothing is learned.
        """
        do_all(*self._group_steps(scores, y, w, Contexts(x, tickets, t)))

    if TYPE_CHECKING:  # a class of your own may have an attribute

        @property
        def n_samples(self) -> int:
            """The number of samples that it holds or, if it forgets none, has learned.

            `HistogramCalibrator` and `IdentityCalibrator` do not count them.
            """

    def predict_many(self, scores: ArrayLike, x: Any = None) -> NDArray[np.float64]:
        """Return the calibrated values of ``scores``, shape ``(n_samples,)``.

        ``x`` has a column for each of ``fields``: a mapping or a data frame. For a Series of
        pandas, polars or another library that narwhals knows they are such a Series, with its
        index, and with its name followed by ``_calibrated``.

        Examples
        --------
        >>> import pandas as pd
        >>> from streamcal import IsotonicCalibrator
        >>> frame = pd.DataFrame({"p": [0.2, 0.4, 0.9]})
        >>> calibrator = IsotonicCalibrator()
        >>> calibrator.learn_many(frame["p"], [0, 1, 1])
        >>> frame.join(calibrator.predict_many(frame["p"])).columns.tolist()
        ['p', 'p_calibrated']
        """
        vector = as_vector(scores, "scores")
        contexts = self._contexts_to_predict(x, len(vector))
        pairs = zip(vector.tolist(), contexts, strict=False)
        values = [self.predict_one(score, **self._given_x(context.x)) for score, context in pairs]
        return like_given(np.array(values, dtype=np.float64), scores)

    def predict_learn_many(
        self,
        scores: ArrayLike,
        y: ArrayLike,
        w: ArrayLike | None = None,
        *,
        x: Any = None,
        t: Any = None,
    ) -> NDArray[np.float64]:
        """Predict each sample, then learn it, in order: the prequential protocol in one call.

        ``x`` has a column for each of ``fields``, as for `predict_many`. ``t`` has the time of each
        sample, where ``needs_time`` is true.

        Returns
        -------
        predictions : ndarray of shape (n_samples,)
            The result of `predict_one` for each score before its label was learned; a Series if
            ``scores`` is one, as in `predict_many`.
        """
        samples = self._check_samples(scores, y, w)
        read = self._read_contexts(Contexts(x, t=t), len(samples[0]))
        predictions = np.empty(len(samples[0]))
        rows = zip(*(column.tolist() for column in samples), strict=True)
        for i, (score, label, weight) in enumerate(rows):
            given, to_learn = {}, {}
            if read is not None:
                given, to_learn = self._given_x(read[i].x), self._keywords(read[i])
            predictions[i] = self.predict_one(score, **given)
            self.learn_one(score, label, weight, **to_learn)
        return like_given(predictions, scores)

    def snapshot(self) -> Snapshot:
        """Return an immutable copy of the current map; see `Snapshot`.

        By default this copies the whole state; a calibrator whose map is a staircase copies that.
        """
        twin = copy.deepcopy(self)
        n_samples = getattr(twin, "n_samples", None)
        return Snapshot(OneAtATime(twin.predict_many), n_samples, self.fields)

    @overload
    def export(
        self,
        format: Literal["json", "sql"],
        *,
        error: float = 1e-6,
        max_knots: int = 2_000,
        formula: bool = True,
        answer: str | None = None,
        column: str = "score",
        dtype: Literal["float64", "float32"] = "float64",
    ) -> str: ...

    @overload
    def export(
        self,
        format: Literal["onnx"],
        *,
        error: float = 1e-6,
        max_knots: int = 2_000,
        formula: bool = True,
        answer: str | None = None,
        column: str = "score",
        dtype: Literal["float64", "float32"] = "float64",
    ) -> bytes: ...

    @overload
    def export(
        self,
        format: Literal["json", "sql", "onnx"],
        *,
        error: float = 1e-6,
        max_knots: int = 2_000,
        formula: bool = True,
        answer: str | None = None,
        column: str = "score",
        dtype: Literal["float64", "float32"] = "float64",
    ) -> str | bytes: ...

    def export(
        self,
        format: Literal["json", "sql", "onnx"],
        *,
        error: float = 1e-6,
        max_knots: int = 2_000,
        formula: bool = True,
        answer: str | None = None,
        column: str = "score",
        dtype: Literal["float64", "float32"] = "float64",
    ) -> str | bytes:
        """Return the current map for another program: as JSON, as a SQL expression, or as ONNX.

        Isotonic, histogram and Venn-Abers maps are exact tables of knots. Platt and beta maps are
        formulas. A hedge is a table whose distance from `predict_one` is at most ``error``; so are
        formulas, if they are not wanted. The same table is the same map in all three formats.

        Parameters
        ----------
        format : {"json", "sql", "onnx"}
            ``"json"``: for `streamcal.calibration.read_export`, and for programs that look up
            knots themselves. ``"sql"``: an expression of a column. ``"onnx"``: the bytes of a
            model, see Notes.
        error : float
            The greatest distance from `predict_one`, from 1e-10 to 0.1, for maps without an exact
            table; and what rounding a score to float32 may change.
        max_knots : int
            The greatest number of knots.
        formula : bool
            Whether a formula may be used. A database that lacks ``exp`` and ``ln`` needs knots.
        answer : {"merged", "lower", "upper"}, optional
            Which answer of a `VennAbersCalibrator` is exported; by default the merged pair.
        column : str
            The column of scores, for SQL. It is quoted.
        dtype : {"float64", "float32"}
            The type of scores and answers, for ONNX.

        Returns
        -------
        str or bytes
            Bytes for ONNX.

        Raises
        ------
        ValueError
            If more knots are needed than ``max_knots``, or float32 changes more than ``error``: the
            message says how much. If an option is out of range, or a value is infinite.
        TypeError
            If the map also depends on fields, or nothing is known of a class of your own.
        ImportError
            If ONNX is wanted and the package onnx is missing.

        Notes
        -----
        Finite scores outside the range of the map have the answer of its nearest end. NULL, NaN and
        scores beyond 1.7e308 are NULL in SQL; NaN and infinite ones are NaN in ONNX.

        The ONNX model has an input ``score`` of shape [n], and an output ``calibrated`` of that
        shape. It uses operators of opset 17 only, and computes in double precision.

        Examples
        --------
        >>> from streamcal import IsotonicCalibrator
        >>> calibrator = IsotonicCalibrator(prior=0)
        >>> calibrator.learn_many([0.25, 0.5, 0.75], [0, 1, 1])
        >>> print(calibrator.export("sql", column="p"))
        CASE WHEN +"p" >= -1.7e308 AND +"p" <= 1.7e308 THEN
        CASE WHEN "p" < 0.25e0 THEN 0.0e0
        WHEN "p" < 0.5e0 THEN 0.0e0 + ("p" - 0.25e0) / 0.25e0 * 1.0e0
        ELSE 1.0e0 END END
        """
        with no_fork:  # a child can't import what a thread of its parent was importing
            from streamcal.export import options

        return options.export(
            self,
            format,
            error=error,
            max_knots=max_knots,
            formula=formula,
            answer=answer,
            column=column,
            dtype=dtype,
        )

    def _repr_html_(self) -> str:
        """Return what a notebook shows."""
        shape = self._shape()
        known = {} if shape.n_samples is None else {"samples": shape.n_samples}
        return card(self, known | self._facts(), {None: shape}, self._weights_shown())

    def _facts(self) -> dict[str, Any]:
        """Return names and values of the state, for a notebook."""
        return {}

    def _weights_shown(self) -> dict[str, float]:
        """Return the weights of what is mixed, for a notebook."""
        return {}

    def _shape(self) -> Shape:
        """Return the current map, for a picture."""
        n_samples = getattr(self, "n_samples", None)
        return Shape.of(self.predict_many, n_samples=n_samples, kept=self._kept_scores())

    def _kept_scores(self) -> Samples:
        """Return the scores that are kept, and the weight of each."""
        return NO_SAMPLES

    # What the rest of the library calls. A class of your own needs none of it.

    def _map(self, answer: str | None = None) -> Description:
        """Return the current map, for `export`; nothing else may learn meanwhile."""
        kind = type(self)
        if self.fields:
            raise TypeError(
                f"`export` is for maps of a score alone, but a {kind.__name__} also depends on the"
                f" fields {', '.join(map(repr, self.fields))}"
            )
        own = [name for name in ("predict_one", "predict_many") if not _is_ours(kind, name)]
        if own and _is_ours(kind, "_describe"):
            raise TypeError(
                f"`export` knows nothing of the map of a {kind.__name__}, which has its own"
                f" `{own[0]}`: it can't bound an error"
            )
        return self._describe() if answer is None else self._describe_answer(answer)

    def _describe(self) -> Description:
        """Return the current map; a class that can be exported overrides it."""
        raise TypeError(f"`export` knows nothing of the map of a {type(self).__name__}")

    def _describe_answer(self, answer: str) -> Description:
        """Return the current map of one of several answers."""
        raise ValueError(
            f"`answer` is for a VennAbersCalibrator, which has several: a {type(self).__name__} has"
            f" one, got {answer!r}"
        )

    def _given_x(self, x: Any) -> dict[str, Any]:
        """Return the values of the fields as an argument, if there are fields."""
        return {"x": x} if self.fields else {}

    def _keywords(self, context: Context | Contexts) -> dict[str, Any]:
        """Return what `learn_one` uses of a context, or `learn_many` of contexts, as arguments."""
        given = self._given_x(context.x)
        if self.makes_tickets and context.ticket is not None:
            given["ticket"] = context.ticket
        if self.needs_time:
            given["t"] = context.t
        if self.needs_propensity:
            given["propensity"] = context.propensity
        return given

    def _learn_steps(
        self, score: float, y: float, w: float, context: Context = NO_CONTEXT
    ) -> Sequence[Step]:
        """Return what learns a sample, for `do_all`; it is compiled but in a class of your own."""
        kind = self._read_time(context.t).kind
        learn = partial(self.learn_one, score, y, w, **self._keywords(context))
        return learn, *self._kind_steps(kind)

    def _group_steps(
        self, scores: ArrayLike, y: ArrayLike, w: float, contexts: Contexts
    ) -> Sequence[Step]:
        """Return what learns rows that share an outcome, as `learn_group` does, for `do_all`."""
        vector, labels, _ = self._check_samples(scores, y, None)
        n_rows, weight = len(vector), as_weight(w)
        part = as_weight(weight / max(n_rows, 1))
        rows = contexts.rows(n_rows, fields=bool(self.fields))
        samples = zip(vector.tolist(), labels.tolist(), rows, strict=True)
        return [
            step
            for score, label, context in samples
            for step in self._learn_steps(score, label, part, context)
        ]

    @property
    def _mixing(self) -> tuple[tuple[float | timedelta, ...], float] | None:
        """Return shares and clip of the maps of all labels that a wrapper adds, if it adds any."""
        return None

    def _has_open_burst(self) -> bool:
        """Return whether the next `serve_one` changes the state.

        It closes a burst of a `HedgedCalibrator`; a `PriorShiftCalibrator` counts the score.
        """
        return False

    def _look_for_no_bursts(self) -> None:
        """Learn all labels one by one from now on, also those that arrive together."""

    def _without_burst(self) -> "Calibrator":
        """Return this calibrator, or a copy whose predictions do not change its state."""
        return self

    def _check_ticket(self, ticket: Any) -> None:
        """Raise unless this calibrator made the ticket, now or in an earlier state."""

    def _check_fields(self, x: Any) -> None:
        """Raise unless `predict_one` and `learn_one` accept these values of the fields."""

    def _read_propensity(self, propensity: Any) -> float | None:
        """Return the propensity of a sample, or raise; None if none is needed."""
        if propensity is not None:
            raise_no_propensity(type(self).__name__)
        return None

    def _read_propensities(self, propensity: Any, labels: NDArray[np.float64]) -> Any:
        """Return propensities of a batch, or raise; NaN without label, None if none is needed."""
        return self._read_propensity(propensity)

    def _read_contexts(self, contexts: Contexts, n_samples: int) -> NDArray[Any] | None:
        """Return what is used of the contexts of a batch, by sample; None if nothing is used.

        By default each is a `Context`; of a calibrator that learns a batch with its times at once
        it is what `Times.pack` returns.
        """
        if not self.fields and not self.needs_time and not self.needs_propensity:
            return None
        times = self._read_times(contexts.t, n_samples)
        if times is not None and self._learns_times():
            return times.pack()
        contexts = contexts._replace(t=times)
        samples = contexts.samples(n_samples, self.fields, times=self.needs_time)
        return np.fromiter(samples, object, n_samples)

    def _check_known(
        self, scores: NDArray[np.float64], labels: NDArray[np.float64], w: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Return scores for `_predict_learn_read`, or raise; a label may be NaN."""
        known = ~np.isnan(labels)
        if known.all():
            return self._check_samples(scores, labels, w)[0]
        checked = np.empty(len(scores))
        checked[known] = self._check_samples(scores[known], labels[known], w[known])[0]
        checked[~known] = self._check_scores(scores[~known])
        return checked

    def _predict_learn_read(
        self,
        read: NDArray[Any] | None,
        scores: NDArray[np.float64],
        labels: NDArray[np.float64],
        weights: NDArray[np.float64],
    ) -> NDArray[np.float64]:
        """Predict and learn samples that were checked; one whose label is NaN is only predicted.

        ``read`` is what `_read_contexts` returned.
        """
        if read is None or read.dtype != object:
            times = None if read is None else Times.unpack(read)
            return predict_learn_known(self, scores, labels, weights, times)
        values = np.empty(len(scores))
        rows = zip(scores.tolist(), labels.tolist(), weights.tolist(), strict=True)
        for i, (score, y, w) in enumerate(rows):
            values[i] = self.predict_one(score, **self._given_x(read[i].x))
            if y == y:
                self.learn_one(score, y, w, **self._keywords(read[i]))
        return values

    def _sampler(self) -> Callable[..., float] | None:
        """Return what `_predict_learn_read` does, for one sample that was checked; None: no such.

        It takes score, label, weight and, where needed, the time in seconds; it returns the
        prediction. There is one for compiled calibrators without fields, if they need no time or
        have learned a sample: then they know the kind of times.
        """
        return None

    def _contexts_to_predict(self, x: Any, n_samples: int) -> Iterable[Context]:
        """Return contexts of samples that are only predicted, which need no time; or raise."""
        if not self.fields:
            return repeat(NO_CONTEXT)
        return Contexts(x).samples(n_samples, self.fields)

    def _learns_times(self) -> bool:
        """Return whether `predict_learn_many` takes `Times`, and needs no fields."""
        return False

    def _batch_steps(
        self,
        scores: NDArray[np.float64],
        y: NDArray[np.float64],
        w: NDArray[np.float64],
        out: NDArray[np.float64],
        times: Times | None = None,
    ) -> tuple[Step, ...] | None:
        """Return compiled steps that predict and learn samples that were checked, if there are any.

        Predictions are written to ``out``.
        """
        kernel = self._batch_kernel()
        if kernel is None:
            return None
        return self._steps_of_kernel(kernel, scores, y, w, out, times)

    def _steps_of_kernel(
        self,
        kernel: Expert,
        scores: NDArray[np.float64],
        y: NDArray[np.float64],
        w: NDArray[np.float64],
        out: NDArray[np.float64],
        times: Times | None,
    ) -> tuple[Step, ...]:
        """Return the steps by which a compiled object predicts and learns a batch."""
        run = partial(kernel.predict_learn_many, scores, y, w)
        if times is None:
            return (write_to(out, slice(None), run),)
        run = partial(run, times.seconds)
        return *self._kind_steps(times.kind), write_to(out, slice(None), run)

    def _batch_kernel(self) -> Expert | None:
        """Return the compiled object with the same `predict_learn_many`, if there is one."""
        return None

    def _compiled(self) -> Expert | None:
        """Return the compiled object that learns and predicts as this calibrator does, if any."""
        return None

    def _learns_all(self) -> bool:
        """Return whether `predict_learn_many` learns all samples that `_check_samples` accepts."""
        return False

    def _check_score(self, score: float) -> None:
        """Raise unless `learn_one` accepts this score."""
        as_score(score)

    def _check_scores(self, scores: ArrayLike) -> NDArray[np.float64]:
        """Return scores as floats of shape ``(n_samples,)``, or raise."""
        return as_vector(scores, "scores")

    def _check_samples(
        self, scores: ArrayLike, y: ArrayLike, w: ArrayLike | None
    ) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
        """Return scores, labels and weights as equally long float64 vectors, or raise."""
        score_vector = self._check_scores(scores)
        labels = self._check_labels(y)
        if scores is not score_vector and self._learns_shares:
            check_order(scores, score_vector, labels)
        check_same_length(labels, len(score_vector), "y")
        return score_vector, labels, as_weights(w, len(score_vector))


def _is_ours(kind: type, name: str) -> bool:
    """Return whether a method is one of this library."""
    return str(getattr(kind, name).__module__).startswith("streamcal.")


def is_calibrator(value: object) -> TypeGuard[Calibrator]:
    """Return whether a value is a `Calibrator`, which maps scores of one label."""
    return isinstance(value, Calibrator)


_ALIASES = {"sigmoid": "Platt", "logistic": "Platt", "hedge": "Hedged", "binning": "Histogram"}


def show_calibrator(value: Any, where: str = "") -> str:
    """Return what stands in the place of a calibrator, where, and what to write instead.

    Examples
    --------
    >>> show_calibrator("isotonic")
    "'isotonic'; did you mean IsotonicCalibrator()?"
    >>> show_calibrator(Calibrator)
    'the class Calibrator without brackets: write Calibrator()'
    """
    if isinstance(value, list | tuple):
        return f"{shown(value)}{where}; HedgedCalibrator(calibrators) mixes several"
    if not isinstance(value, str):
        return shown(value, Calibrator, where)
    from streamcal import calibration

    names = [
        name.removesuffix("Calibrator") for name in calibration.__all__ if name != "Calibrator"
    ]
    stem = re.sub("(?i)[ _-]*(calibrator|calibration|scaling|regression)$", "", value)
    hint = did_you_mean(stem, names, _ALIASES, mark="").replace("?", "Calibrator()?")
    return f"{value!r}{where}{hint}"


def raise_no_propensity(name: str) -> NoReturn:
    """Raise because a calibrator of this name takes no propensity."""
    raise TypeError(
        f"`propensity` must be None: a {name} takes none; AuditedCalibrator(calibrator) does"
    )


def check_calibrator(
    calibrator: Any,
    name: str = "calibrator",
    *,
    fields: bool = False,
    binary: bool = True,
    propensity: bool = False,
    scores: bool = False,
) -> None:
    """Raise unless a value is a `Calibrator`.

    Parameters
    ----------
    calibrator : object
    name : str
        The name of the argument.
    fields : bool
        Whether it may need fields of a sample.
    binary : bool
        Whether it must accept the labels 0 and 1.
    propensity : bool
        Whether it may need the propensity of a label.
    scores : bool
        Whether it may learn from scores without labels, which `serve_one` tells it.
    """
    if not isinstance(calibrator, Calibrator):
        raise TypeError(f"`{name}` must be a Calibrator or None, got {show_calibrator(calibrator)}")
    if calibrator.fields and not fields:
        raise TypeError(f"`{name}` must be a map of scores alone, got {shown(calibrator)}")
    if calibrator.needs_propensity and not propensity:
        raise TypeError(f"`{name}` must need no propensity, got {shown(calibrator)}")
    if calibrator._counts_scores and not scores:
        raise TypeError(f"`{name}` must need no scores without labels, got {shown(calibrator)}")
    if binary:
        check_binary(calibrator, name)


def check_binary(calibrator: Calibrator, name: str = "calibrator", where: str = "") -> None:
    """Raise ``ValueError`` unless a calibrator accepts the labels 0 and 1."""
    try:
        calibrator._check_labels([0.0, 1.0])
    except ValueError as error:
        raise ValueError(f"`{name}` must accept the labels 0 and 1, but {where}{error}") from None


def predict_learn_known(
    calibrator: Calibrator,
    scores: NDArray[np.float64],
    labels: NDArray[np.float64],
    weights: NDArray[np.float64],
    times: Times | None = None,
) -> NDArray[np.float64]:
    """Predict and learn in order; a sample whose label is NaN is only predicted.

    Takes arrays of shape ``(n_samples,)``, and perhaps times; returns the predictions in one.

    Examples
    --------
    >>> from streamcal.calibration import IsotonicCalibrator
    >>> scores, labels = np.array([0.5, 0.5, 0.5]), np.array([1.0, np.nan, 0.0])
    >>> predict_learn_known(IsotonicCalibrator("squared"), scores, labels, np.ones(3))
    array([0.5, 1. , 1. ])
    """
    known = ~np.isnan(labels)
    if known.all():
        given: dict[str, Any] = {} if times is None else {"t": times}
        return calibrator.predict_learn_many(scores, labels, weights, **given)
    values = np.empty(len(scores))
    bounds = [0, *(np.flatnonzero(np.diff(known)) + 1).tolist(), len(scores)]
    for start, stop in pairwise(bounds):
        run = slice(start, stop)
        if known[start]:
            given = {} if times is None else {"t": times[run]}
            samples = scores[run], labels[run], weights[run]
            values[run] = calibrator.predict_learn_many(*samples, **given)
        else:
            values[run] = calibrator.predict_many(scores[run])
    return values
