"""The input of a solver: checked and sorted samples, the range of values, and when to stop."""

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from streamcal import losses
from streamcal._validation import as_number, as_vector, as_weights, check_same_length
from streamcal.isotonic.staircase import Staircase
from streamcal.kernels import pav

Floats = NDArray[np.float64]

DEFAULT_TOL = 1e-9
"""The half-width at which a solve ends by default: a share of the range, or of the value itself."""


@dataclass(frozen=True)
class Problem:
    """Samples in score order and the rules for their values.

    A *cell* is a run of samples whose values are known to lie between the same two bounds.
    """

    loss: losses.Loss
    x: Floats
    y: Floats
    w: Floats
    offset: Floats | None
    ends: NDArray[np.uint8]  # 1 at the last sample of each score: a cell may end there
    low: float
    high: float
    tolerance: float  # the half-width at which a cell is closed
    relative: float  # the same, as a share of the value
    start: tuple[NDArray[np.int64], Floats] | None  # first samples and values of a close map


class Backend(Protocol):
    """Runs rounds on a problem."""

    def advance(self, n_rounds: int) -> int:
        """Run rounds, fewer if no cell is open any more; return how many."""

    def is_open(self) -> bool:
        """Return whether a cell is open, so that a round would do something."""

    def cells(self) -> tuple[NDArray[np.int64], Floats, Floats]:
        """Return the first sample of each cell, and its bounds."""


def make_problem(
    scores: ArrayLike,
    y: ArrayLike,
    w: ArrayLike | None,
    loss: losses.LossName | losses.Loss,
    *,
    offset: ArrayLike | None,
    y_min: float | None,
    y_max: float | None,
    start: Staircase | None,
    tol: float | None,
) -> Problem:
    """Check the arguments of `anytime_isotonic`, sort the samples, and find the range of values.

    With ``tol=0`` a solve continues until bounds are adjacent floats; None means ``DEFAULT_TOL``.
    """
    found = losses.get(loss)
    if start is not None and not isinstance(start, Staircase):
        raise TypeError(f"`start` must be a Staircase or None, got {start!r}")
    x, labels, weights, offsets = _check_samples(scores, y, w, offset, found)
    minimizers = labels if offsets is None else labels - offsets
    low, high = _find_range(found, minimizers, y_min, y_max)

    order = pav.order_of(x)
    if order == pav.UNSORTED:
        by_score = np.argsort(as_vector(x, "scores"), kind="stable")
        x, labels, weights = x[by_score], labels[by_score], weights[by_score]
        offsets = None if offsets is None else offsets[by_score]
    ends = np.ones(len(x), np.uint8)
    if order != pav.INCREASING:
        np.not_equal(x[:-1], x[1:], out=ends[:-1])

    tolerance, relative = _find_tolerance(tol, high - low)
    blocks = None
    if start is not None and high - low < math.inf:
        blocks = _locate_blocks(start, x)
    return Problem(found, x, labels, weights, offsets, ends, low, high, tolerance, relative, blocks)


def _check_samples(
    scores: ArrayLike,
    y: ArrayLike,
    w: ArrayLike | None,
    offset: ArrayLike | None,
    loss: losses.Loss,
) -> tuple[Floats, Floats, Floats, Floats | None]:
    """Return scores, labels, weights and offsets as vectors, or raise.

    Infinite scores are refused later, when they are sorted.
    """
    x = as_vector(scores, "scores", finite=False)
    labels = as_vector(y, "y")
    check_same_length(labels, len(x), "y")
    loss.check_labels(labels)
    weights = as_weights(w, len(x))
    offsets = None if offset is None else as_vector(offset, "offset")
    if offsets is not None:
        check_same_length(offsets, len(x), "offset")
    if not len(x):
        raise ValueError("`scores` must hold at least one score, got none")
    if offsets is not None:
        if not math.isinf(loss.z_range.low) or not math.isinf(loss.z_range.high):
            raise ValueError(
                f"`offset` needs a loss that is defined for all values, got {loss.name}, whose"
                f" values lie in {loss.z_range}"
            )
        if isinstance(loss, losses.Pinball | losses.Absolute):  # l(z + o, y) is l(z, y - o)
            labels, offsets = as_vector(labels - offsets, "y"), None
    return x, labels, weights, offsets


def _find_range(
    loss: losses.Loss, minimizers: Floats, y_min: float | None, y_max: float | None
) -> tuple[float, float]:
    """Return the range of the values: the given one, or that of the labels or of the loss."""
    low, high = loss.z_range.low, loss.z_range.high
    for name, value in (("y_min", y_min), ("y_max", y_max)):
        if value is not None and not low <= as_number(value, name) <= high:
            raise ValueError(
                f"`{name}` must lie in {loss.z_range} for the {loss.name} loss, got {value!r}"
            )
    if y_min == math.inf or y_max == -math.inf:
        raise ValueError(
            "`y_min` and `y_max` must leave finite values between them,"
            f" got {y_min!r} and {y_max!r}"
        )
    if y_min is not None and y_max is not None and not y_min < y_max:
        raise ValueError(f"`y_min` must be less than `y_max`, got {y_min!r} and {y_max!r}")
    if loss.minimized_by_label:
        low, high = float(minimizers.min()), float(minimizers.max())
    low = low if y_min is None else float(y_min)
    high = high if y_max is None else float(y_max)
    if low > high:  # all labels are beyond the only given bound
        low = high = low if y_min is not None else high
    return low, high


def _find_tolerance(tol: float | None, width: float) -> tuple[float, float]:
    """Return the half-width to stop at, and the same as a share of the value."""
    if tol is not None:
        return tol, 0.0
    return (0.0, DEFAULT_TOL) if math.isinf(width) else (DEFAULT_TOL * width, 0.0)


def _locate_blocks(start: Staircase, x: Floats) -> tuple[NDArray[np.int64], Floats]:
    """Return where the steps of a staircase begin among sorted scores, and their values."""
    begins = np.append(0, np.searchsorted(x, start.lower[1:]))
    used = np.diff(begins, append=len(x)) > 0
    return begins[used], start.values[used]


def derivative_error(
    loss: losses.Loss, slopes: Floats, z: Floats, y: Floats, w: Floats, begin: int
) -> ValueError:
    """Return the error for a derivative that is NaN, or for infinite ones that cancel."""
    nan = np.isnan(slopes[begin:])
    at = begin + int(np.argmax(nan if nan.any() else np.isinf(slopes[begin:])))
    return ValueError(
        f"`loss` must have a derivative that is a number, got {slopes[at]} from the {loss.name}"
        f" loss at z = {z[at]}, y = {y[at]}, w = {w[at]}"
    )
