"""A table of knots for a curve, whose interpolation error is bounded.

Between two knots at the distance h, the line through them is at most h² / 8 · max |f″| away from
f (de Boor, *A Practical Guide to Splines*, 1978, chapter III). A `Curve` has bounds of f″ on any
interval, so each interval is split until its bound is small enough. The parts of an interval have
about equal errors, and neighbours that can be one are joined at the end.
"""

import numpy as np
from numpy.typing import NDArray

from streamcal.export.curve import Curve
from streamcal.export.maps import Knots

Vector = NDArray[np.float64]

MOST_INTERVALS = 500_000  # beyond these nobody wants to know how many there are
_SLACK = 0.98  # of the error, for curves; the rest is for what rounding does to their values
_MOST_PARTS = 8  # of an interval at once: its bound may be loose
_WIDE = 4.0  # an interval across which the odds of the score change by more is split by odds


class TooManyKnotsError(ValueError):
    """More knots are needed than are allowed."""


def knots_of(curve: Curve, error: float, max_knots: int) -> tuple[Knots, float]:
    """Return a table of a curve, and the bound of its error: 0 for a curve of straight lines.

    Raises
    ------
    ValueError
        If there are more knots than ``max_knots``, values are not finite, or the values of the
        curve are so rough that the bound does not hold.

    Examples
    --------
    >>> from streamcal.export.curve import logistic
    >>> from streamcal.export.maps import Logistic
    >>> of = Logistic("platt", 2.0, 2.0, 0.0, 1e-6, 1 - 1e-6)
    >>> curve = logistic(of.at, (of.low, of.high), (2.0, 2.0, 0.0))
    >>> table, bound = knots_of(curve, 1e-4, 1_000)
    >>> len(table) < 120, bound <= 1e-4
    (True, True)
    """
    scores, bound = curve.anchors(), 0.0
    if curve.curvature is not None:
        scores = _refine(curve, scores, _SLACK * error)
        bound = error
    table = Knots.of(scores, np.asarray(curve.value(scores), dtype=np.float64))
    if len(table) > max_knots:
        needed = f"{len(table):,}" if len(scores) < MOST_INTERVALS else f"over {MOST_INTERVALS:,}"
        wanted = f" for an error of {error:g}" if bound else ""
        raise TooManyKnotsError(f"`max_knots` must be at least {needed}{wanted}, got {max_knots:,}")
    if bound:
        _check(curve, table, error)
    return table, bound


def _refine(curve: Curve, anchors: Vector, goal: float) -> Vector:
    """Return the anchors and more scores, so that each interval has a small enough bound."""
    assert curve.curvature is not None
    left, right = anchors[:-1], anchors[1:]
    done = [anchors]
    n = len(anchors)
    while len(left) and n < MOST_INTERVALS:
        parts = np.ceil(np.sqrt(_error(curve, left, right) / goal))
        again = (parts > 1.0) & (np.nextafter(left, right) < right)
        left, right, parts = left[again], right[again], parts[again].clip(2, _MOST_PARTS)
        with np.errstate(divide="ignore", invalid="ignore"):
            odds = right * (1.0 - left) / (left * (1.0 - right))
        wide = ~(odds < _WIDE) & (left >= 0.0) & (right <= 1.0)
        parts = np.where(wide, 2, parts).astype(np.int64)
        inner = _split(left, right, parts, wide)
        done.append(inner)
        n += len(inner)
        ends = np.unique(np.concatenate([left, right, inner]))
        # Only the parts of these intervals: other pairs of neighbours lie between them.
        place = np.searchsorted(left, ends[:-1], side="right") - 1
        inside = ends[1:] <= right[place] if len(right) else np.zeros(0, np.bool_)
        left, right = ends[:-1][inside], ends[1:][inside]
    found = np.unique(np.concatenate(done))
    return found if n >= MOST_INTERVALS else _join(curve, found, anchors, goal)


def _error(curve: Curve, left: Vector, right: Vector) -> Vector:
    """Return the bounds of the interpolation error on intervals."""
    assert curve.curvature is not None
    least, most = curve.curvature(left, right)
    return np.asarray(np.maximum(np.abs(least), np.abs(most)) * (right - left) ** 2 / 8.0)


def _split(
    left: Vector, right: Vector, parts: NDArray[np.int64], wide: NDArray[np.bool_]
) -> Vector:
    """Return scores that cut intervals into equal parts; wide ones at the middle of their odds."""
    at = np.repeat(np.arange(len(left)), parts - 1)
    number = np.arange(len(at)) - np.repeat(np.cumsum(parts - 1) - (parts - 1), parts - 1) + 1
    low, high = left[at], right[at]
    even = low + (high - low) * (number / parts[at])
    tiny = np.finfo(np.float64).tiny
    low_odds = np.maximum(low, tiny) / np.maximum(1.0 - low, tiny)
    high_odds = high / np.maximum(1.0 - high, 2.0**-54)
    odds = np.sqrt(low_odds) * np.sqrt(high_odds)
    found = np.where(wide[at], odds / (1.0 + odds), even)
    # Inside in spite of rounding.
    return found.clip(np.nextafter(low, high), np.nextafter(high, low))


def _join(curve: Curve, scores: Vector, anchors: Vector, goal: float) -> Vector:
    """Leave out scores, no anchors, while the bounds allow it."""
    fixed = np.isin(scores, anchors)
    offset = 0
    tries = 0
    while tries < 2:
        at = np.arange(1 + offset, len(scores) - 1, 2)
        at = at[~fixed[at]]
        fits = _error(curve, scores[at - 1], scores[at + 1]) <= goal if len(at) else at > 0
        tries = 0 if fits.any() else tries + 1
        offset = 1 - offset
        kept = np.ones(len(scores), np.bool_)
        kept[at[fits]] = False
        scores, fixed = scores[kept], fixed[kept]
    return scores


def _check(curve: Curve, table: Knots, error: float) -> None:
    """Raise unless the values of a curve, with their rounding errors, keep to the bound."""
    left, right = table.scores[:-1], table.scores[1:]
    at = np.concatenate([left + share * (right - left) for share in (0.2, 0.5, 0.8)])
    found = float(np.max(np.abs(table.at(at) - curve.value(at)), initial=0.0))
    if found > error:
        raise ValueError(
            f"`error` must be larger for this map, whose values are rough by rounding: a table of"
            f" {len(table):,} knots is wrong by {found:.2g}, got {error:g}"
        )
