"""A map, and what is known of it."""

from dataclasses import dataclass

from streamcal.export.maps import Map


@dataclass(frozen=True)
class Exported:
    """A map, and what is known of it.

    Attributes
    ----------
    map : Knots or Logistic
        The map.
    error : float
        The greatest distance from the calibrator, but for rounding; 0 for an exact map.
    of_probabilities : bool
        Whether scores are from 0 to 1.
    kind : str
        The class of the calibrator.
    n_samples : int or None
        How many samples it counts.
    """

    map: Map
    error: float
    of_probabilities: bool
    kind: str
    n_samples: int | None
