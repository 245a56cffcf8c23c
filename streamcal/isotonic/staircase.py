"""The staircase, and the batch fit that finds it.

A `Staircase` is the non-decreasing map with the smallest loss on weighted samples. It consists of
*blocks*, runs of scores that share one value (Barlow, Bartholomew, Bremner & Brunk, *Statistical
Inference under Order Restrictions*, 1972). `isotonic_fit` computes it for a batch;
`PAVStack` and `IsotonicCalibrator` keep it up to date on a stream.
"""

import math
from dataclasses import dataclass, fields
from typing import Any, Literal, get_args, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from streamcal import losses
from streamcal._validation import as_vector, as_weights, check_choice, check_same_length
from streamcal.kernels import pav
from streamcal.losses.names import get_mean
from streamcal.losses.ranges import Interval

Interpolation = Literal["step", "linear"]
INTERPOLATIONS: tuple[Interpolation, ...] = get_args(Interpolation)
Outside = Literal["clip", "nan"]
OUTSIDE: tuple[Outside, ...] = get_args(Outside)


@dataclass(frozen=True, eq=False, repr=False)
class Staircase:
    """A non-decreasing map from scores to values, given by its blocks; call it to evaluate it.

    No scores were learned between blocks; ``interpolation`` defines the values there:

    * ``"step"``: the value of the block to the left;
    * ``"linear"``: a straight line from the end of one block to the start of the next.

    If one end of a gap is infinite, the gap has the value of its finite end. If the value on one
    side is infinite, the gap has the finite value.

    Parameters
    ----------
    lower, upper : ndarray of shape (n_blocks,)
        The smallest and the greatest score of each block; only the outermost may be infinite.
    values : ndarray of shape (n_blocks,)
        The value of each block, non-decreasing.
    weights : ndarray of shape (n_blocks,)
        The total weight of each block.
    centers : ndarray of shape (n_blocks,)
        The weighted mean score of each block.
    interpolation : {"linear", "step"}
        The values between blocks, unless a call overrides it.
    outside : {"clip", "nan"}
        The value outside the learned scores: the outermost value, or NaN.

    Arrays that can be written to are copied; the staircase's own are read-only.

    Raises
    ------
    ValueError
        If the arrays do not describe a staircase, or an option is unknown.

    Examples
    --------
    >>> stairs = isotonic_fit([1, 2, 3, 4], [0.0, 2.0, 1.0, 4.0])
    >>> stairs
    Staircase(n_blocks=3, range=[0.0, 4.0])
    >>> stairs([1.5, 2.5, 3.5, 9.0])
    array([0.75, 1.5 , 2.75, 4.  ])
    >>> stairs(1.5, interpolation="step")
    0.0
    """

    lower: NDArray[np.float64]
    upper: NDArray[np.float64]
    values: NDArray[np.float64]
    weights: NDArray[np.float64]
    centers: NDArray[np.float64]
    interpolation: Interpolation = "linear"
    outside: Outside = "clip"

    def __post_init__(self) -> None:
        check_choice(self.interpolation, "interpolation", INTERPOLATIONS)
        check_choice(self.outside, "outside", OUTSIDE)
        for name in ("lower", "upper", "values", "weights", "centers"):
            array = as_read_only(getattr(self, name))
            object.__setattr__(self, name, array)
            if array.ndim != 1 or len(array) != len(self.lower) or not len(array):
                raise ValueError(
                    f"`{name}` must have one value per block, at least one block,"
                    f" got shape {array.shape}"
                )
        if not pav.in_order(self.lower, self.upper, self.values):
            raise ValueError(
                "`lower`, `upper` and `values` must describe disjoint blocks in score order with"
                f" values that do not decrease, got {self.lower}, {self.upper} and {self.values}"
            )

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        # An unpickled array is writable; the constructor makes it read-only again.
        return _rebuild, (type(self), {f.name: getattr(self, f.name) for f in fields(self)})

    def __len__(self) -> int:
        return len(self.values)

    def __repr__(self) -> str:
        return f"Staircase(n_blocks={len(self)}, range=[{self.values[0]}, {self.values[-1]}])"

    @overload
    def __call__(
        self,
        scores: float,
        *,
        interpolation: Interpolation | None = None,
        outside: Outside | None = None,
    ) -> float: ...

    @overload
    def __call__(
        self,
        scores: ArrayLike,
        *,
        interpolation: Interpolation | None = None,
        outside: Outside | None = None,
    ) -> Any: ...

    def __call__(
        self,
        scores: ArrayLike,
        *,
        interpolation: Interpolation | None = None,
        outside: Outside | None = None,
    ) -> Any:
        """Return the values at ``scores``; O(log n_blocks) each.

        Parameters
        ----------
        scores : float or array_like of any shape
            Where to evaluate. NaN gives NaN.
        interpolation, outside : str, optional
            Override those of the staircase.

        Returns
        -------
        values : float or ndarray
            A float for a scalar, else an array of the shape of ``scores``.

        Raises
        ------
        ValueError
            If an option is unknown.
        """
        interpolation = self.interpolation if interpolation is None else interpolation
        outside = self.outside if outside is None else outside
        check_choice(interpolation, "interpolation", INTERPOLATIONS)
        check_choice(outside, "outside", OUTSIDE)
        shape = np.shape(scores)
        x = as_vector(np.ravel(scores), "scores", finite=False)
        values = pav.evaluate(self.lower, self.upper, self.values, interpolation != "step", x)
        if outside == "nan":
            values[(x < self.lower[0]) | (x > self.upper[-1])] = np.nan
        return values.reshape(shape) if shape else float(values[0])


def isotonic_fit(
    scores: ArrayLike,
    y: ArrayLike,
    w: ArrayLike | None = None,
    *,
    loss: losses.MeanLossName | losses.Loss = "squared",
    interpolation: Interpolation = "linear",
    outside: Outside = "clip",
) -> Staircase:
    """Return the non-decreasing map of scores that minimises the total loss.

    Samples with equal scores are one sample before anything is pooled. O(n log n), or O(n) where
    the scores come sorted.

    Parameters
    ----------
    scores : array_like of shape (n_samples,)
        Finite, in any order.
    y : array_like of shape (n_samples,)
        Labels, in the range of the loss.
    w : array_like of shape (n_samples,), optional
        Weights from 1e-60 to 1e60; ones by default.
    loss : str or MeanLoss
        What to minimise. All losses whose statistic is the label itself have the same staircase.
    interpolation : {"linear", "step"}
        What holds between blocks; see `Staircase`.
    outside : {"clip", "nan"}
        What holds outside the learned scores.

    Returns
    -------
    staircase : Staircase
        The values increase strictly from block to block (up to rounding in the link of the loss).

    Raises
    ------
    ValueError
        If there are no samples, lengths differ, a score is not finite, a label is out of range, a
        weight is out of its range, or the sums overflow.
    TypeError
        If the loss is not a mean-type loss, or the input is not numbers.

    Notes
    -----
    The pool-adjacent-violators algorithm: a block whose mean does not exceed that of the block
    before is pooled with it. See `streamcal.kernels.pav` for its form here.

    Examples
    --------
    >>> isotonic_fit([3, 1, 2, 4], [1, 0, 1, 0], [1, 1, 2, 1], loss="log").values
    array([0.  , 0.75])
    """
    mean_loss = get_mean(loss)
    x, weights, sums = as_samples(scores, y, w, mean_loss)
    if not len(x):
        raise ValueError("`scores` must hold at least one score, got none")
    stack = as_stack(x, weights, sums)
    return from_stack(stack, mean_loss, interpolation, outside)


def as_stack(
    x: NDArray[np.float64], weights: NDArray[np.float64] | None, sums: NDArray[np.float64]
) -> pav.Stack:
    """Return the stack of one or more samples in any order."""
    stack = pav.Stack.of(x, weights, sums)
    if stack is None:
        x = as_vector(np.array(x), "scores")  # a copy: another thread may write to the scores
        by_score = np.argsort(x)  # ties are summed, in whatever order
        weights = None if weights is None else weights[by_score]
        stack = pav.Stack.of(x[by_score], weights, sums[by_score])
        assert stack is not None
    return stack


def as_samples(
    scores: ArrayLike, y: ArrayLike, w: ArrayLike | None, loss: losses.MeanLoss
) -> tuple[NDArray[np.float64], NDArray[np.float64] | None, NDArray[np.float64]]:
    """Return scores, weights and weighted statistics; raise as `check_samples` does."""
    x, labels, weights = check_samples(scores, y, w, loss)
    return x, weights, weighted_statistics(labels, weights, loss)


def check_samples(
    scores: ArrayLike, y: ArrayLike, w: ArrayLike | None, loss: losses.Loss
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64] | None]:
    """Return scores, labels and weights as vectors; raise, but not yet for infinite scores.

    Weights are None where none were given.
    """
    x = as_vector(scores, "scores", finite=False)
    labels = as_vector(y, "y", finite=False)
    check_same_length(labels, len(x), "y")
    ends = label_range(loss)
    if ends is None or not pav.inside(labels, *ends, True, True):
        loss.check_labels(labels)
    return x, labels, None if w is None else as_weights(w, len(x))


def weighted_statistics(
    labels: NDArray[np.float64], weights: NDArray[np.float64] | None, loss: losses.MeanLoss
) -> NDArray[np.float64]:
    """Return the statistics of labels, times the weights where there are any."""
    statistics = loss.statistic(labels)
    if weights is None:
        return statistics
    with np.errstate(over="ignore"):
        return weights * statistics


def label_range(loss: losses.Loss) -> tuple[float, float] | None:
    """Return the least and the greatest label of a loss, or None unless all between are labels.

    Examples
    --------
    >>> label_range(losses.Log()), label_range(losses.Logistic())
    ((0.0, 1.0), None)
    """
    labels = loss.y_range
    checks_more = type(loss).check_labels is not losses.Loss.check_labels
    if checks_more or not isinstance(labels, Interval):
        return None
    return labels.clip(-math.inf), labels.clip(math.inf)


def from_stack(
    stack: pav.Stack, loss: losses.MeanLoss, interpolation: Interpolation, outside: Outside
) -> Staircase:
    """Return the staircase of a stack, which is not changed."""
    blocks, finite = stack.describe()
    if not finite:
        raise ValueError("`w` must be small enough for finite sums of weights and weighted labels")
    means = blocks[2]
    least, most = loss.mean_range
    if not (least == -math.inf and most == math.inf):
        means = means.clip(least, most)
    values = np.ascontiguousarray(loss.link(means), dtype=np.float64)
    values.setflags(write=False)
    blocks.setflags(write=False)
    check_choice(interpolation, "interpolation", INTERPOLATIONS)
    check_choice(outside, "outside", OUTSIDE)
    # Arrays from a kernel need no check and no copy.
    stairs = object.__new__(Staircase)
    vars(stairs).update(
        lower=blocks[0],
        upper=blocks[1],
        values=values,
        weights=blocks[3],
        centers=blocks[4],
        interpolation=interpolation,
        outside=outside,
    )
    return stairs


def describe_blocks(
    x: NDArray[np.float64], w: NDArray[np.float64], starts: NDArray[np.int64]
) -> tuple[NDArray[np.float64], ...]:
    """Return what a `Staircase` holds of blocks of sorted samples, values aside.

    That is the least and the greatest score of each block, its weight, and its center.
    """
    lower, upper = x[starts], x[np.append(starts[1:], len(x)) - 1]
    weights = np.add.reduceat(w, starts)
    with np.errstate(over="ignore", invalid="ignore"):
        centers = np.add.reduceat(w * x, starts) / weights
    centers = np.where(np.isfinite(centers), centers, 0.5 * lower + 0.5 * upper)
    return lower, upper, weights, centers.clip(lower, upper)


def _rebuild(kind: type[Staircase], values: dict[str, Any]) -> Staircase:
    return kind(**values)


def as_read_only(values: ArrayLike) -> NDArray[np.float64]:
    """Return a read-only vector; a copy, if the given one is writable."""
    array = np.asarray(values, dtype=np.float64, order="C")
    if array.flags.writeable:
        array = array.copy()
        array.flags.writeable = False
    return array
