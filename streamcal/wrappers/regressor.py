"""A river regressor with recalibrated predictions."""

import copy
import math
from collections.abc import Iterator
from typing import Any, Literal

import numpy as np
from narwhals.stable.v2.typing import IntoDataFrame, IntoSeries
from numpy.typing import ArrayLike, NDArray
from river import base
from river.utils.dataframe import into_frame, into_series, to_native_series

from streamcal._advice import about_features, raise_of_features
from streamcal._state import Arrays, Fields, Stateful, as_name, fill, nested
from streamcal._validation import as_number, as_score, as_vector, as_weight
from streamcal.calibration.base import Calibrator, check_calibrator
from streamcal.calibration.clock import Time
from streamcal.calibration.context import NO_CONTEXT, Context, Contexts
from streamcal.calibration.isotonic import IsotonicCalibrator
from streamcal.notebook.card import card
from streamcal.wrappers.checks import (
    add_batch_weights,
    as_batch_weights,
    check_n_rows,
    check_regressor,
    frame_of,
    series_of,
)
from streamcal.wrappers.routing import AnyRegressor, BatchRouting, Features
from streamcal.wrappers.snapshot import ModelSnapshot
from streamcal.wrappers.times import check_time_feature, time_of, times_of


class CalibratedRegressor(BatchRouting, Stateful, base.Wrapper[Any], base.MiniBatchRegressor):
    """Recalibrate the predictions of a river regressor by a non-decreasing map, sample by sample.

    The map is learned by the calibrator. With `IsotonicCalibrator` and the squared or the Poisson
    loss it predicts the mean of the labels of similar predictions; with `AnytimeCalibrator` and the
    pinball loss, their quantile. The order of the model's predictions is kept.

    Parameters
    ----------
    regressor : river regressor or pipeline
        The model. It is used as it is, not copied, and may have been trained before.
    calibrator : Calibrator or None
        The prototype that is cloned. None means ``IsotonicCalibrator("squared")``.
    time : str, optional
        The name of the feature that holds the time of a sample, if the calibrator forgets by time:
        as for `CalibratedClassifier`.

    Raises
    ------
    TypeError
        If ``regressor`` is not a regressor or ``calibrator`` is not a `Calibrator`, or ``time`` is
        not the name of a feature.
    ValueError
        If ``time`` is given and the calibrator does not forget by time.

    Notes
    -----
    Weights and other keyword arguments are treated as by `CalibratedClassifier`. Predictions are
    not remembered: if labels come late, pass ``served``.

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

    def __init__(
        self,
        regressor: AnyRegressor,
        calibrator: Calibrator | None = None,
        *,
        time: str | None = None,
    ) -> None:
        check_regressor(regressor)
        if calibrator is None:
            calibrator = IsotonicCalibrator("squared")
        check_calibrator(calibrator, binary=False)
        check_time_feature(time, calibrator)
        self.regressor = regressor
        self.calibrator = calibrator
        self.time = time

        self._calibrator: Calibrator = calibrator.clone()
        self._y_name: str | None = None
        self._set_routes(regressor, "learn_one", "predict_one", "learn_many", "predict_many")

    _given = ("regressor",)

    def _freeze(self) -> tuple[Fields, Arrays]:
        return {"y_name": self._y_name}, {"calibrator": nested(self._calibrator)}

    def _thaw(self, fields: Fields, arrays: Arrays) -> None:
        calibrator = fill(self.calibrator.clone(), arrays, "calibrator")
        self._y_name = as_name(fields["y_name"], "y_name", none=True)
        self._calibrator = calibrator

    def _repr_html_(self) -> str:
        """Return what a notebook shows: the parameters, and the card of the calibrator."""
        return card(self, {}, inside=[self._calibrator._repr_html_()])

    @property
    def _wrapped_model(self) -> AnyRegressor:
        return self.regressor

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        from river import linear_model, preprocessing

        yield {"regressor": preprocessing.StandardScaler() | linear_model.LinearRegression()}

    def learn_one(
        self,
        x: Features,
        y: float,
        w: float = 1.0,
        *,
        served: float | None = None,
        t: Time | None = None,
        **kwargs: Any,
    ) -> None:
        """Predict ``x`` with the model, teach the model, then teach the calibrator the prediction.

        Parameters
        ----------
        x : dict
            The features.
        y : float
            The label, in the range of the calibrator's loss.
        w : float
            Weight of the sample, from 1e-60 to 1e60.
        served : float, optional
            The prediction of the *model* (not of this wrapper) for ``x`` when it was served.
            Without it the model predicts ``x`` again.
        t : datetime or float, optional
            The time at which the sample is learned, as for `CalibratedClassifier`.
        **kwargs
            For the model, if its ``learn_one`` takes them; an unknown name is an error.

        Raises
        ------
        ValueError, TypeError
            If the model's prediction is not a finite number, or the calibrator refuses it, the
            label ``y``, the weight ``w`` or the time. Neither the model nor the calibrator
            has learned anything then.
        """
        label, w = as_number(y, "y"), as_weight(w)
        self._calibrator._check_labels([label])
        if t is not None and self._takes_time:
            kwargs["t"] = t
        context = NO_CONTEXT
        if self._calibrator.needs_time:
            context = Context(t=time_of(x, t, self.time, self._calibrator._read_time))
        raw = self._predict_raw(x, kwargs) if served is None else as_score(served, "served")
        self._calibrator._check_score(raw)

        if w == 1.0 and not kwargs:
            self.regressor.learn_one(x, y)
        else:
            self._call("learn_one", x, y, **kwargs, w=w)
        self._calibrator.learn_one(raw, label, w, **self._calibrator._keywords(context))

    def predict_one(self, x: Features, **kwargs: Any) -> float:
        """Return the calibrated prediction; the model's own before the first label.

        Parameters
        ----------
        x : dict
            The features.
        **kwargs
            For the model, if its ``predict_one`` takes them; an unknown name is an error.

        Raises
        ------
        ValueError, TypeError
            If the model's prediction is not a finite number.
        """
        return self.calibrate_one(self._predict_raw(x, kwargs))

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

    def export(self, format: Literal["json", "sql", "onnx"], **options: Any) -> Any:
        """Return the current map of the model's prediction, as `Calibrator.export` does."""
        return self._calibrator.export(format, **options)

    def snapshot(self) -> ModelSnapshot:
        """Return an immutable copy of wrapper and model that predicts, for other threads."""
        return ModelSnapshot(copy.deepcopy(self))

    def learn_many(
        self,
        X: IntoDataFrame,
        y: IntoSeries,
        w: Any = 1.0,
        *,
        served: IntoSeries | ArrayLike | None = None,
        t: Any = None,
        **kwargs: Any,
    ) -> None:
        """Learn a mini-batch: predict all of it, then teach the model and the calibrator.

        Parameters
        ----------
        X : data frame of shape (n_samples, n_features)
            Of any eager library that narwhals supports: pandas, polars, pyarrow, …
        y : series of shape (n_samples,)
            The labels.
        w : float, series or array of shape (n_samples,)
            Weights, from 1e-60 to 1e60.
        served : series or array of shape (n_samples,)
            The predictions of the model for ``X`` when it was served. Without it the model predicts
            ``X`` again.
        t : series or sequence of datetime or float, of shape (n_samples,)
            The time at which each sample is learned. Without it, the column that ``time`` names.
        **kwargs
            For the model, if its ``learn_many`` takes them; an unknown name is an error.

        Raises
        ------
        ValueError, TypeError
            As `learn_one`, and if lengths differ.
        """
        series = series_of(y)
        labels = self._calibrator._check_labels(series.to_numpy())
        n_samples = len(labels)
        check_n_rows(X, n_samples)
        weights = as_batch_weights(w, n_samples)
        if t is not None and self._takes_time:
            kwargs["t"] = t
        contexts = Contexts()
        if self._calibrator.needs_time:
            read = self._calibrator._read_times
            contexts = Contexts(t=times_of(X, n_samples, t, self.time, read))
        if served is None:
            raw = as_vector(self._predict_raw_many(X, kwargs), "predictions")
        else:
            raw = as_vector(np.asarray(served), "served")
        if len(raw) != n_samples:
            raise ValueError(
                f"predictions must have one row per label ({n_samples}), got {len(raw)}"
            )
        samples = self._calibrator._check_samples(raw, labels, weights)

        self._call("learn_many", X, y, **add_batch_weights(kwargs, w, weights, X))
        self._y_name = series.name
        self._calibrator.learn_many(*samples, **self._calibrator._keywords(contexts))

    def predict_many(self, X: IntoDataFrame, **kwargs: Any) -> IntoSeries:
        """Return the calibrated prediction for each row, in a series of the same library."""
        frame_of(X)  # or it raises
        values = self._calibrator.predict_many(self._predict_raw_many(X, kwargs))
        return to_native_series(values, name=self._y_name, like=into_frame(X))

    def _predict_raw(self, x: Features, kwargs: dict[str, Any]) -> float:
        """Return the model's own prediction."""
        try:
            if kwargs:
                raw = self._call("predict_one", x, **kwargs)
            else:
                raw = self.regressor.predict_one(x)
        except (TypeError, ValueError, AttributeError) as error:
            raise_of_features(x, error)
        prediction = as_number(raw, "prediction")
        if not math.isfinite(prediction):
            hint = about_features(x)
            raise ValueError(f"`prediction` must be a finite number, got {prediction}{hint}")
        return prediction

    def _predict_raw_many(self, X: IntoDataFrame, kwargs: dict[str, Any]) -> NDArray[np.float64]:
        """Return the model's own predictions."""
        predictions = into_series(self._call("predict_many", X, **kwargs))
        return np.asarray(predictions.to_numpy(), dtype=np.float64)
