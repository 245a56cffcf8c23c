"""Labels and predicted probabilities of models, and which of them a diagram is about."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamcal._advice import shown
from streamcal._validation import as_probability, as_vector, check_beside, check_no_mask, is_missing
from streamcal.losses.deviance import HINT
from streamcal.metrics.base import Multiclass, as_events
from streamcal.wrappers.classifier import CalibratedClassifier
from streamcal.wrappers.routing import last_step, name_of

Events = tuple[NDArray[np.float64], NDArray[np.float64]]
"""Whether an event happened (0.0 or 1.0), and its probability; arrays of shape (n_samples,)."""


@dataclass(frozen=True, eq=False)
class Predictions:
    """True labels, and the probability of one label or of each.

    Attributes
    ----------
    labels : sequence
        The true labels; of any form if ``single`` is given, and checked when they are used.
    columns : dict
        The probabilities of each label, arrays of shape ``(n_samples,)``.
    single : array-like of shape (n_samples,) or None
        The probabilities of the positive label where only these are known.
    """

    labels: Any
    columns: dict[Any, NDArray[np.float64]]
    single: Any = None

    def counts(self) -> Counter[Any]:
        """Return how often each label is true; 0 for a label that is only predicted."""
        found = Counter(dict.fromkeys(self.columns, 0))
        found.update(self.labels if self.single is None else ())
        return found

    def of_label(self, label: Any) -> Events:
        """Return the event that a label is the true one."""
        if self.single is not None:
            advice = ": for more, `y_prob` is a list of dicts, or a DataFrame"
            return as_events(self.labels, self.single, label, advice)
        known = list(dict.fromkeys([*self.labels, *self.columns]))
        if len(known) > 1 and label not in known:
            raise ValueError(f"`pos_val` must be one of the labels {known}, got {label!r}")
        if len(known) == 1:
            check_beside(known[0], label)
        p = self.columns.get(label, np.zeros(len(self.labels)))
        return as_events([bool(each == label) for each in self.labels], p, True)

    def of_top_label(self) -> Events:
        """Return the event that the label with the greatest probability is the true one."""
        self.check_names_labels()
        names, matrix = list(self.columns), np.column_stack(list(self.columns.values()))
        top = matrix.argmax(axis=1)
        right = [bool(names[i] == label) for i, label in zip(top, self.labels, strict=True)]
        return as_events(right, matrix[np.arange(len(top)), top], True)

    def check_names_labels(self) -> None:
        """Raise ``ValueError`` if the probability of just one label is known."""
        if self.single is not None:
            raise ValueError(
                "`y_prob` must hold a probability for each label where `multiclass` is given or"
                " `pos_val` is None: a list of dicts, or a DataFrame with a column for each label"
            )
        if not self.columns:
            raise ValueError("`y_prob` must hold at least one prediction, got none")


def as_predictions(y_true: Any, y_prob: Any) -> Predictions:
    """Return labels and probabilities, or raise if these name labels and do not fit.

    ``y_prob`` holds the probabilities of the positive label; or of each label, as a sequence of
    dicts, a data frame with a column for each label, or a mapping from labels to columns.

    Examples
    --------
    >>> found = as_predictions(["a", "b"], [{"a": 0.75, "b": 0.25}, {"a": 0.5, "b": 0.5}])
    >>> found.of_top_label()
    (array([1., 0.]), array([0.75, 0.5 ]))
    """
    if isinstance(y_prob, Mapping) or hasattr(y_prob, "columns"):
        names = list(y_prob) if isinstance(y_prob, Mapping) else _names_of(y_prob)
        columns = {name: as_vector(y_prob[name], "y_prob") for name in names}
        labels = _as_labels(y_true)
    elif isinstance(y_prob, Sequence) and _names_labels(y_prob):
        labels = _as_labels(y_true)
        _check_length(labels, len(y_prob))
        collected = _Columns()
        for i, p in enumerate(y_prob):
            if not (p is None or isinstance(p, Mapping)):
                raise TypeError(f"`y_prob` must hold only dicts, got {p!r} at position {i}")
            collected.add(p or {})
        answered = [bool(p) for p in y_prob]
        columns = {name: column[answered] for name, column in collected.arrays().items()}
        labels = [label for label, known in zip(labels, answered, strict=True) if known]
    elif np.ndim(next(iter(y_prob), 0.0) if isinstance(y_prob, list | np.ndarray) else 0.0):
        raise ValueError(
            "`y_prob` must name the labels of its columns, as a DataFrame or a mapping from labels"
            f" to columns does, got an array of shape {np.shape(y_prob)}"
        )
    else:
        return Predictions(y_true, {}, y_prob)
    _check_columns(labels, columns)
    return Predictions(labels, columns)


def pairs_of(models: Any) -> dict[str | None, tuple[Any, Any]]:
    """Return labels and probabilities by the name of the model, or raise."""
    if not hasattr(models, "items"):
        raise TypeError(
            f"`models` must be a mapping, such as {{'raw': (y_true, y_prob)}}, got {shown(models)}"
        )
    if not models:
        raise ValueError("`models` must hold at least one model, got none")
    pairs: dict[str | None, tuple[Any, Any]] = {}
    for name, pair in models.items():
        try:
            if hasattr(pair, "learn_one") or hasattr(pair, "fit"):
                raise TypeError
            y_true, y_prob = pair
        except (TypeError, ValueError):
            raise ValueError(
                f"`models[{name!r}]` must be a pair (y_true, y_prob), got {shown(pair)};"
                " `from_estimator` draws a model"
            ) from None
        pairs[str(name)] = y_true, y_prob
    return pairs


def predictions_of(estimator: Any, X: Any, y: Any, name: str | None) -> dict[str, Predictions]:
    """Return predictions by the name of the model; see `ReliabilityDisplay.from_estimator`."""
    if hasattr(estimator, "predict_proba_one"):
        if y is not None:
            raise TypeError(
                "`y` must be None for a model of river: `X` is a dataset of pairs, as zip(X, y) is"
            )
        return _prequential(estimator, X, name)
    if hasattr(estimator, "predict_proba"):
        if y is None:
            raise TypeError("`y` must be the labels of `X` for a model of scikit-learn, got None")
        matrix = np.asarray(estimator.predict_proba(X))
        columns = dict(zip(np.asarray(estimator.classes_).tolist(), matrix.T, strict=True))
        return {name or name_of(estimator): as_predictions(y, columns)}
    raise TypeError(
        "`estimator` must have `predict_proba_one` or `predict_proba`, got"
        f" {name_of(last_step(estimator))}"
    )


def means_of(
    estimator: Any, X: Any, y: Any, name: str | None
) -> tuple[str, list[float], list[float]]:
    """Return the name of a regressor, labels, and predictions of their mean.

    See `ReliabilityDisplay.from_estimator`.
    """
    named = name or name_of(last_step(estimator))
    if hasattr(estimator, "predict_proba_one") or hasattr(estimator, "predict_proba"):
        raise TypeError(f"`estimator` must be a regressor where `loss` is given, got {named}")
    if hasattr(estimator, "predict_one"):
        if y is not None:
            raise TypeError(
                "`y` must be None for a model of river: `X` is a dataset of pairs, as zip(X, y) is"
            )
        labels, means = [], []
        for features, label in X:
            mean = estimator.predict_one(features)
            if mean is not None:
                labels.append(label)
                means.append(mean)
            estimator.learn_one(features, label)
        return named, labels, means
    if not hasattr(estimator, "predict"):
        raise TypeError(f"`estimator` must have `predict_one` or `predict`, got {named}")
    if y is None:
        raise TypeError("`y` must be the labels of `X` for a model of scikit-learn, got None")
    return named, list(y), np.asarray(estimator.predict(X)).tolist()


@contextmanager
def hints(pos_val: Any, *values: Any) -> Iterator[None]:
    """Say what to write for counts in an error, if numbers may be these."""
    try:
        yield
    except ValueError as error:
        if isinstance(pos_val, bool | np.bool_) and any(map(_may_be_means, values)):
            raise ValueError(f"{error}{HINT}") from None
        raise


def _may_be_means(values: Any) -> bool:
    """Return whether values are finite numbers, not all in [0, 1]."""
    if isinstance(values, Mapping) or hasattr(values, "columns"):
        return False
    array = np.asarray(values)
    if array.dtype.kind not in "fiu" or array.ndim != 1 or not np.isfinite(array).all():
        return False
    return bool(((array < 0.0) | (array > 1.0)).any())


def view_of(
    models: Iterable[Predictions], pos_val: Any, multiclass: Multiclass | None
) -> Multiclass | None:
    """Return which event a diagram is about; None: that the label is ``pos_val``.

    With more than two labels, True is no label: it is the default of ``pos_val``.
    """
    if multiclass is not None or pos_val is None:
        return multiclass or "top-label"
    many = any(len(model.counts()) > 2 for model in models)
    return "top-label" if many and isinstance(pos_val, bool | np.bool_) else None


class _Columns:
    """Probabilities by label, collected from dicts that may lack labels."""

    def __init__(self) -> None:
        self.n_samples = 0
        self._columns: dict[Any, array[float]] = {}

    def add(self, p: Mapping[Any, float]) -> None:
        for label in p:
            if label not in self._columns:
                self._columns[label] = array("d", bytes(8 * self.n_samples))
        for label, column in self._columns.items():
            column.append(p.get(label, 0.0))
        self.n_samples += 1

    def arrays(self) -> dict[Any, NDArray[np.float64]]:
        return {label: np.array(column) for label, column in self._columns.items()}


def _prequential(model: Any, dataset: Any, name: str | None) -> dict[str, Predictions]:
    """Predict each sample, then learn it; samples before the first label are left out."""
    labels: list[Any] = []
    before, after = _Columns(), _Columns()
    # To river, a pipeline is an instance of the class of its last step.
    wrapped = isinstance(model, CalibratedClassifier) and last_step(model) is model
    for x, y in dataset:
        served = model.serve_one(x) if wrapped else None
        raw: Mapping[Any, float] = served.raw if served else model.predict_proba_one(x)
        if raw:
            labels.append(y)
            before.add(raw)
            if served:
                after.add(served.calibrated)
        if served and raw:
            model.learn_one(x, y, served=served)
        else:
            model.learn_one(x, y)
    inside = model.classifier if wrapped else model
    found = {name or name_of(last_step(inside)): Predictions(labels, before.arrays())}
    if wrapped:
        found["calibrated"] = Predictions(labels, after.arrays())
    return found


def _names_labels(y_prob: Sequence[Any]) -> bool:
    """Return whether probabilities are dicts; some may be None, as before any label."""
    return isinstance(next((p for p in y_prob if p is not None), None), Mapping)


def _names_of(frame: Any) -> list[Any]:
    """Return the names of the columns of a data frame; a table of PyArrow has its own word."""
    return list(getattr(frame, "column_names", frame.columns))


def _as_labels(y_true: Any) -> list[Any]:
    check_no_mask(y_true, "y_true")
    labels: list[Any] = y_true.tolist() if hasattr(y_true, "tolist") else list(y_true)
    for label in labels:
        if is_missing(label):
            raise ValueError(f"`y_true` must hold labels, got {label}: leave such rows out")
    return labels


def _check_length(labels: Sequence[Any], n_samples: int) -> None:
    if len(labels) != n_samples:
        raise ValueError(
            f"`y_true` must have one label per prediction, got {len(labels)} for {n_samples}"
        )


def _check_columns(labels: Sequence[Any], columns: Mapping[Any, NDArray[np.float64]]) -> None:
    """Raise if columns differ in length, hold no probabilities, or name no label that is true."""
    for column in columns.values():
        _check_length(labels, len(column))
    if not labels or not columns:
        raise ValueError("`y_prob` must hold at least one prediction, got none")
    for p in chain.from_iterable((column.min(), column.max()) for column in columns.values()):
        as_probability(p, "y_prob")
    kinds = {isinstance(label, str) for label in labels}
    if kinds.isdisjoint({isinstance(label, str) for label in columns}):
        raise ValueError(
            f"`y_true` must hold labels that `y_prob` names, {list(columns)}, got {labels[0]!r}"
        )
