"""The blocks of a `PAVStack` for a mean-type loss: a compiled stack of weights and sums."""

import math

import numpy as np
from numpy.typing import NDArray

from streamcal._state import Arrays, Fields, array_of, as_float, require
from streamcal.isotonic.staircase import (
    Interpolation,
    Outside,
    Staircase,
    from_stack,
    weighted_statistics,
)
from streamcal.isotonic.sums import check_sums, statistic_range
from streamcal.kernels import pav
from streamcal.losses import MeanLoss

Vector = NDArray[np.float64]


class MeanBlocks:
    """Blocks of samples in score order, each with its weight and its sum of statistics.

    The input has been checked, except for the order of the scores and the size of the sums.
    """

    def __init__(self, loss: MeanLoss) -> None:
        self._loss = loss
        self._mean_range = loss.mean_range
        self._statistics = statistic_range(loss)
        # Most losses need no call for a sample: the statistic is the label, the value the mean.
        self._label_is_statistic = type(loss).statistic is MeanLoss.statistic
        self._mean_is_value = type(loss).link is MeanLoss.link
        self._stack = pav.Stack()

    @property
    def last(self) -> float:
        """The last score, or -inf."""
        return self._stack.last

    @property
    def weight(self) -> float:
        """The weight of all samples."""
        return self._stack.state()[1]

    def add(self, score: float, y: float, w: float) -> bool:
        """Add a sample; return False, unchanged, if it is late or sums overflow."""
        statistic = y if self._label_is_statistic else self._loss.statistic(y)
        return self._stack.push(score, w, w * statistic)

    def add_many(self, scores: Vector, y: Vector, w: Vector | None) -> bool:
        """Add samples in order; return False, unchanged, if one is late or sums overflow."""
        sums = weighted_statistics(y, w, self._loss)
        return self._stack.extend(scores, w, sums, *self._statistics)

    def predict(self, score: float, interpolation: Interpolation) -> float | None:
        """Return the value at a score, or None without any sample."""
        found = self._stack.find(score)
        if found is None:
            return None
        x0, mean0, x1, mean1 = found
        value = self._value_of(mean0)
        if x0 < x1 and interpolation != "step":
            value = pav.between(score, x0, value, x1, self._value_of(mean1))
        return value

    def _value_of(self, mean: float) -> float:
        least, most = self._mean_range
        mean = min(max(mean, least), most)
        return mean if self._mean_is_value else float(self._loss.link(mean))

    def staircase(self, interpolation: Interpolation, outside: Outside) -> Staircase:
        """Return the staircase of all samples, at least one."""
        return from_stack(self._stack, self._loss, interpolation, outside)

    def __len__(self) -> int:
        return len(self._stack)

    def freeze(self) -> tuple[Fields, Arrays]:
        """Return the state: fields, and arrays by name."""
        rows, weight, magnitude = self._stack.state()
        last = float(rows[-1, 1]) if len(rows) else -math.inf
        return {"last": last, "weight": weight, "magnitude": magnitude}, {"stack": rows}

    def thaw(self, fields: Fields, arrays: Arrays) -> None:
        """Restore what `freeze` returned; raise ``ValueError`` if it is impossible."""
        stack = array_of(arrays, "stack", None, 6, finite=False)  # moments may overflow
        lower, upper, weights, sums, _, means = np.ascontiguousarray(stack.T)
        require(np.isfinite([lower, upper, sums, means]).all(), "blocks must be finite")
        check_sums(weights, sums, self._loss)
        require((means == sums / weights).all(), "means must be those of the sums")
        if len(stack) > 1:  # the last row is a sample that has not been pooled
            blocks = lower[:-1], upper[:-1], means[:-1]
            require(pav.in_order(*blocks) and lower[-1] > upper[-2], "blocks must be in order")
        last = upper[-1] if len(stack) else -math.inf
        require(fields["last"] == last, "the last score must be that of the last block")
        require((lower[-1:] == upper[-1:]).all(), "the last block must have one score")
        # Totals bound what blocks can sum up to, so that this stays finite.
        weight = as_float(fields["weight"], "weight", (1.0 - 1e-9) * float(weights.sum()))
        least = (1.0 - 1e-9) * float(np.abs(sums).sum())
        magnitude = as_float(fields["magnitude"], "magnitude", least)
        require(weight + magnitude < math.inf, "totals must be finite")
        self._stack = pav.Stack.restore(np.ascontiguousarray(stack), weight, magnitude)
