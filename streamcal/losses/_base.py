"""Base classes of losses, and the ranges of their arguments.

For a family of losses the best common value of a block of weighted samples is

    link(Σ w · statistic(y) / Σ w)

with an increasing link, so W = Σ w and S = Σ w · statistic(y) are enough to describe a block. Such
a loss is a `MeanLoss`. Losses with the same statistic have the same blocks.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

_minimum, _maximum = np.minimum.reduce, np.maximum.reduce

Floats = TypeVar("Floats", float, NDArray[np.float64])
"""A Python float or a float64 array; the result has the type of the argument."""


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


class Loss(ABC):
    """A loss l(z, y) of the value z for the label y.

    A subclass is a ``@dataclass(frozen=True, kw_only=True)`` whose fields are its parameters. That
    makes it immutable, picklable, and equal and hashable by class and parameters.

    Attributes
    ----------
    name : str
        The name in lower case, for `streamcal.losses.get` and in messages.
    y_range : Interval or TwoPoint
        The labels for which the loss is defined.
    z_range : Interval
        The values for which it is defined.
    minimized_by_label : bool
        Whether l(z, y) is least at z = y; the best value of a block then lies among its labels.

    Examples
    --------
    >>> from streamcal import losses
    >>> loss: losses.Loss = losses.Huber(delta=1.0)
    >>> loss([0.5, 3.0], 0.0)
    array([0.125, 2.5  ])
    >>> loss == losses.Huber(delta=1.0), str(losses.Log().y_range)
    (True, '[0, 1]')
    """

    name: str
    y_range: Interval | TwoPoint
    z_range: Interval
    minimized_by_label: bool = False

    @abstractmethod
    def __call__(self, z: ArrayLike, y: ArrayLike) -> NDArray[np.float64]:
        """Return l(z, y) element by element; the arguments broadcast.

        The losses of this library also take arrays of JAX, and then return one.

        At the ends of its range a loss has its limit, inf if it grows without bound. Outside the
        ranges the result is undefined, without a warning.
        """

    def check_labels(self, y: ArrayLike, argument: str = "y") -> None:
        """Raise ``ValueError`` unless every label lies in ``y_range``.

        The message has the first bad label and, in an array, its position.

        Examples
        --------
        >>> from streamcal import losses
        >>> losses.Log().check_labels([0, 1, 2])
        Traceback (most recent call last):
        ...
        ValueError: `y` must lie in [0, 1] for the log loss, got 2.0 at position 2
        """
        label: object = y
        if isinstance(label, (float, int)) and label in self.y_range:
            return  # ten times as fast as the general case
        labels = np.asarray(y, dtype=np.float64)
        if self.y_range.contains_all(labels):
            return
        at = int(np.argmin(self.y_range.contains(labels)))
        where = f" at position {at}" if labels.ndim else ""
        raise ValueError(
            f"`{argument}` must lie in {self.y_range} for the {self.name} loss,"
            f" got {labels.flat[at]}{where}"
        )


class MeanLoss(Loss):
    """A loss whose best value for a block of samples is ``link(Σ w statistic(y) / Σ w)``.

    Every estimator of this library can minimise a subclass that has a value, a statistic, a link
    and its inverse. The defaults are those of a Bregman divergence, whose minimiser is the mean of
    the labels.

    The statistic and the link accept a Python float or a float64 array and return the same kind.

    Examples
    --------
    The Itakura–Saito divergence y / z − log(y / z) − 1, for spectra:

    >>> @dataclass(frozen=True, kw_only=True)
    ... class ItakuraSaito(MeanLoss):
    ...     name = "itakura-saito"
    ...     y_range = z_range = Interval(0, math.inf, low_closed=False)
    ...     def __call__(self, z, y):
    ...         return y / z - np.log(np.divide(y, z)) - 1
    >>> import streamcal
    >>> streamcal.isotonic_fit([1, 2, 3], [2.0, 1.0, 3.0], loss=ItakuraSaito()).values
    array([1.5, 3. ])
    """

    minimized_by_label = True
    prior_labels: tuple[float, float] | None = None
    """The labels of the two pseudo-samples of a prior; None: there is no prior."""

    def statistic(self, y: Floats) -> Floats:
        """Return φ(y), whose weighted mean over a block determines the value of the block."""
        return y

    def link(self, m: Floats) -> Floats:
        """Return ψ(m), the best value of a block whose mean statistic is ``m``; increasing."""
        return m

    def inverse_link(self, z: Floats) -> Floats:
        """Return the mean statistic whose `link` is ``z``."""
        return z

    @property
    def mean_range(self) -> tuple[float, float]:
        """The least and the greatest mean statistic of a block; ±inf if unknown.

        The quotient of rounded sums may be slightly outside of this range, so it must be clipped
        before `link` is called.

        Examples
        --------
        >>> from streamcal import losses
        >>> losses.Log().mean_range, losses.Logistic().mean_range
        ((0.0, 1.0), (0.0, 1.0))
        """
        low, high = self.z_range.low, self.z_range.high
        if self.minimized_by_label and isinstance(self.y_range, Interval):
            low, high = self.y_range.clip(-math.inf), self.y_range.clip(math.inf)
        try:
            least, most = float(self.inverse_link(low)), float(self.inverse_link(high))
        except (ArithmeticError, ValueError):  # a loss of a user, at an infinite end of its range
            return -math.inf, math.inf
        return (least, most) if least < most else (-math.inf, math.inf)
