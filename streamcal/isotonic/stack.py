"""Isotonic regression of a stream whose scores arrive in order: exact after each sample.

The stack of Gokcesu & Gokcesu (*Efficient, Anytime Algorithms for Calibration with Isotonic
Regression under Strictly Convex Losses*, section V): a new sample is a block, pooled with the block
before as long as its mean does not exceed that block's mean. Each block is merged into another at
most once, so a push costs O(1) on average. For scores in any order use `IsotonicCalibrator`.
"""

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from streamcal import losses
from streamcal._state import Arrays, Fields, Stateful, array_of, as_float, require
from streamcal._validation import (
    LARGEST,
    SMALLEST,
    as_number,
    as_score,
    as_vector,
    as_weight,
    check_choice,
)
from streamcal.isotonic.staircase import (
    INTERPOLATIONS,
    OUTSIDE,
    Interpolation,
    Outside,
    Staircase,
    check_samples,
    from_stack,
    label_range,
    weighted_statistics,
)
from streamcal.isotonic.sums import check_sums, statistic_range
from streamcal.kernels import pav
from streamcal.losses.names import get_mean


class PAVStack(Stateful):
    """The staircase of samples pushed in score order.

    Parameters
    ----------
    loss : str or Loss
        What to minimise: a `MeanLoss`. `anytime_isotonic` and `AnytimeCalibrator` take any other
        convex loss.
    interpolation : {"linear", "step"}
        The values between blocks; see `Staircase`.

    Raises
    ------
    ValueError
        If the loss or the interpolation is unknown.
    TypeError
        If ``loss`` is neither a name nor a `MeanLoss`.

    Notes
    -----
    Memory is O(number of blocks): 48 bytes each, and room for at most twice as many.

    Examples
    --------
    >>> stack = PAVStack()
    >>> for score, y in enumerate([44, 52, 18, 14, 93, 37, 96, 8]):
    ...     stack.push(score, y)
    >>> stack.staircase().values
    array([32. , 58.5])
    >>> stack.push(3, 1.0)
    Traceback (most recent call last):
    ...
    ValueError: `score` must not be less than the last one, 7.0, got 3.0; IsotonicCalibrator takes \
scores in any order
    """

    def __init__(
        self,
        loss: losses.MeanLossName | losses.Loss = "squared",
        *,
        interpolation: Interpolation = "linear",
    ) -> None:
        check_choice(interpolation, "interpolation", INTERPOLATIONS)
        self.loss = loss
        self.interpolation = interpolation
        self._loss = get_mean(loss)
        self._mean_range = self._loss.mean_range
        self._statistics = statistic_range(self._loss)
        # Most losses need no call for a sample: the statistic is the label, the value the mean.
        self._label_is_statistic = type(self._loss).statistic is losses.MeanLoss.statistic
        self._mean_is_value = type(self._loss).link is losses.MeanLoss.link
        # Labels in this range need no further check; some losses have no such range.
        self._labels = label_range(self._loss) or (math.inf, -math.inf)
        self._stack = pav.Stack()

    def push(self, score: float, y: float, w: float = 1.0) -> None:
        """Add a sample; amortised O(1).

        Parameters
        ----------
        score : float
            Finite and not less than the last one. Samples with equal scores are merged before
            pooling.
        y : float
            The label, in the range of the loss.
        w : float
            The weight, from 1e-60 to 1e60.

        Raises
        ------
        ValueError
            If the score is less than the last one, or an argument is out of its range; nothing
            has changed then.
        TypeError
            If an argument is not a number.
        """
        label = y if y.__class__ is float else as_number(y, "y")
        floats = score.__class__ is w.__class__ is float
        if not (floats and -math.inf < score < math.inf and SMALLEST <= w <= LARGEST):
            score, w = as_score(score), as_weight(w)
        low, high = self._labels
        if not low <= label <= high:
            self._loss.check_labels(label)
        statistic = label if self._label_is_statistic else self._loss.statistic(label)
        if not self._stack.push(score, w, w * statistic):
            if score < self._stack.last:
                raise _late_error(score, self._stack.last)
            raise _overflow_error(w)

    def push_many(self, scores: ArrayLike, y: ArrayLike, w: ArrayLike | None = None) -> None:
        """Add samples in order, as `push` does, all or none; O(n_samples).

        Parameters
        ----------
        scores, y, w : array_like of shape (n_samples,)
            Non-decreasing scores, labels, and weights (ones by default).

        Raises
        ------
        ValueError, TypeError
            As `push`; also if lengths differ. Nothing has changed then.

        Examples
        --------
        >>> stack = PAVStack("log")
        >>> stack.push_many([0.1, 0.2, 0.2, 0.4], [0, 1, 0, 1])
        >>> len(stack), stack.predict_one(0.2)
        (3, 0.5)
        """
        x, labels, weights = check_samples(scores, y, w, self._loss)
        sums = weighted_statistics(labels, weights, self._loss)
        if not self._stack.extend(x, weights, sums, *self._statistics):
            _check_order(x, self._stack.last)
            with np.errstate(over="ignore"):
                added = len(x) if weights is None else float(weights.sum())
                raise _overflow_error(f"a sum of {self._stack.state()[1] + added}")

    def predict_one(self, score: float) -> float:
        """Return the value at ``score``; before the first sample the score itself, if in range.

        O(log n_blocks), and the pooling of the last sample.

        Raises
        ------
        ValueError, TypeError
            If the score is not a finite number.
        """
        x = as_score(score)
        found = self._stack.find(x)
        if found is None:
            return self._loss.z_range.clip(x)
        x0, mean0, x1, mean1 = found
        value = self._value_of(mean0)
        if x0 < x1 and self.interpolation != "step":
            value = pav.between(x, x0, value, x1, self._value_of(mean1))
        return value

    def _value_of(self, mean: float) -> float:
        least, most = self._mean_range
        mean = min(max(mean, least), most)
        return mean if self._mean_is_value else float(self._loss.link(mean))

    def staircase(self, *, outside: Outside = "clip") -> Staircase:
        """Return a copy of the current staircase; O(n_blocks).

        Raises
        ------
        ValueError
            If nothing has been pushed, or ``outside`` is unknown.
        """
        check_choice(outside, "outside", OUTSIDE)
        if not len(self._stack):
            raise ValueError("a staircase must have at least one sample, got none")
        return from_stack(self._stack, self._loss, self.interpolation, outside)

    def __len__(self) -> int:
        """Return the number of blocks."""
        return len(self._stack)

    def __repr__(self) -> str:
        return f"PAVStack(loss={self.loss!r}, interpolation={self.interpolation!r})"

    def _freeze(self) -> tuple[Fields, Arrays]:
        rows, weight, magnitude = self._stack.state()
        last = float(rows[-1, 1]) if len(rows) else -math.inf
        return {"last": last, "weight": weight, "magnitude": magnitude}, {"stack": rows}

    def _thaw(self, fields: Fields, arrays: Arrays) -> None:
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


def _check_order(x: NDArray[np.float64], last: float) -> None:
    """Raise unless scores are finite, do not fall, and start at ``last`` at least."""
    as_vector(x, "scores")
    before = np.concatenate([[last], x[:-1]])
    late = x < before
    if late.any():
        at = int(np.argmax(late))
        raise _late_error(x[at], before[at], f" at position {at}")


def _late_error(score: float, last: float, where: str = "") -> ValueError:
    return ValueError(
        f"`score` must not be less than the last one, {last}, got {score}{where};"
        " IsotonicCalibrator takes scores in any order"
    )


def _overflow_error(w: object) -> ValueError:
    return ValueError(
        f"`w` must be small enough for finite sums of weights and weighted labels, got {w}"
    )
