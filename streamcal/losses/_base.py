"""Base classes of losses.

For a family of losses the best common value of a block of weighted samples is

    link(Σ w · statistic(y) / Σ w)

with an increasing link, so W = Σ w and S = Σ w · statistic(y) are enough to describe a block. Such
a loss is a `MeanLoss`. Losses with the same statistic have the same blocks.
"""

import math
from abc import ABC, abstractmethod
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from streamcal._validation import as_within
from streamcal.losses._namespace import as_arrays
from streamcal.losses.ranges import Interval, TwoPoint

Floats = TypeVar("Floats", float, NDArray[np.float64])
"""A Python float or a float64 array; the result has the type of the argument."""


class Written(ABC):
    """The value of a loss of this library, which is written once for NumPy and JAX."""

    @np.errstate(all="ignore")
    def __call__(self, z: ArrayLike, y: ArrayLike) -> NDArray[np.float64]:
        value: NDArray[np.float64] = self._value(*as_arrays(z, y))
        return value

    @abstractmethod
    def _value(self, xp: Any, z: Any, y: Any) -> Any:
        """Return l(z, y) of two arrays of ``xp``, which is ``numpy`` or ``jax.numpy``."""


class Loss(ABC):
    """A loss l(z, y) of the value z for the label y.

    A subclass is a ``@dataclass(frozen=True, kw_only=True)`` whose fields are its parameters. That
    makes it immutable, picklable, and equal and hashable by class and parameters.

    Attributes
    ----------
    name : str
        The name in lower case, for `streamcal.losses.get` and in messages.
    y_range
        The labels for which the loss is defined, as an interval or a set of two numbers
        (`streamcal.losses.ranges`). A class of your own may take that of another loss:
        ``losses.Squared.y_range`` is all numbers, ``losses.Gamma.y_range`` those above 0,
        ``losses.Poisson.y_range`` those from 0 up, ``losses.Log.y_range`` those in [0, 1].
    z_range
        The values for which it is defined, an interval.
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
        ValueError: `y` must lie in [0, 1] for the log loss, got 2.0 at position 2; write 1 for \
the positive label, and 0 for others
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
            f" got {labels.flat[at]}{where}{_about_label(float(labels.flat[at]), self)}"
        )


def _about_label(y: float, loss: Loss) -> str:
    """Return what to do with a label outside the range of a loss."""
    if y != y:
        return "; leave out samples without a label"
    if isinstance(loss.y_range, TwoPoint):
        low, high = loss.y_range.low, loss.y_range.high
        return f"; write {high:g} for the positive label, and {low:g} for the other"
    if str(loss.y_range) == "[0, 1]":
        return "; write 1 for the positive label, and 0 for others"
    return ""


class MeanLoss(Loss):
    """A loss whose best value for a block of samples is ``link(Σ w statistic(y) / Σ w)``.

    Every estimator of this library can minimise a subclass that has a value, a statistic, a link
    and its inverse. The defaults are those of a Bregman divergence, whose minimiser is the mean of
    the labels.

    The statistic and the link accept a Python float or a float64 array and return the same kind.

    Examples
    --------
    The Itakura–Saito divergence y / z − log(y / z) − 1, for spectra:

    >>> from dataclasses import dataclass
    >>> from streamcal import losses
    >>> @dataclass(frozen=True, kw_only=True)
    ... class ItakuraSaito(losses.MeanLoss):
    ...     name = "itakura-saito"
    ...     y_range = z_range = losses.Gamma.y_range  # the positive numbers
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


def set_parameter(loss: object, name: str, interval: str) -> None:
    """Store a parameter of a frozen loss as a float, or raise unless it is in an interval."""
    object.__setattr__(loss, name, as_within(getattr(loss, name), name, interval))
