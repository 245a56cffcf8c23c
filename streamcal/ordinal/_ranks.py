"""What the online learners of ranks share: labels, the weights' vector, probabilities.

The labels have an order, given or learned, and the *rank* of a label is its place in it, from 0.
The weights live in one vector that `streamcal.kernels.cusum` reads and writes; here it is laid out
and laid out anew when a label or a feature emerges.

Probabilities. For each boundary k the *margin* of a sample is the best score of a rank from k on,
less the best score of one below: positive where rank k or more is decoded, and falling in k. What
was served to each of the last ``window`` samples is kept in a ring; one isotonic calibrator for
each boundary learns from it how often a margin was followed by rank k or more. Their answers are
made to fall in k, and neighbours subtracted. The calibrators hold a window as long as the ring, so
it does not matter when they learn what is in it: they do when a probability is asked for.
"""

import math
from abc import ABC
from bisect import bisect_left
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
from narwhals.stable.v2.typing import IntoDataFrame
from numpy.typing import NDArray
from river import base
from river.base.typing import ClfTarget, FeatureName
from river.utils.dataframe import into_frame, to_numpy

from streamcal import losses
from streamcal._clone import Cloned
from streamcal._state import (
    Arrays,
    Fields,
    Stateful,
    array_of,
    as_int,
    as_name,
    check_alike,
    nest,
    pack,
    require,
    state_of,
    unpack,
)
from streamcal._validation import (
    LARGEST,
    SHORTEST_HALF_LIFE,
    SMALLEST,
    as_number,
    as_score,
    check_window,
)
from streamcal.calibration.isotonic import IsotonicCalibrator
from streamcal.kernels import cusum as kernels

Features = dict[FeatureName, Any]

_MOST_LABELS = 1_000  # that are learned: more are a number to regress on, and a mistake
_FIRST_CAPACITY = 8  # features
_MOST_WEIGHT = 1e230  # in a state: times a feature it is finite


class RankLearner(Stateful, Cloned, base.Classifier, ABC):
    """Labels, weights and probabilities; a subclass turns features into what the kernels take."""

    def __init__(
        self,
        labels: Sequence[ClfTarget] | None,
        loss: "str | losses.TaskLoss",
        margin: float,
        averaging: str | float | None,
        window: int,
    ) -> None:
        task = losses.get_task(loss)
        given = _check_labels(labels)
        if given:
            task.table(len(given))
        if not 0.0 <= as_number(margin, "margin") <= LARGEST:
            raise ValueError(f"`margin` must be a non-negative finite number, got {margin}")
        growth = _growth(averaging)
        if window is None:
            raise ValueError("`window` must be a positive int, got None")
        check_window(window)
        self.labels = labels
        self.loss = loss
        self.margin = margin
        self.averaging = averaging
        self.window = window

        self._task = task
        self._labels: list[ClfTarget] = []
        self._ranks: dict[ClfTarget, int] = {}
        self._model = np.zeros(kernels.HEAD)
        head = self._model
        head[[kernels.N_LABELS, kernels.N_ROWS]] = 0, 1
        head[[kernels.KEEP, kernels.SCALE, kernels.COUNT]] = 1.0
        head[kernels.MARGIN] = margin
        head[kernels.AVERAGED] = averaging is not None
        head[kernels.GROWTH] = growth
        self._room = _FIRST_CAPACITY
        self._recent = np.zeros((window, 1))
        self._calibrators: list[IsotonicCalibrator] = []
        self._n_taught = 0
        self._label_at_once(given)

    def _label_at_once(self, given: list[ClfTarget]) -> None:
        self._labels, self._ranks = given, {label: rank for rank, label in enumerate(given)}
        self._lay_out(len(given), self._room)
        self._recent = np.zeros((self.window, max(len(given), 1) + 1))

    @property
    def known_labels(self) -> tuple[ClfTarget, ...]:
        """The labels in the order of their ranks."""
        return tuple(self._labels)

    @property
    def n_samples(self) -> int:
        """How many samples were learned."""
        return int(self._model[kernels.N_SEEN])

    @property
    def rank_loss(self) -> float:
        """Σ w · |rank − decoded rank| of the samples, each decoded before it was learned.

        By the weights as they stood, not by their average, and without margin re-scaling: it is
        what `mistake_bound` bounds.
        """
        return float(self._model[kernels.RANK_LOSS])

    @property
    def _multiclass(self) -> bool:
        return self.labels is None or len(self.labels) > 2

    # Labels --------------------------------------------------------------------------------------

    def _check_label(self, y: Any) -> None:
        """Raise unless ``y`` is a label that is known or may be learned."""
        if y is None or y != y:
            raise ValueError(f"`y` must be a label, got {y}")
        if not isinstance(y, Hashable):
            raise TypeError(f"`y` must be hashable, got {y!r}")
        if y in self._ranks:
            return
        if self.labels is not None:
            listed = ", ".join(map(repr, self._labels))
            raise ValueError(f"`y` must be one of the labels {listed}, got {y!r}")
        if not isinstance(y, str) and not math.isfinite(as_number(y, "y")):
            raise ValueError(f"`y` must be a label, got {y}")
        if self._labels and isinstance(y, str) != isinstance(self._labels[0], str):
            raise TypeError(
                f"`y` must be comparable with the labels so far, such as {self._labels[0]!r},"
                f" got {y!r}"
            )
        self._check_number_of_labels(len(self._labels) + 1)

    def _check_number_of_labels(self, n_labels: int) -> None:
        if n_labels > _MOST_LABELS:
            raise ValueError(f"`y` must be one of at most {_MOST_LABELS} labels, got {n_labels}")
        if n_labels > 1:
            self._task.table(n_labels)

    def _insert(self, y: ClfTarget) -> None:
        """Give a new label its rank; decoding goes on as before wherever that can be."""
        rank = bisect_left(self._labels, y)
        old_labels = len(self._labels)
        bias, rows = self._views()
        bias, rows = bias.copy(), rows.copy()
        self._labels.insert(rank, y)
        self._ranks = {label: at for at, label in enumerate(self._labels)}
        self._lay_out(old_labels + 1, self._room)
        if old_labels == 0:
            return
        new_bias, new_rows = self._views()
        shared = bool(self._model[kernels.SHARED])
        new_bias[:] = _split(bias, rank, copy=shared)
        new_rows[:] = rows if shared else _split(rows, rank, copy=False)

        margins, rest = self._recent[:, : old_labels - 1], self._recent[:, old_labels - 1 :]
        rest[:, 0] += rest[:, 0] >= rank
        self._recent = np.ascontiguousarray(np.hstack([_split_margins(margins, rank), rest]))
        self._calibrators, self._n_taught = [], 0

    # Weights -------------------------------------------------------------------------------------

    def _views(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the biases, shape ``(parts, n_labels − 1)``, and the rows of the features.

        Those have the shape ``(capacity, parts, width)``: a part is the weights or their lag.
        """
        n_labels = int(self._model[kernels.N_LABELS])
        bounds = max(n_labels - 1, 0)
        parts = 2 if self._model[kernels.AVERAGED] else 1
        width = 1 if self._model[kernels.SHARED] else bounds
        at = kernels.HEAD + n_labels**2
        bias = self._model[at : at + parts * bounds].reshape(parts, bounds)
        rows = self._model[at + parts * bounds :].reshape(self._room, parts, width)
        return bias, rows

    def _size(self, n_labels: int, capacity: int) -> int:
        """Return how many numbers a vector for so many labels and features has."""
        bounds = max(n_labels - 1, 0)
        parts = 2 if self._model[kernels.AVERAGED] else 1
        width = 1 if self._model[kernels.SHARED] else bounds
        return kernels.HEAD + n_labels**2 + parts * (bounds + capacity * width)

    def _lay_out(self, n_labels: int, capacity: int) -> None:
        """Begin a vector for so many labels and features; the head stays, weights are 0."""
        model = np.zeros(self._size(n_labels, capacity))
        model[: kernels.HEAD] = self._model[: kernels.HEAD]
        model[kernels.N_LABELS] = n_labels
        if n_labels > 1:
            table = self._task.table(n_labels)  # answer by truth
            model[kernels.HEAD : kernels.HEAD + n_labels**2] = table.T.ravel()
        self._model, self._room = model, capacity

    def _reserve(self, n_rows: int) -> None:
        """Make room for so many rows, and half as many again."""
        if n_rows <= self._room:
            return
        bias, rows = self._views()
        self._lay_out(len(self._labels), n_rows + n_rows // 2)
        new_bias, new_rows = self._views()
        new_bias[:] = bias
        new_rows[: len(rows)] = rows

    def _served_weights(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return biases and feature rows of what predictions are made from."""
        head = self._model
        bias, rows = self._views()
        if not head[kernels.AVERAGED]:
            return head[kernels.SCALE] * bias[0], head[kernels.SCALE] * rows[:, 0]
        total = head[kernels.TOTAL] or 1.0
        mass = head[kernels.MASS]
        return (mass * bias[0] - bias[1]) / total, (mass * rows[:, 0] - rows[:, 1]) / total

    # Probabilities -------------------------------------------------------------------------------

    def _catch_up(self) -> None:
        """Teach the calibrators what they have not seen of the samples in the ring."""
        bounds = len(self._labels) - 1
        if bounds < 1:
            return
        if not self._calibrators:
            self._calibrators = [IsotonicCalibrator(window=self.window) for _ in range(bounds)]
        n_seen = self.n_samples
        first = max(self._n_taught, n_seen - self.window)
        if first == n_seen:
            return
        self._n_taught = n_seen
        if first == n_seen - 1:
            *margins, rank, w = self._recent[first % self.window].tolist()
            for k, calibrator in enumerate(self._calibrators):
                calibrator.learn_one(margins[k], rank > k, w)
            return
        samples = self._recent[np.arange(first, n_seen) % self.window]
        ranks, w = samples[:, bounds], samples[:, bounds + 1]
        for k, calibrator in enumerate(self._calibrators):
            calibrator.learn_many(samples[:, k], ranks > k, w)

    def _probabilities(self, margins: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return probabilities, shape ``(n_samples, n_labels)``, from margins at each boundary."""
        self._catch_up()
        above = np.empty_like(margins)
        n_held = min(self.n_samples, self.window)
        if n_held == 0:
            above[:] = 0.5  # it does not count
        elif len(margins) == 1:
            above[0] = [
                calibrator.predict_one(margin)
                for calibrator, margin in zip(self._calibrators, margins[0].tolist(), strict=True)
            ]
        else:
            for k, calibrator in enumerate(self._calibrators):
                above[:, k] = calibrator.predict_many(margins[:, k])
        out = np.empty((len(margins), len(self._labels)))
        kernels.class_probabilities(above, n_held, out)
        return out

    def _freeze(self) -> tuple[Fields, Arrays]:
        self._catch_up()
        calibrators = {
            f"calibrator {k}": nest(calibrator.to_bytes())
            for k, calibrator in enumerate(self._calibrators)
        }
        fields = {"known": pack(self._labels), "room": self._room, "taught": self._n_taught}
        return fields, {"model": self._model, "recent": self._recent, **calibrators}

    @classmethod
    def _check_room(cls, parameters: Fields, arrays: Arrays) -> None:
        labels, window = parameters.get("labels"), parameters.get("window")
        recent, model = array_of(arrays, "recent", None, None), array_of(arrays, "model", None)
        require(window in (None, len(recent)), "the ring must fit the window")
        n_labels = len(labels) if isinstance(labels, list | tuple) else 0
        require(n_labels**2 <= len(model), "the model must fit the labels")

    def _thaw(self, fields: Fields, arrays: Arrays) -> None:
        known = self._read_labels(fields["known"])
        n_labels, width = len(known), max(len(known), 1) + 1
        model = array_of(arrays, "model", None)
        recent = array_of(arrays, "recent", self.window, width)
        room = as_int(fields["room"], "room", 1)
        require(len(model) == self._size(n_labels, room), "the model must fit labels and features")
        self._room = room
        self._label_at_once(known)
        self._check_model(model)
        n_seen = int(model[kernels.N_SEEN])
        n_taught = as_int(fields["taught"], "taught", 0, n_seen)
        self._check_ring(recent, n_labels, n_seen)
        n_calibrators = sum(name.startswith("calibrator ") for name in arrays)
        require(n_calibrators in (0, n_labels - 1), "there must be a calibrator per boundary")
        require(n_calibrators or not n_taught, "what is taught must have been learned")
        states = (state_of(arrays, f"calibrator {k}") for k in range(n_calibrators))
        calibrators = [IsotonicCalibrator.from_bytes(state) for state in states]
        check_alike(calibrators, [IsotonicCalibrator(window=self.window)] * n_calibrators)
        self._model, self._recent = model, recent
        self._calibrators, self._n_taught = calibrators, n_taught

    def _read_labels(self, packed: Any) -> list[ClfTarget]:
        """Return the labels in a state, or raise unless they are those that may be."""
        known: list[ClfTarget] = unpack(packed)
        require(isinstance(known, list), "labels must be a list")
        require(len(known) == len(set(known)), "labels must be different")
        if self.labels is not None:
            require(known == self._labels, "labels must be those given")
            return known
        require(len(known) <= _MOST_LABELS, "there must not be more labels than are learned")
        for label in known:
            as_name(label, "labels")
            require(isinstance(label, str) or math.isfinite(label), "labels must be finite")
        require(known == sorted(known), "labels must be in order")
        return known

    def _check_model(self, model: NDArray[np.float64]) -> None:
        """Raise unless a vector of the right size has the settings and can have been learned."""
        head, n_labels = self._model, int(self._model[kernels.N_LABELS])
        learned = kernels.SCALE, kernels.COUNT, kernels.MASS, kernels.TOTAL, kernels.RANK_LOSS
        free = [kernels.N_ROWS, kernels.N_SEEN, *learned]
        bound = np.ones(kernels.HEAD + n_labels**2, np.bool_)
        bound[free] = False
        same = (model[: len(bound)][bound] == head[: len(bound)][bound]).all()
        require(same, "the model must fit the parameters")
        require((np.abs(model) <= _MOST_WEIGHT).all(), "weights must be in range")
        n_rows, n_seen = model[[kernels.N_ROWS, kernels.N_SEEN]].tolist()
        require(n_rows.is_integer() and 1 <= n_rows <= self._room, "all rows must have room")
        most = max(_FIRST_CAPACITY, 2 * n_rows)
        require(self._room <= most, "there must not be more room than is made")
        require(n_seen.is_integer() and n_seen >= 0, "samples must be a number")
        require((model[list(learned)] >= 0.0).all(), "sums must not be negative")
        require(kernels._LEAST_SCALE <= model[kernels.SCALE] <= 1.0, "the scale is in its range")
        require(1.0 <= model[kernels.COUNT] <= kernels._MOST_COUNT, "the count is in its range")

    def _check_ring(self, recent: NDArray[np.float64], n_labels: int, n_seen: int) -> None:
        """Raise unless these can be the last samples: their margins, rank and weight."""
        ranks, w = recent[: min(n_seen, len(recent)), -2:].T
        require(np.isin(ranks, np.arange(n_labels)).all(), "the ring must hold ranks")
        require(((w >= SMALLEST) & (w <= LARGEST)).all(), "the ring must hold weights")

    def __getstate__(self) -> dict[str, Any]:
        self._catch_up()  # so that having been asked for probabilities leaves no trace
        return self.__dict__.copy()


def _growth(averaging: str | float | None) -> float:
    """Return how much more each sample's weights count in the average than the last's."""
    if averaging is None or averaging == "uniform":
        return 1.0
    if isinstance(averaging, str) or not as_score(averaging, "averaging") >= SHORTEST_HALF_LIFE:
        raise ValueError(
            f"`averaging` must be None, 'uniform' or a half-life of at least {SHORTEST_HALF_LIFE},"
            f" got {averaging!r}"
        )
    return float(2.0 ** (1.0 / averaging))


def _check_labels(labels: Any) -> list[ClfTarget]:
    if labels is None:
        return []
    if isinstance(labels, str) or not isinstance(labels, Sequence):
        raise TypeError(f"`labels` must be a sequence of labels or None, got {labels!r}")
    if len(labels) < 2:
        raise ValueError(f"`labels` must hold at least two labels, got {labels!r}")
    for label in labels:
        if label is None or label != label:
            raise ValueError(f"`labels` must hold labels, got {label} in {labels!r}")
    if len(set(labels)) < len(labels):
        raise ValueError(f"`labels` must be different from each other, got {labels!r}")
    return list(labels)


def _split(weights: NDArray[np.float64], rank: int, *, copy: bool) -> NDArray[np.float64]:
    """Return weights, boundaries last, with one more boundary, for a new label of that rank.

    Between two labels both new boundaries take half the weights of the old one, so that the new
    label's score lies midway; at an end the boundary begins at zero. ``copy``: biases along a
    shared direction, where a new threshold begins at its neighbour's.
    """
    bounds = weights.shape[-1]
    at = min(max(rank - 1, 0), bounds - 1)
    if bounds == 0:
        return np.zeros((*weights.shape[:-1], 1))
    if copy:
        return np.insert(weights, at, weights[..., at], axis=-1)
    if 0 < rank <= bounds:
        weights = weights.copy()
        weights[..., at] *= 0.5
        return np.insert(weights, at, weights[..., at], axis=-1)
    return np.insert(weights, 0 if rank == 0 else bounds, 0.0, axis=-1)


def _split_margins(margins: NDArray[np.float64], rank: int) -> NDArray[np.float64]:
    """Return margins of past samples with one more boundary, for a new label of that rank."""
    bounds = margins.shape[1]
    if bounds == 0:
        return np.zeros((len(margins), 1))
    if rank == 0:
        return np.insert(margins, 0, np.maximum(margins[:, 0], 0.0), axis=1)
    if rank == bounds + 1:
        return np.insert(margins, bounds, np.minimum(margins[:, -1], 0.0), axis=1)
    return np.insert(margins, rank, margins[:, rank - 1], axis=1)


def check_features(x: Any) -> list[float]:
    """Return the values of a dict of features, or raise."""
    if not isinstance(x, dict):
        raise TypeError(f"`x` must be a dict of features, got {x!r}")
    values = []
    for feature, value in x.items():
        number = as_number(value, f"x[{feature!r}]")
        if not abs(number) <= LARGEST:
            raise ValueError(
                f"`x` must hold finite numbers up to {LARGEST:g}, got {number} for {feature!r}"
            )
        values.append(number)
    return values


def check_frame(X: IntoDataFrame) -> tuple[Any, NDArray[np.float64]]:
    """Return a frame and its values, or raise."""
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
