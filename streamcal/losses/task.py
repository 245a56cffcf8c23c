"""Task losses: the cost of predicting one ordinal label when another is true.

Labels are ranks 1..K. A `TaskLoss` makes, for any number of labels, a table whose entry (k, y) is
the cost ℓ(k, y) ≥ 0 of predicting k when y is true; indices of the table count from 0. The value z
of a `streamcal.losses.Loss` is a real number; a task loss is only defined for labels, so it has no
derivative, but it can be *convex in its first argument*:

    ℓ(k, y) − 2 ℓ(k + 1, y) + ℓ(k + 2, y) ≥ 0   for all k and y.

Then the best thresholds that cut a score into labels can be found one by one (Yamasaki & Tanaka,
*Parallel Algorithm for Optimal Threshold Labeling of Ordinal Regression Methods*, Theorem 2).
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from streamcal._validation import check_count
from streamcal.losses._base import set_parameter

# Sums of costs times weights stay finite: weights are at most 1e60, samples at most 2**53.
_MOST_COST = 1e100
_MOST_COST_OF_A_RANK = 1e95  # labels are at most 32,766 ranks apart
# Second differences of tables like 0.1, 0.2, 0.3 are 0 up to rounding.
_ROUNDING = 1e-12
LABELS_OF_SMALL_TABLES = 500  # their costs take two megabytes


class TaskLoss(ABC):
    """The cost ℓ(k, y) of predicting the ordinal label k when y is true.

    A subclass is a ``@dataclass(frozen=True, kw_only=True)`` whose fields are its parameters, so it
    is immutable, picklable, and equal and hashable by class and parameters.

    Attributes
    ----------
    name : str
        The name in lower case, for `streamcal.losses.get_task` and in messages.

    Examples
    --------
    A subclass is a name and a table:

    >>> @dataclass(frozen=True, kw_only=True)
    ... class Capped(TaskLoss):
    ...     name = "capped"
    ...
    ...     def _table(self, n_labels):
    ...         return AbsoluteError().table(n_labels).clip(max=2.0)
    >>> Capped().table(4)[0]
    array([0., 1., 2., 2.])
    >>> Capped().is_convex(3), Capped().is_convex(4)
    (True, False)
    """

    name: str

    @abstractmethod
    def _table(self, n_labels: int) -> NDArray[np.float64]:
        """Return the table; ``n_labels`` is an int of at least 2."""

    def table(self, n_labels: int) -> NDArray[np.float64]:
        """Return the costs, shape ``(n_labels, n_labels)``: rows predicted, columns true labels.

        Raises
        ------
        ValueError
            If ``n_labels`` is not an int of at least 2, the loss is not defined for this number, or
            a subclass makes a table of another shape, or with costs that are not from 0 to 1e100.

        Examples
        --------
        >>> AbsoluteError().table(3)
        array([[0., 1., 2.],
               [1., 0., 1.],
               [2., 1., 0.]])
        """
        check_n_labels(n_labels)
        table = np.array(self._table(int(n_labels)), dtype=np.float64, order="C")
        if table.shape != (n_labels, n_labels):
            raise ValueError(
                f"`{type(self).__name__}._table` must return shape {(n_labels, n_labels)}, got"
                f" {table.shape}"
            )
        _check_costs(table, f"`{type(self).__name__}._table`")
        return table

    def is_convex(self, n_labels: int) -> bool:
        """Return whether the loss is convex in the predicted label; for 2 labels it always is.

        Examples
        --------
        >>> AbsoluteError().is_convex(5), ZeroOneError().is_convex(5)
        (True, False)
        """
        table = self.table(n_labels)
        return bool((np.diff(table, 2, axis=0) >= -_ROUNDING * table.max()).all())


@dataclass(frozen=True, kw_only=True)
class AbsoluteError(TaskLoss):
    """Absolute task loss |k − y|: the distance of the ranks. Convex.

    Examples
    --------
    >>> AbsoluteError().table(4)[0]
    array([0., 1., 2., 3.])
    """

    name = "absolute"

    def _table(self, n_labels: int) -> NDArray[np.float64]:
        return np.abs(_distances(n_labels))


@dataclass(frozen=True, kw_only=True)
class SquaredError(TaskLoss):
    """Squared task loss (k − y)². Convex.

    Examples
    --------
    >>> SquaredError().table(4)[0]
    array([0., 1., 4., 9.])
    """

    name = "squared"

    def _table(self, n_labels: int) -> NDArray[np.float64]:
        return np.square(_distances(n_labels))


@dataclass(frozen=True, kw_only=True)
class ZeroOneError(TaskLoss):
    """Zero-one task loss 1[k ≠ y]: the rate of wrong predictions. Not convex for 3 or more labels.

    Examples
    --------
    >>> ZeroOneError().table(4)[0]
    array([0., 1., 1., 1.])
    """

    name = "zero-one"

    def _table(self, n_labels: int) -> NDArray[np.float64]:
        return 1.0 - np.eye(n_labels)


@dataclass(frozen=True, kw_only=True)
class AsymmetricError(TaskLoss):
    """Asymmetric linear task loss: over · (k − y) for k > y, under · (y − k) for k < y. Convex.

    Parameters
    ----------
    under, over : float
        The cost of a rank too low and of a rank too high; from 0 to 1e95, not both 0.

    Raises
    ------
    ValueError
        If a cost is out of range.

    Examples
    --------
    Missing a severe case is worse than a false alarm:

    >>> AsymmetricError(under=3.0, over=1.0).table(3)
    array([[0., 3., 6.],
           [1., 0., 3.],
           [2., 1., 0.]])
    """

    under: float = 1.0
    over: float = 1.0

    name = "asymmetric"

    def __post_init__(self) -> None:
        for argument in ("under", "over"):
            set_parameter(self, argument, f"[0, {_MOST_COST_OF_A_RANK:g}]")
        if self.under == self.over == 0.0:
            raise ValueError("`under` and `over` must not both be 0")

    def _table(self, n_labels: int) -> NDArray[np.float64]:
        distance = _distances(n_labels)
        return self.over * np.maximum(distance, 0.0) + self.under * np.maximum(-distance, 0.0)


@dataclass(frozen=True)
class CostTable(TaskLoss):
    """Any table of costs, for as many labels as it has rows.

    Parameters
    ----------
    costs : array-like of shape (n_labels, n_labels)
        Row k, column y: the cost of predicting k when y is true; from 0 to 1e100.

    Raises
    ------
    ValueError
        If it is not square, or a cost is not from 0 to 1e100.
    TypeError
        If it does not hold numbers.

    Examples
    --------
    >>> loss = CostTable([[0, 1, 5], [1, 0, 1], [2, 1, 0]])
    >>> loss.is_convex(3), float(loss.table(3)[0, 2])
    (True, 5.0)
    >>> loss.table(4)
    Traceback (most recent call last):
    ...
    ValueError: `n_labels` must be 3 for this table of costs, got 4
    """

    costs: ArrayLike

    name = "table"

    def __post_init__(self) -> None:
        try:
            table = np.asarray(self.costs)
        except ValueError:
            raise ValueError("`costs` must be square, got rows of different lengths") from None
        if table.ndim != 2 or table.shape[0] != table.shape[1] or len(table) < 2:
            raise ValueError(f"`costs` must be square, of at least 2 rows, got shape {table.shape}")
        if table.dtype.kind not in "fiub":
            raise TypeError(f"`costs` must hold numbers, got dtype {table.dtype}")
        table = table.astype(np.float64)
        _check_costs(table, "`costs`")
        object.__setattr__(self, "costs", tuple(map(tuple, table.tolist())))

    def _table(self, n_labels: int) -> NDArray[np.float64]:
        table = np.array(self.costs)
        if len(table) != n_labels:
            raise ValueError(
                f"`n_labels` must be {len(table)} for this table of costs, got {n_labels}"
            )
        return table


def _check_costs(table: NDArray[np.float64], name: str) -> None:
    """Raise ``ValueError`` unless all costs are in range."""
    good = (table >= 0.0) & (table <= _MOST_COST)
    if not good.all():
        raise ValueError(f"{name} must hold costs from 0 to {_MOST_COST:g}, got {table[~good][0]}")


def check_n_labels(n_labels: Any) -> None:
    """Raise ``ValueError`` unless ``n_labels`` is an int from 2 to 32,767.

    Examples
    --------
    >>> check_n_labels(1)
    Traceback (most recent call last):
    ...
    ValueError: `n_labels` must be an int from 2 to 32767, got 1
    """
    check_count(n_labels, "n_labels", 2, 32_767)


def _distances(n_labels: int) -> NDArray[np.float64]:
    """Return k − y for every predicted label k (row) and true label y (column)."""
    ranks = np.arange(n_labels, dtype=np.float64)
    return np.subtract.outer(ranks, ranks)
