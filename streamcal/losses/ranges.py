"""The ranges of the arguments of losses: intervals, and sets of two numbers."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from streamcal._validation import as_number

_minimum, _maximum = np.minimum.reduce, np.maximum.reduce


@dataclass(frozen=True, slots=True)
class Interval:
    """The numbers between ``low`` and ``high``; infinite ends are always open.

    Parameters
    ----------
    low, high : float
        The ends, ``low < high``; may be infinite.
    low_closed, high_closed : bool
        Whether a finite end belongs to the interval.

    Raises
    ------
    ValueError
        If not ``low < high``.

    Examples
    --------
    >>> print(Interval(0, 1), Interval(0, math.inf, low_closed=False))
    [0, 1] (0, inf)
    >>> Interval(0, 1).contains([0.0, 1.5])
    array([ True, False])
    >>> 0.5 in Interval(0, 1)
    True
    """

    low: float
    high: float
    low_closed: bool = True
    high_closed: bool = True

    def __post_init__(self) -> None:
        if not self.low < self.high:
            raise ValueError(f"`low` must be less than `high`, got {self.low} and {self.high}")
        object.__setattr__(self, "low_closed", self.low_closed and self.low > -math.inf)
        object.__setattr__(self, "high_closed", self.high_closed and self.high < math.inf)

    def __contains__(self, x: float) -> bool:
        above = self.low <= x if self.low_closed else self.low < x
        below = x <= self.high if self.high_closed else x < self.high
        return above and below

    def contains(self, x: ArrayLike) -> NDArray[np.bool_]:
        """Return for each element whether it is in the interval; NaN never is."""
        x = np.asarray(x, dtype=np.float64)
        above = x >= self.low if self.low_closed else x > self.low
        below = x <= self.high if self.high_closed else x < self.high
        return np.asarray(above & below)

    def clip(self, x: float) -> float:
        """Return the number in the interval that is nearest to ``x``.

        Examples
        --------
        >>> Interval(0, 1).clip(1.5), Interval(0, 1, low_closed=False).clip(-2.0)
        (1.0, 5e-324)
        """
        low = self.low if self.low_closed else math.nextafter(self.low, math.inf)
        high = self.high if self.high_closed else math.nextafter(self.high, -math.inf)
        return float(min(max(x, low), high))

    def contains_all(self, x: NDArray[np.float64]) -> bool:
        """Return whether all elements are in the interval, without a temporary array."""
        if x.size == 0:
            return True
        return float(_minimum(x, None)) in self and float(_maximum(x, None)) in self

    def __str__(self) -> str:
        left, right = "[" if self.low_closed else "(", "]" if self.high_closed else ")"
        return f"{left}{self.low:g}, {self.high:g}{right}"


@dataclass(frozen=True, slots=True)
class TwoPoint:
    """The set of two numbers ``{low, high}``.

    Raises
    ------
    ValueError
        If not ``low < high``.

    Examples
    --------
    >>> print(TwoPoint(-1, 1))
    {-1, 1}
    >>> TwoPoint(-1, 1).contains([-1.0, 0.0])
    array([ True, False])
    """

    low: float
    high: float

    def __post_init__(self) -> None:
        if not self.low < self.high:
            raise ValueError(f"`low` must be less than `high`, got {self.low} and {self.high}")

    def __contains__(self, x: float) -> bool:
        return bool(x == self.low or x == self.high)

    def contains(self, x: ArrayLike) -> NDArray[np.bool_]:
        """Return for each element whether it is one of the two; NaN never is."""
        x = np.asarray(x, dtype=np.float64)
        return np.asarray((x == self.low) | (x == self.high))

    def contains_all(self, x: NDArray[np.float64]) -> bool:
        """Return whether every element is one of the two."""
        return bool(self.contains(x).all())

    def __str__(self) -> str:
        return f"{{{self.low:g}, {self.high:g}}}"


def as_range(value: Any, name: str) -> Interval | TwoPoint:
    """Return a range, a pair as the interval with these ends or a set of two numbers as this set.

    Raises
    ------
    TypeError
        If it is none of these.

    Examples
    --------
    >>> print(as_range((0, 1), "z_range"), as_range({1, -1}, "y_range"))
    [0, 1] {-1, 1}
    """
    if isinstance(value, Interval | TwoPoint):
        return value
    if not isinstance(value, tuple | set) or len(value) != 2:
        raise TypeError(f"`{name}` must be a pair (low, high) or a set of two, got {value!r}")
    low, high = (as_number(end, name) for end in value)
    if isinstance(value, set):
        return TwoPoint(min(low, high), max(low, high))
    return Interval(low, high)
