"""Isotonic regression for scikit-learn that also learns batch by batch."""

from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.isotonic import IsotonicRegression, check_increasing
from sklearn.utils import check_array, check_consistent_length
from sklearn.utils.validation import _check_sample_weight, check_is_fitted

from streamcal.calibration.isotonic import IsotonicCalibrator

_Floats = NDArray[np.float64] | NDArray[np.float32]
_KEPT = [np.float64, np.float32]  # the types of floats that scikit-learn keeps


# scikit-learn has no types.
class StreamingIsotonicRegression(IsotonicRegression):  # type: ignore[misc]
    """`sklearn.isotonic.IsotonicRegression` with `partial_fit`, exact after every batch.

    `fit` and `predict` give the results of scikit-learn, up to rounding. `partial_fit` costs
    O(log² n) for each sample, not a new fit of all n. Answers are float32 if all X were float32;
    the fit itself is computed in double. Scikit-learn counts X as equal that differ by less than
    1e-15 (1e-6 in float32), here only equal X are one.

    Parameters
    ----------
    y_min, y_max, increasing, out_of_bounds
        As in ``sklearn.isotonic.IsotonicRegression``. With ``increasing="auto"`` the first batch
        decides.
    window : int, optional
        How many of the last samples to keep; all by default.
    half_life : float, optional
        After this many more samples, a sample has half its weight.

    Attributes
    ----------
    X_min_, X_max_ : float
        The least and the greatest X so far, also of samples that the window has dropped.
    increasing_ : bool
        Whether the map increases.
    X_thresholds_, y_thresholds_ : ndarray of shape (n_thresholds,)
        The ends of the blocks, sorted, and the values of the map there; it is linear between them.

    Examples
    --------
    >>> model = StreamingIsotonicRegression().partial_fit([1, 2, 3], [0, 1, 0])
    >>> model.predict([2.5]).tolist()
    [0.5]
    >>> model.partial_fit([4], [8]).predict([3.5]).tolist()
    [4.25]
    """

    _parameter_constraints: ClassVar = {
        **IsotonicRegression._parameter_constraints,
        "window": "no_validation",
        "half_life": "no_validation",
    }
    calibrator_: IsotonicCalibrator
    increasing_: bool
    X_min_: float
    X_max_: float
    _dtype: np.dtype[Any] = np.dtype(np.float64)
    _thresholds: tuple[_Floats, ...] | None

    def __init__(
        self,
        *,
        y_min: float | None = None,
        y_max: float | None = None,
        increasing: bool | str = True,
        out_of_bounds: Literal["nan", "clip", "raise"] = "nan",
        window: int | None = None,
        half_life: float | None = None,
    ) -> None:
        super().__init__(
            y_min=y_min, y_max=y_max, increasing=increasing, out_of_bounds=out_of_bounds
        )
        self.window = window
        self.half_life = half_life

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Forget all samples, then learn these; shapes as in `partial_fit`."""
        return self._learn(X, y, sample_weight, fresh=True)

    def partial_fit(
        self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Learn more samples.

        Parameters
        ----------
        X : array-like of shape (n_samples,) or (n_samples, 1)
            The values to be mapped. Answers are float64 from the first X on that is not float32.
        y : array-like of shape (n_samples,)
            The targets.
        sample_weight : array-like of shape (n_samples,), optional
            Weights; samples of weight 0 are left out.
        """
        return self._learn(X, y, sample_weight, fresh=not hasattr(self, "calibrator_"))

    def _learn(
        self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None, fresh: bool
    ) -> Self:
        """Learn samples of weight above 0, in a new map if ``fresh``."""
        self._validate_params()
        x = check_array(X, input_name="X", dtype=_KEPT, ensure_2d=False)
        self._check_input_data_shape(x)
        dtype, x = x.dtype, x.reshape(-1)
        # As scikit-learn, which rounds the targets to the type of X.
        targets = check_array(y, input_name="y", dtype=dtype, ensure_2d=False)
        check_consistent_length(x, targets, sample_weight)
        w = _check_sample_weight(sample_weight, x, dtype=np.float64, ensure_non_negative=True)
        increases = (
            check_increasing(x, targets) if fresh and self.increasing == "auto" else self.increasing
        )
        kept = w > 0.0
        x, targets, w = x[kept], targets[kept], w[kept]
        if fresh:
            calibrator = IsotonicCalibrator("squared", window=self.window, half_life=self.half_life)
            low, high = np.inf, -np.inf
        else:
            calibrator, increases = self.calibrator_, self.increasing_
            low, high = self.X_min_, self.X_max_
            dtype = np.promote_types(dtype, self._dtype)
        sign = 1.0 if increases else -1.0
        calibrator.learn_many(sign * x, targets, w)
        self.calibrator_, self.increasing_ = calibrator, bool(increases)
        self._dtype, self._thresholds = dtype, None
        self.X_min_ = min(low, x.min())
        self.X_max_ = max(high, x.max())
        return self

    def _find_thresholds(self) -> tuple[_Floats, ...]:
        """Return `X_thresholds_` and `y_thresholds_`, computed once after each change."""
        check_is_fitted(self, "calibrator_")
        if self._thresholds is None:
            stairs = self.calibrator_.staircase()
            x = np.column_stack([stairs.lower, stairs.upper]).ravel()
            y = np.repeat(stairs.values, 2)
            if not self.increasing_:
                x, y = -x[::-1], y[::-1]
            distinct = np.append(True, x[1:] != x[:-1])
            y = y[distinct].clip(self.y_min, self.y_max)
            self._thresholds = x[distinct].astype(self._dtype), y.astype(self._dtype)
        return self._thresholds

    @property
    def X_thresholds_(self) -> _Floats:
        """The ends of the blocks, sorted."""
        return self._find_thresholds()[0]

    @property
    def y_thresholds_(self) -> _Floats:
        """The values of the map at `X_thresholds_`."""
        return self._find_thresholds()[1]

    def _transform(self, T: ArrayLike) -> _Floats:
        t = check_array(T, dtype=self._dtype, ensure_2d=False)
        self._check_input_data_shape(t)  # first, as scikit-learn does
        check_is_fitted(self, "calibrator_")
        dtype, t = t.dtype, t.reshape(-1)
        knots, values = self._find_thresholds()
        if len(knots) == 1:  # scikit-learn's answer, wherever t lies
            return np.full(t.shape, values[0], dtype)
        below, above = t < self.X_min_, t > self.X_max_
        if self.out_of_bounds == "raise":
            self._raise_outside(t, below, above)
        at = np.searchsorted(knots, t, side="right").clip(1, len(knots) - 1)
        ends = values[at - 1], values[at]
        # Between denormal knots the slope may be infinite.
        answers = np.interp(t, knots, values).clip(np.minimum(*ends), np.maximum(*ends))
        if self.out_of_bounds == "nan":
            answers[below | above] = np.nan
        return np.asarray(answers, dtype)

    def _raise_outside(
        self, t: _Floats, below: NDArray[np.bool_], above: NDArray[np.bool_]
    ) -> None:
        """Raise ``ValueError`` with the words that scikit-learn's users know, those of SciPy."""
        for outside, side, end, limit in (
            (below, "below", "minimum", self.X_min_),
            (above, "above", "maximum", self.X_max_),
        ):
            if outside.any():
                raise ValueError(
                    f"A value ({t[outside][0]}) in x_new is {side} the interpolation range's {end}"
                    f" value ({limit})."
                )

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """Return the name of the output; the argument is ignored."""
        check_is_fitted(self, "calibrator_")
        return np.asarray([f"{type(self).__name__.lower()}0"], dtype=object)

    # The methods of the base class pickle an interpolation, which this class does not have.
    def __getstate__(self) -> Any:
        return dict(self.__dict__)

    def __setstate__(self, state: Any) -> None:
        self.__dict__.update(state)
