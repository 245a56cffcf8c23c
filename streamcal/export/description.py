"""What a calibrator says of its map, for `streamcal.export.options`."""

from dataclasses import dataclass

from streamcal.export.curve import Curve, identity
from streamcal.export.maps import Logistic


@dataclass(frozen=True)
class Description:
    """The map of a calibrator at one moment.

    Attributes
    ----------
    curve : Curve
        The map.
    formula : Logistic or None
        The same map, if there is a formula for it.
    of_probabilities : bool
        Whether the calibrator takes scores from 0 to 1 only.
    error : float
        The error that the map has already, if it is itself an exported one.
    """

    curve: Curve
    formula: Logistic | None = None
    of_probabilities: bool = True
    error: float = 0.0


def unlearned(
    low: float, high: float, *, of_probabilities: bool, needed: str = "a learned sample"
) -> Description:
    """Return the map before anything is learned: to the score, or the nearest value in range.

    ``needed`` is what a map that has ends would need.

    Raises
    ------
    ValueError
        If it has no end.

    Examples
    --------
    >>> unlearned(0.0, 1.0, of_probabilities=True).curve.kinks
    array([0., 1.])
    """
    if not (-1e300 < low < high < 1e300):
        raise ValueError(
            f"`export` needs {needed}: before that the map is the score itself, without end"
        )
    return Description(identity(low, high), None, of_probabilities)
