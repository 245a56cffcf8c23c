"""A map as numbers: a table of knots, or a formula."""

import math
from dataclasses import dataclass
from typing import Literal, Self

import numpy as np
from numpy.typing import NDArray

from streamcal.export.curve import first_true

Vector = NDArray[np.float64]

LARGEST_LOG_ODDS = 34.0
"""As in `streamcal.kernels.logistic`: a float can't tell larger ones from 0 and 1."""


@dataclass(frozen=True, eq=False)
class Knots:
    """A map that is linear between knots, and constant below the first and above the last one.

    A jump lies between two scores that are neighbours as floats. Gaps between scores are finite.

    Attributes
    ----------
    scores : ndarray of shape (n,)
        Ascending.
    values : ndarray of shape (n,)
        The values at these scores.

    Examples
    --------
    >>> Knots(np.array([0.0, 0.5]), np.array([0.0, 1.0])).at(np.array([-3.0, 0.125, 0.9]))
    array([0.  , 0.25, 1.  ])
    """

    scores: Vector
    values: Vector

    kind = "knots"

    @classmethod
    def of(cls, scores: Vector, values: Vector) -> Self:
        """Return the map of knots at any distance; raise ``ValueError`` unless values are finite.

        Knots between equal values are left out, and gaps that no float can hold are halved.
        """
        with np.errstate(over="ignore", invalid="ignore"):
            far = ~np.isfinite(np.diff(values))
        if far.any() or not np.isfinite(values).all():
            raise ValueError(
                "`export` needs finite values, got"
                f" {values[~np.isfinite(values)][:1] if len(values) else values}: a prior keeps"
                " them finite"
            )
        same = values[1:] == values[:-1]
        kept = np.ones(len(scores), np.bool_)
        kept[1:-1] = ~(same[:-1] & same[1:])
        if len(scores) > 1 and same[0]:  # constant outside, too
            kept[0] = False
        if len(scores) > 1 and same[-1]:
            kept[-1] = False
        if not kept.any():
            kept[0] = True
        scores, values = scores[kept], values[kept]
        with np.errstate(over="ignore"):
            wide = np.flatnonzero(~np.isfinite(np.diff(scores)))
        middles = 0.5 * scores[wide] + 0.5 * scores[wide + 1]
        between = 0.5 * values[wide] + 0.5 * values[wide + 1]
        return cls(np.insert(scores, wide + 1, middles), np.insert(values, wide + 1, between))

    def __len__(self) -> int:
        return len(self.scores)

    def at(self, scores: Vector) -> Vector:
        """Return the values at scores, shape ``(n_samples,)``; NaN for NaN."""
        x, y = self.scores, self.values
        if len(x) == 1:
            return np.asarray(np.where(np.isnan(scores), np.nan, y[0]))
        inside = scores.clip(x[0], x[-1])
        i = (np.searchsorted(x, inside, side="right") - 1).clip(0, len(x) - 2)
        low, high = y[i], y[i + 1]
        found = low + (inside - x[i]) / (x[i + 1] - x[i]) * (high - low)
        # Rounding may lead out of the segment.
        found = np.maximum(np.minimum(found, np.maximum(low, high)), np.minimum(low, high))
        return np.asarray(np.where(inside == x[-1], y[-1], found))


@dataclass(frozen=True)
class Logistic:
    """The map sigmoid(a · ln p − b · ln(1 − p) + c) of p, a score clipped to [low, high].

    ``kind`` is "platt" if a = b: then it is sigmoid(a · ln(p / (1 − p)) + c).

    Examples
    --------
    >>> platt = Logistic("platt", 2.0, 2.0, 0.0, 1e-6, 1.0 - 1e-6)
    >>> platt.at(np.array([0.0, 0.25]))
    array([1.0e-12, 1.0e-01])
    """

    kind: Literal["platt", "beta"]
    a: float
    b: float
    c: float
    low: float
    high: float

    @classmethod
    def clipped(
        cls, kind: Literal["platt", "beta"], a: float, b: float, c: float, clip: float
    ) -> Self | None:
        """Return the map of scores clipped to [clip, 1 − clip]; None if it is constant.

        Where log odds are beyond 34 the map is constant: there the scores are clipped, too.
        """
        low, high = clip, 1.0 - clip
        whole = cls(kind, a, b, c, low, high)
        ends = whole.log_odds(np.array([low, high])).tolist()
        if a == b == 0.0 or min(ends) >= LARGEST_LOG_ODDS or max(ends) <= -LARGEST_LOG_ODDS:
            return None
        rises = ends[0] <= ends[1]
        for level in (-LARGEST_LOG_ODDS, LARGEST_LOG_ODDS):
            if min(ends) < level < max(ends):
                found = whole._first_beyond(level, rises)
                if (level < 0.0) == rises:
                    low = found
                else:
                    high = math.nextafter(found, 0.0)
        return cls(kind, a, b, c, low, high) if low < high else None

    def _first_beyond(self, level: float, rises: bool) -> float:
        """Return the first score whose log odds are on the other side of a level."""

        def is_beyond(p: Vector) -> NDArray[np.bool_]:
            return np.asarray((self.log_odds(p) > level) == rises)

        (found,) = first_true(is_beyond, np.array([self.low]), np.array([self.high])).tolist()
        return float(found)

    def log_odds(self, p: Vector) -> Vector:
        """Return the log odds of the answer for scores that are clipped."""
        if self.kind == "platt":
            return np.asarray(self.a * np.log(p / (1.0 - p)) + self.c)
        return np.asarray(self.a * np.log(p) - self.b * np.log1p(-p) + self.c)

    def at(self, scores: Vector) -> Vector:
        """Return the values at scores, shape ``(n_samples,)``; NaN for NaN."""
        z = self.log_odds(scores.clip(self.low, self.high))
        return np.asarray(1.0 / (1.0 + np.exp(-z)))


Map = Knots | Logistic
