"""The served prediction for one sample, to keep until its label arrives."""

import reprlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from river.base.typing import ClfTarget

from streamcal.calibration.sampling import as_sampling_rate
from streamcal.calibration.tickets import Ticket
from streamcal.wrappers._json import as_count, as_pairs, as_share, from_pairs
from streamcal.wrappers.checks import as_probabilities_of_labels


@dataclass(frozen=True, slots=True)
class Served:
    """The result of `CalibratedClassifier.serve_one`.

    Show ``calibrated`` to the user, keep the whole object, and pass it to
    `CalibratedClassifier.learn_one` as ``served`` when the label arrives.

    Attributes
    ----------
    calibrated : dict
        The calibrated probability of each label.
    raw : dict
        The model's own probability of each label; labels that it lacks are added.
    ticket : Ticket or None
        What the calibrators need with the label, if they make tickets.
    n_alarms : int
        How many alarms the drift detector had raised by then.
    sampling_rate : float
        The share of negatives that the stream keeps; ``calibrated`` is right among all samples.

    Examples
    --------
    >>> import json
    >>> served = Served({"yes": 0.75, "no": 0.25}, {"yes": 0.5, "no": 0.5})
    >>> kept = json.dumps(served.to_dict())
    >>> kept[:44]
    '{"calibrated": [["yes", 0.75], ["no", 0.25]]'
    >>> Served.from_dict(json.loads(kept)) == served
    True
    """

    calibrated: dict[ClfTarget, float]
    raw: dict[ClfTarget, float]
    ticket: Ticket | None = None
    n_alarms: int = 0
    sampling_rate: float = 1.0

    def to_dict(self) -> dict[str, Any]:
        """Return the content as a dict that JSON keeps exactly, for `from_dict`.

        Labels and their values are written as pairs, since keys in JSON can only be text. A label
        may be a bool, an int, a finite float, a str, None or a tuple of these. A NumPy scalar is
        written, and comes back, as the equal Python value.

        Raises
        ------
        TypeError
            If a label is of another kind.
        ValueError
            If a label is NaN or infinite, or `from_dict` would not accept a number.
        """
        return {
            "calibrated": as_pairs(as_probabilities_of_labels(self.calibrated)),
            "raw": as_pairs(as_probabilities_of_labels(self.raw)),
            "ticket": None if self.ticket is None else self.ticket.to_json(),
            "n_alarms": self.n_alarms,
            "sampling_rate": as_sampling_rate(self.sampling_rate),
        }

    @classmethod
    def from_dict(cls, kept: Mapping[str, Any]) -> "Served":
        """Return the object that `to_dict` wrote, directly or after JSON wrote and read the dict.

        Raises
        ------
        TypeError
            If ``kept`` is not a mapping, or a value in it has the wrong type.
        ValueError
            If an entry is missing, repeated, unknown or out of its range, or a ticket is none.
        """
        if not isinstance(kept, Mapping):
            raise TypeError(f"`kept` must be what `to_dict` returned, got {reprlib.repr(kept)}")
        if set(kept) != {"calibrated", "raw", "ticket", "n_alarms", "sampling_rate"}:
            raise ValueError(f"`kept` must be what `to_dict` returned, got {reprlib.repr(kept)}")
        calibrated, raw = (from_pairs(kept[at]) for at in ("calibrated", "raw"))
        ticket = None if kept["ticket"] is None else Ticket.from_json(kept["ticket"])
        return cls(
            {label: as_share(p) for label, p in calibrated.items()},
            {label: as_share(p) for label, p in raw.items()},
            ticket,
            as_count(kept["n_alarms"]),
            as_sampling_rate(kept["sampling_rate"]),
        )
