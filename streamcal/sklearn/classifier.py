"""A scikit-learn classifier whose probabilities are calibrated and stay calibrated."""

from typing import Any, Self

import numpy as np
from narwhals.stable.v2.typing import IntoDataFrame
from numpy.typing import ArrayLike, NDArray
from river.utils.dataframe import into_frame, to_native_frame
from scipy.special import expit, softmax
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import cross_val_predict
from sklearn.utils import get_tags
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import (
    _check_sample_weight,
    check_consistent_length,
    check_is_fitted,
    column_or_1d,
)

from streamcal._advice import shown
from streamcal._validation import LEAST_PROBABILITY, MOST_PROBABILITY
from streamcal.calibration.base import Calibrator
from streamcal.calibration.context import Contexts
from streamcal.calibration.hedged import HedgedCalibrator
from streamcal.calibration.joint import JointCalibrator
from streamcal.wrappers.checks import check_calibrator_of_labels
from streamcal.wrappers.strategies import Columns, OwningStrategy, make_strategy


# scikit-learn has no types.
class OnlineCalibratedClassifier(ClassifierMixin, MetaEstimatorMixin, BaseEstimator):  # type: ignore[misc]
    """Calibrate the probabilities of a scikit-learn classifier, in batches or on a stream.

    `fit` calibrates with predictions of cross-validation, as `CalibratedClassifierCV` does.
    `partial_fit` predicts each batch before anything learns it; then the calibrator learns these
    predictions, and the classifier learns the batch. A classifier without ``partial_fit`` is fitted
    to the first batch only, and one in a ``FrozenEstimator`` is never fitted. Their calibration
    follows the stream all the same.

    Some classifiers answer NaN for each class until they have learned all classes, as `GaussianNB`.
    The answer is then the frequency of each class so far, by the rule of Krichevsky and Trofimov:
    (n + ½)/(N + K/2) for n of N labels and K classes. Calibrators do not learn such rows.

    Parameters
    ----------
    estimator : scikit-learn classifier
        It must have ``predict_proba`` or ``decision_function``; a decision becomes a probability by
        the logistic function, or by softmax for more than two classes. A fitted classifier is used
        without a fit as ``FrozenEstimator(classifier)``.
    calibrator : Calibrator, JointCalibrator or None
        As in `streamcal.CalibratedClassifier`; None means ``HedgedCalibrator()``.
    cv : int, cross-validation generator or iterable
        The splits of `fit`, as in ``sklearn.model_selection.cross_val_predict``. A classifier that
        is not fitted needs none.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The classes, sorted.
    estimator_ : classifier
        The fitted classifier.
    n_features_in_ : int
        The number of features, if ``estimator_`` has it.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Their names, if ``estimator_`` was fitted to a data frame.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.naive_bayes import GaussianNB
    >>> rng = np.random.default_rng(0)
    >>> X = np.repeat(rng.normal(size=(2000, 1)), 5, axis=1)  # one feature, five times
    >>> y = rng.random(2000) < 1 / (1 + np.exp(-X[:, 0]))
    >>> model = OnlineCalibratedClassifier(GaussianNB())
    >>> for i in range(0, 2000, 100):
    ...     model = model.partial_fit(X[i : i + 100], y[i : i + 100], classes=[False, True])
    >>> model.estimator_.predict_proba([[1.5] * 5]).round(2).tolist()  # the truth is 0.82
    [[0.0, 1.0]]
    >>> model.predict_proba([[1.5] * 5]).round(2).tolist()
    [[0.13, 0.87]]
    """

    def __init__(
        self, estimator: Any, calibrator: Calibrator | JointCalibrator | None = None, *, cv: Any = 5
    ) -> None:
        self.estimator = estimator
        self.calibrator = calibrator
        self.cv = cv

    def fit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Fit the classifier, and calibrate it with predictions of cross-validation.

        A classifier in a ``FrozenEstimator`` is calibrated with its own predictions of ``X``.

        Parameters
        ----------
        X : array-like or data frame of shape (n_samples, n_features)
            The features, in a form that the classifier accepts.
        y : array-like of shape (n_samples,)
            The classes.
        sample_weight : array-like of shape (n_samples,), optional
            Weights, for the classifier and the calibrator; samples of weight 0 are not learned.
        """
        y = self._check_labels(y)
        weights = _as_weights(sample_weight, X)
        fit_params = {} if sample_weight is None else {"sample_weight": weights}
        strategy = self._make_strategy()
        if isinstance(self.estimator, FrozenEstimator):
            model = self.estimator
            check_is_fitted(model)
            classes = model.classes_
            raw = _probabilities(model, X)
        else:
            model = clone(self.estimator).fit(X, y, **fit_params)
            classes = np.unique(y)
            method = "predict_proba" if hasattr(model, "predict_proba") else "decision_function"
            answers = cross_val_predict(
                clone(self.estimator), X, y, cv=self.cv, method=method, params=fit_params
            )
            raw = answers if method == "predict_proba" else _from_decisions(answers)
        indices = _indices_of(y, classes)
        _check_probabilities(raw)
        self._learn(strategy, raw, indices, weights)
        self.estimator_, self.classes_, self._strategy = model, classes, strategy
        self._counts = np.bincount(indices, minlength=len(classes))
        return self

    def partial_fit(
        self,
        X: Any,
        y: ArrayLike,
        classes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Predict a batch; the calibrator then learns the predictions, the classifier the batch.

        In the first call only the classifier learns, as it cannot predict before. If it has no
        ``partial_fit``, or is in a ``FrozenEstimator``, the first call is `fit`.

        Parameters
        ----------
        X, y, sample_weight
            As in `fit`.
        classes : array-like of shape (n_classes,), optional
            All classes; needed at the first call if the classifier has ``partial_fit``.
        """
        y = self._check_labels(y)
        check_consistent_length(X, y)
        weights = _as_weights(sample_weight, X)
        fit_params = {} if sample_weight is None else {"sample_weight": weights}
        classifier_learns = hasattr(self.estimator, "partial_fit") and not isinstance(
            self.estimator, FrozenEstimator
        )
        if hasattr(self, "estimator_"):
            if classes is not None and not np.array_equal(self.classes_, np.unique(classes)):
                raise ValueError(f"`classes` must be {self.classes_} as before, got {classes}")
            raw, indices = _probabilities(self.estimator_, X), _indices_of(y, self.classes_)
            _check_probabilities(raw)
            if classifier_learns:
                self.estimator_.partial_fit(X, y, **fit_params)
            self._learn(self._strategy, raw, indices, weights)
            self._counts = self._counts + np.bincount(indices, minlength=len(self.classes_))
            return self
        if not classifier_learns:
            return self.fit(X, y, sample_weight)
        if classes is None:
            raise ValueError(
                "`classes` must hold all classes at the first call of partial_fit, such as"
                " classes=np.unique(y)"
            )
        known = np.unique(classes)
        indices = _indices_of(y, known)
        strategy = self._make_strategy()
        model = clone(self.estimator).partial_fit(X, y, classes=known, **fit_params)
        self.estimator_, self.classes_, self._strategy = model, known, strategy
        self._counts = np.bincount(indices, minlength=len(known))
        return self

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Return the calibrated probability of each class; shape (n_samples, n_classes)."""
        check_is_fitted(self, "estimator_")
        raw = _probabilities(self.estimator_, X)
        silent = _check_probabilities(raw)
        if raw.shape[1] < 2 or not len(raw):
            return raw
        frequencies = (self._counts + 0.5) / (self._counts + 0.5).sum()
        raw[silent] = frequencies
        columns: Columns = dict(enumerate(raw.T))
        values = self._strategy.for_labels(columns).predict_many(columns, {}).T
        values[silent] = frequencies
        return values

    def predict_proba_frame(self, X: IntoDataFrame) -> IntoDataFrame:
        """Return `predict_proba` in a data frame of the same library as ``X``, with its index.

        The columns are the classes; as text in libraries that need it, such as polars.
        `predict_proba` returns an array for any ``X``, since scikit-learn's scorers need one.

        Examples
        --------
        >>> import pandas as pd
        >>> from sklearn.naive_bayes import GaussianNB
        >>> X = pd.DataFrame({"x": range(100)})
        >>> model = OnlineCalibratedClassifier(GaussianNB()).fit(X, X["x"] > 50)
        >>> model.predict_proba_frame(X[40:80:15]).round(2)
            False  True
        40   0.88  0.12
        55   0.23  0.77
        70   0.01  0.99
        """
        frame = into_frame(X)
        probabilities = self.predict_proba(X).T
        columns = dict(zip(self.classes_.tolist(), probabilities, strict=True))
        return to_native_frame(columns, like=frame)

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the class with the highest calibrated probability; shape (n_samples,)."""
        best = self.predict_proba(X).argmax(axis=1)
        found: NDArray[Any] = self.classes_[best]
        return found

    @property
    def n_features_in_(self) -> int:
        """The number of features of the classifier."""
        check_is_fitted(self, "estimator_")
        found: int = self.estimator_.n_features_in_
        return found

    @property
    def feature_names_in_(self) -> NDArray[Any]:
        """The names of the features, if the classifier was fitted to a data frame."""
        check_is_fitted(self, "estimator_")
        names: NDArray[Any] = self.estimator_.feature_names_in_
        return names

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = get_tags(self.estimator).input_tags.sparse
        tags.input_tags.allow_nan = get_tags(self.estimator).input_tags.allow_nan
        return tags

    def _make_strategy(self) -> OwningStrategy:
        """Return what calibrates the probabilities of all classes; it has learned nothing."""
        estimator = self.estimator
        can_learn = hasattr(estimator, "fit") or hasattr(estimator, "partial_fit")
        if isinstance(estimator, type) or not can_learn:
            hint = ""
            if hasattr(estimator, "learn_one") and not isinstance(estimator, type):
                hint = "; CalibratedClassifier calibrates models of river"
            raise TypeError(
                f"`estimator` must be a classifier of scikit-learn, got {shown(estimator, object)}"
                f"{hint}"
            )
        calibrator = HedgedCalibrator() if self.calibrator is None else self.calibrator
        check_calibrator_of_labels(calibrator)
        if getattr(calibrator, "fields", ()):
            raise TypeError(f"`calibrator` must be a map of scores alone, got {shown(calibrator)}")
        if calibrator.needs_time:
            raise TypeError(
                "`calibrator` must forget by samples, since those of scikit-learn have no time, got"
                f" {shown(calibrator)}; CalibratedClassifier and a calibrator alone learn with `t`"
            )
        if calibrator.needs_propensity:
            raise TypeError(f"`calibrator` must need no propensity, got {shown(calibrator)}")
        return make_strategy(calibrator, {})

    @staticmethod
    def _check_labels(y: ArrayLike) -> NDArray[Any]:
        checked: NDArray[Any] = column_or_1d(y, warn=True)
        if not len(checked):
            raise ValueError("`y` must hold at least one label, got none")
        check_classification_targets(checked)
        return checked

    @staticmethod
    def _learn(
        strategy: OwningStrategy,
        raw: NDArray[np.float64],
        indices: NDArray[np.int64],
        weights: NDArray[np.float64],
    ) -> None:
        """Teach the strategy the samples whose weight is not 0; one class needs no calibration."""
        kept = (weights > 0.0) & ~np.isnan(raw).all(axis=1)
        columns: Columns = dict(enumerate(raw[kept].T))
        if len(columns) > 1 and kept.any():
            labels = indices[kept].tolist()
            strategy.for_labels(columns).learn_many(columns, labels, weights[kept], Contexts({}))


def _as_weights(sample_weight: ArrayLike | None, X: Any) -> NDArray[np.float64]:
    checked: NDArray[np.float64] = _check_sample_weight(
        sample_weight, X, dtype=np.float64, ensure_non_negative=True
    )
    return checked


def _indices_of(y: NDArray[Any], classes: NDArray[Any]) -> NDArray[np.int64]:
    """Return the position of each label in the sorted classes, or raise."""
    indices: NDArray[np.int64] = np.searchsorted(classes, y).clip(0, len(classes) - 1)
    wrong = np.flatnonzero(classes[indices] != y)
    if len(wrong):
        raise ValueError(f"`y` must hold classes of {classes}, got {y[wrong[0]]!r}")
    return indices


def _check_probabilities(raw: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Raise unless all lie in [0, 1]; return for which rows there are none: all are NaN."""
    silent: NDArray[np.bool_] = np.asarray(np.isnan(raw).all(axis=1))
    good = (raw >= LEAST_PROBABILITY) & (raw <= MOST_PROBABILITY) | silent[:, None]
    if not good.all():
        row, column = np.argwhere(~good)[0]
        raise ValueError(
            "`estimator` must have probabilities in [0, 1], or NaN for all classes, got"
            f" {raw[row, column]} in row {row}"
        )
    return silent


def _probabilities(model: Any, X: Any) -> NDArray[np.float64]:
    """Return the classifier's own probabilities; shape (n_samples, n_classes)."""
    if hasattr(model, "predict_proba"):
        return np.array(model.predict_proba(X), dtype=np.float64)  # a copy: they may be cached
    return _from_decisions(model.decision_function(X))


def _from_decisions(decisions: ArrayLike) -> NDArray[np.float64]:
    """Return the probabilities that decisions stand for; one column of them is that of class 1."""
    values = np.asarray(decisions, dtype=np.float64)
    if values.ndim == 1:
        return np.column_stack([expit(-values), expit(values)])
    return np.asarray(softmax(values, axis=1))
