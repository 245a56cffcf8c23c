"""The base class of online learners of ranks: labels, input checks, and states as bytes.

The labels have an order, given or learned, and the *rank* of a label is its position in it, from 0.
A `streamcal.kernels.cusum.CuSum` holds everything learned. This module has the parameters, and
checks the input of users and the bytes of states.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray
from river import base
from river.base.typing import ClfTarget, FeatureName

from streamcal import losses
from streamcal._state import (
    Arrays,
    Fields,
    Stateful,
    array_of,
    as_float,
    as_int,
    as_name,
    fill,
    nested,
    pack,
    require,
    unpack,
)
from streamcal._state.clone import Cloned
from streamcal._validation import (
    LARGEST,
    SHORTEST_HALF_LIFE,
    SMALLEST,
    as_number,
    as_score,
    check_count,
    check_label,
    check_within,
    growth_per_sample,
    is_missing,
)
from streamcal.calibration.isotonic import IsotonicCalibrator, calibrator_of, regression_of
from streamcal.kernels.cusum import LEAST_SCALE, MOST_COUNT, PERCEPTRON, CuSum
from streamcal.losses.task import LABELS_OF_SMALL_TABLES

if TYPE_CHECKING:
    from narwhals.stable.v2.typing import IntoDataFrame


Averaging = Literal["uniform"] | float

_MAX_LABELS = 1_000  # if labels are not given; more are likely a target of regression
_MAX_WEIGHT = 1e230  # in a state; its product with a feature is finite
_DEFAULT_RULE = {
    "rule": PERCEPTRON,
    "shared": False,
    "biased": False,
    "last": False,
    "wide": False,
    "keep": 1.0,
    "delta": 0.0,
    "C": 0.0,
    "largest": LARGEST,
}


class RankLearner(Stateful, Cloned, base.Classifier, ABC):
    """Labels, weights and probabilities; a subclass converts samples to the input of `CuSum`."""

    def __init__(
        self,
        labels: Sequence[ClfTarget] | None,
        loss: "losses.TaskLossName | losses.TaskLoss",
        margin: float,
        averaging: Averaging | None,
        window: int,
        **rule: Any,
    ) -> None:
        """Set the common parameters; ``rule`` overrides entries of `_DEFAULT_RULE`."""
        task = losses.get_task(loss)
        given = _check_labels(labels)
        if given:
            task.table(len(given))
        check_within(margin, "margin", f"[0, {LARGEST:g}]")
        growth = _growth_of(averaging)
        check_count(window, "window")
        self.labels = labels
        self.loss = loss
        self.margin = margin
        self.averaging = averaging
        self.window = window

        self._task = task
        settings = _DEFAULT_RULE | {"margin": margin, "averaged": averaging is not None} | rule
        settings["growth"] = growth
        empty = regression_of(IsotonicCalibrator(window=window))
        self._cusum = CuSum(settings, given, task, window, empty)

    @property
    def known_labels(self) -> tuple[ClfTarget, ...]:
        """The labels in the order of their ranks."""
        return tuple(self._cusum.labels)

    @property
    def n_samples(self) -> int:
        """Number of samples learned."""
        return self._cusum.n_samples

    @property
    def rank_loss(self) -> float:
        """Σ w · |rank − predicted rank| over the samples, each predicted before it was learned.

        Predicted by the current weights, without averaging and margin re-scaling; `mistake_bound`
        bounds this sum.
        """
        return self._cusum.rank_loss

    @property
    def _multiclass(self) -> bool:
        return self.labels is None or len(self.labels) > 2

    # Labels ---------------------------------------------------------------------------------------

    def _check_label(self, y: Any) -> None:
        """Raise unless ``y`` is a label that is known or may be learned."""
        check_label(y)
        if not isinstance(y, Hashable):
            raise TypeError(f"`y` must be hashable, got {y!r}")
        labels = self._cusum.labels
        if y in self._cusum.ranks:
            return
        if self.labels is not None:
            listed = ", ".join(map(repr, labels))
            raise ValueError(f"`y` must be one of the labels {listed}, got {y!r}")
        if not isinstance(y, str) and not math.isfinite(as_number(y, "y")):
            raise ValueError(f"`y` must be a label, got {y}")
        if labels and isinstance(y, str) != isinstance(labels[0], str):
            raise TypeError(
                f"`y` must be comparable with the labels so far, such as {labels[0]!r}, got {y!r}"
            )
        self._check_number_of_labels(len(labels) + 1)

    def _check_number_of_labels(self, n_labels: int) -> None:
        if n_labels > _MAX_LABELS:
            raise ValueError(f"`y` must be one of at most {_MAX_LABELS} labels, got {n_labels}")
        if n_labels > 1:
            self._task.table(n_labels)

    # Bytes ----------------------------------------------------------------------------------------

    @abstractmethod
    def _freeze_features(self, features: list[Any]) -> tuple[Fields, Arrays]:
        """Return the features that have weights, as fields and arrays."""

    @abstractmethod
    def _thaw_features(self, fields: Fields, arrays: Arrays) -> list[Any]:
        """Restore what `_freeze_features` returned, and return the features; or raise."""

    def _freeze(self) -> tuple[Fields, Arrays]:
        labels, features, numbers, arrays, regressions = self._cusum.state()
        states: Arrays = {}
        for k, regression in enumerate(regressions):
            states[f"calibrator {k}"] = nested(calibrator_of(regression, self.window))
        if len(labels) > LABELS_OF_SMALL_TABLES:
            states["costs"] = self._task.table(len(labels))
        more_fields, more = self._freeze_features(features)
        fields = {"known": pack(labels), **numbers, **more_fields}
        return fields, {**arrays, **states, **more}

    @classmethod
    def _check_room(cls, parameters: Fields, arrays: Arrays) -> None:
        # Memory grows with the square of their number. States of many labels hold the table of
        # costs, so that few bytes can't make the constructor allocate much memory.
        labels = parameters.get("labels")
        n_labels = len(labels) if isinstance(labels, list | tuple) else 0
        if n_labels > LABELS_OF_SMALL_TABLES:
            array_of(arrays, "costs", n_labels, n_labels)

    def _thaw(self, fields: Fields, arrays: Arrays) -> None:
        known = self._read_labels(fields["known"])
        n_labels = len(known)
        if n_labels > LABELS_OF_SMALL_TABLES:
            array_of(arrays, "costs", n_labels, n_labels)
        features = self._thaw_features(fields, arrays)
        parts, bounds, width = self._cusum.shape(n_labels)
        held = {
            "bias": array_of(arrays, "bias", parts, bounds),
            "weights": array_of(arrays, "weights", len(features), parts, width),
            "recent": array_of(arrays, "recent", None, bounds + 2),
        }
        numbers = self._read_numbers(fields)
        for array in (held["bias"], held["weights"]):
            require((np.abs(array) <= _MAX_WEIGHT).all(), "weights must be in range")
        self._check_ring(held["recent"], n_labels, numbers["n_seen"])
        n_calibrators = bounds if numbers["n_seen"] else 0
        regressions = []
        for k in range(n_calibrators):
            calibrator = IsotonicCalibrator(window=self.window)
            regressions.append(regression_of(fill(calibrator, arrays, f"calibrator {k}")))
        self._cusum.restore(known, features, numbers, held, regressions)

    def _read_labels(self, packed: Any) -> list[ClfTarget]:
        """Return the labels in a state; raise unless they are possible."""
        known: list[ClfTarget] = unpack(packed)
        require(isinstance(known, list), "labels must be a list")
        require(len(known) == len(set(known)), "labels must be different")
        if self.labels is not None:
            require(known == self._cusum.labels, "labels must be those given")
            return known
        require(len(known) <= _MAX_LABELS, f"there must be at most {_MAX_LABELS} labels")
        for label in known:
            as_name(label, "labels")
            require(isinstance(label, str) or math.isfinite(label), "labels must be finite")
        require(known == sorted(known), "labels must be in order")
        return known

    def _read_numbers(self, fields: Fields) -> dict[str, Any]:
        """Return the numbers in a state; raise unless they are in range."""
        sums = {
            name: as_float(fields[name], name, 0.0, _MAX_WEIGHT)
            for name in ("mass", "total", "rank_loss")
        }
        return {
            "n_seen": as_int(fields["n_seen"], "n_seen"),
            "scale": as_float(fields["scale"], "scale", LEAST_SCALE, 1.0),
            "count": as_float(fields["count"], "count", 1.0, MOST_COUNT),
            **sums,
        }

    def _check_ring(self, recent: NDArray[np.float64], n_labels: int, n_samples: int) -> None:
        """Raise unless these can be the last samples: margins, rank and weight of each."""
        require(len(recent) == min(n_samples, self.window), "the ring must hold the last samples")
        ranks, w = recent[:, -2:].T
        require(np.isin(ranks, np.arange(n_labels)).all(), "the ring must hold ranks")
        require(((w >= SMALLEST) & (w <= LARGEST)).all(), "the ring must hold weights")


def _growth_of(averaging: str | float | None) -> float:
    """Return by which factor a sample counts more in the average than the one before."""
    if averaging is None or averaging == "uniform":
        return 1.0
    if isinstance(averaging, str) or not as_score(averaging, "averaging") >= SHORTEST_HALF_LIFE:
        raise ValueError(
            f"`averaging` must be None, 'uniform' or a half-life of at least {SHORTEST_HALF_LIFE},"
            f" got {averaging!r}"
        )
    return growth_per_sample(averaging)


def _check_labels(labels: Any) -> list[ClfTarget]:
    if labels is None:
        return []
    if isinstance(labels, str) or not isinstance(labels, Sequence):
        raise TypeError(f"`labels` must be a sequence of labels or None, got {labels!r}")
    if len(labels) < 2:
        raise ValueError(f"`labels` must hold at least two labels, got {labels!r}")
    for label in labels:
        if is_missing(label):
            raise ValueError(f"`labels` must hold labels, got {label} in {labels!r}")
    if len(set(labels)) < len(labels):
        raise ValueError(f"`labels` must be different from each other, got {labels!r}")
    return list(labels)


def check_features(x: Any) -> dict[FeatureName, float]:
    """Return a dict of features with their values as floats, or raise."""
    if not isinstance(x, dict):
        raise TypeError(f"`x` must be a dict of features, got {x!r}")
    values = {}
    for feature, value in x.items():
        number = as_number(value, f"x[{feature!r}]")
        if not abs(number) <= LARGEST:
            raise ValueError(
                f"`x` must hold finite numbers up to {LARGEST:g}, got {number} for {feature!r}"
            )
        values[feature] = number
    return values


def check_frame(X: "IntoDataFrame") -> tuple[Any, NDArray[np.float64]]:
    """Return a frame and its values, or raise."""
    from river.utils.dataframe import into_frame, to_numpy

    frame = into_frame(X)
    try:
        matrix = np.require(to_numpy(frame), np.float64, ["C", "W"])
    except (ValueError, TypeError):
        raise TypeError(f"`X` must hold numbers, got {[*frame.schema.values()]}") from None
    good = np.abs(matrix) <= LARGEST
    if not good.all():
        row, column = np.argwhere(~good)[0]
        raise ValueError(
            f"`X` must hold finite numbers up to {LARGEST:g}, got {matrix[row, column]}"
            f" for {frame.columns[column]!r} in row {row}"
        )
    return frame, matrix
