"""The base class of metrics of probabilities, and the conversion of predictions."""

import math
from abc import abstractmethod
from collections.abc import Iterable
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray
from river import base
from river.metrics.base import ClassificationMetric

from streamcal._state.clone import Cloned
from streamcal._validation import (
    as_probability,
    as_vector,
    as_weight,
    check_among,
    check_beside,
    check_choice,
    check_label,
    check_no_mask,
    check_same_length,
    is_missing,
)
from streamcal.losses.deviance import HINT, Deviance, get_deviance

Multiclass = Literal["top-label", "classwise"]
MULTICLASS: tuple[Multiclass, ...] = get_args(Multiclass)


class ProbabilityErrorMetric(Cloned, ClassificationMetric):
    """A river classification metric of how wrong probabilities are; smaller is better."""

    _fmt = ",.6f"

    @property
    def bigger_is_better(self) -> bool:
        """False: these metrics measure how wrong probabilities are."""
        return False

    @property
    def requires_labels(self) -> bool:
        """False: river must pass probabilities, not labels."""
        return False

    def works_with(self, model: Any) -> bool:
        """Whether the model is a classifier."""
        # MultiClassMetric's method accepts clusterers too, which have no probabilities.
        return bool(ClassificationMetric.works_with(self, model))


class ProbabilityMetric(ProbabilityErrorMetric):
    """A metric that needs no more than labels, probabilities and weights.

    A missing prediction (``{}`` or ``None``, which many river models return before they have
    learned) is not scored, as in `river.evaluate.progressive_val_score`.
    """

    def update(self, y_true: Any, y_pred: Any, w: float = 1.0) -> None:
        """Add a prediction.

        Parameters
        ----------
        y_true
            The true label.
        y_pred
            Probabilities by label, or the probability of the positive label (float or bool).
        w
            The weight of the sample, from 1e-60 to 1e60.

        Raises
        ------
        ValueError
            If the label is None or NaN, or can't be one beside ``pos_val`` (0.7 beside True: the
            arguments are swapped), a probability not in [0, 1], or `w` not positive; nothing
            changes.
        TypeError
            If an argument is an array, or no number; nothing changes.
        """
        check_label(y_true, "y_true")  # a missing one would count as negative
        if not is_no_prediction(y_pred):
            self._add(y_true, y_pred, as_weight(w))

    def revert(self, y_true: Any, y_pred: Any, w: float = 1.0) -> None:
        """Remove a prediction that was added with the same arguments.

        Raises
        ------
        ValueError
            As `update` does, and if the prediction has not been added.
        """
        check_label(y_true, "y_true")  # a missing one would count as negative
        if not is_no_prediction(y_pred):
            self._remove(y_true, y_pred, as_weight(w))

    @abstractmethod
    def _add(self, y_true: Any, y_pred: Any, w: float) -> None: ...

    @abstractmethod
    def _remove(self, y_true: Any, y_pred: Any, w: float) -> None: ...


class MeanMetric(ProbabilityMetric):
    """A metric of probabilities or, with a deviance, of predicted means of counts or amounts."""

    _deviance: Deviance | None
    _event: Any  # the positive label; None: the predicted one

    def works_with(self, model: Any) -> bool:
        """Whether the model is a classifier; with a loss, whether it is a regressor."""
        if self._deviance is None:
            return super().works_with(model)
        return isinstance(model, base.Regressor)

    def _pair_of(self, y_true: Any, y_pred: Any) -> tuple[float, float]:
        """Return a prediction and a label as floats, or raise."""
        if self._deviance is not None:
            return self._deviance.as_pair(y_true, y_pred)
        try:
            p, happened = as_event(y_true, y_pred, self._event)
        except ValueError as error:
            raise with_hint(error, self._event, y_true, y_pred) from None
        return p, float(happened)


def is_no_prediction(y_pred: Any) -> bool:
    """Whether a prediction is None or empty."""
    return y_pred is None or (isinstance(y_pred, dict) and not y_pred)


def as_class_events(
    y_true: Any, y_pred: Any, labels: Iterable[Any]
) -> dict[Any, tuple[float, bool]]:
    """Return for each label its probability, and whether it is the true one.

    The labels are those of the prediction, the true one and ``labels``.

    Examples
    --------
    >>> as_class_events("b", {"a": 0.25, "b": 0.75}, ["c"])
    {'a': (0.25, False), 'b': (0.75, True), 'c': (0.0, False)}
    """
    if not isinstance(y_pred, dict):
        raise TypeError(f"`y_pred` must be a dict for `multiclass='classwise'`, got {y_pred!r}")
    check_among(y_true, y_pred, "y_true", "of `y_pred`")
    return {
        label: (as_probability(y_pred.get(label, 0.0), "y_pred"), bool(label == y_true))
        for label in dict.fromkeys([*y_pred, y_true, *labels])
    }


def as_event(y_true: Any, y_pred: Any, pos_val: Any) -> tuple[float, bool]:
    """Return the probability given to an event, and whether the event happened.

    The event is that the label equals ``pos_val`` or, if that is None, the label with the greatest
    probability.

    Examples
    --------
    >>> as_event("b", {"a": 0.25, "b": 0.75}, pos_val="a")
    (0.25, False)
    >>> as_event("b", {"a": 0.25, "b": 0.75}, pos_val=None)
    (0.75, True)
    """
    if isinstance(y_pred, dict):
        if pos_val is None:
            valid = {label: as_probability(p, "y_pred") for label, p in y_pred.items()}
            check_among(y_true, valid, "y_true", "of `y_pred`")
            top = max(valid, key=valid.__getitem__)
            return valid[top], bool(y_true == top)
        if pos_val not in y_pred:  # river's models leave out labels that they have not seen
            for label in y_pred:
                check_beside(label, pos_val)
        p = y_pred.get(pos_val, 0.0)
    elif pos_val is None:
        raise TypeError(f"`y_pred` must be a dict for the top label, got {y_pred!r}")
    else:
        p = y_pred
    check_beside(y_true, pos_val)
    return as_probability(p, "y_pred"), bool(y_true == pos_val)


def find_deviance(loss: Any, **given: Any) -> Deviance | None:
    """Return the deviance of a loss, None without one, or raise if one of ``given`` is, too.

    Examples
    --------
    >>> find_deviance("poisson", pos_val=True)
    Traceback (most recent call last):
        ...
    ValueError: `pos_val` must be left out where `loss` is given: labels are numbers then
    """
    if loss is None:
        return None
    for name, is_given in given.items():
        if is_given:
            raise ValueError(
                f"`{name}` must be left out where `loss` is given: labels are numbers then"
            )
    return get_deviance(loss)


def with_hint(error: ValueError, pos_val: Any, *values: Any) -> ValueError:
    """Return an error about an event; if labels or predictions may be means, with what to write.

    Examples
    --------
    >>> str(with_hint(ValueError("no."), True, 0, 0.5))
    'no.'
    >>> "loss='poisson'" in str(with_hint(ValueError("no"), True, 3, 0.5))
    True
    """
    is_number = isinstance(pos_val, bool | np.bool_) and all(
        isinstance(value, int | float | np.number) and math.isfinite(value) for value in values
    )
    if is_number and any(not 0.0 <= value <= 1.0 for value in values):
        return ValueError(f"{error}{HINT}")
    return error


def check_multiclass(multiclass: Multiclass | None, pos_val: Any) -> None:
    """Raise if it is no way to see several labels, or if there is a positive label, too.

    Examples
    --------
    >>> check_multiclass("classwise", "ham")
    Traceback (most recent call last):
        ...
    ValueError: `pos_val` must be left out where `multiclass` is given, got 'ham'
    """
    if multiclass is None:
        return
    check_choice(multiclass, "multiclass", MULTICLASS)
    if pos_val is not True:
        raise ValueError(f"`pos_val` must be left out where `multiclass` is given, got {pos_val!r}")


def as_events(
    y_true: ArrayLike,
    y_prob: ArrayLike,
    pos_val: Any,
    advice: str = "",
    *,
    without_label: str = "leave such rows out",
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return whether labels are the positive one (0.0 or 1.0), and its probabilities, or raise.

    Arrays of shape ``(n_samples,)``; at most two labels, at least one sample. ``advice`` says what
    to do if there are more labels, ``without_label`` what to do about rows that lack one.
    """
    p = as_vector(y_prob, "y_prob")
    if not len(p):
        raise ValueError("`y_prob` must hold at least one prediction, got none")
    rounded = np.array([as_probability(p.min(), "y_prob"), as_probability(p.max(), "y_prob")])
    check_no_mask(y_true, "y_true")
    labels = np.asarray(y_true)
    if labels.ndim != 1:
        raise ValueError(f"`y_true` must be one-dimensional, got shape {labels.shape}")
    distinct = set(labels.tolist()) if labels.dtype.kind == "O" else set(np.unique(labels).tolist())
    for label in distinct:
        if is_missing(label):
            raise ValueError(f"`y_true` must hold labels, got {label}: {without_label}")
    if len(distinct) > 2:
        fractions = any(isinstance(label, float) and label % 1.0 for label in distinct)
        hint = "; labels come first, then predictions" if fractions else advice
        raise ValueError(f"`y_true` must hold at most two labels, got {len(distinct)}{hint}")
    for label in distinct:
        check_beside(label, pos_val)
    if len(distinct) == 2 and pos_val not in distinct:
        listed = sorted(distinct, key=str)
        raise ValueError(f"`pos_val` must be one of the labels {listed}, got {pos_val!r}")
    happened = np.asarray(labels == pos_val, dtype=np.float64)
    check_same_length(happened, len(p), "y_true")
    # A copy, checked again: another thread may write to the array.
    return happened, as_vector(np.clip(p, *rounded), "y_prob")
