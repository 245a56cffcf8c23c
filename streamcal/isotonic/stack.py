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
from streamcal._state import Arrays, Fields, Stateful
from streamcal._validation import (
    LARGEST,
    SMALLEST,
    as_number,
    as_score,
    as_vector,
    as_weight,
    check_choice,
)
from streamcal.isotonic.convex_stack import ConvexBlocks
from streamcal.isotonic.mean_stack import MeanBlocks
from streamcal.isotonic.staircase import (
    INTERPOLATIONS,
    OUTSIDE,
    Interpolation,
    Outside,
    Staircase,
    check_samples,
    label_range,
)


class PAVStack(Stateful):
    """The staircase of samples pushed in score order.

    Parameters
    ----------
    loss : str or Loss
        What to minimise; any convex loss.
    interpolation : {"linear", "step"}
        The values between blocks; see `Staircase`.

    Raises
    ------
    ValueError
        If the loss or the interpolation is unknown.
    TypeError
        If ``loss`` is neither a name nor a `Loss`.

    Notes
    -----
    Memory is O(number of blocks): 48 bytes each, and room for at most twice as many.

    For a loss without a mean (`losses.Pinball`, `losses.Huber`, your own function) all samples are
    kept. A push that pools then takes a bisection, each step of which is a pass over the samples of
    the new block (`streamcal.isotonic.convex_stack`). `push_many` is much faster there, and the
    first prediction after a push costs O(n_blocks) and a bisection.

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
        loss: losses.LossName | losses.Loss = "squared",
        *,
        interpolation: Interpolation = "linear",
    ) -> None:
        check_choice(interpolation, "interpolation", INTERPOLATIONS)
        self.loss = loss
        self.interpolation = interpolation
        self._loss = losses.get(loss)
        # Labels in this range need no further check; some losses have no such range.
        self._labels = label_range(self._loss) or (math.inf, -math.inf)
        self._blocks: MeanBlocks | ConvexBlocks
        if isinstance(self._loss, losses.MeanLoss):
            self._blocks = MeanBlocks(self._loss)
        else:
            self._blocks = ConvexBlocks(self._loss)

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
        if not self._blocks.add(score, label, w):
            if score < self._blocks.last:
                raise _late_error(score, self._blocks.last)
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
        if not self._blocks.add_many(x, labels, weights):
            _check_order(x, self._blocks.last)
            with np.errstate(over="ignore"):
                added = len(x) if weights is None else float(weights.sum())
                raise _overflow_error(f"a sum of {self._blocks.weight + added}")

    def predict_one(self, score: float) -> float:
        """Return the value at ``score``; before the first sample the score itself, if in range.

        O(log n_blocks), and the pooling of the last sample.

        Raises
        ------
        ValueError, TypeError
            If the score is not a finite number.
        """
        x = as_score(score)
        value = self._blocks.predict(x, self.interpolation)
        return self._loss.z_range.clip(x) if value is None else value

    def staircase(self, *, outside: Outside = "clip") -> Staircase:
        """Return a copy of the current staircase; O(n_blocks).

        Raises
        ------
        ValueError
            If nothing has been pushed, or ``outside`` is unknown.
        """
        check_choice(outside, "outside", OUTSIDE)
        if not len(self._blocks):
            raise ValueError("a staircase must have at least one sample, got none")
        return self._blocks.staircase(self.interpolation, outside)

    def __len__(self) -> int:
        """Return the number of blocks."""
        return len(self._blocks)

    def __repr__(self) -> str:
        return f"PAVStack(loss={self.loss!r}, interpolation={self.interpolation!r})"

    def _freeze(self) -> tuple[Fields, Arrays]:
        return self._blocks.freeze()

    def _thaw(self, fields: Fields, arrays: Arrays) -> None:
        self._blocks.thaw(fields, arrays)


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
