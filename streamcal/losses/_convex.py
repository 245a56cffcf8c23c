"""Convex losses whose block minimiser is not a mean: for medians, quantiles, expectiles, outliers.

At the best common value of a block the sum of weighted derivatives changes its sign; solvers use
only these derivatives (`derivatives.derivative`). Values are written once, for NumPy and JAX.
Each loss is least where the value is the label.

Quantiles and expectiles: Newey & Powell, *Asymmetric Least Squares Estimation and Testing*,
Econometrica 1987. Huber: *Robust Estimation of a Location Parameter*, Annals of Mathematical
Statistics 1964.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from streamcal._validation import check_choice
from streamcal.losses._base import Loss, Written, set_parameter
from streamcal.losses.ranges import Interval, TwoPoint, as_range

Ties = Literal["lower", "midpoint", "upper"]
TIES: tuple[Ties, ...] = get_args(Ties)

_REAL = Interval(-math.inf, math.inf)


class _Residual(Written, Loss):
    """A loss of z − y for any finite labels and values, least at 0."""

    y_range = z_range = _REAL
    minimized_by_label = True


@dataclass(frozen=True, kw_only=True)
class Pinball(_Residual):
    r"""Pinball loss, for the quantile tau.

    .. math::

        \ell(z, y) = \begin{cases}
        \tau (y - z) & z \le y \\
        (1 - \tau)(z - y) & z > y
        \end{cases}

    If the weights on both sides are equal, every value from one label to the next is best.

    Parameters
    ----------
    tau : float
        The level of the quantile, strictly between 0 and 1.
    ties : {"midpoint", "lower", "upper"}
        Which best map is meant where there are several: the least one, the greatest one, or that
        which has each block of the least one at the middle of the values it can have as a whole.

    Raises
    ------
    ValueError
        If a parameter is out of range.

    Examples
    --------
    >>> Pinball(tau=0.9)([0.0, 2.0], [1.0, 1.0])
    array([0.9, 0.1])
    """

    tau: float = 0.5
    ties: Ties = "midpoint"

    name = "pinball"

    def __post_init__(self) -> None:
        set_parameter(self, "tau", "(0, 1)")
        check_choice(self.ties, "ties", TIES)

    def _value(self, xp: Any, z: Any, y: Any) -> Any:
        return xp.where(y >= z, self.tau * (y - z), (1.0 - self.tau) * (z - y))


@dataclass(frozen=True, kw_only=True)
class Absolute(_Residual):
    r"""Absolute error, twice the pinball loss of the median.

    .. math:: \ell(z, y) = \lvert z - y \rvert

    Parameters
    ----------
    ties : {"midpoint", "lower", "upper"}
        Which median is meant where there are several; see `Pinball`.

    Examples
    --------
    >>> float(Absolute()(0.25, 1.0))
    0.75
    """

    ties: Ties = "midpoint"

    name = "absolute"

    def __post_init__(self) -> None:
        check_choice(self.ties, "ties", TIES)

    def _value(self, xp: Any, z: Any, y: Any) -> Any:
        return xp.abs(z - y)


@dataclass(frozen=True, kw_only=True)
class Expectile(_Residual):
    r"""Asymmetric squared error, for the expectile tau.

    .. math::

        \ell(z, y) = \begin{cases}
        \tau (z - y)^2 & z \le y \\
        (1 - \tau)(z - y)^2 & z > y
        \end{cases}

    Parameters
    ----------
    tau : float
        The level of the expectile, strictly between 0 and 1; ½ is the mean.

    Raises
    ------
    ValueError
        If ``tau`` is out of range.

    Examples
    --------
    >>> Expectile(tau=0.75)([0.0, 2.0], [1.0, 1.0])
    array([0.75, 0.25])
    """

    tau: float = 0.5

    name = "expectile"

    def __post_init__(self) -> None:
        set_parameter(self, "tau", "(0, 1)")

    def _value(self, xp: Any, z: Any, y: Any) -> Any:
        return xp.where(y >= z, self.tau, 1.0 - self.tau) * xp.square(z - y)


@dataclass(frozen=True, kw_only=True)
class Huber(_Residual):
    r"""Huber loss, a square up to the distance delta and straight lines from there.

    .. math::

        \ell(z, y) = \begin{cases}
        \frac{1}{2}(z - y)^2 & \lvert z - y \rvert \le \delta \\
        \delta \lvert z - y \rvert - \frac{1}{2} \delta^2 & \text{otherwise}
        \end{cases}

    Parameters
    ----------
    delta : float
        Where the lines start, in units of the label; positive.

    Raises
    ------
    ValueError
        If ``delta`` is not positive and finite.

    Examples
    --------
    >>> Huber(delta=1.0)([0.5, 3.0], 0.0)
    array([0.125, 2.5  ])
    """

    delta: float = 1.0

    name = "huber"

    def __post_init__(self) -> None:
        set_parameter(self, "delta", "(0, inf)")

    def _value(self, xp: Any, z: Any, y: Any) -> Any:
        distance = xp.abs(z - y)
        inner = xp.minimum(distance, self.delta)
        return 0.5 * inner * inner + self.delta * (distance - inner)


@dataclass(frozen=True, kw_only=True)
class PseudoHuber(_Residual):
    r"""Pseudo-Huber loss, a smooth `Huber`.

    .. math:: \ell(z, y) = \delta^2 \left( \sqrt{1 + \frac{(z - y)^2}{\delta^2}} - 1 \right)

    Parameters
    ----------
    delta : float
        The scale, in units of the label, on which the square turns into a line; positive.

    Raises
    ------
    ValueError
        If ``delta`` is not positive and finite.

    Examples
    --------
    >>> float(PseudoHuber(delta=3.0)(4.0, 0.0))
    6.0
    """

    delta: float = 1.0

    name = "pseudo-huber"

    def __post_init__(self) -> None:
        set_parameter(self, "delta", "(0, inf)")

    def _value(self, xp: Any, z: Any, y: Any) -> Any:
        distance = xp.abs(z - y)
        # From 1e8 delta on the slope is delta up to rounding, and squares would overflow later.
        inner = xp.minimum(distance, 1e8 * self.delta)
        # √(1 + s) − 1 = s / (√(1 + s) + 1), which is no difference of nearly equal numbers
        root = xp.sqrt(1.0 + xp.square(inner / self.delta))
        return inner * (inner / (1.0 + root)) + self.delta * (distance - inner)


@dataclass(frozen=True, kw_only=True)
class LogCosh(_Residual):
    r"""Log-cosh loss, a square near the label and |z − y| − log 2 far from it.

    .. math:: \ell(z, y) = \log \cosh(z - y)

    Examples
    --------
    >>> float(LogCosh()(1.0, 0.0))
    0.43378083...
    """

    name = "log-cosh"

    def _value(self, xp: Any, z: Any, y: Any) -> Any:
        distance = xp.abs(z - y)
        return distance + xp.log1p(xp.exp(-2.0 * distance)) - math.log(2.0)


@dataclass(frozen=True, kw_only=True)
class Lp(_Residual):
    r"""The p-th power of the distance.

    .. math:: \ell(z, y) = \lvert z - y \rvert^p

    Parameters
    ----------
    p : float
        Greater than 1 and finite; towards 1 it is `Absolute`, and 2 is squared error.

    Raises
    ------
    ValueError
        If ``p`` is out of range.

    Examples
    --------
    >>> float(Lp(p=3)(0.0, 2.0))
    8.0
    """

    p: float = 1.5

    name = "lp"

    def __post_init__(self) -> None:
        set_parameter(self, "p", "(1, inf)")

    def _value(self, xp: Any, z: Any, y: Any) -> Any:
        return xp.power(xp.abs(z - y), self.p)


@dataclass(frozen=True, kw_only=True)
class FunctionLoss(Written, Loss):
    """A loss given by a function; made by `from_function`.

    Two are equal if their functions, ranges and names are. It can be pickled if its function can,
    which pickle must find by name.

    Examples
    --------
    >>> from streamcal import losses
    >>> loss = losses.from_function(lambda z, y: (z - y) ** 4, name="fourth power")
    >>> loss.name, float(loss(3.0, 1.0))
    ('fourth power', 16.0)
    """

    function: Callable[[Any, Any], Any]
    name: str = "function"
    z_range: Interval = field(default=_REAL)
    y_range: Interval | TwoPoint = field(default=_REAL)

    def _value(self, xp: Any, z: Any, y: Any) -> Any:
        if xp is np:
            from streamcal.losses.derivatives import values

            return values(self.function, z, y)
        return self.function(z, y)


def from_function(
    function: Callable[[Any, Any], Any],
    *,
    z_range: tuple[float, float] | Interval = _REAL,
    y_range: tuple[float, float] | set[float] | Interval | TwoPoint = _REAL,
    name: str = "function",
    check: bool = True,
) -> FunctionLoss:
    """Return the loss l(z, y) that a function computes; its derivative comes from ``jax.grad``.

    Parameters
    ----------
    function : callable
        l(z, y) of two scalars, convex in z, written with operators and `jax.numpy`.
    z_range : pair of floats
        The values z for which it is defined: the ends of an interval, which contains its finite
        ends, or the range of another loss, as ``losses.Gamma.z_range`` for all positive numbers.
    y_range : pair or set of two floats
        The labels y for which it is defined: an interval as above, or a set ``{low, high}``.
    name : str
        Its name in messages.
    check : bool
        Whether to check on a grid of 65 values and 9 labels that the derivative does not fall.

    Returns
    -------
    loss : FunctionLoss

    Raises
    ------
    ValueError
        If the derivative falls somewhere on the grid, or is NaN there, or a range is empty.
    TypeError
        If a range is of another form, JAX cannot trace ``function``, or it does not return a
        scalar.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> from streamcal import losses
    >>> quartic = losses.from_function(lambda z, y: (z - y) ** 4, name="quartic")
    >>> float(quartic(3.0, 1.0))
    16.0
    >>> losses.from_function(lambda z, y: jnp.cos(z - y), name="cosine")
    Traceback (most recent call last):
    ...
    ValueError: `function` must be convex in z, but the derivative of the cosine loss at y = \
-100.0 falls from ... at z = ... to ... at z = ...; `check=False` skips this check
    """
    if not callable(function):
        raise TypeError(f"`function` must be a function of z and y, got {function!r}")
    values, labels = as_range(z_range, "z_range"), as_range(y_range, "y_range")
    if not isinstance(values, Interval):
        raise TypeError(f"`z_range` must be an interval, got {z_range!r}")
    if not isinstance(name, str):
        raise TypeError(f"`name` must be a str, got {name!r}")
    from streamcal.losses.derivatives import pointwise

    loss = FunctionLoss(function=function, name=name, z_range=values, y_range=labels)
    pointwise(loss)
    if check:
        _check_convex(loss)
    return loss


def _check_convex(loss: FunctionLoss) -> None:
    from streamcal.losses.derivatives import derivative

    z, y = _grid(loss.z_range, 65), _grid(loss.y_range, 9)
    slopes = derivative(loss, np.tile(z, len(y)), np.repeat(y, len(z))).reshape(len(y), len(z))
    if np.isnan(slopes).any():
        at = np.argwhere(np.isnan(slopes))[0]
        raise ValueError(
            f"`function` must have a derivative in all of its domain, but that of the {loss.name}"
            f" loss is NaN at z = {z[at[1]]}, y = {y[at[0]]}; `check=False` skips this check"
        )
    left, right = slopes[:, :-1], slopes[:, 1:]
    size = np.maximum(np.abs(left), np.abs(right))
    with np.errstate(over="ignore"):
        falls = right < left - np.where(np.isfinite(size), 1e-9 * size, 0.0)
    if falls.any():
        row, at = np.argwhere(falls)[0]
        raise ValueError(
            f"`function` must be convex in z, but the derivative of the {loss.name} loss at y ="
            f" {y[row]} falls from {slopes[row, at]:g} at z = {z[at]:g} to"
            f" {slopes[row, at + 1]:g} at z = {z[at + 1]:g}; `check=False` skips this check"
        )


def _grid(range_: Interval | TwoPoint, n: int) -> NDArray[np.float64]:
    """Return ``n`` numbers inside an interval; where it is infinite, evenly spaced by arcsinh."""
    if isinstance(range_, TwoPoint):
        return np.array([range_.low, range_.high])
    far = np.arcsinh(100.0)
    bounds = np.isfinite([range_.low, range_.high])
    if bounds.all():
        return 2.0 * np.linspace(0.5 * range_.low, 0.5 * range_.high, n + 2)[1:-1]
    if not bounds.any():
        return np.sinh(np.linspace(-far, far, n))
    steps = np.sinh(np.linspace(0.0, far, n + 1))[1:]
    if bounds[0]:
        return range_.low + max(1.0, abs(range_.low)) * steps
    return (range_.high - max(1.0, abs(range_.high)) * steps)[::-1]
