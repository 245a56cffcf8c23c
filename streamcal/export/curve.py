"""What a calibrator tells of its map, so that a table of it can have a bound on its error.

A curve is given by the scores at which it, or its slope, may jump, by its values, and by bounds of
its second derivative between those scores. Scores are floats, so a jump at b lies between b and the
float before it: a table that has both as knots has the jump, too.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]
Bounds = tuple[Vector, Vector]
Curvature = Callable[[Vector, Vector], Bounds]
"""Bounds of the second derivative on intervals, from their lower and their upper ends."""


@dataclass(frozen=True)
class Curve:
    """A function of scores.

    Attributes
    ----------
    value : callable
        The values at scores, both of shape ``(n,)``.
    kinks : ndarray
        Scores at which the slope may change; the function is continuous there.
    jumps : ndarray
        Scores from which on, inclusive, the function may have another value.
    curvature : callable or None
        Bounds of the second derivative between these scores; None: it is linear there.
    rises_or_falls : bool
        Whether it is monotone between these scores.
    """

    value: Callable[[Vector], Any]
    kinks: Vector
    jumps: Vector
    curvature: Curvature | None = None
    rises_or_falls: bool = True

    def anchors(self) -> Vector:
        """Return the scores that must be knots, ascending: one at least."""
        before = np.nextafter(self.jumps, -np.inf)
        found = np.unique(np.concatenate([self.kinks, self.jumps, before]))
        return found if len(found) else np.zeros(1)


_NONE = np.empty(0)


def identity(low: float = 0.0, high: float = 1.0) -> Curve:
    """Return the map to the score itself, from ``low`` to ``high``.

    Examples
    --------
    >>> identity().value(np.array([-1.0, 0.25]))
    array([0.  , 0.25])
    """
    return Curve(lambda scores: scores.clip(low, high), np.array([low, high]), _NONE)


def linear(value: Callable[[Vector], Any], kinks: Vector) -> Curve:
    """Return a continuous function that is linear between kinks, and constant outside."""
    finite = kinks[np.isfinite(kinks)]
    return Curve(value, np.unique(finite) if len(finite) else np.zeros(1), _NONE)


def steps(value: Callable[[Vector], Any], starts: Vector) -> Curve:
    """Return a function that is constant from each start to the next, and outside.

    Starts without a jump are left out.
    """
    finite = np.unique(starts[np.isfinite(starts)])
    if len(finite):
        finite = finite[value(finite) != value(np.nextafter(finite, -np.inf))]
    return Curve(value, _NONE, finite)


def logistic(
    value: Callable[[Vector], Any], ends: tuple[float, float], of: tuple[float, float, float]
) -> Curve:
    """Return sigmoid(a · ln p − b · ln(1 − p) + c) between two scores, constant outside.

    ``of`` is (a, b, c); a and b have the same sign.
    """
    return Curve(value, np.array(ends), _NONE, logistic_curvature(ends, of))


def logistic_curvature(ends: tuple[float, float], of: tuple[float, float, float]) -> Curvature:
    r"""Return bounds of the second derivative of sigmoid(a · ln p − b · ln(1 − p) + c).

    With q the value, d = p (1 − p) and s = a (1 − p) + b p, that is q (1 − q) / d² · N with N =
    (1 − 2q) s² − a (1 − p)² + b p². The bounds of N are those of its terms, and those by its value
    in the middle and a bound of its derivative: near the identity its terms cancel.

    Examples
    --------
    >>> low, high = logistic_curvature((1e-6, 1 - 1e-6), (2.0, 2.0, 0.0))(
    ...     np.array([0.2]), np.array([0.2001])
    ... )
    >>> np.round(low, 1), np.round(high, 1)
    (array([5.]), array([5.]))
    """
    a, b, c = of
    low, high = ends

    def curvature(left: Vector, right: Vector) -> Bounds:
        middle = 0.5 * left + 0.5 * right
        inside = (middle > low) & (middle < high)
        lower, upper = np.zeros(len(left)), np.zeros(len(left))
        if inside.any():
            lower[inside], upper[inside] = within(left[inside], right[inside], middle[inside])
        return lower, upper

    def log_odds(p: Vector) -> Vector:
        return (a * np.log(p) - b * np.log1p(-p) + c).clip(-40.0, 40.0)

    def within(left: Vector, right: Vector, middle: Vector) -> Bounds:
        z_low, z_high = np.sort([log_odds(left), log_odds(right)], axis=0)
        w_low, w_high = _slopes(z_low, z_high)  # of q (1 - q)
        d_low, d_high = _products(left, right)
        squares = np.sort([s_of(left) ** 2, s_of(right) ** 2], axis=0)  # s has one sign
        t_low, t_high = -np.tanh(0.5 * z_high), -np.tanh(0.5 * z_low)  # of 1 - 2 q
        at_most = np.where(t_high > 0.0, t_high * squares[1], t_high * squares[0])
        at_least = np.where(t_low > 0.0, t_low * squares[0], t_low * squares[1])
        of_a = np.sort([-a * (1.0 - left) ** 2, -a * (1.0 - right) ** 2], axis=0)
        of_b = np.sort([b * left**2, b * right**2], axis=0)
        n_low, n_high = at_least + of_a[0] + of_b[0], at_most + of_a[1] + of_b[1]
        n = b * middle**2 - a * (1.0 - middle) ** 2
        n -= np.tanh(0.5 * log_odds(middle)) * s_of(middle) ** 2
        most = np.sqrt(squares[1])
        largest = np.maximum(np.abs(t_low), np.abs(t_high))
        slope = 2.0 * w_high / d_low * most**3 + 2.0 * largest * most * abs(b - a)
        slope += 2.0 * abs(a) * (1.0 - left) + 2.0 * abs(b) * right
        far = slope * (0.5 * (right - left))
        n_low, n_high = np.maximum(n_low, n - far), np.minimum(n_high, n + far)
        least, greatest = w_low / d_high**2, w_high / d_low**2
        products = [n_low * least, n_low * greatest, n_high * least, n_high * greatest]
        return np.min(products, axis=0), np.max(products, axis=0)

    def s_of(p: Vector) -> Vector:
        return a * (1.0 - p) + b * p

    return curvature


def _slopes(low: Vector, high: Vector) -> Bounds:
    """Return the least and the greatest q (1 − q) for log odds between bounds."""
    small = np.exp(-np.abs([low, high]))
    at_ends = np.sort(small / (1.0 + small) ** 2, axis=0)
    return at_ends[0], np.where((low <= 0.0) & (high >= 0.0), 0.25, at_ends[1])


def _products(low: Vector, high: Vector) -> Bounds:
    """Return the least and the greatest p (1 − p) for p between bounds in [0, 1]."""
    at_ends = np.sort([low * (1.0 - low), high * (1.0 - high)], axis=0)
    has_half = (low <= 0.5) & (high >= 0.5)
    return at_ends[0], np.where(has_half, 0.25, at_ends[1])


def scaled(curvature: Curvature, factor: Callable[[Vector], Vector]) -> Curvature:
    """Return the curvature multiplied by a factor of the middle of each interval, not negative."""

    def bounds(left: Vector, right: Vector) -> Bounds:
        lower, upper = curvature(left, right)
        by = factor(0.5 * left + 0.5 * right)
        return lower * by, upper * by

    return bounds


def mixture(
    value: Callable[[Vector], Any], members: Sequence[Curve], weights: Sequence[float], clip: float
) -> Curve:
    """Return Σ w · (member, clipped to [clip, 1 − clip]) on [0, 1].

    Raises
    ------
    TypeError
        If a member that is not monotone between its kinks has to be clipped.
    """
    kinks = [np.array([0.0, 1.0]), *(member.kinks for member in members)]
    jumps = np.unique(np.concatenate([member.jumps for member in members]))
    for member in members:
        kinks += [_crossings(member, level) for level in (clip, 1.0 - clip)]
    found = np.unique(np.concatenate(kinks))
    found = found[(found >= 0.0) & (found <= 1.0)]

    def curvature(left: Vector, right: Vector) -> Bounds:
        middle = 0.5 * left + 0.5 * right
        lower, upper = np.zeros(len(left)), np.zeros(len(left))
        for member, weight in zip(members, weights, strict=True):
            if member.curvature is not None and weight:
                at = np.asarray(member.value(middle))
                inside = (at > clip) & (at < 1.0 - clip)
                if inside.any():
                    least, most = member.curvature(left[inside], right[inside])
                    lower[inside] += weight * least
                    upper[inside] += weight * most
        return lower, upper

    is_linear = all(member.curvature is None for member in members)
    return Curve(
        value,
        found,
        jumps[(jumps > 0.0) & (jumps <= 1.0)],
        None if is_linear else curvature,
        rises_or_falls=False,
    )


def _crossings(member: Curve, level: float) -> Vector:
    """Return the scores in [0, 1] where a member that is monotone in pieces crosses a level."""
    anchors = np.unique(np.concatenate([member.anchors(), [0.0, 1.0]]).clip(0.0, 1.0))
    low, high = anchors[:-1], anchors[1:]
    at_low, at_high = (np.asarray(member.value(x)) < level for x in (low, high))
    crosses = at_low != at_high
    if not member.rises_or_falls:
        values = np.asarray(member.value(np.linspace(0.0, 1.0, 10_001)))
        if crosses.any() or ((values < level) != (values[0] < level)).any():
            raise TypeError(
                "`export` can't bound the error of a hedge that clips another hedge further: use a"
                " smaller clip for the outer one"
            )
    low, high = low[crosses], high[crosses]
    first = at_low[crosses]
    found = first_true(lambda x: (np.asarray(member.value(x)) < level) != first, low, high)
    return np.concatenate([found, np.nextafter(found, -np.inf)])


def first_true(test: Callable[[Vector], Any], low: Vector, high: Vector) -> Vector:
    """Return the first float in each interval from which on a test is true, by bisection.

    The test is false at ``low`` and true at ``high``; both are not negative.

    Examples
    --------
    >>> first_true(lambda x: x * x >= 0.25, np.array([0.0]), np.array([1.0]))
    array([0.5])
    """
    # The bits of floats that are not negative are in the order of the floats.
    below, above = (np.array(ends, dtype=np.float64).view(np.int64) for ends in (low, high))
    for _ in range(64):
        middle = below + (above - below) // 2
        holds = np.asarray(test(middle.view(np.float64)))
        above = np.where(holds, middle, above)
        below = np.where(holds, below, middle)
    return above.view(np.float64)
