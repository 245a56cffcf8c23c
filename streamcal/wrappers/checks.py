"""Checks of the arguments of wrappers: models, calibrators, probabilities and weights."""

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
from narwhals.stable.v2.typing import IntoDataFrame
from numpy.typing import ArrayLike, NDArray
from river import base
from river.active.base import ActiveLearningClassifier
from river.base.typing import ClfTarget
from river.utils.dataframe import into_frame, into_series, to_native_series

from streamcal._advice import about_features, shown
from streamcal._validation import (
    LEAST_PROBABILITY,
    MOST_PROBABILITY,
    as_number,
    as_vector,
    as_weight,
    as_weights,
    check_probability_range,
)
from streamcal.calibration.base import check_calibrator, is_calibrator
from streamcal.wrappers.routing import last_step, name_of

_ROUNDING = 1e-6  # by which a sum of probabilities may exceed 1


def check_classifier(classifier: Any) -> None:
    """Raise unless ``classifier`` is a river classifier with probabilities."""
    final = last_step(classifier)
    if not isinstance(final, base.Classifier):
        hint = ""
        if hasattr(final, "fit") and hasattr(final, "predict_proba"):
            hint = (
                "; for models of scikit-learn use OnlineCalibratedClassifier:"
                " `from streamcal.sklearn import OnlineCalibratedClassifier`"
            )
        elif isinstance(final, base.Regressor):
            hint = "; CalibratedRegressor calibrates a regressor"
        elif isinstance(final, base.Transformer):
            hint = f"; put a classifier after it: {type(final).__name__}() | classifier"
        elif is_calibrator(final):
            hint = "; the model comes first: CalibratedClassifier(classifier, calibrator)"
        got = shown(final, base.Classifier) if isinstance(final, type) else name_of(final)
        raise TypeError(f"`classifier` must be a river classifier, got {got}{hint}")
    if isinstance(final, ActiveLearningClassifier):
        raise TypeError(
            "`classifier` must predict probabilities only; calibrate the model inside"
            f" {name_of(final)} instead"
        )
    if type(final).predict_proba_one is base.Classifier.predict_proba_one:
        raise ValueError(
            "`classifier` must have probabilities, but there is no `predict_proba_one` in"
            f" {name_of(final)}"
        )


def check_calibrator_of_labels(calibrator: Any) -> None:
    """Raise unless a value calibrates labels: jointly, or each with the labels 0 and 1."""
    if not getattr(calibrator, "is_joint", False):
        check_calibrator(calibrator, fields=True, propensity=True, scores=True)


def as_probabilities_of_labels(served: Any) -> dict[ClfTarget, float]:
    """Return the probabilities of one sample as floats by label, or raise."""
    if not isinstance(served, Mapping):
        raise TypeError(f"`served` must map labels to probabilities, got {served!r}")
    checked = {label: as_number(p, f"served[{label!r}]") for label, p in served.items()}
    check_probabilities(checked)
    return checked


def check_served(
    served: Mapping[ClfTarget, float | NDArray[np.float64]], known: Collection[ClfTarget]
) -> None:
    """Raise unless a mapping can be a model's probabilities of its labels.

    Features of a sample, for example, are no such mapping. ``known`` are labels of which it must
    have one; if there are none, it may have any.

    Examples
    --------
    >>> check_served({"no": 0.25, "yes": 0.75}, {"yes"})
    >>> check_served({"amount": 0.25}, {"yes"})
    Traceback (most recent call last):
        ...
    ValueError: `served` must have probabilities by label, got those of 'amount', and not of 'yes'
    """
    if served and known and not any(label in known for label in served):
        got, labels = (", ".join(map(repr, list(some)[:5])) for some in (served, known))
        raise ValueError(
            f"`served` must have probabilities by label, got those of {got}, and not of {labels}"
        )
    total = np.max(sum(served.values()), initial=0.0)
    if total > 1.0 + _ROUNDING:
        raise ValueError(
            f"`served` must have probabilities that sum to 1, got a sum of {total:.6g}"
        )


def check_regressor(regressor: Any) -> None:
    """Raise ``TypeError`` unless ``regressor`` is a river regressor."""
    final = last_step(regressor)
    if not isinstance(final, base.Regressor):
        hint = ""
        if isinstance(final, base.Classifier):
            hint = "; CalibratedClassifier calibrates a classifier"
        got = shown(final, base.Regressor) if isinstance(final, type) else name_of(final)
        raise TypeError(f"`regressor` must be a river regressor, got {got}{hint}")


def check_drift_detector(detector: Any) -> None:
    """Raise ``TypeError`` unless a value is a drift detector of river."""
    kinds = base.DriftDetector, base.BinaryDriftDetector
    if not isinstance(detector, kinds):
        got = shown(detector, kinds) if isinstance(detector, type) else name_of(detector)
        raise TypeError(f"`drift_detector` must be a river drift detector, got {got}")


def check_label_of_model(y: Any, raw: Mapping[ClfTarget, Any], classifier: Any) -> None:
    """Raise ``ValueError`` if a label is text, and the model is one of False and True alone.

    Such models of river fail when their scaler has learned the sample already.

    Examples
    --------
    >>> from river import linear_model
    >>> check_label_of_model("yes", {False: 0.5, True: 0.5}, linear_model.LogisticRegression())
    Traceback (most recent call last):
        ...
    ValueError: `y` must be False or True for this model, got 'yes'; write True for the positive \
label, as by `y == 'yes'`
    """
    if isinstance(y, str) and raw and {*map(type, raw)} == {bool}:
        if not getattr(last_step(classifier), "_multiclass", True):
            raise ValueError(
                f"`y` must be False or True for this model, got {y!r}; write True for the positive"
                f" label, as by `y == {y!r}`"
            )


def check_probabilities(raw: Mapping[ClfTarget, float], x: Any = None) -> None:
    """Raise unless a model's probabilities lie in [0, 1], and no label is NaN.

    ``x`` are the features that it has predicted, if they are known.
    """
    for label, p in raw.items():
        if not (LEAST_PROBABILITY <= p <= MOST_PROBABILITY and label == label):
            if p != p and x is not None:
                raise ValueError(f"probabilities must lie in [0, 1], got {raw}{about_features(x)}")
            check_probability_range(raw)
            raise ValueError(f"labels of probabilities must not be NaN, got {raw}")


def frame_of(X: Any) -> Any:
    """Return features as a frame of narwhals, or raise.

    Examples
    --------
    >>> frame_of([[1.0]])
    Traceback (most recent call last):
        ...
    TypeError: `X` must be a data frame, such as pd.DataFrame(X), got [[1.0]]
    """
    try:
        return into_frame(X)
    except TypeError:
        raise TypeError(
            f"`X` must be a data frame, such as pd.DataFrame(X), got {shown(X)}"
        ) from None


def series_of(y: Any) -> Any:
    """Return labels as a series of narwhals, or raise.

    Examples
    --------
    >>> series_of([1, 0])
    Traceback (most recent call last):
        ...
    TypeError: `y` must be a series, such as pd.Series(y), got [1, 0]
    """
    try:
        return into_series(y)
    except TypeError:
        raise TypeError(f"`y` must be a series, such as pd.Series(y), got {shown(y)}") from None


def check_n_rows(X: IntoDataFrame, n_samples: int) -> None:
    """Raise unless a frame has one row for each label."""
    n_rows = len(frame_of(X))
    if n_rows != n_samples:
        raise ValueError(f"`y` must have one label per row of `X` ({n_rows}), got {n_samples}")


def as_probability_columns(
    columns: Mapping[ClfTarget, ArrayLike], n_samples: int, name: str, X: Any = None
) -> dict[ClfTarget, NDArray[np.float64]]:
    """Return the probabilities of a batch as vectors of ``n_samples`` by label, or raise.

    ``X`` are the features, if a model has predicted them.
    """
    checked = {}
    for label, column in columns.items():
        if label != label:
            raise ValueError(f"labels of probabilities must not be NaN, got {list(columns)}")
        vector = as_vector(column, name, finite=X is None)
        if X is not None and np.isnan(vector).any():
            at = int(np.argmax(np.isnan(vector)))
            frame = into_frame(X)
            hint = about_features(dict(zip(frame.columns, frame.row(at), strict=True)))
            raise ValueError(f"`{name}` must be finite, got nan at position {at}{hint}")
        if len(vector) != n_samples:
            raise ValueError(
                f"probabilities must have one row per label ({n_samples}), got {len(vector)}"
            )
        good = (vector >= LEAST_PROBABILITY) & (vector <= MOST_PROBABILITY)
        if not good.all():
            at = int(np.argmin(good))
            raise ValueError(f"probabilities must lie in [0, 1], got {vector[at]} at position {at}")
        checked[label] = vector
    return checked


def as_batch_weights(w: Any, n_samples: int) -> NDArray[np.float64]:
    """Return the weights of a batch, given as one number or as one for each sample."""
    if _is_number(w):
        return np.full(n_samples, as_weight(w))
    return as_weights(w, n_samples)


def add_batch_weights(
    kwargs: dict[str, Any], w: Any, weights: NDArray[np.float64], X: IntoDataFrame
) -> dict[str, Any]:
    """Return keyword arguments for the model's ``learn_many``, with weights unless all are 1."""
    if _is_number(w):
        return kwargs if w == 1.0 else {**kwargs, "w": w}
    return {**kwargs, "w": to_native_series(weights, name="w", like=into_frame(X))}


def _is_number(w: Any) -> bool:
    return isinstance(w, int | float | np.number)
