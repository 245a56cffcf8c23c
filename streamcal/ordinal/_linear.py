"""The base class of linear learners of ranks: samples from dicts and data frames."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from river import base
from river.base.typing import ClfTarget, FeatureName

from streamcal import losses
from streamcal._state import Arrays, Fields, as_name, as_names, pack
from streamcal._validation import as_weight, as_weights, check_within
from streamcal.ordinal._ranks import Averaging, RankLearner, check_features, check_frame
from streamcal.wrappers.routing import Features

# To import what data frames need takes a third of the time until the first sample: methods do it.
if TYPE_CHECKING:
    from narwhals.stable.v2.typing import IntoDataFrame, IntoSeries

_BAD_INPUT = (TypeError, ValueError, OverflowError)  # from the kernel: then check the sample


class LinearRanker(RankLearner, base.MiniBatchClassifier):
    """A learner of ranks with weights for each feature, from dicts and data frames."""

    def __init__(
        self,
        labels: Sequence[ClfTarget] | None,
        loss: "losses.TaskLossName | losses.TaskLoss",
        margin: float,
        averaging: Averaging | None,
        l2: float,
        window: int,
        **rule: Any,
    ) -> None:
        check_within(l2, "l2", "[0, 1)")
        super().__init__(labels, loss, margin, averaging, window, keep=1.0 - l2, **rule)
        self.l2 = l2
        self._y_name: str | None = None

    def _freeze_features(self, features: list[Any]) -> tuple[Fields, Arrays]:
        return {"features": [pack(feature) for feature in features], "y_name": self._y_name}, {}

    def _thaw_features(self, fields: Fields, arrays: Arrays) -> list[Any]:
        self._y_name = as_name(fields["y_name"], "y_name", none=True)
        return as_names(fields["features"], "features", none=True)

    @property
    def weights(self) -> dict[FeatureName, NDArray[np.float64]]:
        """For each feature the weights that predict, shape ``(n_labels − 1,)``.

        With ``averaging`` these are averages. If boundaries share a direction the shape is (1,).
        """
        features, _, weights = self._cusum.served_weights()
        return dict(zip(features, weights, strict=True))

    @property
    def biases(self) -> NDArray[np.float64]:
        """The weight of the constant attribute at each boundary, shape ``(n_labels − 1,)``."""
        return self._cusum.served_weights()[1]

    # One sample -----------------------------------------------------------------------------------

    def learn_one(self, x: Features, y: ClfTarget, w: float = 1.0) -> None:
        """Learn a sample; O(features · boundaries).

        Parameters
        ----------
        x : dict
            The features: numbers up to 1e60 in absolute value. A missing feature counts as 0.
        y : bool, int or str
            The label.
        w : float
            Weight of the sample, from 1e-60 to 1e60. It multiplies perceptron steps, ``C``, and
            the share of the sample in averages and probabilities.

        Raises
        ------
        ValueError, TypeError
            If an argument is out of range; nothing is learned.
        """
        weight = 1.0 if type(w) is float and w == 1.0 else as_weight(w)
        try:
            if self._cusum.learn(x, y, weight):
                return
        except _BAD_INPUT:
            pass
        values = check_features(x)
        self._check_label(y)
        self._cusum.learn(values, y, weight, new=True)

    def predict_one(self, x: Features, **kwargs: Any) -> ClfTarget | None:
        """Return the label whose cumulative score is highest, None before anything is learned.

        Raises
        ------
        ValueError, TypeError
            If a feature is not a finite number.
        """
        try:
            label: ClfTarget | None = self._cusum.predict(x)
        except _BAD_INPUT:
            label = self._cusum.predict(check_features(x))
        return label

    def predict_proba_one(self, x: Features, **kwargs: Any) -> dict[ClfTarget, float]:
        """Return the calibrated probability of each label, in their order.

        For each boundary an isotonic calibrator gives the probability of a label above it, learned
        from the margins of the last ``window`` samples before they were learned. These
        probabilities are made non-increasing; their differences are the probabilities of the
        labels. The label of `predict_one` need not be the most probable one.

        Returns
        -------
        dict
            Probabilities in (0, 1) that sum to 1; empty before anything is learned.

        Raises
        ------
        ValueError, TypeError
            If a feature is not a finite number.
        """
        try:
            return self._cusum.probabilities(x)
        except _BAD_INPUT:
            return self._cusum.probabilities(check_features(x))

    # Many samples ---------------------------------------------------------------------------------

    def learn_many(self, X: "IntoDataFrame", y: "IntoSeries", w: Any = 1.0) -> None:
        """Learn the rows of a frame in order, as `learn_one` does, in one compiled loop.

        Parameters
        ----------
        X : data frame of shape (n_samples, n_features)
            Of any eager library that narwhals supports: pandas, polars, pyarrow, …
        y : series of shape (n_samples,)
            The labels.
        w : float, series or array of shape (n_samples,)
            Weights, from 1e-60 to 1e60.

        Raises
        ------
        ValueError, TypeError
            As `learn_one`, and if lengths differ; nothing is learned.
        """
        from river.utils.dataframe import into_series

        frame, matrix = check_frame(X)
        series = into_series(y)
        labels = series.to_list()
        n_samples = len(labels)
        if len(matrix) != n_samples:
            raise ValueError(f"`y` must have one label per row of `X`, got {n_samples}")
        scalar = isinstance(w, int | float | np.number)
        weights = np.full(n_samples, as_weight(w)) if scalar else as_weights(w, n_samples)
        self._check_many_labels(labels)

        self._y_name = series.name
        if n_samples:
            self._cusum.learn_many(frame.columns, matrix, labels, weights)

    def _check_many_labels(self, labels: list[Any]) -> None:
        """Raise unless the labels of a batch are known or may be learned."""
        seen: set[Any] = set()
        for at, label in enumerate(labels):
            try:
                if label in self._cusum.ranks or label in seen:
                    continue
                self._check_label(label)
            except (ValueError, TypeError) as error:
                raise type(error)(f"{error} at position {at}") from None
            seen.add(label)
        if len({isinstance(label, str) for label in seen}) > 1:
            raise TypeError("`y` must hold numbers or strings, got both")
        if seen:
            self._check_number_of_labels(len(self._cusum.labels) + len(seen))

    def predict_many(self, X: "IntoDataFrame") -> "IntoSeries":
        """Return the predicted label of each row, None before anything is learned."""
        from river.utils.dataframe import to_native_series

        frame, matrix = check_frame(X)
        labels = self._cusum.predict_many(frame.columns, matrix)
        return to_native_series(labels, name=self._y_name, like=frame)

    def predict_proba_many(self, X: "IntoDataFrame") -> "IntoDataFrame":
        """Return the calibrated probabilities of each row, a column for each label.

        The frame is empty before anything is learned.
        """
        from river.utils.dataframe import to_native_frame

        frame, matrix = check_frame(X)
        labels, probabilities = self._cusum.probabilities_many(frame.columns, matrix)
        return to_native_frame(dict(zip(labels, probabilities.T, strict=True)), like=frame)
