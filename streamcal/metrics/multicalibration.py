"""Multicalibration error: how wrong probabilities are in each segment, and which of it is real.

`streamcal.metrics.segment_errors` has the definitions and the formulas.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from river.metrics.base import BinaryMetric

from streamcal._validation import as_category, as_weight, as_weights, check_count, check_label
from streamcal.calibration.context import field_column
from streamcal.calibration.segments import check_crosses, check_fields
from streamcal.metrics.base import ProbabilityErrorMetric, as_event, as_events, is_no_prediction
from streamcal.metrics.segment_errors import (
    MEAN_IF_CALIBRATED,
    Group,
    adjust,
    encode,
    group_samples,
    measure,
)

MIN_SAMPLES = 10
"""Segments of fewer samples are left out by default."""


class SegmentError(NamedTuple):
    """The miscalibration of a segment.

    Attributes
    ----------
    segment : dict
        The fields' values; empty for the segment of all samples.
    n_samples : int
        The number of samples.
    weight : float
        Their total weight.
    predicted, observed : float
        The mean prediction and the mean label.
    error : float
        The greatest gap between labels and predictions that are added in the order of the
        predictions, divided by the weight, in [0, 1]. It is at least ``|observed − predicted|``.
    deviation : float
        The standard error of ``observed − predicted`` if the segment is calibrated. The error of a
        calibrated segment is 1.6 deviations on average, and at most 2.5 in 95 % of all cases.
    p_value : float
        How likely so large an error is if the segment is calibrated, at most.
    adjusted_p_value : float
        The same, corrected for the number of segments (Holm 1979). If all segments are calibrated,
        any of these is below α with probability α at most.

    Examples
    --------
    >>> from streamcal.metrics import multicalibration_error
    >>> each = multicalibration_error([0, 1] * 50, [0.3] * 100, {"device": ["tv"] * 100}).worst
    >>> f"{each.error:.2f} = {each.sigmas:.2f} * {each.deviation:.4f}"
    '0.20 = 4.36 * 0.0458'
    """

    segment: dict[str, Any]
    n_samples: int
    weight: float
    predicted: float
    observed: float
    error: float
    deviation: float
    p_value: float
    adjusted_p_value: float

    @property
    def sigmas(self) -> float:
        """The error in deviations; ∞ where a prediction of 0 or 1 was wrong and no other varies."""
        if not self.error:
            return 0.0
        return self.error / self.deviation if self.deviation else float("inf")


class Multicalibration(NamedTuple):
    """The miscalibration of all segments; see `multicalibration_error`.

    Attributes
    ----------
    segments : list of SegmentError
        The segments, those with the clearest evidence first.
    deviation : float
        The deviation of the segment of all samples.

    Examples
    --------
    >>> from streamcal.metrics import multicalibration_error
    >>> found = multicalibration_error([0, 1] * 50, [0.3] * 100, {"device": ["tv"] * 100})
    >>> f"{found.error:.2f}, on average {found.mean:.2f} instead of {found.mean_if_calibrated:.2f}"
    '0.20, on average 0.20 instead of 0.07'
    """

    segments: list[SegmentError]
    deviation: float

    @property
    def error(self) -> float:
        """The multicalibration error: `sigmas` times the deviation of all samples."""
        return self.sigmas * self.deviation if self.deviation else self.sigmas

    @property
    def sigmas(self) -> float:
        """The error of the worst segment in its deviations."""
        return max(each.sigmas for each in self.segments)

    @property
    def worst(self) -> SegmentError:
        """The segment whose miscalibration is the clearest."""
        return self.segments[0]

    @property
    def p_value(self) -> float:
        """How likely so clear an error in any segment is if all are calibrated, at most."""
        return self.segments[0].adjusted_p_value

    @property
    def mean(self) -> float:
        """The mean of the errors, by the weights of the segments."""
        return self._mean("error")

    @property
    def mean_deviation(self) -> float:
        """The standard error of the mean, at most: it is this if segments err together."""
        return self._mean("deviation")

    @property
    def mean_if_calibrated(self) -> float:
        """What the mean would be on average if all segments were calibrated, at most."""
        return MEAN_IF_CALIBRATED * self.mean_deviation

    def miscalibrated(self, level: float = 0.05) -> list[SegmentError]:
        """Return the segments whose corrected p-value is at most ``level``.

        If all segments are calibrated, there are none with a probability of 1 − ``level`` at least.

        Examples
        --------
        >>> from streamcal.metrics import multicalibration_error
        >>> device = ["tv", "phone"] * 200
        >>> y = [0, 1, 0, 0] * 100  # 0 of tv, 1 of 2 of phones
        >>> found = multicalibration_error(y, [0.25] * 400, {"device": device})
        >>> [(each.segment, each.predicted, each.observed) for each in found.miscalibrated()]
        [({'device': 'tv'}, 0.25, 0.0), ({'device': 'phone'}, 0.25, 0.5)]
        """
        return [each for each in self.segments if each.adjusted_p_value <= level]

    def _mean(self, name: str) -> float:
        total = sum(each.weight for each in self.segments)
        return float(sum(each.weight * getattr(each, name) for each in self.segments) / total)


def multicalibration_error(
    y_true: ArrayLike,
    y_prob: ArrayLike,
    columns: Any,
    *,
    fields: Sequence[str] | None = None,
    crosses: str | Sequence[tuple[str, ...]] = "auto",
    w: ArrayLike | None = None,
    pos_val: Any = True,
    min_samples: int = MIN_SAMPLES,
) -> Multicalibration:
    """Return how wrong probabilities are in each segment of a batch.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        The true labels, at most two different ones.
    y_prob : array-like of shape (n_samples,)
        The predicted probability of the positive label, in [0, 1].
    columns : mapping or data frame
        For each field a column of ``n_samples`` values: text, numbers or None; NaN is None.
    fields : sequence of str, optional
        The names of the columns whose values make segments; by default all.
    crosses : "auto" or sequence of tuples of str
        Which fields are crossed, as in `streamcal.SegmentCalibrator`; "auto" crosses all pairs of
        up to ten fields.
    w : array-like of shape (n_samples,), optional
        Weights.
    pos_val
        The positive label.
    min_samples : int
        Segments of fewer samples are left out. The segment of all samples always counts.

    Returns
    -------
    Multicalibration
        The errors of the segments, and what they amount to.

    Raises
    ------
    ValueError, TypeError
        If the arrays are empty, differ in length, or hold other than probabilities and labels; if a
        field is not a column, or a value of it is not text, a number or None.

    Notes
    -----
    The error of a segment [2]_ and the multicalibration error of all are those of Guy et al. [1]_
    and of Meta's MCGrad (``segments_ecce``, ``mce``, ``mce_sigma``), except that equal predictions
    count as one, so that the order of rows does not matter. P-values are MCGrad's for segments of
    many samples. For those with few expected events they are larger, by Bennett's inequality:
    MCGrad's are too small there (0 for one event where 0.01 were expected). They are corrected for
    the number of segments, MCGrad's are not.

    O(n_samples log n_samples) for each field and crossing.

    References
    ----------
    .. [1] Guy, I., Haimovich, D., Linder, F., Okati, N., Perini, L., Tax, N. and Tygert, M. (2025).
       Measuring multi-calibration. arXiv 2506.11251.
    .. [2] Arrieta-Ibarra, I., Gujral, P., Tannen, J., Tygert, M. and Xu, C. (2022). Metrics of
       calibration for probabilistic predictions. Journal of Machine Learning Research 23(351).

    Examples
    --------
    The model says 0.5 everywhere. In the north 8 of 10 labels are 1, in the south 3 of 10:

    >>> from streamcal.metrics import multicalibration_error
    >>> y = [1, 1, 1, 1, 0] * 20 + [0, 0, 0, 0, 1, 0, 0, 0, 1, 1] * 10
    >>> region = ["north"] * 100 + ["south"] * 100
    >>> found = multicalibration_error(y, [0.5] * 200, {"region": region})
    >>> print(f"{found.sigmas:.1f} {found.p_value:.0e}")
    6.0 4e-07
    >>> for each in found.segments:
    ...     print(each.segment, each.observed, f"{each.error:.2f} {each.adjusted_p_value:.0e}")
    {'region': 'north'} 0.8 0.30 4e-07
    {'region': 'south'} 0.3 0.20 1e-03
    {} 0.55 0.05 6e-01
    """
    check_count(min_samples, "min_samples")
    happened, p = as_events(y_true, y_prob, pos_val)
    names = check_fields(_names_of(columns) if fields is None else fields)
    crossings = check_crosses(crosses, names)
    encoded = [encode(field_column(columns, name, len(p), "columns"), name) for name in names]
    groups = group_samples(names, encoded, crossings, len(p))
    return _summarize(groups, happened, p, as_weights(w, len(p)), min_samples)


class MulticalibrationError(ProbabilityErrorMetric, BinaryMetric):
    """How wrong probabilities are in the worst segment: a country, a device, a crossing of them.

    A prediction comes with the values of its fields: ``update(y_true, y_pred, x=x)``. `get` is the
    error of the worst segment, in units of its standard error, times the standard error of all
    samples: Meta's ``mce``. `result` has the errors of all segments, with p-values; see
    `multicalibration_error`.

    Parameters
    ----------
    fields : sequence of str
        The names of the fields that make segments, 1 to 64.
    crosses : "auto" or sequence of tuples of str
        Which fields are crossed, as in `streamcal.SegmentCalibrator`; "auto" crosses all pairs of
        up to ten fields.
    window : int or None
        The value is that of the last ``window`` samples, exactly; None keeps all samples. A sample
        takes 200 to 300 bytes. `update` is O(1); the first `get` after it O(n log n) for each field
        and crossing.
    min_samples : int
        Segments of fewer samples are left out.
    pos_val
        The positive label. None: the label with the greatest probability.

    Examples
    --------
    >>> import random
    >>> from streamcal.metrics import MulticalibrationError
    >>> rng, metric = random.Random(1), MulticalibrationError(["device"])
    >>> for _ in range(2000):  # right on average, but not for each device
    ...     device, p = rng.choice(["tv", "phone"]), rng.random()
    ...     true = p**2 if device == "tv" else 1 - (1 - p) ** 2
    ...     metric.update(rng.random() < true, p, x={"device": device})
    >>> metric
    MulticalibrationError: 0.121569
    >>> worst = metric.result().worst
    >>> print(worst.segment, f"{worst.predicted:.2f} {worst.observed:.2f} {worst.sigmas:.1f}")
    {'device': 'tv'} 0.48 0.31 13.3
    """

    def __init__(
        self,
        fields: Sequence[str],
        crosses: str | Sequence[tuple[str, ...]] = "auto",
        window: int | None = 50_000,
        min_samples: int = MIN_SAMPLES,
        pos_val: Any = True,
    ) -> None:
        self._names = check_fields(fields)
        self._crossings = check_crosses(crosses, self._names)
        check_count(window, "window", optional=True)
        check_count(min_samples, "min_samples")
        self.fields: tuple[str, ...] = self._names
        self.crosses = crosses if isinstance(crosses, str) else tuple(map(tuple, crosses))
        self.window = window
        self.min_samples = min_samples
        self.pos_val = pos_val
        self._samples: deque[tuple[bool, float, float, tuple[Any, ...]]] = deque(maxlen=window)
        self._result: Multicalibration | None = None

    def update(
        self, y_true: Any, y_pred: Any, w: float = 1.0, *, x: Mapping[str, Any] | None = None
    ) -> None:
        """Add a prediction.

        Parameters
        ----------
        y_true
            The true label.
        y_pred
            Probabilities by label, or the probability of the positive label (float or bool). A
            missing one (``{}`` or None) is not scored.
        w
            The weight of the sample, from 1e-60 to 1e60.
        x
            The values of the fields: text, numbers or None; a missing field and NaN are None. Other
            entries are ignored, so `x` may be all features.

        Raises
        ------
        ValueError, TypeError
            If ``x`` is not given or a value is not of these types, the label is None or NaN, a
            probability not in [0, 1], or `w` not positive; nothing changes.
        """
        sample = self._read(y_true, y_pred, w, x)
        if sample is not None:
            self._result = None  # first: an exception may come between the two
            self._samples.append(sample)

    def revert(
        self, y_true: Any, y_pred: Any, w: float = 1.0, *, x: Mapping[str, Any] | None = None
    ) -> None:
        """Remove a prediction that was added with the same arguments; O(n).

        Raises
        ------
        ValueError, TypeError
            As `update` does, and if the prediction is not in the window.
        """
        sample = self._read(y_true, y_pred, w, x)
        if sample is not None:
            self._result = None  # first: an exception may come between the two
            try:
                self._samples.remove(sample)
            except ValueError:
                raise ValueError(
                    f"`y_pred` must have been added before and be in the window, got {y_pred!r}"
                ) from None

    def _read(
        self, y_true: Any, y_pred: Any, w: float, x: Any
    ) -> tuple[bool, float, float, tuple[Any, ...]] | None:
        """Return a sample, or None if there is no prediction."""
        check_label(y_true, "y_true")
        if not isinstance(x, Mapping):
            raise TypeError(f"`x` must be a mapping from fields to values, got {x!r}")
        if is_no_prediction(y_pred):
            return None
        p, happened = as_event(y_true, y_pred, self.pos_val)
        values = tuple(as_category(x.get(name), name) for name in self._names)
        return happened, p, as_weight(w), values

    def get(self) -> float:
        """Return the multicalibration error, 0 before the first update."""
        return self.result().error if self._samples else 0.0

    def result(self) -> Multicalibration:
        """Return the errors of all segments.

        Raises
        ------
        ValueError
            If there are no samples.
        """
        if not self._samples:
            raise ValueError("there must be at least one sample, got none")
        if self._result is None:
            y, p, w, values = zip(*self._samples, strict=True)
            encoded = [
                encode(column, name)
                for column, name in zip(zip(*values, strict=True), self._names, strict=True)
            ]
            groups = group_samples(self._names, encoded, self._crossings, len(p))
            labels, scores, weights = np.array([y, p, w], np.float64)
            self._result = _summarize(groups, labels, scores, weights, self.min_samples)
        return self._result


def _summarize(
    groups: Sequence[Group],
    y: NDArray[np.float64],
    p: NDArray[np.float64],
    w: NDArray[np.float64],
    min_samples: int,
) -> Multicalibration:
    errors = measure(groups, y, p, w)
    segments = [(group.fields, values) for group in groups for values in group.values]
    kept = np.flatnonzero((errors.n >= min_samples) | (np.arange(len(errors.n)) == 0))
    kept = kept[np.argsort(-errors.evidence[kept], kind="stable")]
    found = errors.select(kept)
    p_values = found.p_values
    columns = (*found[:6], p_values, adjust(p_values))
    rows = zip(*(column.tolist() for column in columns), strict=True)
    return Multicalibration(
        [
            SegmentError(dict(zip(*segments[at], strict=True)), *row)
            for at, row in zip(kept.tolist(), rows, strict=True)
        ],
        float(errors.deviation[0]),
    )


def _names_of(columns: Any) -> Sequence[str]:
    """Return the names of all columns of a mapping or a data frame."""
    names = getattr(columns, "column_names", getattr(columns, "columns", columns))
    try:
        return tuple(names)
    except TypeError:
        raise TypeError(
            f"`columns` must be a mapping or a data frame with columns, got {type(columns)}"
        ) from None
