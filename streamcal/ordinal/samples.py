"""The samples that thresholds are found for: checked, sorted, as kernels take them."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from streamcal._validation import (
    MOST_COUNT,
    as_vector,
    as_weights,
    check_choice,
    check_no_mask,
    check_same_length,
)
from streamcal.losses.task import check_n_labels

_NO_WEIGHTS: NDArray[np.float64] = np.empty(0)


def is_accurate(risk: float, scale: float, n_added: int, table: NDArray[np.float64] | None) -> bool:
    """Return whether rounding in prefix sums can increase the risk by a millionth at most.

    Parameters
    ----------
    risk : float
        The risk of the thresholds that were found.
    scale : float
        The sum of the sizes of all addends.
    n_added : int
        How many additions the result of an addition can go through.
    table : ndarray of shape (n_labels, n_labels), optional
        The costs, if weights are integers: sums of integers below 2**53 are exact.
    """
    if table is not None and scale < MOST_COUNT and bool((table == np.rint(table)).all()):
        return True
    return risk == 0.0 or 2.0**-52 * n_added * scale <= 1e-6 * risk


def spread_of(table: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return for each label the sum of the differences of its costs, in size."""
    spread: NDArray[np.float64] = np.abs(np.diff(table, axis=0)).sum(axis=0)
    return spread


@dataclass(frozen=True)
class Samples:
    """Sorted scores, with labels that count from 0 and signed weights as kernels take them."""

    scores: NDArray[np.float64]
    labels: NDArray[np.uint16]
    w: NDArray[np.float64]
    n_labels: int
    totals: NDArray[np.float64] = field(repr=False)
    """The weight of each label."""

    @classmethod
    def of(cls, scores: Any, y: Any, n_labels: int | None, w: Any, class_weight: Any) -> "Samples":
        """Check the arguments of `optimal_thresholds`, and sort the samples."""
        vector = as_vector(scores, "scores")
        if not len(vector):
            raise ValueError("`scores` must hold at least one sample, got none")
        ranks, n_labels = as_ranks(y, n_labels)
        check_same_length(ranks, len(vector), "y")
        weights = _NO_WEIGHTS if w is None else as_weights(w, len(vector))
        totals = np.bincount(ranks, weights if len(weights) else None, n_labels).astype(np.float64)
        if class_weight is not None:
            by_label = _weights_by_label(class_weight, totals)
            weights = (weights if len(weights) else 1.0) * by_label[ranks]
            totals = totals * by_label
        return cls.sorted(vector, ranks, weights, n_labels, totals)

    @classmethod
    def sorted(
        cls,
        scores: NDArray[np.float64],
        ranks: NDArray[np.uint16],
        weights: NDArray[np.float64],
        n_labels: int,
        totals: NDArray[np.float64],
    ) -> "Samples":
        """Sort samples; ``weights`` may be empty, which means ones."""
        from streamcal.kernels import thresholds as kernels
        from streamcal.kernels.pav import INCREASING, SORTED, order_of

        kind = order_of(scores)
        if kind == INCREASING:
            order = None
        elif kind == SORTED:
            order = np.arange(len(scores))
        else:
            order = np.argsort(scores)
            kind = order_of(scores[order])
        if order is None:
            return cls(scores, ranks, weights, n_labels, totals)
        if kind == SORTED:  # descending labels within a score
            order = np.lexsort((-ranks.astype(np.int32), scores))
        signed = _NO_WEIGHTS
        if kind == SORTED or len(weights):
            signed = np.empty(len(scores))
            kernels.write_signed_weights(scores, weights, order, signed)
        return cls(scores[order], ranks[order], signed, n_labels, totals)

    def thresholds(self, cuts: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the threshold of each cut: a midpoint, -inf before and inf after all samples."""
        return midpoints(
            np.where(cuts > 0, self.scores[np.maximum(cuts, 1) - 1], -np.inf),
            np.where(
                cuts < len(self.scores), self.scores[np.minimum(cuts, len(self.scores) - 1)], np.inf
            ),
        )

    def is_accurate(self, risk: float, table: NDArray[np.float64]) -> bool:
        """Return whether rounding can increase the risk by a millionth at most."""
        integers = bool((self.w == np.rint(self.w)).all())
        scale = float(spread_of(table) @ self.totals)
        return is_accurate(risk, scale, len(self.labels), table if integers else None)

    def risk(self, table: NDArray[np.float64], cuts: NDArray[np.int64]) -> float:
        """Return the summed loss of the labels that sorted cuts give."""
        from streamcal.kernels import thresholds as kernels

        return kernels.risk(self.labels, self.w, np.ascontiguousarray(table.T), cuts)


def midpoints(low: NDArray[np.float64], high: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return midpoints: above ``low``, unless that is −inf, and not above ``high``."""
    middle = 0.5 * low + 0.5 * high  # the sum itself may overflow
    inside = (middle > low) & (middle < high)
    return np.where(inside, middle, np.where(low == -np.inf, low, high))


def as_ranks(y: ArrayLike, n_labels: int | None) -> tuple[NDArray[np.uint16], int]:
    """Return labels 1..K as 0..K - 1, and K: the greatest label where ``n_labels`` is None.

    Raises
    ------
    ValueError
        If a label is not an int from 1 to ``n_labels``, or that is less than 2.
    TypeError
        If labels are not numbers.

    Examples
    --------
    >>> as_ranks([1, 3, 2], None)
    (array([0, 2, 1], dtype=uint16), 3)
    """
    check_no_mask(y, "y")
    array = np.asarray(y)
    if array.dtype.kind not in "iu":
        array = as_vector(array, "y", finite=False)
    elif array.ndim != 1:
        raise ValueError(f"`y` must be one-dimensional, got shape {array.shape}")
    if n_labels is not None:
        check_n_labels(n_labels)
    most = 32_767 if n_labels is None else int(n_labels)
    low, high = (array.min(), array.max()) if len(array) else (1, 1)
    whole = array.dtype.kind in "iu"
    if not (low >= 1 and high <= most) or not (whole or (array == np.floor(array)).all()):
        bad = ~((array >= 1) & (array <= most))
        if not whole:
            bad |= array != np.floor(array)
        at = int(np.argmax(bad))
        raise ValueError(f"`y` must be ints from 1 to {most}, got {array[at]} at position {at}")
    if n_labels is None:
        n_labels = int(high)
        if n_labels < 2:
            raise ValueError("`n_labels` must be given where no label is greater than 1")
    return (array - 1).astype(np.uint16), int(n_labels)


def _weights_by_label(class_weight: Any, totals: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the weight of each label, from the total weight of its samples."""
    if isinstance(class_weight, str):
        check_choice(class_weight, "class_weight", ("balanced",))
        occurs = totals > 0.0
        safe = np.where(occurs, totals, 1.0)
        return np.where(occurs, totals.sum() / (occurs.sum() * safe), 1.0)
    weights = as_weights(class_weight, len(np.atleast_1d(class_weight)), "class_weight")
    if len(weights) != len(totals):
        raise ValueError(
            f"`class_weight` must have one weight per label ({len(totals)}), got {len(weights)}"
        )
    return weights
