"""A staircase with bounds on its values: what anytime isotonic regression returns."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamcal._state import Arrays, array_of, require
from streamcal.isotonic.anytime.problem import Floats, Problem
from streamcal.isotonic.staircase import Interpolation, Staircase, as_read_only, describe_blocks
from streamcal.losses.ranges import Interval

_BLOCKS = ("lower", "upper", "values", "weights", "centers", "floors", "ceilings")
_MAYBE_INFINITE = ("values", "floors", "ceilings")


@dataclass(frozen=True, eq=False, repr=False)
class AnytimeStaircase(Staircase):
    """A staircase together with bounds on its values.

    Parameters
    ----------
    floors, ceilings : ndarray of shape (n_blocks,)
        Bounds: there is an optimal map whose value lies between them in each block. ``values`` are
        the middles; where one bound is infinite, the other.
    rounds : int
        How many rounds have been run.

    The other parameters are those of `Staircase`.

    Examples
    --------
    >>> from streamcal import anytime_isotonic
    >>> stairs = anytime_isotonic([1, 2, 3, 4], [0, 3, 1, 4], loss="squared", rounds=4)
    >>> stairs.rounds, stairs.half_width
    (4, 0.125)
    >>> stairs.floors, stairs.ceilings
    (array([0.  , 2.  , 3.75]), array([0.25, 2.  , 4.  ]))
    """

    floors: Floats = field(kw_only=True)
    ceilings: Floats = field(kw_only=True)
    rounds: int = field(kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("floors", "ceilings"):
            object.__setattr__(self, name, as_read_only(getattr(self, name)))
            if len(getattr(self, name)) != len(self):
                raise ValueError(f"`{name}` must have one value per block ({len(self)})")

    @property
    def half_width(self) -> float:
        """The greatest distance from a value to its bounds: the certified error of all blocks."""
        return float(np.max(0.5 * self.ceilings - 0.5 * self.floors))

    def __repr__(self) -> str:
        return f"Anytime{super().__repr__()[:-1]}, half_width={self.half_width:.3g})"


def from_cells(
    problem: Problem, cells: tuple[NDArray[np.int64], Floats, Floats], **options: Any
) -> AnytimeStaircase:
    """Return the staircase of cells: their first samples and bounds, as a `Backend` has them.

    Neighbours with the same bounds become one block. ``options`` are ``rounds``, ``interpolation``
    and ``outside`` of the staircase.
    """
    starts, low, high = cells
    new = np.ones(len(starts), np.bool_)
    new[1:] = (low[1:] != low[:-1]) | (high[1:] != high[:-1])
    starts, low, high = starts[new], low[new], high[new]
    lower, upper, weights, centers = describe_blocks(problem.x, problem.w, starts)
    return AnytimeStaircase(
        lower, upper, _middles(low, high), weights, centers, floors=low, ceilings=high, **options
    )


def freeze_blocks(stairs: AnytimeStaircase) -> Arrays:
    """Return the arrays of a staircase in a state."""
    return {name: getattr(stairs, name) for name in _BLOCKS}


def thaw_blocks(
    arrays: Arrays, values: Interval, rounds: int, interpolation: Interpolation
) -> AnytimeStaircase:
    """Return the staircase in a state; raise unless its values are in an interval."""
    lower = array_of(arrays, "lower", None)
    blocks: dict[str, Any] = {
        name: array_of(arrays, name, len(lower), finite=name not in _MAYBE_INFINITE)
        for name in _BLOCKS
    }
    stairs = AnytimeStaircase(**blocks, rounds=rounds, interpolation=interpolation)
    inside = (stairs.lower <= stairs.centers) & (stairs.centers <= stairs.upper)
    require(inside.all() and (stairs.weights > 0.0).all(), "blocks must have weight and center")
    in_range = (stairs.values >= values.low) & (stairs.values <= values.high)
    require(in_range.all(), "values must be in range")
    bounded = (stairs.floors <= stairs.values) & (stairs.values <= stairs.ceilings)
    require(bounded.all(), "values must lie between their bounds")
    return stairs


def _middles(low: Floats, high: Floats) -> Floats:
    """Return the middles of bounds; if one is infinite the other, if both are, 0."""
    low, high = (
        np.where(np.isfinite(low), low, np.where(np.isfinite(high), high, 0.0)),
        np.where(np.isfinite(high), high, np.where(np.isfinite(low), low, 0.0)),
    )
    return np.asarray(0.5 * low + 0.5 * high)
