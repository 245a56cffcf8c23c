"""Isotonic regression of a stream whose scores arrive in order: exact after each sample.

The stack of Gokcesu & Gokcesu (*Efficient, Anytime Algorithms for Calibration with Isotonic
Regression under Strictly Convex Losses*, section V): a new sample is a block, pooled with the block
before for as long as its mean does not exceed that block's mean. Each sample is pooled away at most
once, so a push costs O(1) on average. Scores in any order are `IsotonicCalibrator`'s subject.
"""

import math
from typing import Any, NoReturn

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
from streamcal.isotonic._sums import check_sums
from streamcal.isotonic.staircase import (
    INTERPOLATIONS,
    OUTSIDE,
    Staircase,
    as_samples,
    from_stack,
)
from streamcal.kernels import pav


class PAVStack(Stateful):
    """The staircase of samples pushed in score order.

    Parameters
    ----------
    loss : str or Loss
        What to minimise; any convex loss.
    interpolation : {"linear", "step", "centered"}
        What holds between blocks; see `Staircase`.

    Raises
    ------
    ValueError
        If the loss or the interpolation is unknown.
    TypeError
        If ``loss`` is neither a name nor a `Loss`.

    Notes
    -----
    Memory is O(number of blocks): 48 bytes each, with room for twice as many at most.

    For a loss without a mean (`losses.Pinball`, `losses.Huber`, a function of one's own) all
    samples are kept, and a push that pools costs a pass over the samples of the block that results
    for each step of a bisection (`streamcal.isotonic.convex_stack`). There `push_many` is faster
    by far.

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

    def __new__(cls, loss: str | losses.Loss = "squared", **_: Any) -> "PAVStack":
        """Make the stack that the loss needs."""
        if cls is PAVStack and not isinstance(losses.get(loss), losses.MeanLoss):
            from streamcal.isotonic.convex_stack import ConvexPAVStack

            return object.__new__(ConvexPAVStack)
        return object.__new__(cls)

    def __init__(
        self, loss: str | losses.Loss = "squared", *, interpolation: str = "linear"
    ) -> None:
        check_choice(interpolation, "interpolation", INTERPOLATIONS)
        self.loss = loss
        self.interpolation = interpolation
        self._loss = losses.get_mean(loss)
        self._mean_range = self._loss.mean_range
        self._stack = pav.Stack()

    def push(self, score: float, y: float, w: float = 1.0) -> None:
        """Add a sample; amortised O(1).

        Parameters
        ----------
        score : float
            Finite and not less than the last one. If equal, the two are one sample before
            anything is pooled.
        y : float
            The label, in the range of the loss.
        w : float
            The weight, from 1e-60 to 1e60.

        Raises
        ------
        ValueError
            If the score is late, or an argument out of its range; nothing has changed then.
        TypeError
            If an argument is not a number.
        """
        label = y if y.__class__ is float else as_number(y, "y")
        floats = score.__class__ is w.__class__ is float
        if not (floats and -math.inf < score < math.inf and SMALLEST <= w <= LARGEST):
            score, w = as_score(score), as_weight(w)
        self._loss.check_labels(label)
        if not self._stack.push(score, w, w * self._loss.statistic(label)):
            if score < self._stack.last:
                refuse_late(score, self._stack.last)
            refuse_overflow(w)

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
        x, weights, sums = as_samples(scores, y, w, self._loss)
        if not self._stack.extend(x, weights, sums):
            check_order(x, self._stack.last)
            with np.errstate(over="ignore"):
                _, before, _ = self._stack.state()
                refuse_overflow(
                    f"a sum of {before + (len(x) if weights is None else float(weights.sum()))}"
                )

    def predict_one(self, score: float) -> float:
        """Return the value at ``score``; before the first sample the score itself, if in range.

        O(log n_blocks) beyond the blocks that the last sample is pooled with.

        Raises
        ------
        ValueError, TypeError
            If the score is not a finite number.
        """
        x = as_score(score)
        found = self._stack.find(x, self.interpolation == "centered")
        if found is None:
            return self._loss.z_range.clip(x)
        x0, mean0, x1, mean1 = found
        least, most = self._mean_range
        value = self._loss.link(min(max(mean0, least), most))
        if x0 < x1 and self.interpolation != "step":
            value = pav.between(x, x0, value, x1, self._loss.link(min(max(mean1, least), most)))
        return float(value)

    def staircase(self, *, outside: str = "clip") -> Staircase:
        """Return the present staircase, a copy; O(n_blocks).

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


def check_order(x: NDArray[np.float64], last: float) -> None:
    """Raise unless scores are finite, do not fall, and start at ``last`` at least."""
    as_vector(x, "scores")
    before = np.concatenate([[last], x[:-1]])
    late = x < before
    if late.any():
        at = int(np.argmax(late))
        refuse_late(x[at], before[at], f" at position {at}")


def refuse_late(score: float, last: float, where: str = "") -> NoReturn:
    """Raise for a score less than the last one."""
    raise ValueError(
        f"`score` must not be less than the last one, {last}, got {score}{where};"
        " IsotonicCalibrator takes scores in any order"
    )


def refuse_overflow(w: object) -> NoReturn:
    """Raise for weights whose sums overflow."""
    raise ValueError(
        f"`w` must be small enough for finite sums of weights and weighted labels, got {w}"
    )
