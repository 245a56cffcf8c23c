"""The map of a calibrator as numbers, for a picture of it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from streamcal.isotonic.staircase import Staircase

Vector = NDArray[np.float64]
Samples = tuple[Vector, Vector]
"""Scores, and the weight of each."""

NO_SAMPLES: Samples = (np.empty(0), np.empty(0))
N_POINTS = 513  # a jump between two of them looks vertical


@dataclass(frozen=True, eq=False)
class Shape:
    """The map of a calibrator.

    Attributes
    ----------
    x, y : ndarray of shape (n_points,)
        Scores and calibrated values.
    n_samples : int or None
        The number of samples learned; None if the calibrator does not count them.
    kept : (scores, weights)
        The scores that the calibrator keeps, arrays of shape ``(n_scores,)``; may be empty.
    staircase : Staircase or None
        The map without loss, if it is a staircase.
    interval : (lower, upper) or None
        The ends of the interval at each ``x``, if the calibrator predicts one.
    """

    x: Vector
    y: Vector
    n_samples: int | None = None
    kept: Samples = NO_SAMPLES
    staircase: "Staircase | None" = None
    interval: tuple[Vector, Vector] | None = None

    @classmethod
    def of(
        cls,
        predict_many: Callable[[Vector], Any],
        *,
        n_samples: int | None = None,
        kept: Samples = NO_SAMPLES,
        staircase: "Staircase | None" = None,
    ) -> Self:
        """Return the map of a function of scores, over [0, 1] or over the scores that are kept."""
        ends = [kept[0]] if staircase is None else [staircase.lower, staircase.upper]
        x = grid(np.concatenate(ends))
        return cls(x, np.asarray(predict_many(x)), n_samples, kept, staircase)


def grid(scores: Vector, n_points: int = N_POINTS) -> Vector:
    """Return points from 0 to 1, or over the range of scores if they are not probabilities.

    Examples
    --------
    >>> grid(np.array([0.2, 0.9]), 3), grid(np.array([-2.0, np.inf, 4.0]), 3)
    (array([0. , 0.5, 1. ]), array([-2.,  1.,  4.]))
    """
    finite = scores[np.isfinite(scores)]
    if not len(finite) or (finite.min() >= 0.0 and finite.max() <= 1.0):
        return np.linspace(0.0, 1.0, n_points)
    low, high = float(finite.min()), float(finite.max())
    return np.linspace(low, high, n_points) if low < high else np.array([low])
