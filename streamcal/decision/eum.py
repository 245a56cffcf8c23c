"""Empirical utility maximisation: one threshold that is best for the metric on past samples.

Where `maximize` trusts the probabilities, EUM trusts the past: it takes any scores, calibrated or
not, and the threshold at which past (score, label) pairs would have had the best metric [1]_. Here
it is kept up to date sample by sample, over all of the past, a window or with a half-life.

References
----------
.. [1] Koyejo, O., Natarajan, N., Ravikumar, P. and Dhillon, I. S. (2014). Consistent binary
   classification with generalized performance metrics. NeurIPS.
"""

import math
from collections import deque
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from streamcal._clone import Cloned
from streamcal._exact_sum import ExactSum
from streamcal._state import Arrays, Fields, Stateful, array_of, as_float, require
from streamcal._validation import (
    as_score,
    as_vector,
    as_weight,
    as_weights,
    check_half_life,
    check_same_length,
    check_window,
)
from streamcal.calibration._slots import Tree, check_slots, check_tree, read_queue, read_tree
from streamcal.calibration._sums import MOST_WEIGHT
from streamcal.decision.metrics import as_parameter, get_metric
from streamcal.kernels import array_index as index
from streamcal.kernels.confusion_index import NEED_ROOM, best_threshold, change, walk

Vector = NDArray[np.float64]

_LARGEST_GROWTH = 2.0**64
_VANISHED = 2.0**-80  # of the weight of all


class ThresholdCurve(NamedTuple):
    """The metric at every threshold that makes a difference.

    Attributes
    ----------
    thresholds : ndarray of shape (n_scores + 1,)
        inf, then the distinct scores, descending; the label is 1 from the threshold up.
    utilities : ndarray of shape (n_scores + 1,)
        The metric of past samples at each.
    """

    thresholds: Vector
    utilities: Vector


class EUMThreshold(Stateful, Cloned):
    """The threshold that maximises a metric on past (score, label) pairs, kept up to date.

    Parameters
    ----------
    metric : str, Metric or river metric
        See `streamcal.decision.get_metric`.
    window : int or None
        Forget all but the last so many samples; None keeps all.
    half_life : float or None
        Halve the weight of all samples with every so many that follow, at least 0.1; None never
        does.

    Raises
    ------
    ValueError, TypeError
        If the metric is unknown, ``window`` not a positive int or ``half_life`` less than 0.1.

    Notes
    -----
    Learning costs O(log n) for n distinct scores. The threshold is found by branch and bound in
    the tree when it is asked for after a change: exact, O(n) at worst, some tens of microseconds at
    100,000 scores. A metric that is a Python function is evaluated at all thresholds.

    Examples
    --------
    >>> eum = EUMThreshold("f1")
    >>> for score, label in [(0.9, 1), (0.8, 0), (0.7, 1), (0.2, 0), (0.1, 0)]:
    ...     eum.learn_one(score, label)
    >>> eum.threshold, eum.utility
    (0.7, 0.8)
    >>> eum.predict_one(0.75)
    True
    """

    def __init__(
        self,
        metric: Any = "f1",
        *,
        window: int | None = None,
        half_life: float | None = None,
    ) -> None:
        check_window(window)
        check_half_life(half_life)
        self.metric = metric
        self.window = window
        self.half_life = half_life
        self._metric = get_metric(metric)
        self._rate = 1.0 if half_life is None else 2.0 ** (1.0 / half_life)
        self._growth = 1.0
        self._recent: deque[tuple[float, float, float]] = deque()
        self._sums: dict[float, tuple[ExactSum, ExactSum]] = {}  # of what is recent, by score
        self._best: tuple[float, float] | None = None
        self._clear(8)

    def _clear(self, capacity: int) -> None:
        self._data, self._links = index.allocate(capacity)
        index.clear(self._data, self._links, capacity)

    def __getstate__(self) -> dict[str, Any]:
        # What is only remembered is no part of the state: asking changes nothing.
        return {**self.__dict__, "_best": None}

    @property
    def n_scores(self) -> int:
        """Number of distinct scores held."""
        return int(self._links[index.N_SCORES])

    @property
    def threshold(self) -> float:
        """The best threshold: the label is 1 from here up; inf if no label should be (or is known).

        Of equally good thresholds it is one of them.
        """
        return self._optimum()[0]

    @property
    def utility(self) -> float:
        """The metric of past samples at the best threshold."""
        return self._optimum()[1]

    def _optimum(self) -> tuple[float, float]:
        if self._best is None:
            if self._metric.spec is not None:
                self._best = best_threshold(self._data, self._links, self._metric.spec)
            else:
                curve = self.curve()
                at = int(curve.utilities.argmax())
                self._best = float(curve.thresholds[at]), float(curve.utilities[at])
        return self._best

    def predict_one(self, score: float) -> bool:
        """Return whether ``score`` reaches the best threshold."""
        return as_score(score) >= self.threshold

    def predict_many(self, scores: ArrayLike) -> NDArray[np.bool_]:
        """Return which of ``scores``, shape ``(n_samples,)``, reach the best threshold."""
        reached: NDArray[np.bool_] = as_vector(scores, "scores") >= self.threshold
        return reached

    def learn_one(self, score: float, y: float, w: float = 1.0) -> None:
        """Learn that ``score`` was followed by the label ``y`` (0 or 1), with weight ``w``."""
        score, w = as_score(score), as_weight(w)
        if y not in (0, 1):
            raise ValueError(f"`y` must be 0 or 1, got {y!r}")
        self._add(score, float(y), w)

    def learn_many(self, scores: ArrayLike, y: ArrayLike, w: ArrayLike | None = None) -> None:
        """Learn samples in the order given; arrays of shape ``(n_samples,)``."""
        score_vector, labels = as_vector(scores, "scores"), as_vector(y, "y")
        check_same_length(labels, len(score_vector), "y")
        weights = as_weights(w, len(score_vector))
        bad = (labels != 0.0) & (labels != 1.0)
        if bad.any():
            at = int(np.argmax(bad))
            raise ValueError(f"`y` must be 0 or 1, got {labels[at]} at position {at}")
        for sample in zip(score_vector.tolist(), labels.tolist(), weights.tolist(), strict=True):
            self._add(*sample)

    def curve(self) -> ThresholdCurve:
        """Return the metric at every threshold, in O(n)."""
        slots = np.empty((self.n_scores, 3))
        walk(self._data, self._links, slots)
        thresholds = np.concatenate([[math.inf], slots[:, 0]])
        hits = np.concatenate([[0.0], slots[:, 1].cumsum()]) / self._growth
        alarms = np.concatenate([[0.0], slots[:, 2].cumsum()]) / self._growth
        tables = np.array([hits, alarms, hits[-1] - hits, alarms[-1] - alarms])
        return ThresholdCurve(thresholds, self._metric._values(np.maximum(tables, 0.0)))

    def _parameters(self) -> Fields:
        return {**super()._parameters(), "metric": as_parameter(self.metric)}

    def _freeze(self) -> tuple[Fields, Arrays]:
        from streamcal.kernels import transfer

        slots, counts = np.empty((self.n_scores, 3)), np.empty(self.n_scores, np.int64)
        transfer.dump(self._data, self._links, slots, counts)
        tree, _ = read_tree(self._data, self._links)
        return {"growth": self._growth}, {
            "slots": slots,
            "counts": counts,
            "shape": tree.shape,
            "keys": tree.keys,
            "recent": np.array(self._recent, np.float64).reshape(-1, 3),
        }

    def _thaw(self, fields: Fields, arrays: Arrays) -> None:
        from streamcal.kernels import transfer

        slots = array_of(arrays, "slots", None, 3)
        counts = array_of(arrays, "counts", None, dtype=np.int64)
        shape = array_of(arrays, "shape", None, dtype=np.int64)
        tree = Tree(shape, array_of(arrays, "keys", None))
        recent = read_queue(arrays, "recent", self.window)
        growth = as_float(fields["growth"], "growth", 1.0, _LARGEST_GROWTH)
        scores, *sums = np.ascontiguousarray(slots.T)
        check_slots(scores, np.array(sums), counts)
        for held in (slots[:, 1:], recent[:, 1:]):
            require(((held >= 0.0) & (held < MOST_WEIGHT)).all(), "sums must not be negative")
        check_tree(tree, scores)
        held = np.searchsorted(scores, recent[:, 0])
        require(np.isin(recent[:, 0], scores).all(), "the window must hold scores that are known")
        if self.window:
            n_held = np.bincount(held, minlength=len(scores))
            require((n_held == counts).all(), "counts must be those of the window")
        self._growth = growth
        self._recent = deque(map(tuple, recent.tolist()))
        self._sums = _sum_up(self._recent)
        self._clear(max(8, int((tree.shape != index.INNER).sum()) + 1))
        transfer.build_tree(self._data, self._links, tree.shape, tree.keys)
        for (score, positive, negative), count in zip(slots.tolist(), counts.tolist(), strict=True):
            change(self._data, self._links, score, positive, negative, count)

    def _add(self, score: float, y: float, w: float) -> None:
        if self.half_life is not None:
            self._growth *= self._rate
            if self._growth > _LARGEST_GROWTH:
                self._rescale()
            w *= self._growth
        self._change(score, w * y, w * (1.0 - y), 1)
        if self.window is not None:
            self._recent.append((score, w * y, w * (1.0 - y)))
            _count_in(self._sums, *self._recent[-1])
            if len(self._recent) > self.window:
                self._forget(*self._recent.popleft())
        self._best = None

    def _forget(self, score: float, positive: float, negative: float) -> None:
        """Forget a sample that leaves the window."""
        # What is left beside a heavy sample has lost digits, so its sums are not differences.
        self._change(score, -math.inf, -math.inf, -1)  # sums never fall below 0
        _count_in(self._sums, score, -positive, -negative)
        positive, negative = (total.value for total in self._sums[score])
        if positive or negative:
            self._change(score, positive, negative, 0)
        else:
            del self._sums[score]

    def _change(self, score: float, positive: float, negative: float, n: int) -> int:
        status = change(self._data, self._links, score, positive, negative, n)
        if status == NEED_ROOM:
            capacity = 2 * int(self._links[index.CAPACITY])
            data, links = index.allocate(capacity)
            index.move(self._data, self._links, data, links, capacity)
            self._data, self._links = data, links
            status = change(self._data, self._links, score, positive, negative, n)
        return status

    def _rescale(self) -> None:
        """Take the growth out of all weights; scores of which nothing is left leave."""
        slots = np.empty((self.n_scores, 3))
        walk(self._data, self._links, slots)
        slots[:, 1:] /= self._growth
        self._recent = deque((s, p / self._growth, q / self._growth) for s, p, q in self._recent)
        self._sums = _sum_up(self._recent)
        self._growth = 1.0
        held = {} if self.window is None else _count(self._recent)
        self._clear(8)
        lasts = (slots[:, 1:] > _VANISHED * slots[:, 1:].sum(axis=0)).any(axis=1)
        for (score, positive, negative), stays in zip(
            slots[::-1].tolist(), lasts[::-1].tolist(), strict=True
        ):
            if held:
                self._change(score, positive, negative, held[score])
            elif stays:
                self._change(score, positive, negative, 1)


def _count(samples: deque[tuple[float, float, float]]) -> dict[float, int]:
    held: dict[float, int] = {}
    for score, _, _ in samples:
        held[score] = held.get(score, 0) + 1
    return held


def _count_in(
    sums: dict[float, tuple[ExactSum, ExactSum]], score: float, positive: float, negative: float
) -> None:
    if score not in sums:
        sums[score] = ExactSum(), ExactSum()
    sums[score][0].add(positive)
    sums[score][1].add(negative)


def _sum_up(
    samples: deque[tuple[float, float, float]],
) -> dict[float, tuple[ExactSum, ExactSum]]:
    sums: dict[float, tuple[ExactSum, ExactSum]] = {}
    for sample in samples:
        _count_in(sums, *sample)
    return sums
